"""The files of a connection's semantic layer in a tree: found, read, parsed; a broken one is one problem."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from ktx_cli.core import Diagnostic, KtxError, Severity, StorageError, yaml
from ktx_cli.project import SEMANTIC_NAME, Layout, Tree, names_in
from ktx_cli.semantic.load.entries import SourceFile, may_protect, text_may_protect
from ktx_cli.semantic.manifest import SUFFIXES, Shard, parse_shard
from ktx_cli.semantic.model import Place, layer_diagnostic

ParseShard = Callable[[bytes, str], Shard]
"""Takes a shard's bytes and path; raises `ConfigError`."""

_KEY_LINE = re.compile(
    r"^(?P<mark>[\"']?)(?P<key>name|table|sql)(?P=mark)[ \t]*:"
    r"(?:[ \t]+|[ \t]*$)(?:\"([^\"\r\n]*)\"|'([^'\r\n]*)'|([^\r\n#]*))",
    re.MULTILINE,
)
"""A line of a text that cannot be parsed which says what the file is about."""


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file of people's that cannot be read or parsed: what the lines of its text that begin with a key seem to say.

    `names`: none where there is no such line; of a text with merge markers there may be several. `tables`: what stands
    behind `table`. `own`: whether a line says that it is a source of its own. `protects`: whether something in it looks
    as if it said who sees what.
    """

    problem: Diagnostic
    names: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    own: bool = False
    protects: bool = True


@dataclass(slots=True)
class Files:
    """`shards`: of the manifest. `own`: of people's, whose documents are mappings with a `name`.

    `broken`: by path, files of people's that cannot be read. `nameless`: documents that do not say what they are about,
    with the problem. `unlisted`: why some files were not found at all.
    """

    shards: list[SourceFile] = field(default_factory=list)
    own: list[SourceFile] = field(default_factory=list)
    broken: dict[str, BrokenFile] = field(default_factory=dict)
    nameless: list[tuple[Any, Diagnostic]] = field(default_factory=list)
    unlisted: Diagnostic | None = None
    problems: list[Diagnostic] = field(default_factory=list)


def read_files(tree: Tree, connection: str, parse: ParseShard = parse_shard) -> Files:
    """Read all files of a connection, folder by folder; `parse` reads a shard."""
    files = Files()
    schema = f"{Layout.schema_path(connection)}/"
    try:
        shards, own = [*tree.paths(schema)], own_files(tree, connection)
    except KtxError as error:
        files.unlisted = _problem("broken_source", error, Layout.context_paths(connection)[0])
        files.problems.append(files.unlisted)
        return files
    folder = Layout.context_paths(connection)[0]
    if not shards and not own and folder in tree.paths(folder):
        what = f"{folder} is a file, or a link that leads nowhere, in the place of a folder"
        files.unlisted = layer_diagnostic(
            Severity.ERROR, "broken_source", what, Place(folder), f"correct or remove {folder}"
        )
        files.problems.append(files.unlisted)
    for path in shards:
        if is_yaml(path) and "/" not in path.removeprefix(schema):
            _read_shard(tree, path, parse, files)
    for path in own:
        _read_own(tree, path, files)
    return files


def own_files(tree: Tree, connection: str) -> list[str]:
    """Return people's files: all below the connection's folder but the manifest."""
    folder, schema = f"{Layout.context_paths(connection)[0]}/", f"{Layout.schema_path(connection)}/"
    return [path for path in tree.paths(folder) if is_yaml(path) and not path.startswith(schema)]


def is_yaml(path: str) -> bool:
    """Whether a file is read, by its name; on some systems `rules.YAML` and `rules.yaml` are one file."""
    return path.lower().endswith(SUFFIXES)


def text_of(content: bytes) -> str:
    """Return a file's text as it stands, without a byte order mark; bytes that are no text as U+FFFD."""
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return content.decode(encoding, "replace")


def _read_shard(tree: Tree, where: str, parse: ParseShard, files: Files) -> None:
    try:
        content = _content(tree, where)
        files.shards.append(SourceFile(where, content, parse(content, where).document))
    except KtxError as error:
        files.problems.append(_problem("broken_shard", error, where))


def _read_own(tree: Tree, where: str, files: Files) -> None:
    content = b""
    try:
        content = _content(tree, where)
        document = yaml.load(content, where=where)
    except KtxError as error:
        text = text_of(content)
        lines_by_key, (names, own) = _lines(text), subject_of_text(text)
        shown = lines_by_key["name"][0] if lines_by_key["name"] else PurePosixPath(where).stem
        problem = _problem("broken_source", error, where, shown)
        files.broken[where] = BrokenFile(problem, names, tuple(lines_by_key["table"]), own, text_may_protect(text))
        files.problems.append(problem)
        return
    name = document.get("name") if isinstance(document, dict) else None
    if isinstance(name, str) and name.strip():
        files.own.append(SourceFile(where, content, document))
        return
    what, hint = ("has no `name`", "add name: the source it is about") if name is None else (
        "has a `name` that is no text", 'write it in quotes: name: "..."'
    )  # fmt: skip
    problem = layer_diagnostic(Severity.ERROR, "no_name", f"{where} {what}", Place(where), hint)
    files.nameless.append((document, problem))
    files.problems.append(problem)


