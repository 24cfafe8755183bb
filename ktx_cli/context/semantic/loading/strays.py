"""Files in `semantic-layer/` outside the folder of a connection: nobody can tell which tables they protect."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ktx_cli.context.semantic.loading.files import is_yaml, subject_of_text, text_of
from ktx_cli.context.semantic.loading.protection import may_protect, text_may_protect
from ktx_cli.context.semantic.model import Place, Problem
from ktx_cli.core import yaml
from ktx_cli.core.errors import KtxError, StorageError
from ktx_cli.project.layout import SEMANTIC_NAME, Layout
from ktx_cli.project.tree import Tree, names_in

NO_CONNECTION = "no_connection"
"""The code of their problems."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A file that belongs to no connection and may protect something.

    `names`: the sources it is about; none where nobody can tell. `own`: it defines them, and changes no others.
    """

    problem: Problem
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
        return [Stray(Problem("error", "broken_source", error.message, place, error.hint))]
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
    return Stray(Problem("error", NO_CONNECTION, what, Place(path), _way_out(folder, connections)), *subject)


def _way_out(folder: str | None, connections: Collection[str]) -> str:
    alike = sorted(each for each in connections if folder is not None and each.casefold() == folder.casefold())
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
        names = () if may_protect(rest) else tuple(str(name) for name, each in tables.items() if may_protect(each))
        return names, False
    if not isinstance(document, dict):
        return (), False
    name = document.get("name")
    names = (name,) if isinstance(name, str) and name.strip() else ()
    return names, "table" in document or "sql" in document
