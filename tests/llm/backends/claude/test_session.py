"""The local session as the binary tells it, on the real binary and on stubs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ktx_cli.llm.backends.claude import session as module
from ktx_cli.llm.backends.claude.session import LocalSession, local_session
from ktx_cli.llm.backends.claude_code import AUTH_HINT, AUTH_MESSAGE
from ktx_cli.llm.errors import LlmError
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_server import ModelServer

Program = Callable[..., Path]


def session(environ: Mapping[str, str], folder: Path, *, cli_path: Path | None = None) -> LocalSession:
    claude = {} if cli_path is None else {"cli_path": str(cli_path)}
    config = KtxConfig.model_validate({"llm": {"provider": {"backend": "claude-code", "claude": claude}}})
    return asyncio.run(local_session("claude-code", config, project_dir=folder / "project", environ=environ))


def failed(environ: Mapping[str, str], folder: Path, *, cli_path: Path | None = None) -> LlmError:
    with pytest.raises(LlmError) as caught:
        session(environ, folder, cli_path=cli_path)
    return caught.value


@pytest.mark.requirement("R40")
def test_a_session_that_is_there(model_server: ModelServer, tmp_path: Path) -> None:
    with offline_session(model_server) as offline:
        found = session(offline.environ, tmp_path)
    assert found.account == "local Claude Code session (oauth_token)"
    assert found.binary.origin == "claude-agent-sdk"
    assert model_server.model_calls == []


@pytest.mark.requirement("R36", "R41")
@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"ANTHROPIC_API_KEY": "sk-ant-api03-real-enough"},
        {"ANTHROPIC_AUTH_TOKEN": "token"},
        {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_BEARER_TOKEN_BEDROCK": "token", "AWS_REGION": "eu-west-1"},
    ],
    ids=lambda extra: next(iter(extra), "nothing"),
)
def test_no_session_is_the_authentication_copy_whatever_else_is_set(
    extra: dict[str, str], model_server: ModelServer, tmp_path: Path
) -> None:
    with offline_session(model_server, signed_in=False, extra=extra) as offline:
        error = failed(offline.environ, tmp_path)
    assert (error.code, error.message, error.hint) == ("auth", AUTH_MESSAGE, AUTH_HINT)
    assert model_server.model_calls == []


@pytest.mark.requirement("R42")
def test_a_folder_that_looks_like_a_session_decides_nothing(model_server: ModelServer, tmp_path: Path) -> None:
    with offline_session(model_server, signed_in=False) as offline:
        (offline.config_dir / "projects").mkdir()
        (offline.config_dir / "settings.json").write_text("{}")
        assert failed(offline.environ, tmp_path).code == "auth"


def stub(program: Program, out: str, code: int = 1) -> Path:
    return program(f"[ \"$1\" != auth ] && echo 2.1.300 && exit\ncat <<'END'\n{out}\nEND\nexit {code}\n")


@pytest.mark.parametrize(
    ("out", "code", "account"),
    [
        ('{"loggedIn": true, "authMethod": "claude.ai"}', 0, "local Claude Code session (claude.ai)"),
        ('{"loggedIn": true}', 0, "local Claude Code session (session)"),
    ],
)
def test_what_the_binary_says(out: str, code: int, account: str, program: Program, tmp_path: Path) -> None:
    assert session({}, tmp_path, cli_path=stub(program, out, code)).account == account


@pytest.mark.parametrize(
    ("out", "code"),
    [
        ('{"loggedIn": false}', "auth"),
        ("[]", "connection"),
        ("{}", "connection"),
        ("null", "connection"),
        ("Please log in", "connection"),
        ("", "connection"),
    ],
)
def test_an_answer_that_says_nothing_is_not_taken_for_nobody(
    out: str, code: str, program: Program, tmp_path: Path
) -> None:
    error = failed({}, tmp_path, cli_path=stub(program, out))
    assert error.code == code
    assert "Please log in" not in f"{error.message} {error.hint}"


def test_a_binary_that_does_not_answer(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STATUS_SECONDS", 0.3)
    path = program('[ "$1" != auth ] && echo 2.1.300 && exit\nexec sleep 30\n')
    error = failed({}, tmp_path, cli_path=path)
    assert (error.code, error.message) == ("connection", "`claude auth status` did not answer")
