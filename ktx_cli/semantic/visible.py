"""The visible part of a semantic layer: its sources, measures and columns, except hidden ones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.masks import masks_of
from ktx_cli.semantic.model import Column, Join, Measure, Model, SemanticError, Source, Visibility

if TYPE_CHECKING:
    from ktx_cli.semantic.expressions.names import Names

NOT_SHOWN: Final = "(not shown)"
"""Replaces a text that refers to hidden definitions."""

_NAME: Final = re.compile(r"\w+")
_QUOTED: Final = re.compile(r'"([^"]+)"|`([^`]+)`|\[([^\]]+)\]')
"""A quoted name, which may contain spaces."""
_QUALIFIED: Final = re.compile(r"(\w+)[\"`\]]?\s*\.\s*(?=[\"`\[]?(\w+))")
"""A name with its qualifier."""
_PATH: Final = re.compile(r"\w+[\"`\]]?(?:\s*\.\s*[\"`\[]?\w+[\"`\]]?)+")
_BARE: Final = re.compile(r"\w+\b(?!\s*['(])")
"""A name that is neither a function nor the type of a literal."""
_KEYWORDS: Final = frozenset(
    {*("and", "as", "between", "case", "distinct", "else", "end", "false", "in", "is", "like", "not", "null", "or")}
    | {"then", "true", "when"}
)
"""Keywords in expressions that are names only if they are quoted."""


@dataclass(slots=True)
class VisibleModel:
    """The visible part of one model, including internal definitions if `internal` is true.

    A computed column without a visibility is as visible as the columns it reads. Expressions are only analyzed if the
    model contains anything that is not public.
    """

    model: Model
    internal: bool = False
    _names: Names | None = field(default=None, init=False)
    _all_public: bool = field(default=False, init=False)
    _has_public_columns: bool | None = field(default=None, init=False)
    _hidden_of: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _uses: dict[str, _Use] = field(default_factory=dict, init=False)
    _behind: dict[str, set[str]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._all_public = lookup_of(self.model).is_all_public

    def sources(self) -> list[Source]:
        """Return the sources, by name."""
        return [each for each in self.model.sources.values() if self._may(each.visibility)]

    def has(self, source: Source) -> bool:
        """Whether a source may be shown."""
        return self._may(source.visibility)

    def columns(self, source: Source) -> list[Column]:
        """Return a source's columns, in the source's order.

        A column that is masked because of another one has no values and no description, which may contain some.
        """
        masks = masks_of(self.model, source)
        columns = (
            replace(each, values=(), description=None) if each.mask is None and each.name.casefold() in masks else each
            for each in source.columns.values()
        )
        return [each for each in columns if self._may(self.visibility(source, each))]

    def measures(self, source: Source) -> list[Measure]:
        """Return a source's measures, in the source's order."""
        return [each for each in source.measures.values() if self._may(each.visibility)]

    def joins(self, source: Source) -> list[Join]:
        """Return a source's joins to visible sources, in the source's order."""
        sources = self.model.sources
        return [each for each in source.joins if each.to not in sources or self.has(sources[each.to])]

    def can_show(self, source: Source, text: str) -> bool:
        """Whether an expression of a source, or a line about the source, refers only to visible definitions.

        A name qualified by a source or join is one of its columns or measures; with any other qualifier it may belong
        to any source. A bare name that the source does not have may belong to a joined source.
        """
        if self._all_public:
            return True
        words = {each.casefold() for each in _words(text)}
        if not words.isdisjoint(self._hidden(source)):
            return False
        if any(self._is_hidden_behind(hop, name) for hop, name in _QUALIFIED.findall(text)):
            return False
        own = _own_names(source)
        return not any(self._use(each).is_hidden for each in _bare_words(text) if each.casefold() not in own)

    def hides(self, text: str) -> bool:
        """Whether a text contains the name of something hidden: a source, its table, a column or a measure.

        A name that something visible has as well reveals nothing if a whole source is hidden.
        """
        return not self._all_public and any(self._use(each).is_hidden for each in set(_words(text)))

    def _is_hidden_behind(self, hop: str, name: str) -> bool:
        targets = self._named(hop)
        if not targets:
            return self._use(name).may_be_hidden
        sources = (self.model.sources[each] for each in targets)
        return any(not self.has(each) or name.casefold() in self._hidden(each) for each in sources)

    def _named(self, hop: str) -> set[str]:
        """Return the sources that a qualifier may refer to, by source name or join alias."""
        if self._behind is None:
            self._behind = defaultdict(set)
            for name in self.model.sources:
                self._behind[name.casefold()].add(name)
            for alias, names in lookup_of(self.model).aliases.items():
                self._behind[alias.casefold()] |= names
        return self._behind.get(hop.casefold(), set())

    def _use(self, name: str) -> _Use:
        """Return whether a name in the model belongs to something hidden."""
        if name not in self._uses:
            self._uses[name] = self._found_use(name)
        return self._uses[name]

    def _found_use(self, name: str) -> _Use:
        lookup, sources = lookup_of(self.model), self.model.sources
        is_hidden = is_in_hidden = is_shown = False
        columns = [(sources[each], sources[each].column(name)) for each in lookup.with_column(name)]
        found = [(each, self.visibility(each, column)) for each, column in columns if column is not None]
        measures = [(each, each.measure(name)) for each in lookup.with_measure(name)]
        found += [(each, measure.visibility) for each, measure in measures if measure is not None]
        for source, visibility in found:
            is_in_hidden |= not self.has(source)
            is_hidden |= self.has(source) and not self._may(visibility)
            is_shown |= self.has(source) and self._may(visibility)
        named = [*(sources[each] for each in self._named(name)), *lookup.of_table(name)]
        is_hidden |= bool(named) and not any(map(self.has, named))
        return _Use(is_hidden or (is_in_hidden and not is_shown), is_hidden or is_in_hidden)

    def _hidden(self, source: Source) -> frozenset[str]:
        """Return the names of a source's hidden columns and measures, in lower case."""
        if source.name not in self._hidden_of:
            shown = {each.name.casefold() for each in self.columns(source)}
            shown |= {each.name.casefold() for each in self.measures(source)}
            self._hidden_of[source.name] = _own_names(source) - shown
        return self._hidden_of[source.name]

    def lineage(self, source: Source) -> list[str]:
        """Return a source's lineage without sentences that refer to hidden definitions."""
        return [line for line in source.lineage if self.can_show(source, line)]

    def visibility(self, source: Source, column: Column) -> Visibility:
        """Return a column's visibility. A column with an invalid expression is hidden."""
        if column.visibility is not None or column.expr is None or self._reads_public_columns():
            return column.visibility or Visibility.PUBLIC
        try:
            return self._lookup().visibility(source, column)
        except SemanticError:  # it may read hidden columns; `ktx sl validate` reports the error
            return Visibility.HIDDEN

    def _reads_public_columns(self) -> bool:
        """Whether computed columns can only read public columns."""
        if self._has_public_columns is None:
            restricted = (self.model.sources[each] for each in lookup_of(self.model).restricted())
            self._has_public_columns = all(each.has_public_columns for each in restricted)
        return self._has_public_columns

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


