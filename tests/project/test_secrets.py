"""Secret references, and that secrets never show."""

from __future__ import annotations

import builtins
import os
import sys
import types
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktx_cli.core.errors import SecretError
from ktx_cli.project.secrets import (
    SecretRef,
    check,
    has_password,
    is_reference,
    mask,
    redact,
    redact_url,
    resolve,
    variable_named,
)

CANARY = "canary-5f3a"


def answer(value: str, tmp_path: Path, environ: dict[str, str] | None = None) -> str:
    return resolve(value, project_dir=tmp_path, environ=environ or {}, where="connections.wh.password")


def failure(value: str, tmp_path: Path, environ: dict[str, str] | None = None) -> SecretError:
    with pytest.raises(SecretError) as caught:
        answer(value, tmp_path, environ)
    error = caught.value
    assert "connections.wh.password" in error.message
    assert f"`{SecretRef.parse(value)}`" in error.message
    assert error.hint
    assert error.exit_code == 2
    assert CANARY not in str(error.to_json())
    return error


@pytest.mark.table(
    ("text", "kind", "name"),
    [
        ("env:NAME", "env", "NAME"),
        (" env: NAME ", "env", "NAME"),
        ("env:", "env", ""),
        ("file:~/x", "file", "~/x"),
        ("file:./a b", "file", "./a b"),
        ("file:///srv/x", "file", "///srv/x"),
        ("keyring:ktx/wh", "keyring", "ktx/wh"),
    ],
)
def test_references(text: str, kind: str, name: str) -> None:
    assert SecretRef.parse(text) == SecretRef(kind, name)
    assert is_reference(text)


@pytest.mark.parametrize(
    "text",
    ["", "hunter2", "$NAME", "${NAME}", "ENV:NAME", "cmd:pass x", "https://x", "environment:x", "a env:NAME", ":x"],
)
def test_literals(text: str, tmp_path: Path) -> None:
    assert SecretRef.parse(text) is None
    assert answer(text, tmp_path) == text


@pytest.mark.table("value", [None, 5, True, ["env:X"], {"env": 1}])
def test_only_texts_are_references(value: Any) -> None:
    assert not is_reference(value)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_reference_or_a_literal(text: str) -> None:
    reference = SecretRef.parse(text)
    if reference is None:
        assert resolve(text, project_dir=Path(), environ={}, where="x") == text
    else:
        assert SecretRef.parse(str(reference)) == reference


def test_env(tmp_path: Path) -> None:
    assert answer("env:PW", tmp_path, {"PW": " a b "}) == " a b "


@pytest.mark.parametrize(
    ("environ", "says"), [({}, "is not set"), ({"PW": ""}, "is empty"), ({"PW": " \n"}, "is empty")]
)
def test_env_missing(environ: dict[str, str], says: str, tmp_path: Path) -> None:
    error = failure("env:PW", tmp_path, environ)
    assert says in error.message
    assert error.hint == "export PW=..."


def test_env_is_only_what_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", CANARY)
    failure("env:PW", tmp_path)


@pytest.mark.parametrize("kind", ["env", "file", "keyring"])
def test_a_reference_to_nothing(kind: str, tmp_path: Path) -> None:
    assert "has no name" in failure(f"{kind}: ", tmp_path).message


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"secret", "secret"),
        (b"secret\n", "secret"),
        (b"secret\r\n", "secret"),
        (b" se cret \n\n", " se cret "),
        (b"a\nb\n", "a\nb"),
        (b"\xef\xbb\xbfsecret\n", "secret"),
        ("gehéim".encode(), "gehéim"),
    ],
)
def test_file(content: bytes, value: str, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "pw").write_bytes(content)
    assert answer("file:secrets/pw", tmp_path) == value
    assert answer(f"file:{tmp_path}/secrets/pw", tmp_path) == value


def test_file_below_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "pw").write_text("s")
    monkeypatch.setenv("HOME", str(home))
    assert answer("file:~/pw", tmp_path / "project") == "s"


def test_file_does_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "pw").write_text(CANARY)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "does not exist" in failure("file:pw", tmp_path).message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"  \n", "is empty"),
        (CANARY.encode() + b"\xff", "is not UTF-8"),
        (CANARY.encode() * 200_000, "larger than 1 MB"),
    ],
)
def test_file_unusable(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "pw").write_bytes(content)
    error = failure("file:pw", tmp_path)
    assert says in error.message
    assert str(tmp_path / "pw") in error.message


def test_file_missing_names_the_path(tmp_path: Path) -> None:
    error = failure("file:no/pw", tmp_path)
    assert f"{tmp_path}/no/pw, which does not exist" in error.message


