"""The semantic layer of each connection as an overlay has it now, read again only where a file of it changed."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import TypeVar

from ktx_cli.context.scan.shards import Shard, parse_shard
from ktx_cli.context.semantic.checking import check_model
from ktx_cli.context.semantic.loading import load_tree
from ktx_cli.context.semantic.model import CalendarSettings, Model, Problem
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import Tree

_Kept = TypeVar("_Kept")


@functools.lru_cache(maxsize=64)
def parse_once(content: bytes, where: str) -> Shard:
    """Parse a shard once for all sessions of a run; nobody changes the document."""
    return parse_shard(content, where)


class Layers:
    """Models and their problems by connection and content: what was read of the same files is not read again."""

    def __init__(self, dialects: Mapping[str, str], calendar: CalendarSettings) -> None:
        self.dialects = dialects
        self._calendar = calendar
        self._models: dict[tuple[str, str], Model] = {}
        self._problems: dict[tuple[str, str], tuple[Problem, ...]] = {}

    def model(self, tree: Tree, connection: str) -> Model:
        """Return the semantic layer of a connection as the tree has it."""
        return self._model(tree, (connection, digest(tree, connection)))

    def problems(self, tree: Tree, connection: str) -> tuple[Problem, ...]:
        """Return everything that is wrong in a connection's files: as they were read, then as they were checked."""
        key = (connection, digest(tree, connection))
        if key not in self._problems:
            model = self._model(tree, key)
            self._problems = _newest(self._problems, connection)
            self._problems[key] = (*model.problems, *check_model(model))
        return self._problems[key]

    def _model(self, tree: Tree, key: tuple[str, str]) -> Model:
        connection, _ = key
        if key not in self._models:
            model = load_tree(tree, connection, self.dialects[connection], self._calendar, parse=parse_once)
            self._models = _newest(self._models, connection)
            self._models[key] = model
        return self._models[key]


def digest(tree: Tree, connection: str) -> str:
    """Return what tells the files of a connection's semantic layer from any others."""
    found = hashlib.sha256()
    for path in tree.paths(f"{Layout.context_paths(connection)[0]}/"):
        content = tree.read(path) or b""
        found.update(f"{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def new_problems(before: tuple[Problem, ...], after: tuple[Problem, ...]) -> list[Problem]:
    """Return the problems that were not there before, wherever their lines have moved to."""
    known = {_same(each) for each in before}
    return [each for each in after if _same(each) not in known]


def _same(problem: Problem) -> tuple[str | None, ...]:
    return problem.severity, problem.code, problem.message, problem.place.path, problem.source


def _newest(kept: dict[tuple[str, str], _Kept], connection: str) -> dict[tuple[str, str], _Kept]:
    """Return what is kept without the older entries of a connection: one before and one after a write are enough."""
    own = [key for key in kept if key[0] == connection]
    return {key: value for key, value in kept.items() if key not in own[:-3]}
