"""The tree of failed model calls: codes, exit codes, words and hints."""

from __future__ import annotations

import json

import pytest

from ktx_cli.core.errors import ERROR_CODES
from ktx_cli.llm.backends.claude_code import AUTH_HINT, AUTH_MESSAGE
from ktx_cli.llm.errors import CODES, cancelled, llm_error
from ktx_cli.project.config.blocks import SUPPORTED_BACKENDS

EXIT_CODES = {
    "auth": 3,
    "billing": 3,
    "rate_limit": 5,
    "overloaded": 5,
    "model": 1,
    "context": 1,
    "max_turns": 1,
    "structured_output": 1,
    "permission": 1,
    "isolation": 3,
    "connection": 4,
    "execution": 1,
    "refusal": 1,
    "cancelled": 130,
    "no_backend": 3,
}


@pytest.mark.requirement("R52")
def test_the_tree_is_the_documented_one() -> None:
    assert set(CODES) == set(EXIT_CODES)
    assert set(CODES) <= set(ERROR_CODES)
    assert {code: llm_error(code, backend="anthropic").exit_code for code in CODES} == EXIT_CODES


@pytest.mark.requirement("R52")
@pytest.mark.table("code", CODES)
@pytest.mark.parametrize("backend", SUPPORTED_BACKENDS)
def test_every_error_is_one_plain_sentence_on_every_backend(backend: str, code: str) -> None:
    error = llm_error(code, backend=backend, model="m-1", role="triage", detail="secret words of the provider")
    assert "{" not in error.message + (error.hint or "")
    assert not error.message.endswith(".")
    assert error.details["backend"] == backend
    assert "secret words" not in json.dumps(error.to_json()) + str(error)
    assert error.retryable == (code in ("rate_limit", "overloaded", "connection"))


@pytest.mark.requirement("R41")
@pytest.mark.table("backend", ["claude-code", "claude-cli"])
def test_a_missing_session_has_one_wording(backend: str) -> None:
    error = llm_error("auth", backend=backend)
    assert (error.message, error.hint) == (AUTH_MESSAGE, AUTH_HINT)
    assert "sign in to Claude Code" in AUTH_HINT
    assert "run this command again" in AUTH_HINT


@pytest.mark.table(
    ("backend", "words"),
    [("anthropic", "llm.provider.anthropic.api_key"), ("gateway", "llm.provider.gateway"), ("vertex", "gcloud auth")],
)
def test_credentials_are_named_where_they_are_set(backend: str, words: str) -> None:
    assert words in (llm_error("auth", backend=backend).hint or "")


def test_facts_for_programs() -> None:
    error = llm_error("rate_limit", backend="gateway", model="m", status=429, retry_after=2.5, resets_at=7.0, extra=1)
    assert error.details == {
        "backend": "gateway",
        "model": "m",
        "extra": 1,
        "status": 429,
        "retry_after": 2.5,
        "resets_at": 7.0,
    }
    assert (error.retry_after, error.resets_at) == (2.5, 7.0)
    assert llm_error("model", backend="gateway", model="m", role="curator").hint == (
        "ktx config set llm.models.curator MODEL"
    )
    assert llm_error("execution", backend="x", message="own words", hint="own hint").message == "own words"
    assert cancelled("anthropic", "m").code == "cancelled"
