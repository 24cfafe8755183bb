"""The part of a semantic layer that is shown: sources, measures and columns by who may use them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.model import Column, Measure, Model, SemanticError, Source, Visibility

if TYPE_CHECKING:
    from ktx_cli.semantic.expressions.names import Names

_NAME: Final = re.compile(r"\w+")
_QUALIFIED: Final = re.compile(r"(\w+)[\"`\]]?\s*\.\s*(?=[\"`\[]?(\w+))")
"""A name and the one in front of it."""


@dataclass(slots=True)
class VisibleModel:
    """What of one model is shown; `internal`: what is internal too.

    A computed column that does not say it is as visible as the columns it reads; expressions are looked into only
    where some column of the model is not public.
    """

    model: Model
    internal: bool = False
    _names: Names | None = field(default=None, init=False)
    _all_public: bool = field(default=False, init=False)
    _hidden_of: dict[str, frozenset[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._all_public = lookup_of(self.model).has_only_public_columns

    @property
    def has_more(self) -> bool:
        """Whether something of the model may be internal."""
        sources = self.model.sources.values()
        measures = (measure.visibility for source in sources for measure in source.measures.values())
        visibilities = {source.visibility for source in sources}
        return not self._all_public or Visibility.INTERNAL in visibilities.union(measures)

    def sources(self) -> list[Source]:
        """Return the sources, by name."""
        return [each for each in self.model.sources.values() if self._may(each.visibility)]

    def has(self, source: Source) -> bool:
        """Whether a source may be shown."""
        return self._may(source.visibility)

    def columns(self, source: Source) -> list[Column]:
        """Return the columns of a source, in its order."""
        return [each for each in source.columns.values() if self._may(self.visibility(source, each))]

    def measures(self, source: Source) -> list[Measure]:
        """Return the measures of a source, in its order."""
        return [each for each in source.measures.values() if self._may(each.visibility)]

    def can_show(self, source: Source, expr: str) -> bool:
        """Whether an expression of a source has no name in it of a column that is not shown.

        A name behind that of another source is one of its columns; behind a name of joins it may be any source's.
        """
        if not self._hidden(source).isdisjoint(_NAME.findall(expr.casefold())):
            return False
        return not any(self._is_hidden_behind(hop, name) for hop, name in _QUALIFIED.findall(expr.casefold()))

    def _is_hidden_behind(self, hop: str, name: str) -> bool:
        sources = self.model.sources.values()
        named = [each for each in sources if each.name.casefold() == hop]
        return not self._all_public and any(name in self._hidden(each) for each in named or sources)

    def _hidden(self, source: Source) -> frozenset[str]:
        """Return the names of the columns of a source that are not shown, folded."""
        if source.name not in self._hidden_of:
            shown = {each.name.casefold() for each in self.columns(source)}
            self._hidden_of[source.name] = frozenset(name.casefold() for name in source.columns) - shown
        return self._hidden_of[source.name]

    def lineage(self, source: Source) -> list[str]:
        """Return what is said of how a source comes to be, without what names a column that is not shown."""
        return [line for line in source.lineage if self.can_show(source, line)]

    def visibility(self, source: Source, column: Column) -> Visibility:
        """Return who may use a column; one whose expression cannot be read is hidden."""
        if column.visibility is not None or column.expr is None or self._all_public:
            return column.visibility or Visibility.PUBLIC
        try:
            return self._lookup().visibility(source, column)
        except SemanticError:  # what it reads is not known, so it may be hidden; `ktx sl validate` says what is wrong
            return Visibility.HIDDEN

    def _may(self, visibility: Visibility) -> bool:
        return visibility is Visibility.PUBLIC or (self.internal and visibility is Visibility.INTERNAL)

    def _lookup(self) -> Names:
        if self._names is None:
            from ktx_cli.semantic.expressions.names import Names
            from ktx_cli.semantic.graph import Graph

            parameters = lookup_of(self.model).parameters
            values = {f"param.{name}": each.default for name, each in parameters.items()}
            self._names = Names(self.model, Graph(self.model), values)
        return self._names


def stands_alone(source: Source) -> bool:
    """Whether what is shown of a source depends on no other one, also where some columns are not public."""
    texts = [*source.lineage, *(each.expr for each in source.measures.values())]
    texts += [each.expr for each in source.segments.values()]
    return not any(_QUALIFIED.search(text) for text in texts) and all(
        each.expr is None or each.visibility is not None for each in source.columns.values()
    )
