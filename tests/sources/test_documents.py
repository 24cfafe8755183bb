"""Folders and repositories of documents: what is taken, what is passed over and named, what is never followed."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import CancelledError, SourceError, StorageError
from ktx_cli.documents.raw import Changes, Skipped, Snapshot
from ktx_cli.project.files import read_bytes
from ktx_cli.sources.documents import DocumentsConnection
from ktx_cli.sources.documents import source as documents
from ktx_cli.sources.documents.source import DocumentsSource
from ktx_cli.sources.port import FetchContext, Projection
from tests.sources.projecting import overlay

Fetch = Callable[..., Snapshot]


def entry(path: str, **fields: Any) -> DocumentsConnection:
    return DocumentsConnection.model_validate({"driver": "documents", "path": path, **fields})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "project" / "handbook"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def fetch(root: Path, fetch_context: Callable[..., FetchContext]) -> Fetch:
    def run(path: str = "handbook", **fields: Any) -> Snapshot:
        return DocumentsSource().fetch(entry(path), fetch_context(**fields))

    return run


def write(root: Path, path: str, content: str = "text") -> Path:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    return place


def test_documents_of_every_kind_are_hashed_where_they_are(root: Path, fetch: Fetch) -> None:
    names = ["a.md", "b.MARKDOWN", "c.html", "d.htm", "e.pdf", "f/g.txt", "f/h.sql", "f/i.rst"]
    for name in (*names, "j.png", "k", "l.md.bak"):
        write(root, name, name)
    found = fetch()
    assert list(found.files) == names
    assert all(raw.sha256 == hashlib.sha256(path.encode()).hexdigest() for path, raw in found.files.items())
    assert found.files["f/g.txt"].text() == "f/g.txt"
    assert (found.complete, found.cursor, found.fetched) == (True, None, 8)
    assert found.skipped == (
        Skipped("3 files (j.png, k, l.md.bak)", "ktx has no reader for .bak, .png, names without an extension"),
    )
    assert fetch(previous={path: raw.sha256 for path, raw in found.files.items()}).fetched == 0


@pytest.mark.parametrize(
    "name", ["odd name.md", "ünï/çødé.md", "quote'\".md", "new\nline.md", "-dash.md", "#%20?.md", "日本.md"]
)
def test_odd_names_are_names(root: Path, fetch: Fetch, name: str) -> None:
    write(root, name)
    assert list(fetch().files) == [name]


def test_a_name_that_is_no_text_is_named(root: Path, fetch: Fetch) -> None:
    try:
        (Path(os.fsdecode(os.fsencode(root) + b"/bad-\xff.md"))).write_text("x")
    except OSError:
        pytest.skip("this file system has UTF-8 names alone")
    found = fetch()
    assert (list(found.files), [each.what for each in found.skipped]) == ([], ["bad-\\udcff.md"])


def test_what_is_passed_over_is_named(root: Path, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_FILE_BYTES", 100)
    for name in (".git/a.md", ".ktx/b.md", ".hidden/c.md", "node_modules/d.md", ".e.md"):
        write(root, name)
    write(root, "large.md", "x" * 101)
    write(root, "kept.md", "x" * 100)
    found = fetch()
    assert list(found.files) == ["kept.md"]
    assert [(each.what, each.reason) for each in found.skipped] == [
        (".e.md", "hidden file"),
        (".hidden/", "hidden folder"),
        ("large.md", "larger than 100 bytes"),
        ("node_modules/", "third-party packages"),
    ]
    assert found.complete


def test_what_ktx_writes_is_no_document(root: Path, fetch: Fetch) -> None:
    project = root.parent
    own = (
        "wiki/global/a.md",
        "raw-sources/notes/b.md",
        "semantic-layer/x/c.sql",
        ".ktx/d.md",
        "evals/e.md",
        "prompts/p.md",
    )
    for name in ("ktx.yaml", "docs/wiki/e.md", *own, *(f"inner/{each}" for each in ("ktx.yaml", *own))):
        write(project, name)
    found = fetch(".")
    assert list(found.files) == ["docs/wiki/e.md"]
    ours = {"wiki/", "raw-sources/", "semantic-layer/", "evals/", "prompts/"}
    assert {each.what for each in found.skipped} == ours | {f"inner/{each}" for each in ours}


def test_links_lead_nowhere_outside(root: Path, fetch: Fetch, tmp_path: Path) -> None:
    write(tmp_path, "outside/secret.md")
    write(root, "inside/real.md", "real")
    write(root, ".private/key.md", "key")
    (root / "out.md").symlink_to(tmp_path / "outside/secret.md")
    (root / "outer").symlink_to(tmp_path / "outside")
    (root / "again.md").symlink_to("inside/real.md")
    (root / "loop").symlink_to(root)
    (root / "dead.md").symlink_to("nowhere.md")
    (root / "round.md").symlink_to("round.md")
    (root / "key.md").symlink_to(".private/key.md")
    found = fetch()
    assert list(found.files) == ["again.md", "inside/real.md"]
    reasons = {each.what: each.reason for each in found.skipped}
    assert reasons == {
        ".private/": "hidden folder",
        "dead.md": "broken link",
        "out.md": "link to a target outside the folder",
        "outer": "link to a target outside the folder",
        "round.md": "broken link",
    }


def test_pipes_are_not_waited_for(root: Path, fetch: Fetch) -> None:
    os.mkfifo(root / "pipe.md")
    assert list(fetch().files) == []


def test_what_cannot_be_read_deletes_nothing(root: Path, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: Path) -> bytes | None:
        if place.name == "a.md":
            raise StorageError(f"cannot read {place}: Permission denied")
        return read_bytes(place)

    monkeypatch.setattr(documents, "read_bytes", refuse)
    write(root, "a.md")
    write(root, "b.md")
    found = fetch()
    assert (list(found.files), found.complete, found.skipped[0].retry) == (["b.md"], False, True)


def test_a_file_that_changes_while_it_is_read_is_not_taken_for_the_old_one(root: Path, fetch: Fetch) -> None:
    place = write(root, "a.md", "old")
    raw = fetch().files["a.md"]
    place.write_text("new")
    with pytest.raises(StorageError, match=r"a\.md changed while it was being read"):
        raw.read()
    place.unlink()
    with pytest.raises(StorageError, match=r"a\.md no longer exists"):
        raw.read()


def test_a_folder_that_is_not_there(root: Path, fetch: Fetch) -> None:
    write(root, "a.md")
    with pytest.raises(SourceError, match="does not exist") as error:
        fetch("nowhere")
    assert (error.value.exit_code, error.value.hint) == (4, "ktx config set connections.notes.path PATH")
    with pytest.raises(SourceError, match="is a file, not a folder"):
        fetch("handbook/a.md")


def test_a_run_that_is_asked_to_end_ends(root: Path, fetch: Fetch) -> None:
    write(root, "a.md")
    with pytest.raises(CancelledError):
        fetch(stopped=lambda: True)


def test_a_repository_is_read_too(tmp_path: Path, fetch_context: Callable[..., FetchContext]) -> None:
    repository = tmp_path / "repository"
    write(repository, "docs/a.md", "committed")
    write(repository, "docs/.b.md")
    write(repository, "docs/c.png")
    write(repository, "other.md")
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for command in (["init", "-q", "-b", "trunk"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *command], check=True)
    write(repository, "docs/a.md", "not committed")
    environ = {"TOKEN": "x", "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    found = DocumentsSource().fetch(entry("docs", repo_url=str(repository)), fetch_context(environ=environ))
    assert {path: raw.text() for path, raw in found.files.items()} == {"a.md": "committed"}
    assert found.skipped == (Skipped("1 file (c.png)", "ktx has no reader for .png"),)


def test_units_and_what_is_left(root: Path, fetch: Fetch) -> None:
    for name in ("a.md", "b.md", "sub/c.md"):
        write(root, name)
    found = fetch()
    source = DocumentsSource()
    units = source.units(None, found, Changes(added=tuple(found.files)), Projection())
    assert [unit.files for unit in units] == [("a.md", "b.md"), ("sub/c.md",)]
    projection = source.project(None, found, overlay())
    listed = {"wiki/global/documents-docs.md": ("a.md", "b.md", "sub/c.md")}
    assert {path: [*items] for path, items in projection.owned.items()} == {path: ["page"] for path in listed}
    assert projection == Projection(listed, projection.owned, left=("3 documents could be turned into wiki pages",))
