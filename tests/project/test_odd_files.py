"""What is no regular file where ktx needs one, and what bars the way to a file."""

from __future__ import annotations

import os
import shlex
import socket
from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.project.files import read_bytes, storage_error
from ktx_cli.project.layout import Layout, find_project, folder_for_setup
from ktx_cli.project.state import prepare_private_folder, read_state


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _open_descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(("make", "kind"), [(_fifo, "a pipe"), (_folder, "a folder")])
def test_only_files_are_read(tmp_path: Path, make: object, kind: str) -> None:
    path = tmp_path / "a b"
    make(path)  # type: ignore[operator]
    before = _open_descriptors()
    with pytest.raises(StorageError, match=kind) as caught:
        read_bytes(path)
    assert shlex.split((caught.value.hint or "").partition(": ")[2]) == ["mv", str(path), f"{path}.old"]
    assert _open_descriptors() == before


def test_a_socket_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        server.bind("s")
    with pytest.raises(StorageError):
        read_bytes(tmp_path / "s")


@pytest.mark.parametrize("make", [_fifo, _folder])
def test_a_config_that_is_no_file_is_named(tmp_path: Path, make: object) -> None:
    make(tmp_path / "ktx.yaml")  # type: ignore[operator]
    below = tmp_path / "below"
    below.mkdir()
    for find in (
        lambda: find_project(None, {}, below),
        lambda: find_project(str(tmp_path), {}, below),
        lambda: folder_for_setup(None, {}, tmp_path),
        lambda: folder_for_setup(str(tmp_path), {}, below),
    ):
        with pytest.raises(StorageError, match=r"ktx\.yaml is a") as caught:
            find()
        assert (caught.value.hint or "").startswith("move it away")


@pytest.mark.parametrize("make", [_fifo, _folder])
def test_a_state_that_is_no_file_is_named(tmp_path: Path, make: object) -> None:
    layout = Layout(tmp_path)
    layout.private.mkdir()
    make(layout.state)  # type: ignore[operator]
    with pytest.raises(StorageError, match=r"state\.sqlite is a"):
        prepare_private_folder(layout)
    with pytest.raises(StorageError, match=r"state\.sqlite is a"):
        read_state(layout, lambda database: database)


def test_a_file_where_the_private_folder_has_to_be(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.private.write_text("x")
    with pytest.raises(StorageError, match="not a folder") as caught:
        prepare_private_folder(layout)
    assert "mv " in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("missing", "mode", "named"),
    [("a/b/c.yaml", 0o500, "."), ("there/x.yaml", 0o500, "there"), ("there/file.yaml", 0o000, "there/file.yaml")],
)
def test_the_hint_of_a_refusal_names_what_is_there(tmp_path: Path, missing: str, mode: int, named: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file.yaml").write_text("x")
    barred = tmp_path / named
    barred.chmod(mode)
    error = storage_error(tmp_path / missing, PermissionError(13, "Permission denied"))
    wanted = "u+rw" if barred.is_file() else "u+rwx"
    barred.chmod(0o700)
    assert error.hint == f"give this user access, for example: chmod {wanted} {barred}"
    assert error.details["path"] == str(tmp_path / missing)
