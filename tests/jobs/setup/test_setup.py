"""Where a secret goes that was given in clear."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import keyring
import keyring.errors
import pytest

from ktx_cli.core.errors import NotReadyError, StorageError
from ktx_cli.jobs.setup import setup as secrets
from ktx_cli.jobs.setup.answers import Keeping
from ktx_cli.jobs.setup.plan import literal_places
from ktx_cli.jobs.setup.setup import keep_secret, reference_to, usable_keyring
from ktx_cli.project.config.connections import model_of
from ktx_cli.project.layout import Layout
from ktx_cli.project.secrets import mask, resolve
from tests.jobs.setup.conftest import Ring

SECRET = "canary-hunter2"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def _keep(layout: Layout, secret: str = SECRET, how: Keeping = Keeping.FILE) -> str:
    return keep_secret(layout, "pg-password", secret, how)


def _resolved(layout: Layout, reference: str) -> str:
    return resolve(reference, project_dir=layout.root, environ={}, where="it")


def test_a_file_of_its_own(layout: Layout) -> None:
    old = os.umask(0)
    try:
        assert _keep(layout) == "file:.ktx/secrets/pg-password"
    finally:
        os.umask(old)
    path = layout.secrets / "pg-password"
    assert path.read_text() == SECRET + "\n"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, layout.secrets, layout.private)] == [
        0o600,
        0o700,
        0o700,
    ]
    assert layout.private_gitignore.read_text() == "*\n"
    assert mask(f"it says {SECRET}!") == "it says ***!"


def test_the_same_again_is_the_same_and_another_loses_nothing(layout: Layout) -> None:
    first, again, other, third = (_keep(layout, secret) for secret in (SECRET, SECRET, "another-canary", SECRET))
    assert first == again == third != other == "file:.ktx/secrets/pg-password-2"
    assert [_resolved(layout, each) for each in (first, other)] == [SECRET, "another-canary"]


@pytest.mark.parametrize(
    "secret", ["line\nline\n", "-----BEGIN KEY-----\nabc\n-----END KEY-----", "p\u00e4ss w\u00f6rd", " # "]
)
def test_it_comes_back_as_it_was(layout: Layout, secret: str) -> None:
    reference = _keep(layout, secret)
    assert _resolved(layout, reference) == secret.rstrip("\n") or not secret.strip()
    assert _keep(layout, secret) == reference


def test_one_that_others_could_read_is_closed(layout: Layout) -> None:
    layout.secrets.mkdir(parents=True)
    (layout.secrets / "pg-password").write_text(SECRET)
    (layout.secrets / "pg-password").chmod(0o644)
    _keep(layout)
    assert stat.S_IMODE((layout.secrets / "pg-password").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [".ktx", ".ktx/secrets", ".ktx/.gitignore"])
def test_nothing_is_written_through_a_link(layout: Layout, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "public"
    elsewhere.mkdir()
    (tmp_path / ".ktx").mkdir() if name != ".ktx" else None
    (tmp_path / name).symlink_to(elsewhere)
    with pytest.raises(StorageError, match="is a symbolic link") as caught:
        _keep(layout)
    assert caught.value.hint == f"rm {tmp_path / name}"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("content", ["theirs", SECRET, None], ids=["another's", "the same", "nothing"])
def test_a_link_in_place_of_a_secret_is_left_alone(layout: Layout, tmp_path: Path, content: str | None) -> None:
    """One that leads nowhere too: it could be tracked, and the secret in its place would be committed."""
    layout.secrets.mkdir(parents=True)
    if content is not None:
        (tmp_path / "public.txt").write_text(f"{content}\n")
    (layout.secrets / "pg-password").symlink_to(tmp_path / "public.txt")
    assert _keep(layout) == "file:.ktx/secrets/pg-password-2"
    assert (layout.secrets / "pg-password").is_symlink()
    if content is not None:
        assert (tmp_path / "public.txt").read_text() == f"{content}\n"


def test_what_lets_secrets_into_git_is_set_right(layout: Layout) -> None:
    layout.private.mkdir()
    layout.private_gitignore.write_text("*\n!secrets/\n!secrets/**\n")
    _keep(layout)
    subprocess.run(["git", "init", "-q", layout.root], check=True)
    secret = layout.secrets / "pg-password"
    subprocess.run(["git", "-C", layout.root, "check-ignore", "--quiet", secret], check=True)


def test_a_full_disk_leaves_nothing(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    _keep(layout)
    before = sorted(layout.private.rglob("*"))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left") as caught:
        _keep(layout, "another-canary")
    assert "free some space" in (caught.value.hint or "")
    assert "canary" not in caught.value.message
    assert sorted(layout.private.rglob("*")) == before


def test_there_is_an_end_of_names(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_MOST_NUMBERS", 3)
    _keep(layout, "one-canary"), _keep(layout, "two-canary")
    with pytest.raises(StorageError, match="too many secrets"):
        _keep(layout, "three-canary")


def test_in_the_keyring(layout: Layout, ring: Ring) -> None:
    first, again, other = (_keep(layout, secret, Keeping.KEYRING) for secret in (SECRET, SECRET, "another-canary"))
    assert first == again != other
    assert first.startswith("keyring:ktx-") and first.endswith("/pg-password") and other.endswith("/pg-password-2")
    assert [_resolved(layout, each) for each in (first, other)] == [SECRET, "another-canary"]
    assert list(layout.root.iterdir()) == []


def test_two_projects_share_no_entry(tmp_path: Path, ring: Ring) -> None:
    references = {_keep(Layout(tmp_path / name), f"{name}-canary", Keeping.KEYRING) for name in ("a", "b")}
    assert len(references) == len(ring.kept) == 2


def test_a_keyring_that_refuses(layout: Layout, ring: Ring) -> None:
    ring.error = keyring.errors.PasswordSetError(f"no place for {SECRET}")
    with pytest.raises(NotReadyError) as caught:
        _keep(layout, how=Keeping.KEYRING)
    assert caught.value.message == "the keyring did not accept the secret: PasswordSetError"
    assert caught.value.hint == "store it in a file instead: --keep-secrets file"


def test_whether_there_is_a_keyring(ring: Ring) -> None:
    import keyring.backends.fail

    assert usable_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())
    assert not usable_keyring()


PLACES: list[tuple[str, dict[str, Any], list[tuple[str, ...]]]] = [
    ("postgres", {"password": "x", "host": "h", "username": "u"}, [("password",)]),
    ("postgres", {"password": "env:X", "url": "file:y"}, []),
    ("postgres", {"password": " ", "url": "postgresql://h/d"}, []),
    ("postgres", {"url": "postgresql://u:pw@h/d"}, [("url",)]),
    ("postgres", {"url": "postgresql://h/d?password=pw"}, [("url",)]),
    ("snowflake", {"privateKey": "PEM", "passphrase": "p", "account": "token"}, [("privateKey",), ("passphrase",)]),
    ("metricflow", {"metricflow": {"repoUrl": "https://u:pw@h/x", "auth_token_ref": "t"}},
     [("metricflow", "repoUrl"), ("metricflow", "auth_token_ref")]),
    ("metabase", {"mappings": {"databaseMappings": {"1": "api_token"}}}, []),
    ("looker", {"mappings": {"connectionMappings": {"api_token": "warehouse"}}}, []),
    ("postgres", {"of_mine": {"deep": {"api.token": "x"}}, "secret": "y"},
     [("of_mine", "deep", "api.token"), ("secret",)]),
]  # fmt: skip


@pytest.mark.table(("driver", "fields", "expected"), PLACES)
def test_where_a_secret_stands_in_clear(driver: str, fields: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    assert literal_places(model_of(driver), fields) == expected


@pytest.mark.parametrize("name", ["w-../../../evil-token", "w-/etc/token", "w-a\nb", "w-" + "x" * 500])
def test_a_name_is_that_of_one_file_here(layout: Layout, name: str) -> None:
    reference = keep_secret(layout, name, SECRET, Keeping.FILE)
    assert _resolved(layout, reference) == SECRET
    assert [path.parent for path in layout.root.rglob("*") if path.is_file() and SECRET in path.read_text()] == [
        layout.secrets
    ]


@pytest.mark.parametrize("how", Keeping)
def test_the_reference_is_known_before(layout: Layout, ring: Ring, how: Keeping) -> None:
    expected = reference_to(layout, "pg-password", SECRET, how)
    assert list(layout.root.iterdir()) == []
    assert _keep(layout, how=how) == expected
