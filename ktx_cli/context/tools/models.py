"""The semantic layer of each connection as an overlay has it now, read again only where a file of it changed.

What was read is remembered for the whole process: the loops of a run begin with the same files.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Mapping
from typing import Final

from ktx_cli.context.scan.shards import Shard, parse_shard
from ktx_cli.context.semantic.checking import check_model
from ktx_cli.context.semantic.loading import load_tree
from ktx_cli.context.semantic.loading.strays import stray_paths
from ktx_cli.context.semantic.model import CalendarSettings, Model, Problem
from ktx_cli.core.errors import KtxError
from ktx_cli.core.recent import Recent
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import Tree

MOST_KEPT: Final = 24
"""How many models are remembered: those of a few loops side by side, before and after a write each."""

_Key = tuple[str, str, CalendarSettings, str]

_MODELS: Final[Recent[Model]] = Recent(MOST_KEPT)
_PROBLEMS: Final[Recent[tuple[Problem, ...]]] = Recent(MOST_KEPT)


class Layers:
    """Models and their problems: of the same files, dialect and calendar the same ones. Nobody changes a model.

    `configured`: the ids of all connections in `ktx.yaml`, None where they are those of `dialects`.
    """

    def __init__(
        self, dialects: Mapping[str, str], calendar: CalendarSettings, configured: Collection[str] | None = None
    ) -> None:
        self.dialects = dialects
        self.configured = frozenset(dialects if configured is None else configured)
        self._calendar = calendar

    def model(self, tree: Tree, connection: str) -> Model:
        """Return the semantic layer of a connection as the tree has it."""
        return self._model(tree, self._key(tree, connection))

    def problems(self, tree: Tree, connection: str) -> tuple[Problem, ...]:
        """Return everything that is wrong in a connection's files: as they were read, then as they were checked."""
        key = self._key(tree, connection)

        def check() -> tuple[Problem, ...]:
            model = self._model(tree, key)
            return (*model.problems, *check_model(model))

        return _PROBLEMS.get(key, check)

    def _key(self, tree: Tree, connection: str) -> _Key:
        return connection, self.dialects[connection], self._calendar, digest(tree, connection, self.configured)

    def _model(self, tree: Tree, key: _Key) -> Model:
        connection, dialect, calendar, _ = key
        return _MODELS.get(
            key,
            lambda: load_tree(tree, connection, dialect, calendar, parse=parse_once, configured=self.configured),
        )


@functools.lru_cache(maxsize=1_024)
def parse_once(content: bytes, where: str) -> Shard:
    """Return a shard, parsed once for all loops of a run; nobody changes the document. Raises as `parse_shard`."""
    return parse_shard(content, where)


def digest(tree: Tree, connection: str, configured: Collection[str]) -> str:
    """Return what tells the files of a connection's semantic layer, and those of no connection, from any others."""
    found = hashlib.sha256()
    try:
        strays = stray_paths(tree, configured)
    except KtxError as error:
        strays = []
        found.update(f"{error.message}\0".encode("utf-8", "surrogateescape"))
    for path in (*sorted(tree.paths(f"{Layout.context_paths(connection)[0]}/")), *strays):
        try:
            content = tree.read(path) or b""
        except KtxError as error:  # a problem of the model, which names the file
            content = f"\0{error.code}".encode()
        found.update(f"{path}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        found.update(content)
    return found.hexdigest()


def new_problems(before: tuple[Problem, ...], after: tuple[Problem, ...]) -> list[Problem]:
    """Return the problems that were not there before, wherever their lines have moved to."""
    known = {_same(each) for each in before}
    return [each for each in after if _same(each) not in known]


def _same(problem: Problem) -> tuple[str | None, ...]:
    return problem.severity, problem.code, problem.message, problem.place.path, problem.source