def _content(tree: Tree, where: str) -> bytes:
    """Return the content of a file that is listed; `StorageError` for a link that leads to no file."""
    content = tree.read(where)
    if content is None:
        raise StorageError(f"{where} is a link to a file that is not there", hint=f"correct or remove {where}")
    return content


def subject_of_text(text: str) -> tuple[tuple[str, ...], bool]:
    """Return what a text that cannot be parsed seems to be about: names, and whether it is a source of its own."""
    lines_by_key = _lines(text)
    return tuple(filter(None, lines_by_key["name"])), bool(lines_by_key["table"] or lines_by_key["sql"])


def _lines(text: str) -> dict[str, list[str]]:
    """Return what a text that cannot be parsed seems to say of its name, its table and its SQL."""
    lines_by_key: dict[str, list[str]] = {"name": [], "table": [], "sql": []}
    for found in _KEY_LINE.finditer(text):
        lines_by_key[found["key"]].append(next(filter(None, found.groups()[2:]), "").strip())
    return lines_by_key


def _problem(code: str, error: KtxError, where: str, source: str | None = None) -> Diagnostic:
    """Return the problem of a file that cannot be read, at the line its error names."""
    place = Place(where, error.details.get("line", 1))
    return layer_diagnostic(Severity.ERROR, code, error.problem, place, error.hint, source)


NO_CONNECTION = "no_connection"
"""The code of their problems."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A file that belongs to no connection and may protect something.

    `names`: the sources it is about; none where nobody can tell. `own`: it defines them, and changes no others.
    """

    problem: Diagnostic
    names: tuple[str, ...] = ()
    own: bool = False


def read_strays(tree: Tree, connections: Collection[str]) -> list[Stray]:
    """Return the files of a tree outside the folders of `connections` that may protect something, sorted by path.

    `connections`: the ids of all in `ktx.yaml`, disabled ones too. A file or folder that cannot be read may protect
    anything.
    """
    try:
        paths = stray_paths(tree, connections)
    except KtxError as error:
        place = Place(SEMANTIC_NAME)
        return [Stray(layer_diagnostic(Severity.ERROR, "broken_source", error.message, place, error.hint))]
    return [stray for path in paths if (stray := _read_stray(tree, path, connections)) is not None]


def stray_paths(tree: Tree, connections: Collection[str]) -> list[str]:
    """Return the YAML files of a tree in `semantic-layer/`, outside the folders of `connections`.

    Raises `StorageError` for a folder that cannot be listed.
    """
    return sorted(path for name in stray_names(tree, connections) for path in _files_in(tree, name))


def stray_names(tree: Tree, connections: Collection[str]) -> list[str]:
    """Return the names of everything directly in `semantic-layer/` that is not the folder of a connection."""
    return [name for name in names_in(tree, SEMANTIC_NAME) if name not in connections]


def is_stray(path: str, connections: Collection[str]) -> bool:
    """Whether a path is that of a YAML file in `semantic-layer/`, outside the folders of `connections`."""
    top, _, below = path.partition("/")
    return top == SEMANTIC_NAME and is_yaml(path) and ("/" not in below or below.split("/", 1)[0] not in connections)


def _files_in(tree: Tree, name: str) -> Iterator[str]:
    path = f"{SEMANTIC_NAME}/{name}"
    if is_yaml(path):
        yield path  # a folder of such a name cannot be read as a file, which closes what it holds too
    else:
        yield from filter(is_yaml, tree.paths(f"{path}/"))


def _read_stray(tree: Tree, path: str, connections: Collection[str]) -> Stray | None:
    try:
        content = tree.read(path)
        if content is None:
            raise StorageError(f"{path} is a link to a file that is not there")
        subject = _protected(content)
    except KtxError:
        subject = (), False
    if subject is None:
        return None
    folder = path.split("/")[1] if path.count("/") > 1 else None
    where = "is not in the folder of a connection" if folder is None else f"is in the folder of `{folder}`"
    what = f"this file may hide columns or rows, but {where}"
    what = what if folder is None else f"{what}, which is not a connection in ktx.yaml"
    return Stray(
        layer_diagnostic(Severity.ERROR, NO_CONNECTION, what, Place(path), _way_out(folder, connections)), *subject
    )


def _way_out(folder: str | None, connections: Collection[str]) -> str:
    alike = sorted(
        connection for connection in connections if folder is not None and connection.casefold() == folder.casefold()
    )
    if alike or len(connections) == 1:
        target = Layout.context_paths((alike or list(connections))[0])[0]
        return f"move it to {target}/, or remove it"
    return f"move it to the folder of its connection in {SEMANTIC_NAME}/, or remove it"


@functools.lru_cache(maxsize=256)
def _protected(content: bytes) -> tuple[tuple[str, ...], bool] | None:
    """Return the `names` and `own` of a file that may protect something, None for one that does not."""
    try:
        document = yaml.load(content, where="")
    except KtxError:
        text = text_of(content)
        return subject_of_text(text) if text_may_protect(text) else None
    if not may_protect(document):
        return None
    tables: Any = document.get("tables") if isinstance(document, dict) else None
    if isinstance(tables, dict):
        rest = {key: value for key, value in document.items() if key != "tables"}
        names = () if may_protect(rest) else tuple(str(name) for name, table in tables.items() if may_protect(table))
        return names, False
    if not isinstance(document, dict):
        return (), False
    name = document.get("name")
    names = (name,) if isinstance(name, str) and name.strip() else ()
    return names, "table" in document or "sql" in document
