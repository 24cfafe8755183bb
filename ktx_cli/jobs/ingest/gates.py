"""What is wrong in a tree that was not wrong before: definitions, tested numbers, references that lead nowhere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from ktx_cli.context.semantic.model import Model, Problem
from ktx_cli.context.tools.models import Layers
from ktx_cli.context.wiki.checking import check_pages
from ktx_cli.context.wiki.model import Finding
from ktx_cli.project.layout import SEMANTIC_NAME
from ktx_cli.project.tree import Tree

Tested = Callable[[Model, Model], list[Finding]]
"""Takes a semantic layer before and after; returns the tests that a change made fail."""


@dataclass(frozen=True)
class Gates:
    """The checks every change passes before it is committed; `base`: what it is compared with.

    `layers`: those of the databases that have a semantic layer. What was wrong in the base already is nobody's fault
    now.
    """

    base: Tree
    layers: Layers
    tested: Tested = lambda before, after: []

    def definitions(self, tree: Tree, touched: Collection[str]) -> list[Finding]:
        """Return the errors of the semantic layer that the touched files of a tree brought, by place."""
        found: list[Finding] = []
        for connection in self._touched(touched):
            known = {_identity(each) for each in _errors(self.layers.problems(self.base, connection))}
            new = _errors(self.layers.problems(tree, connection))
            found += [each for each in new if _identity(each) not in known]
        return sorted(found, key=lambda each: (each.path, each.line, each.code, each.message))

    def everything(self, tree: Tree, touched: Collection[str]) -> list[Finding]:
        """Return the errors of definitions and of references, also in pages that nobody touched, and failing tests.

        Where definitions are wrong no test is run.
        """
        models = {each: self.layers.model(tree, each) for each in self.layers.dialects}
        known = {_identity(each) for each in check_pages(self.base, self._models, touched)}
        pages = check_pages(tree, models, touched, before=self._models)
        wrong = self.definitions(tree, touched)
        if not wrong:
            wrong = [each for name in self._touched(touched) for each in self.tested(self._models[name], models[name])]
        return [*wrong, *(each for each in pages if _identity(each) not in known)]

    @functools.cached_property
    def _models(self) -> Mapping[str, Model]:
        return {each: self.layers.model(self.base, each) for each in self.layers.dialects}

    def _touched(self, paths: Collection[str]) -> list[str]:
        """Return the connections of whose semantic layers one of the files is."""
        return [each for each in self.layers.dialects if any(path.startswith(folder(each)) for path in paths)]


def folder(connection: str) -> str:
    """Return what the paths of a connection's definitions begin with."""
    return f"{SEMANTIC_NAME}/{connection}/"


def _errors(problems: Iterable[Problem]) -> list[Finding]:
    return [
        Finding(each.place.path, each.place.line, each.code, each.message, each.hint)
        for each in problems
        if each.severity == "error"
    ]


def _identity(finding: Finding) -> tuple[str, str, str]:
    """Return what tells a finding from others when lines move."""
    return finding.path, finding.code, finding.message
