"""What a Claude Code process may have of the user's environment: by name, by prefix, and by what its binary reads."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.llm.backends.claude.binary import bundled_binary
from ktx_cli.llm.backends.claude.launcher import (
    DENIED,
    DENIED_PREFIXES,
    ESSENTIAL,
    KEPT,
    OURS,
    SDK_OWN,
    SWITCHED_OFF,
    claude_environment,
    dropped_names,
    is_denied,
)

LISTS = {
    "D1 the seed's list": (
        "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_MODEL ANTHROPIC_VERTEX_PROJECT_ID "
        "CLOUD_ML_REGION GOOGLE_APPLICATION_CREDENTIALS GOOGLE_CLOUD_PROJECT AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY "
        "AWS_SESSION_TOKEN AWS_REGION AWS_PROFILE CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX AI_GATEWAY_API_KEY"
    ),
    "D2 switches of the provider": (
        "CLAUDE_CODE_USE_FOUNDRY CLAUDE_CODE_USE_ANTHROPIC_AWS CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD "
        "CLAUDE_CODE_USE_MANTLE CLAUDE_CODE_USE_GATEWAY CLAUDE_CODE_SKIP_BEDROCK_AUTH CLAUDE_CODE_SKIP_VERTEX_AUTH "
        "CLAUDE_CODE_SKIP_FOUNDRY_AUTH CLAUDE_CODE_SKIP_ANTHROPIC_AWS_AUTH "
        "CLAUDE_CODE_SKIP_ANTHROPIC_GOOGLE_CLOUD_AUTH CLAUDE_CODE_SKIP_MANTLE_AUTH"
    ),
    "D3 addresses": (
        "ANTHROPIC_BEDROCK_BASE_URL ANTHROPIC_VERTEX_BASE_URL ANTHROPIC_FOUNDRY_BASE_URL ANTHROPIC_AWS_BASE_URL "
        "ANTHROPIC_GOOGLE_CLOUD_BASE_URL ANTHROPIC_BEDROCK_MANTLE_BASE_URL _CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL "
        "ANTHROPIC_UNIX_SOCKET CLAUDE_CODE_API_BASE_URL CLAUDE_CODE_CUSTOM_OAUTH_URL CLAUDE_LOCAL_OAUTH_API_BASE "
        "CLAUDE_LOCAL_OAUTH_APPS_BASE CLAUDE_LOCAL_OAUTH_CONSOLE_BASE AWS_ENDPOINT_URL AWS_ENDPOINT_URL_BEDROCK "
        "ANTHROPIC_API_HOST"
    ),
    "D4 credentials of other routes": (
        "ANTHROPIC_CUSTOM_HEADERS ANTHROPIC_FOUNDRY_API_KEY ANTHROPIC_FOUNDRY_AUTH_TOKEN ANTHROPIC_FOUNDRY_RESOURCE "
        "ANTHROPIC_AWS_API_KEY ANTHROPIC_AWS_WORKSPACE_ID ANTHROPIC_GOOGLE_CLOUD_PROJECT "
        "ANTHROPIC_GOOGLE_CLOUD_LOCATION ANTHROPIC_GOOGLE_CLOUD_WORKSPACE_ID AWS_BEARER_TOKEN_BEDROCK "
        "AWS_DEFAULT_REGION AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AWS_ROLE_ARN AWS_WEB_IDENTITY_TOKEN_FILE "
        "AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_CONTAINER_AUTHORIZATION_TOKEN "
        "AWS_EC2_METADATA_DISABLED AWS_EC2_METADATA_SERVICE_ENDPOINT GCLOUD_PROJECT GOOGLE_CLOUD_QUOTA_PROJECT "
        "GCE_METADATA_HOST GCE_METADATA_IP GCE_METADATA_ROOT VERTEX_REGION_CLAUDE_3_5_HAIKU "
        "VERTEX_REGION_CLAUDE_5_SONNET ANTHROPIC_PROFILE ANTHROPIC_CONFIG_DIR ANTHROPIC_FEDERATION_RULE_ID "
        "ANTHROPIC_ORGANIZATION_ID ANTHROPIC_IDENTITY_TOKEN ANTHROPIC_IDENTITY_TOKEN_FILE "
        "ANTHROPIC_SERVICE_ACCOUNT_ID ANTHROPIC_WORKSPACE_ID ANTHROPIC_SCOPE CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR "
        "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR CLAUDE_CODE_GATEWAY_TOKEN_FILE_DESCRIPTOR "
        "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR CLAUDE_CODE_SESSION_ACCESS_TOKEN CLAUDE_CODE_HOST_AUTH_ENV_VAR "
        "CLAUDE_CODE_HOST_CREDS_FILE CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST CLAUDE_CODE_SDK_HAS_HOST_AUTH_REFRESH"
    ),
    "D5 another model": (
        "ANTHROPIC_DEFAULT_MODEL ANTHROPIC_DEFAULT_SONNET_MODEL ANTHROPIC_DEFAULT_SONNET_MODEL_NAME "
        "ANTHROPIC_DEFAULT_SONNET_MODEL_DESCRIPTION ANTHROPIC_DEFAULT_SONNET_MODEL_SUPPORTED_CAPABILITIES "
        "ANTHROPIC_DEFAULT_OPUS_MODEL ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_DEFAULT_FABLE_MODEL "
        "ANTHROPIC_SMALL_FAST_MODEL ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION ANTHROPIC_CUSTOM_MODEL_OPTION "
        "ANTHROPIC_CUSTOM_MODEL_OPTION_NAME CLAUDE_CODE_SUBAGENT_MODEL CLAUDE_CODE_SUBAGENT_MODEL_FORCE "
        "ANTHROPIC_BETAS CLAUDE_CODE_EXTRA_BODY"
    ),
    "D6 more than the call's own": (
        "CLAUDE_CODE_PLUGIN_DIRS CLAUDE_AGENT_SDK_MCP_NO_PREFIX CLAUDE_CODE_COORDINATOR_MODE CLAUDE_CODE_SIMPLE "
        "CLAUDE_AUTO_BACKGROUND_TASKS CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD CLAUDE_CODE_SYNC_PLUGINS "
        "CLAUDE_CODE_SYNC_SKILLS CLAUDE_CODE_MAX_TURNS CLAUDE_CODE_REMOTE CLAUDE_CODE_REMOTE_SESSION_ID "
        "CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SESSION_ID CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_SSE_PORT CLAUDECODE "
        "NODE_OPTIONS BUN_OPTIONS CLAUDE_CODE_DEBUG_LOGS_DIR"
    ),
    "D7 code that a process would load, or traces it would write": (
        "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV PYTHONPATH PYTHONHOME PYTHONSTARTUP "
        "PERL5OPT RUBYOPT NODE_PATH NODE_DEBUG NODE_TLS_REJECT_UNAUTHORIZED GIT_TRACE GIT_TRACE2_EVENT GIT_DIR "
        "GIT_SSH_COMMAND GIT_CONFIG_COUNT"
    ),
}
"""Section 5 of the research on runtimes, name for name, with an example for each of its `*`."""

SEEDED = {name: f"seeded {name}" for names in LISTS.values() for name in names.split()}


@pytest.mark.requirement("R33", "R34", "G15")
@pytest.mark.table("title", LISTS)
def test_no_name_of_the_lists_survives(title: str) -> None:
    names = LISTS[title].split()
    seeded = dict.fromkeys(names, "seeded")
    kept = claude_environment({**seeded, "HOME": "/home/me", "PATH": "/bin"})
    assert kept == {"HOME": "/home/me", "PATH": "/bin", **SWITCHED_OFF}
    assert dropped_names(seeded) == sorted(names)


def test_the_documented_list_is_the_one_that_works() -> None:
    assert len(set(DENIED)) == len(DENIED)
    examples = {name for name in SEEDED if name not in DENIED}
    assert all(name.startswith(DENIED_PREFIXES) for name in examples)
    assert not KEPT & set(DENIED)
    assert not ESSENTIAL & set(DENIED)


@given(st.sampled_from(DENIED_PREFIXES), st.from_regex(r"[A-Z0-9_]{1,20}", fullmatch=True))
def test_names_of_later_versions_fall_under_the_prefixes(prefix: str, rest: str) -> None:
    assert is_denied(prefix + rest) or prefix + rest in KEPT


def test_what_a_session_and_its_transport_need_survives() -> None:
    needed = {
        *KEPT,
        *ESSENTIAL,
        *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "ALL_PROXY"),
        *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CONFIG_HOME", "LC_ALL", "LC_CTYPE", "SHELL"),
        *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "XDG_RUNTIME_DIR", "TZ", "TERM"),
    }
    environ = {name: f"value of {name}" for name in needed}
    assert claude_environment(environ) == {**environ, **SWITCHED_OFF}


def test_variables_of_ktx_yaml_go_too_but_not_what_the_process_needs() -> None:
    environ = dict.fromkeys(("WAREHOUSE_PASSWORD", "HOME", "CLAUDE_CODE_OAUTH_TOKEN", "EDITOR"), "x")
    named = ("WAREHOUSE_PASSWORD", "HOME", "CLAUDE_CODE_OAUTH_TOKEN")
    assert set(claude_environment(environ, secret_names=named)) == {
        *("HOME", "CLAUDE_CODE_OAUTH_TOKEN", "EDITOR"),
        *SWITCHED_OFF,
    }
    assert dropped_names(environ, secret_names=named) == ["WAREHOUSE_PASSWORD"]


def test_our_switches_win_over_the_users_and_settings_over_both() -> None:
    made = claude_environment(
        {"DISABLE_AUTOUPDATER": "0", "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0"},
        settings={"CLAUDE_CODE_PROMPT_CACHE_TTL": "1h"},
    )
    assert made == {**SWITCHED_OFF, "CLAUDE_CODE_PROMPT_CACHE_TTL": "1h"}


def test_the_environment_of_this_process_is_never_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "a connector needs it")
    before = dict(os.environ)
    assert "AWS_PROFILE" not in claude_environment(os.environ)
    assert dict(os.environ) == before


READ = re.compile(rb"""env(?:\?\.|\.|\[["'])([A-Z_][A-Z0-9_]{2,})""")
"""How the binary's program reads a variable."""

CONSTANT = re.compile(rb"""["'`](_*[A-Z][A-Z0-9]*_[A-Z0-9_]+)["'`]""")
FAMILY = re.compile(r"_*(?:ANTHROPIC|CLAUDE|AWS|VERTEX|BEDROCK|FOUNDRY|GOOGLE|GCLOUD|GCE|CCR)_|USE_[A-Z]+_OAUTH")
"""Constants of these families are taken for variables too: many are read by way of a table."""

ROUTING = re.compile(
    r"ANTHROPIC|CLAUDE|OAUTH|BEDROCK|VERTEX|FOUNDRY|MANTLE|^AWS_|^GOOGLE_|^GCLOUD|^GCE_|^CLOUD_ML|INGRESS|"
    r"BASE_URL|API_URL|API_KEY|ENDPOINT|AUTH_TOKEN|AGENT_PROXY|GATEWAY|INFERENCE|FALLBACK_FOR|MODEL|^MCP_|^CCR_|PROVIDER"
)
"""What a name has that could change where a request goes, as whom, to which model, or with what besides the call."""

HARMLESS = KEPT
"""Routing-like names that are let through, each looked at."""


@pytest.fixture(scope="session")
def names_of_the_binary(pytestconfig: pytest.Config) -> frozenset[str]:
    """Every variable the installed binary seems to know; extracted once for a binary."""
    binary = bundled_binary()
    assert binary is not None
    state = binary.stat()
    cache = pytestconfig.cache
    assert cache is not None
    key = f"ktx/claude-names-{state.st_size}-{state.st_mtime_ns}-{hash_of(READ, CONSTANT, FAMILY)}"
    found: list[str] | None = cache.get(key, None)
    if found is None:
        found = extract_names(binary)
        cache.set(key, found)
    return frozenset(found)


def hash_of(*patterns: re.Pattern[Any]) -> str:
    return hashlib.sha256(repr([one.pattern for one in patterns]).encode()).hexdigest()[:12]


def extract_names(binary: Path) -> list[str]:
    with binary.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        read = {match[1].decode() for match in READ.finditer(content)}
        constants = {match[1].decode() for match in CONSTANT.finditer(content)}
    return sorted(read | {name for name in constants if FAMILY.match(name)})


@pytest.mark.slow
@pytest.mark.requirement("R34")
def test_no_routing_like_name_of_the_installed_binary_gets_through(names_of_the_binary: frozenset[str]) -> None:
    routing = {name for name in names_of_the_binary if ROUTING.search(name)}
    print(f"{len(names_of_the_binary)} names in the binary, {len(routing)} of them routing-like")
    assert len(routing) > 300, "the extraction still finds them"
    assert {"ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "ANTHROPIC_UNIX_SOCKET", "USE_STAGING_OAUTH"} <= routing
    assert sorted(name for name in routing if not is_denied(name) and name not in HARMLESS) == []


def test_the_launcher_knows_every_denied_name_ktx_itself_sets() -> None:
    denied = {name for name in SWITCHED_OFF if is_denied(name)}
    assert denied <= OURS
    assert not OURS & KEPT
    assert all(not is_denied(name) or name.startswith(("CLAUDE_CODE_", "CLAUDE_AGENT_SDK_")) for name in SDK_OWN)
