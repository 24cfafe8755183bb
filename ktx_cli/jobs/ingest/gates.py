"""What is wrong in a tree that was not wrong before: definitions that fail, references that lead nowhere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from ktx_cli.context.semantic.checking import check_model
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.wiki.checking import check_pages
from ktx_cli.context.wiki.model import Finding
from ktx_cli.project.layout import SEMANTIC_NAME
from ktx_cli.project.tree import Tree

LoadModel = Callable[[Tree, str], Model]
"""Takes a tree and the id of a connection."""


@dataclass(frozen=True)
class Gates:
    """The checks every change passes before it is committed; `base`: what it is compared with.

    `connections`: the databases that have a semantic layer. What was wrong in the base already is nobody's fault now.
    """

    base: Tree
    connections: tuple[str, ...]
    load: LoadModel

    def definitions(self, tree: Tree, touched: Collection[str]) -> list[Finding]:
        """Return the errors of the semantic layer that the touched files of a tree brought, by place."""
        found: list[Finding] = []
        for connection in self.connections:
            if any(path.startswith(f"{SEMANTIC_NAME}/{connection}/") for path in touched):
                known = {_identity(each) for each in self._before[connection]}
                found += [each for each in _errors(self.load(tree, connection)) if _identity(each) not in known]
        return sorted(found, key=lambda each: (each.path, each.line, each.code, each.message))

    def everything(self, tree: Tree, touched: Collection[str]) -> list[Finding]:
        """Return the errors of definitions and of references, also in pages that nobody touched."""
        models = {each: self.load(tree, each) for each in self.connections}
        known = {_identity(each) for each in check_pages(self.base, self._models, touched)}
        pages = check_pages(tree, models, touched, before=self._models)
        return [*self.definitions(tree, touched), *(each for each in pages if _identity(each) not in known)]

    @functools.cached_property
    def _models(self) -> Mapping[str, Model]:
        return {each: self.load(self.base, each) for each in self.connections}

    @functools.cached_property
    def _before(self) -> Mapping[str, list[Finding]]:
        return {each: list(_errors(model)) for each, model in self._models.items()}


def _errors(model: Model) -> Iterable[Finding]:
    for problem in (*model.problems, *check_model(model)):
        if problem.severity == "error":
            yield Finding(problem.place.path, problem.place.line, problem.code, problem.message, problem.hint)


def _identity(finding: Finding) -> tuple[str, str, str]:
    """Return what tells a finding from others when lines move."""
    return finding.path, finding.code, finding.message
