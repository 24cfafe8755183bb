"""The login that is carried into a process and back, and the settings of a process."""

from __future__ import annotations

import json
import stat
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.backends.codex.home import Login, prepare_home, read_login, write_back
from ktx_cli.llm.errors import LlmError
from ktx_cli.testing.codex_session import chatgpt_login, key_login, token


def home_with(folder: Path, content: Any, settings: str = "") -> dict[str, str]:
    """Return the environment of a user whose Codex has this login."""
    home = Path(tempfile.mkdtemp(prefix="home-", dir=folder))  # the rows of a table share the folder
    codex = home / ".codex"
    codex.mkdir()
    if content is not None:
        (codex / "auth.json").write_text(content if isinstance(content, str) else json.dumps(content))
        (codex / "auth.json").chmod(0o600)
    if settings:
        (codex / "config.toml").write_text(settings)
    return {"HOME": str(home)}


@pytest.mark.table(
    ("content", "is_api_key"), [(chatgpt_login(), False), (key_login(), True)], ids=["ChatGPT", "an API key"]
)
def test_a_login_is_read(content: dict[str, Any], is_api_key: bool, tmp_path: Path) -> None:
    login = read_login(home_with(tmp_path, content))
    assert login.is_api_key is is_api_key
    assert json.loads(login.data) == content
    assert "rt_made_up" not in repr(login) and "sk-made-up" not in repr(login)


def test_the_folder_that_the_user_named(tmp_path: Path) -> None:
    folder = Path(home_with(tmp_path, key_login())["HOME"]) / ".codex"
    login = read_login({"HOME": "/nowhere", "CODEX_HOME": str(folder)})
    assert login.path == folder / "auth.json"


@pytest.mark.table(
    ("content", "settings", "words"),
    [
        (None, "", "has no usable login"),
        ("", "", "has no usable login"),
        ("[]", "", "has no usable login"),
        ({"tokens": None, "OPENAI_API_KEY": None}, "", "has no usable login"),
        (None, 'cli_auth_credentials_store = "keyring"', "keyring"),
        (None, 'cli_auth_credentials_store = "auto"', "keyring"),
        (None, "not = [toml", "has no usable login"),
    ],
)
def test_there_is_no_login(content: Any, settings: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(LlmError) as caught:
        read_login(home_with(tmp_path, content, settings))
    assert caught.value.code == "auth"
    assert words in caught.value.message
    assert "codex login" in (caught.value.hint or "")


@pytest.mark.table(
    ("change", "needs"),
    [
        ({}, False),
        ({"expires": -60}, True),
        ({"expires": 60}, True),
        ({"last_refresh": "2020-01-01T00:00:00Z"}, True),
        ({"last_refresh": None}, True),
        ({"tokens": None, "OPENAI_API_KEY": "sk-made-up"}, False),
        ({"access": "no token"}, False),
    ],
)
def test_a_login_that_is_about_to_expire(change: dict[str, Any], needs: bool, tmp_path: Path) -> None:
    content = chatgpt_login()
    if "expires" in change:
        content["tokens"]["access_token"] = token(time.time() + change["expires"])
    elif "access" in change:
        content["tokens"]["access_token"] = change["access"]
    else:
        content.update(change)
    assert read_login(home_with(tmp_path, content)).needs_refresh() is needs


def renewed(private: Path, login: Login, **changes: Any) -> None:
    tokens = {**login.value["tokens"], "refresh_token": "rt_next"}
    content = {"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": "2026-11-30T00:00:00Z", "other": 1, **changes}
    (private / "auth.json").write_text(json.dumps(content))


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


def test_a_renewed_login_is_written_back(tmp_path: Path, private: Path) -> None:
    login = read_login(home_with(tmp_path, {**chatgpt_login(), "of_the_user": "kept"}))
    renewed(private, login)
    assert write_back(login, private)
    found = json.loads(login.path.read_bytes())
    assert found["tokens"]["refresh_token"] == "rt_next"
    assert found["last_refresh"] == "2026-11-30T00:00:00Z"
    assert found["of_the_user"] == "kept" and "other" not in found
    assert stat.S_IMODE(login.path.stat().st_mode) == 0o600
    assert [path.name for path in login.path.parent.iterdir()] == ["auth.json"]


def test_a_link_to_the_login_stays_one(tmp_path: Path, private: Path) -> None:
    environ = home_with(tmp_path, chatgpt_login())
    path = Path(environ["HOME"]) / ".codex" / "auth.json"
    real = path.rename(tmp_path / "synced.json")
    path.symlink_to(real)
    login = read_login(environ)
    renewed(private, login)
    assert write_back(login, private)
    assert path.is_symlink() and json.loads(real.read_bytes())["tokens"]["refresh_token"] == "rt_next"


@pytest.mark.table("case", ["same", "changed meanwhile", "signed out", "half a file", "no file", "user's file is gone"])
def test_the_users_login_stays_as_it_is(case: str, tmp_path: Path, private: Path) -> None:
    login = read_login(home_with(tmp_path, chatgpt_login()))
    (private / "auth.json").unlink(missing_ok=True)
    if case == "same":
        (private / "auth.json").write_bytes(login.data)
    elif case == "changed meanwhile":
        renewed(private, login)
        login.path.write_text(json.dumps(key_login()))
    elif case == "signed out":
        renewed(private, login, tokens=None)
    elif case == "half a file":
        (private / "auth.json").write_bytes(login.data[:40])
    elif case == "user's file is gone":
        renewed(private, login)
        login.path.unlink()
    before = login.path.read_bytes() if login.path.exists() else None
    assert not write_back(login, private)
    assert (login.path.read_bytes() if login.path.exists() else None) == before


def test_a_home_folder_holds_the_login_and_ktxs_settings(tmp_path: Path, private: Path) -> None:
    login = read_login(home_with(tmp_path, chatgpt_login()))
    work = prepare_home(private, login, model="gpt-x", features=["memories", "shell_tool"])
    assert sorted(path.name for path in private.iterdir()) == ["auth.json", "config.toml", "models.json", "work"]
    assert list(work.iterdir()) == []
    assert {stat.S_IMODE(path.stat().st_mode) for path in private.iterdir() if path.is_file()} == {0o600}
    assert stat.S_IMODE(work.stat().st_mode) == 0o700
    written = tomllib.loads((private / "config.toml").read_text())
    assert written["features"] == {"memories": False, "shell_tool": False}
    assert written["web_search"] == "disabled" and written["history"] == {"persistence": "none"}
    assert written["model_providers"][written["model_provider"]]["request_max_retries"] == 0
    (model,) = json.loads((private / "models.json").read_text())["models"]
    assert (model["slug"], model["shell_type"], model["apply_patch_tool_type"]) == ("gpt-x", "disabled", None)
