"""What the SDK raises, in words of ours."""

from __future__ import annotations

import pytest
from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, CLINotFoundError, ProcessError

from ktx_cli.core.errors import KtxError
from ktx_cli.llm.backends.claude_code.backend import describe, translate
from ktx_cli.llm.errors import LlmError, llm_error

STRICT = "Error: You cannot use --strict-mcp-config when an enterprise MCP config is present"
REFUSED = 'Error: --json-schema is not a valid JSON Schema: strict mode: unknown keyword: "x"'

ROWS: list[tuple[Exception, list[str], str, str]] = [
    (CLINotFoundError("gone", "/x/claude"), [], "connection", "cannot start the"),
    (ProcessError("failed", exit_code=1), [STRICT], "isolation", "managed-mcp.json"),
    (CLIConnectionError("does not honor on_failure on hook matchers"), [], "isolation", "too old to be isolated"),
    (ProcessError("failed", exit_code=9), ["boom"], "connection", "ended unexpectedly"),
    (CLIJSONDecodeError("{", ValueError("x")), [], "connection", "ended unexpectedly"),
    (ProcessError("failed", exit_code=1), [REFUSED], "structured_output", "does not accept the schema"),
    (RecursionError("maximum recursion depth exceeded"), [], "execution", "nested too deeply"),
    (Exception("maximum recursion depth exceeded while decoding"), [], "execution", "nested too deeply"),
    (Exception("Control request timeout: initialize"), [], "connection", "ended unexpectedly"),
]


@pytest.mark.requirement("R52", "C10")
@pytest.mark.table(("error", "stderr", "code", "words"), ROWS)
def test_translated(error: Exception, stderr: list[str], code: str, words: str) -> None:
    found = translate(error, backend="claude-code", model="haiku", role="triage", stderr=stderr)
    assert isinstance(found, LlmError)
    assert found.code == code
    assert words in found.message
    assert str(error) not in f"{found.message}{found.hint}{found.details}"


def test_errors_of_ours_stay_as_they_are() -> None:
    error: KtxError = llm_error("refusal", backend="claude-code")
    assert translate(error, backend="claude-code", model="m", role="default") is error


def test_stderr_and_causes_are_in_the_detail() -> None:
    error = ProcessError("failed", exit_code=9)
    error.__cause__ = ValueError("deeper")
    found = translate(error, backend="claude-code", model="haiku", role="triage", stderr=["line one", "line two"])
    assert isinstance(found, LlmError)
    assert "line one; line two" in found.detail
    assert "ValueError: deeper" in describe(error)
