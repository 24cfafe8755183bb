"""The environment of a Claude Code process, and `ktx-claude-launcher`, which becomes the real `claude` there.

The environment is the user's, without anything that could redirect a call. `DENIED` is the documented list, by exact
name; `DENIED_PREFIXES` covers what later versions add; `KEPT` lists the exceptions. The SDK can only add to an
environment: it starts the program in `cli_path` with its parent's environment plus ours. The launcher, set there, keeps
the listed variables and a few of the SDK's own, prints on stderr which names it dropped, and replaces itself with the
binary. This module imports nothing of ktx, so that the launcher starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

_DENIED_BY_REASON: Final = {
    "credentials for another account, and request targets": """
        ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_MODEL ANTHROPIC_VERTEX_PROJECT_ID
        CLOUD_ML_REGION GOOGLE_APPLICATION_CREDENTIALS GOOGLE_CLOUD_PROJECT AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
        AWS_SESSION_TOKEN AWS_REGION AWS_PROFILE CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX AI_GATEWAY_API_KEY
    """,
    "provider switches": """
        CLAUDE_CODE_USE_FOUNDRY CLAUDE_CODE_USE_ANTHROPIC_AWS CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD
        CLAUDE_CODE_USE_MANTLE CLAUDE_CODE_USE_GATEWAY CLAUDE_CODE_SKIP_BEDROCK_AUTH CLAUDE_CODE_SKIP_VERTEX_AUTH
        CLAUDE_CODE_SKIP_FOUNDRY_AUTH CLAUDE_CODE_SKIP_ANTHROPIC_AWS_AUTH
        CLAUDE_CODE_SKIP_ANTHROPIC_GOOGLE_CLOUD_AUTH CLAUDE_CODE_SKIP_MANTLE_AUTH
    """,
    "addresses": """
        ANTHROPIC_BEDROCK_BASE_URL ANTHROPIC_VERTEX_BASE_URL ANTHROPIC_FOUNDRY_BASE_URL ANTHROPIC_AWS_BASE_URL
        ANTHROPIC_GOOGLE_CLOUD_BASE_URL ANTHROPIC_BEDROCK_MANTLE_BASE_URL _CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL
        ANTHROPIC_UNIX_SOCKET CLAUDE_CODE_API_BASE_URL CLAUDE_CODE_CUSTOM_OAUTH_URL CLAUDE_LOCAL_OAUTH_API_BASE
        AWS_ENDPOINT_URL ANTHROPIC_API_HOST
    """,
    "credentials for other routes": """
        ANTHROPIC_CUSTOM_HEADERS ANTHROPIC_FOUNDRY_API_KEY ANTHROPIC_FOUNDRY_AUTH_TOKEN ANTHROPIC_FOUNDRY_RESOURCE
        ANTHROPIC_AWS_API_KEY ANTHROPIC_AWS_WORKSPACE_ID ANTHROPIC_GOOGLE_CLOUD_PROJECT
        ANTHROPIC_GOOGLE_CLOUD_LOCATION ANTHROPIC_GOOGLE_CLOUD_WORKSPACE_ID AWS_BEARER_TOKEN_BEDROCK
        AWS_DEFAULT_REGION AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AWS_ROLE_ARN AWS_WEB_IDENTITY_TOKEN_FILE
        AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_EC2_METADATA_SERVICE_ENDPOINT
        GCLOUD_PROJECT GOOGLE_CLOUD_QUOTA_PROJECT GCE_METADATA_HOST GCE_METADATA_IP ANTHROPIC_PROFILE
        ANTHROPIC_CONFIG_DIR ANTHROPIC_FEDERATION_RULE_ID ANTHROPIC_ORGANIZATION_ID ANTHROPIC_IDENTITY_TOKEN
        ANTHROPIC_IDENTITY_TOKEN_FILE ANTHROPIC_SERVICE_ACCOUNT_ID ANTHROPIC_WORKSPACE_ID ANTHROPIC_SCOPE
        CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR
        CLAUDE_CODE_GATEWAY_TOKEN_FILE_DESCRIPTOR CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR
        CLAUDE_CODE_SESSION_ACCESS_TOKEN CLAUDE_CODE_HOST_AUTH_ENV_VAR CLAUDE_CODE_HOST_CREDS_FILE
        CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST CLAUDE_CODE_SDK_HAS_HOST_AUTH_REFRESH
    """,
    "a model other than the requested one": """
        ANTHROPIC_DEFAULT_MODEL ANTHROPIC_DEFAULT_SONNET_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL
        ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_DEFAULT_FABLE_MODEL ANTHROPIC_SMALL_FAST_MODEL
        ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION ANTHROPIC_CUSTOM_MODEL_OPTION CLAUDE_CODE_SUBAGENT_MODEL
        CLAUDE_CODE_SUBAGENT_MODEL_FORCE ANTHROPIC_BETAS CLAUDE_CODE_EXTRA_BODY
    """,
    "anything beyond the tools and prompts of the call": """
        CLAUDE_CODE_PLUGIN_DIRS CLAUDE_AGENT_SDK_MCP_NO_PREFIX CLAUDE_CODE_COORDINATOR_MODE CLAUDE_CODE_SIMPLE
        CLAUDE_AUTO_BACKGROUND_TASKS CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD CLAUDE_CODE_SYNC_PLUGINS
        CLAUDE_CODE_SYNC_SKILLS CLAUDE_CODE_MAX_TURNS CLAUDE_CODE_REMOTE CLAUDE_CODE_ENTRYPOINT
        CLAUDE_CODE_SESSION_ID CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_SSE_PORT CLAUDECODE NODE_OPTIONS BUN_OPTIONS
    """,
    "code that a process, or one of its children, would load": """
        BASH_ENV ENV PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PERL5OPT PERL5LIB RUBYOPT
        CLAUDE_CODE_DEBUG_LOGS_DIR
    """,
    "similar variables, found in the binary but not in the lists above": """
        USE_LOCAL_OAUTH USE_STAGING_OAUTH FALLBACK_FOR_ALL_PRIMARY_MODELS SDK_NATIVE_BIN ENABLE_CLAUDEAI_MCP_SERVERS
        ENABLE_TOOL_SEARCH ENABLE_ENHANCED_TELEMETRY_BETA
    """,
    "behavior that ktx does not expect": """
        MAX_STRUCTURED_OUTPUT_RETRIES MAX_THINKING_TOKENS API_TIMEOUT_MS DEBUG DISABLE_PROMPT_CACHING
    """,
}
DENIED: Final = tuple(name for names in _DENIED_BY_REASON.values() for name in names.split())
"""Variables that no Claude Code process started by ktx may have."""

DENIED_PREFIXES: Final = tuple(
    """
    ANTHROPIC_ _CLAUDE_ __CLAUDE_ CLAUDE_ CLAUDEAI_ CCR_ SELF_HOSTED_RUNNER_ SESSION_INGRESS_ AGENT_PROXY_
    BETA_TRACING_ MCP_ AI_GATEWAY_ AWS_ BEDROCK_ VERTEX_ GCE_METADATA_ GOOGLE_ GCLOUD_ CLOUDSDK_ CLOUD_ML_ AZURE_
    IDENTITY_ IMDS_ MSI_ BUN_ OTEL_ LD_ DYLD_ GIT_ NODE_
    """.split()  # noqa: SIM905
)
"""Prefixes of variables that are removed, except those in `KEPT`."""

KEPT: Final = frozenset({
    "CLAUDE_CONFIG_DIR", "CLAUDE_SECURESTORAGE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN", "CLAUDE_CODE_OAUTH_SCOPES", "CLAUDE_CODE_CLIENT_CERT",
    "CLAUDE_CODE_CLIENT_KEY", "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE", "CLAUDE_CODE_CERT_STORE", "CLAUDE_CODE_TMPDIR",
    "CLAUDE_TMPDIR", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA",
})  # fmt: skip
"""Variables of the local session and of the transport."""

ESSENTIAL: Final = frozenset(
    {"HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "LANG", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "USERPROFILE"}
)
"""Kept even if an `env:` reference in `ktx.yaml` names one: without them the process does not start."""

SWITCHED_OFF: Final[Mapping[str, str]] = dict.fromkeys((
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY", "CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS", "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER",
    "DISABLE_COMPACT",
), "1")  # fmt: skip
"""Variables that ktx sets: no memory, agents, skills, attachments, side calls, updates or summaries of long
conversations.
"""


def is_denied(name: str, extra: Iterable[str] = ()) -> bool:
    """Return whether a variable must not reach a Claude Code process; `extra` lists additional ones."""
    if os.name == "nt":
        name = name.upper()
    if name in ESSENTIAL:
        return False
    if name in extra or name in DENIED:
        return True
    return name.startswith(DENIED_PREFIXES) and name not in KEPT


def claude_environment(
    environ: Mapping[str, str], *, secret_names: Iterable[str] = (), settings: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the whole environment for a Claude Code process.

    `secret_names` are the variables in `env:` references of `ktx.yaml`; `settings` are ours, set last.
    """
    extra = frozenset(secret_names) - KEPT
    kept = {name: value for name, value in environ.items() if not is_denied(name, extra)}
    return {**kept, **SWITCHED_OFF, **(settings or {})}