def test_file_that_is_a_folder_or_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        assert "not a regular file" in failure(f"file:{name}", tmp_path).message


def test_file_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pw").write_text(CANARY)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: Permission denied" in failure("file:pw", tmp_path).message


def test_file_with_an_impossible_name(tmp_path: Path) -> None:
    with pytest.raises(SecretError):
        answer("file:a\0b", tmp_path)


@pytest.mark.parametrize(
    ("mode", "warns"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True), (0o644, True)]
)
def test_permissions(mode: int, warns: bool, tmp_path: Path) -> None:
    path = tmp_path / "pw"
    path.write_text("s")
    path.chmod(mode)
    warning = check("file:pw", project_dir=tmp_path, where="llm.x")
    assert (warning is not None) == warns
    if warning is not None:
        assert warning.code == "secret_permissions"
        assert "llm.x" in warning.message
        assert f"{mode:04o}" in warning.message
        assert warning.hint == f"chmod 600 {path}"


@pytest.mark.parametrize("value", ["env:X", "literal", "file:missing", "file:", "keyring:a/b"])
def test_permissions_of_what_is_no_file(value: str, tmp_path: Path) -> None:
    assert check(value, project_dir=tmp_path, where="x") is None


def fake_keyring(monkeypatch: pytest.MonkeyPatch, stored: dict[tuple[str, str], str] | Exception) -> None:
    import keyring

    def get_password(service: str, name: str) -> str | None:
        if isinstance(stored, Exception):
            raise stored
        return stored.get((service, name))

    monkeypatch.setattr(keyring, "get_password", get_password)


def test_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_keyring(monkeypatch, {("ktx", "wh"): "s", ("https://a/b", "wh"): "t", ("ktx", "blank"): " "})
    assert answer("keyring:ktx/wh", tmp_path) == "s"
    assert answer("keyring:https://a/b/wh", tmp_path) == "t"
    for name in ("nobody", "blank"):
        error = failure(f"keyring:ktx/{name}", tmp_path)
        assert "refers to an entry that is not in the keyring" in error.message
        assert error.hint == f"keyring set ktx {name}"


@pytest.mark.parametrize("name", ["ktx", "/x", "ktx/"])
def test_keyring_form(name: str, tmp_path: Path) -> None:
    assert "keyring:SERVICE/NAME" in failure(f"keyring:{name}", tmp_path).message


def test_keyring_without_a_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from keyring.errors import NoKeyringError

    fake_keyring(monkeypatch, NoKeyringError("no backend"))
    assert "this machine has no keyring" in failure("keyring:ktx/wh", tmp_path).message


def test_keyring_that_fails_says_no_more_than_the_kind_of_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_keyring(monkeypatch, RuntimeError(CANARY))
    assert "cannot be resolved: RuntimeError" in failure("keyring:ktx/wh", tmp_path).message


def test_keyring_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_keyring(name: str, *args: Any, **kwargs: Any) -> types.ModuleType:
        if name.partition(".")[0] == "keyring":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_keyring)
    error = failure("keyring:ktx/wh", tmp_path)
    assert "requires the package keyring" in error.message
    assert error.hint == "pip install 'ktx-cli[keyring]'"


@pytest.mark.table(
    ("value", "name"),
    [
        ("$PW", "PW"),
        ("${PW}", "PW"),
        (" $PW ", "PW"),
        ("postgres://u:${PW}@h", "PW"),
        ("pa$$word", None),
        ("$5", None),
        ("a$PW", None),
        ("$PW/x", None),
        ("${}", None),
        ("env:PW", None),
    ],
)
def test_variables_of_the_shell(value: str, name: str | None) -> None:
    assert variable_named(value) == name


@pytest.mark.table(
    ("url", "shown"),
    [
        ("postgres://u:pw@h:5432/d", "postgres://u:***@h:5432/d"),
        ("postgres://u@h:5432/d", "postgres://u@h:5432/d"),
        ("postgres://h:5432/d", "postgres://h:5432/d"),
        ("postgres://h:5432/d?options=a@b", "postgres://h:5432/d?options=a@b"),
        ("postgres://h/d?user=u&password=pw", "postgres://h/d?user=u&password=***"),
        ("postgres://u:p@ss@h/d", "postgres://u:***@h/d"),
        ("postgres://u:p/w?x#y@h/d", "postgres://u:***@h/d"),
        ("postgres://:pw@h", "postgres://:***@h"),
        ("postgres://u:@h", "postgres://u:@h"),
        ("mysql+pymysql://u:pw@[::1]:3306/d", "mysql+pymysql://u:***@[::1]:3306/d"),
        ("mysql://[::1]:3306/d", "mysql://[::1]:3306/d"),
        ("https://h/x?access_token=abc&y=1#z", "https://h/x?access_token=***&y=1#z"),
        ("jdbc:x;user=u;Password=pw;a=b", "jdbc:x;user=u;Password=***;a=b"),
        ("host=h password=pw user=u", "host=h password=*** user=u"),
        ("https://git.example.com/@scope/x.git", "https://git.example.com/@scope/x.git"),
        ("git@github.com:org/repo.git", "git@github.com:org/repo.git"),
        ("sqlite:///data/x.db", "sqlite:///data/x.db"),
        ("", ""),
        ("monkey=1", "monkey=1"),
    ],
)
def test_redact_url(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert has_password(url) == (url != shown)


PASSWORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=6).filter(lambda p: "***" not in p)


