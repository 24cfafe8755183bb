"""The files of a connection's semantic layer in a tree: found, read, parsed; a broken one is one problem."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ktx_cli.context.scan.shards import SUFFIXES, Shard, parse_shard
from ktx_cli.context.semantic.loading.places import SourceFile
from ktx_cli.context.semantic.model import Place, Problem
from ktx_cli.core import yaml
from ktx_cli.core.errors import KtxError
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import Tree

ParseShard = Callable[[bytes, str], Shard]
"""Takes a shard's bytes and path; raises `ConfigError`."""

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


def read_files(tree: Tree, connection: str, parse: ParseShard = parse_shard) -> Files:
    """Read all files of a connection, folder by folder; `parse` reads a shard."""
    files = Files()
    schema = f"{Layout.schema_path(connection)}/"
    for path in tree.paths(schema):
        if path.endswith(SUFFIXES) and "/" not in path.removeprefix(schema):
            _read_shard(tree, path, parse, files)
    for path in own_files(tree, connection):
        _read_own(tree, path, files)
    return files


def own_files(tree: Tree, connection: str) -> list[str]:
    """Return people's files: all below the connection's folder but the manifest."""
    folder, schema = f"{Layout.context_paths(connection)[0]}/", f"{Layout.schema_path(connection)}/"
    return [path for path in tree.paths(folder) if path.endswith(SUFFIXES) and not path.startswith(schema)]


def text_of(content: bytes) -> str:
    """Return a file's text as it stands, without a byte order mark; bytes that are no text as U+FFFD."""
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return content.decode(encoding, "replace")


def _read_shard(tree: Tree, where: str, parse: ParseShard, files: Files) -> None:
    try:
        content = tree.read(where)
        if content is not None:
            files.shards.append(SourceFile(where, content, parse(content, where).document))
    except KtxError as error:
        files.problems.append(_problem("broken_shard", error, where))


def _read_own(tree: Tree, where: str, files: Files) -> None:
    content: bytes | None = None
    try:
        content = tree.read(where)
        document = None if content is None else yaml.load(content, where=where)
    except KtxError as error:
        files.broken[where] = _name_in(content or b"") or PurePosixPath(where).stem
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