@dataclass(frozen=True, slots=True)
class _Use:
    """Whether a name belongs to something hidden (`may_be_hidden`), and to nothing visible as well (`is_hidden`)."""

    is_hidden: bool
    may_be_hidden: bool


def _words(text: str) -> Iterator[str]:
    """Yield all words of a text that may be names."""
    yield from _NAME.findall(text)
    yield from _quoted(text)


def _bare_words(text: str) -> Iterator[str]:
    """Yield the unqualified names in an expression."""
    found = _BARE.findall(_PATH.sub(" ", text))
    yield from (each for each in found if each.casefold() not in _KEYWORDS)
    yield from _quoted(text)


def _quoted(text: str) -> Iterator[str]:
    """Yield the quoted names that would not be names without the quotes."""
    for groups in _QUOTED.findall(text):
        yield from (name for name in groups if name and (not _NAME.fullmatch(name) or name.casefold() in _KEYWORDS))


def _own_names(source: Source) -> frozenset[str]:
    """Return the names of a source's columns and measures, in lower case."""
    return frozenset(each.casefold() for part in (source.columns, source.measures) for each in part)


def stands_alone(source: Source) -> bool:
    """Whether the visible part of a source does not depend on other sources."""
    texts = [*source.lineage, *(each.expr for each in source.measures.values())]
    texts += [each.expr for each in source.segments.values()]
    own = _own_names(source)
    return not any(
        _QUALIFIED.search(text) or any(each.casefold() not in own for each in _bare_words(text)) for text in texts
    ) and all(each.expr is None or each.visibility is not None for each in source.columns.values())
