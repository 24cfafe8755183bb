"""The files of a connection's semantic layer in the working tree: found, read, parsed; a broken one is one problem."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ktx_cli.context.scan.catalog import ParsedCopies, shard_files
from ktx_cli.context.scan.shards import SUFFIXES
from ktx_cli.context.semantic.loading.places import SourceFile
from ktx_cli.context.semantic.model import Place, Problem
from ktx_cli.core import yaml
from ktx_cli.core.errors import KtxError
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import Layout

_NAME_LINE = re.compile(
    rb"^(?:\xef\xbb\xbf)?name[ \t]*:[ \t]*(?:\"([^\"\r\n]*)\"|'([^'\r\n]*)'|([^\r\n#]*))", re.MULTILINE
)


@dataclass(slots=True)
class Files:
    """`shards`: of the manifest. `own`: of people's, whose documents are mappings with a `name`.

    `broken`: path -> the name its text seems to have, for a file of people's that cannot be read.
    """

    shards: list[SourceFile] = field(default_factory=list)
    own: list[SourceFile] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_files(layout: Layout, connection: str) -> Files:
    """Read all files of a connection, sorted by path; unchanged shards from their parsed copies."""
    files = Files()
    copies = ParsedCopies(layout, connection)
    for path in shard_files(layout, connection):
        _read_shard(layout, path, copies, files)
    for path in own_files(layout, connection):
        _read_own(layout, path, files)
    return files


def own_files(layout: Layout, connection: str) -> list[Path]:
    """Return people's files: all below the connection's folder but the manifest."""
    folder, schema = layout.root / Layout.context_paths(connection)[0], layout.schema_dir(connection)
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and schema not in path.parents)


def text_of(content: bytes) -> str:
    """Return a file's text as it stands, without a byte order mark; bytes that are no text as U+FFFD."""
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return content.decode(encoding, "replace")


def _where(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.root).as_posix()


def _read_shard(layout: Layout, path: Path, copies: ParsedCopies, files: Files) -> None:
    where = _where(layout, path)
    try:
        content = read_bytes(path)
        if content is not None:
            files.shards.append(SourceFile(where, content, copies.parse(content, where).document))
    except KtxError as error:
        files.problems.append(_problem("broken_shard", error, where))


def _read_own(layout: Layout, path: Path, files: Files) -> None:
    where = _where(layout, path)
    content: bytes | None = None
    try:
        content = read_bytes(path)
        document = None if content is None else yaml.load(content, where=where)
    except KtxError as error:
        files.broken[where] = _name_in(content or b"") or path.stem
        files.problems.append(_problem("broken_source", error, where, files.broken[where]))
        return
    if content is None:
        return
    name = document.get("name") if isinstance(document, dict) else None
    if isinstance(name, str) and name.strip():
        files.own.append(SourceFile(where, content, document))
        return
    what, hint = ("has no `name`", "add name: the source it is about") if name is None else (
        "has a `name` that is no text", 'write it in quotes: name: "..."'
    )  # fmt: skip
    files.problems.append(Problem("error", "no_name", f"{where} {what}", Place(where), hint))


def _name_in(content: bytes) -> str:
    """Return the name a text that cannot be parsed seems to have."""
    found = _NAME_LINE.search(content)
    return "" if found is None else next(filter(None, found.groups()), b"").decode("utf-8", "replace").strip()


def _problem(code: str, error: KtxError, where: str, source: str | None = None) -> Problem:
    """Return the problem of a file that cannot be read, at the line its error names."""
    found = re.match(rf"{re.escape(where)}:(\d+)(?::\d+)?: ", error.message)
    message = error.message[found.end() :] if found else error.message
    return Problem("error", code, message, Place(where, int(found[1]) if found else 1), error.hint, source)