def dropped_names(environ: Mapping[str, str], *, secret_names: Iterable[str] = ()) -> list[str]:
    """Return the names that the scrub removes from an environment, sorted."""
    extra = frozenset(secret_names) - KEPT
    return sorted(name for name in environ if is_denied(name, extra))


REAL_CLI: Final = "KTX_CLAUDE_CLI"
KEYS: Final = "KTX_CLAUDE_ENV_KEYS"
REPORT_PREFIX: Final = "ktx-claude-launcher dropped: "

SDK_OWN: Final = frozenset({
    "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_AGENT_SDK_CLIENT_APP",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE", "PWD", "TRACEPARENT", "TRACESTATE",
})  # fmt: skip
"""Variables that the SDK sets for its child process."""

OURS: Final = frozenset(
    {*SWITCHED_OFF, "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_PROMPT_CACHE_TTL", "DISABLE_PROMPT_CACHING"}
)
"""Names with a denied prefix that ktx itself sets."""


PR_SET_PDEATHSIG: Final = 1
"""From `linux/prctl.h`."""


class LauncherError(Exception):
    """The launcher does not know what to start, or was asked to pass on a denied variable."""


def child_environment(environ: Mapping[str, str]) -> tuple[str, dict[str, str], list[str]]:
    """Return the binary, its environment, and the dropped names; raises `LauncherError`."""
    try:
        real = environ[REAL_CLI]
        keys = frozenset(_names(json.loads(environ[KEYS])))
    except (KeyError, ValueError) as error:
        raise LauncherError(
            f"{REAL_CLI} and {KEYS} define what to start, but one of them is missing or invalid"
        ) from error
    denied = sorted(name for name in keys if name not in OURS and is_denied(name))
    if denied:
        raise LauncherError(f"asked to pass on {', '.join(denied)}")
    wanted = (keys | SDK_OWN) - {REAL_CLI, KEYS}
    kept = {name: value for name, value in environ.items() if name in wanted}
    dropped = sorted(name for name in environ if name not in wanted and name not in (REAL_CLI, KEYS))
    return real, kept, dropped


def _names(value: Any) -> list[str]:
    if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise ValueError("expected a list of names")
    return value


def _end_with_parent() -> None:
    """On Linux, have the system end this process when ktx is killed. This still applies after `execve`."""
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))


def main() -> NoReturn:
    """Replace this process with the real binary; exit 127 if that fails."""
    try:
        real, environment, dropped = child_environment(os.environ)
        sys.stderr.write(f"{REPORT_PREFIX}{json.dumps(dropped)}\n")
        sys.stderr.flush()
        if os.name == "nt":
            sys.exit(subprocess.run([real, *sys.argv[1:]], env=environment, check=False).returncode)
        with contextlib.suppress(PermissionError):  # it already leads a process group
            os.setsid()
        _end_with_parent()
        os.execve(real, [real, *sys.argv[1:]], environment)
    except (LauncherError, OSError) as error:
        sys.stderr.write(f"ktx-claude-launcher: {error}\n")
        sys.exit(127)