@settings(deadline=None)
@given(PASSWORDS)
def test_no_password_stays_in_a_url(password: str) -> None:
    for form in (quote(password, safe=""), "x" + password):
        assert form not in redact_url(f"postgres://user:{form}@h.example.com:5432/shop")


@settings(deadline=None)
@given(st.lists(st.text("abc/%+ ", min_size=1, max_size=4), max_size=3), st.text("abc/%+ ", max_size=30))
def test_no_secret_stays_in_a_text(secrets: list[str], text: str) -> None:
    shown = redact(text, secrets)
    for secret in secrets:
        if secret.strip():
            assert secret not in shown
            assert quote(secret, safe="") not in shown
    if not any(secret.strip() and secret in text for secret in secrets) and "%" not in text and "+" not in text:
        assert shown == text


@pytest.mark.table(
    ("text", "secrets", "shown"),
    [
        ("login with hunter2 failed", ["hunter2"], "login with *** failed"),
        ("abcd", ["abc", "bcd"], "***"),
        ("a p%40ss b p@ss", ["p@ss"], "a *** b ***"),
        ("nothing", ["", " "], "nothing"),
        ("nothing", [], "nothing"),
    ],
)
def test_redact(text: str, secrets: list[str], shown: str) -> None:
    assert redact(text, secrets) == shown


@pytest.mark.parametrize(
    ("value", "environ", "text", "shown"),
    [
        ("env:MASKED", {"MASKED": "canary-one\n"}, "bad value b'canary-one\\n'", "bad value b'***\\n'"),
        ("canary-literal", {}, "key=canary-literal;", "key=***;"),
        ("env:MASKED", {"MASKED": "canary'\\\x07two"}, repr("x canary'\\\x07two"), '"x ***"'),
        ("env:MASKED", {"MASKED": "canary-\u00e9\u00e9"}, repr("canary-\u00e9\u00e9".encode()), "b'***'"),
        ("env:MASKED", {"MASKED": "pg://u:p%40canary@h/d"}, "p@canary or p%40canary", "*** or ***"),
        ("env:MASKED", {"MASKED": "short"}, "a short word", "a short word"),
    ],
)
def test_mask_knows_what_was_resolved(
    value: str, environ: dict[str, str], text: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktx_cli.project.secrets._KNOWN", set())
    assert mask(text) == text
    answer(value, tmp_path, environ)
    assert mask(text) == shown


@pytest.mark.parametrize("reference", ["file:.ktx/secrets/password", "file:../password", "file:password"])
@pytest.mark.parametrize("kind", ["worker", "snapshots"])
def test_a_copy_of_a_project_has_the_secrets_of_the_project(reference: str, kind: str, tmp_path: Path) -> None:
    """As they are now: it has none of its own."""
    own = tmp_path / "clone"
    copy = own / ".ktx" / kind / "0a1b"
    copy.mkdir(parents=True)
    (own / "ktx.yaml").touch()
    path = own / reference.removeprefix("file:")
    path.parent.mkdir(exist_ok=True)
    for value in ("first", "changed"):
        path.write_text(value)
        assert answer(reference, copy) == value
    path.unlink()
    (copy / ".ktx/secrets").mkdir(parents=True)
    for folder in (copy / ".ktx/secrets", copy.parent, copy):
        (folder / "password").write_text("old")
    assert "does not exist" in failure(reference, copy).message


@pytest.mark.parametrize("folder", [".ktx/worker/shop", ".ktx/other/shop", "worker/shop"])
def test_a_project_that_is_no_copy_has_its_own_secrets(folder: str, tmp_path: Path) -> None:
    project = tmp_path / folder
    project.mkdir(parents=True)
    (project / "password").write_text("own")
    assert answer("file:password", project) == "own"
