"""The names that a loop looked up, and those that a definition needs: sources, their members, and tables without a
source.

The tools keep this record, not the model. A writer refuses a name that was not looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ktx_cli.core import ConfigError, one_line, yaml
from ktx_cli.protection import Need, _table_entries, column_need, names_in, needs_of, source_id, sources_of, table_need
from ktx_cli.search import Hit
from ktx_cli.semantic import Measure, Model, SemanticError, Source, VisibleModel, table_parts


class Ledger:
    """Names that were looked up, as `warehouse/orders`, `warehouse/orders.amount`, `warehouse/table:raw.orders`."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = set(entries)

    def add(self, *ids: str) -> None:
        """Record names that were resolved."""
        self._entries.update(ids)

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def missing(self, needs: Iterable[Need]) -> list[Need]:
        """Return the needed names without any recorded entry, each once."""
        found = {need.shown: need for need in needs if self._entries.isdisjoint(need.ids)}
        return [found[shown] for shown in sorted(found)]

    def to_json(self) -> list[str]:
        """Return the entries, sorted."""
        return sorted(self._entries)


def member_id(connection: str, source: str, member: str) -> str:
    """Return the entry for a column, measure or segment."""
    return f"{source_id(connection, source)}.{member.casefold()}"


def noted_ids(model: Model, parts: tuple[str, ...], member: str | None = None) -> frozenset[str]:
    """Return the entries to record for a table that was found in the database, or for one of its columns."""
    names = {".".join(parts)} | ({f"*.{parts[-1]}"} if len(parts) > 1 else set())
    return _table_entries(model, parts, names, member)


def refusal_of(missing: Iterable[Need]) -> str:
    """Return the text for the model about names that were never looked up, with the calls that look them up."""
    needs = list(missing)
    if not needs:
        return ""
    by_tool: dict[str, list[str]] = {}
    for need in needs:
        by_tool.setdefault(need.tool, []).append(f"`{one_line(need.shown, 200)}`")
    lines = [f"- {', '.join(names)}: call {tool}" for tool, names in by_tool.items()]
    return "Nothing was saved, because these names were not looked up in this session:\n" + "\n".join(lines)


def note_hits(ledger: Ledger, hits: Iterable[Hit]) -> None:
    """Record the semantic layer names that a search showed."""
    for each in hits:
        if each.kind == "source":
            ledger.add(source_id(each.connection, each.id))
        elif each.kind in ("measure", "segment", "column"):
            source, _, member = each.id.rpartition(".")
            ledger.add(source_id(each.connection, source), member_id(each.connection, source, member))


def hit_line(hit: Hit) -> str:
    """Return one line about a hit."""
    place = f" of {hit.connection}" if hit.connection else ""
    snippet = f" [{one_line(hit.snippet, 200)}]" if hit.snippet and hit.snippet not in hit.summary else ""
    pages = f" (explained by {', '.join(hit.pages)})" if hit.pages else ""
    return f"- {hit.kind} {hit.id}{place}: {one_line(hit.summary, 200)}{snippet}{pages}"


def named(shown: VisibleModel, name: str) -> list[Source]:
    """Return the source with a name, or else the sources that read the table with that name."""
    exact = shown.model.sources.get(name)
    alike = [each for each in shown.sources() if each.name.casefold() == name.casefold()]
    if exact is not None and shown.has(exact):
        return [exact]
    if alike:
        return alike
    try:
        parts = table_parts(name)
    except ConfigError:
        return []
    return [each for each in sources_of(shown.model, parts) if shown.has(each)]


_DETAILS: Final = "entity_details"


def source_needs(model: Model, name: str, document: Mapping[str, Any] | None) -> dict[str, Need]:
    """Return the names that a source uses, by their form in messages. `document`: its own file, or None if there is
    none.
    """
    source = model.sources.get(name)
    if source is None:
        return {}
    named = Needs(model, source)
    needs = [*named.of_rows(), *named.of_parts(), *named.of_joins(), *named.of_expressions()]
    if document is not None:
        needs += named.of_document(document)
    return {need.shown: need for need in needs}


class Needs:
    """Collects the names that one source of a model uses."""

    def __init__(self, model: Model, source: Source) -> None:
        from ktx_cli.semantic import Resolver

        self.model, self.source = model, source
        self.resolver = Resolver(model)
        self.parameters = {name for each in model.sources.values() for name in each.parameters}

    def of_rows(self) -> Iterator[Need]:
        """Yield the tables that a hand-written source reads, with its columns."""
        source = self.source
        if source.generated:
            return
        if source.table is not None:
            yield table_need(self.model, source.table)
            for column in source.columns.values():
                if column.expr is None:
                    yield column_need(self.model, source.table, column.name)
        elif source.sql is not None:
            named = names_in(source.sql, self.model.dialect)
            yield from () if named is None else needs_of(named, self.model)

    def of_document(self, document: Mapping[str, Any]) -> Iterator[Need]:
        """Yield the columns that an overlay describes, and the source it changes."""
        if not self.source.generated:
            return
        yield source_need(self.model, self.source)
        overridden = document.get("column_overrides")
        names = [each.get("name") for each in _mappings(overridden)]
        excluded = document.get("exclude_columns")
        for name in [*names, *(excluded if isinstance(excluded, list) else [])]:
            if isinstance(name, str):
                yield self._own(name)

    def of_parts(self) -> Iterator[Need]:
        """Yield the columns that grain, time and measures name without a source."""
        source = self.source
        names = [*(source.grain if source.keyed else ()), *filter(None, [source.time_column])]
        for measure in source.measures.values():
            names += _bare(measure)
        for name in names:
            if self._is_physical(name):
                yield self._own(name)

    def of_joins(self) -> Iterator[Need]:
        """Yield the sources and columns of joins."""
        for join in self.source.joins:
            other = self.model.sources.get(join.to)
            if other is None:
                continue
            yield source_need(self.model, other)
            for own, theirs in join.pairs:
                if self._is_physical(own):
                    yield self._own(own)
                yield member_need(self.model, other, theirs)

    def of_expressions(self) -> Iterator[Need]:
        """Yield the names used in measures, segments, policies and computed columns."""
        source = self.source
        for column in source.columns.values():
            if column.expr is not None:
                yield from self._rows(column.expr)
        for segment in source.segments.values():
            yield from self._rows(segment.expr)
        for policy in source.policies:
            yield from self._rows(policy.filter, policy=True)
        for measure in source.measures.values():
            yield from self._rows(measure.filter) if measure.filter else ()
            yield from self._rows(measure.expr)

    def _rows(self, text: str, *, policy: bool = False) -> Iterator[Need]:
        from ktx_cli.semantic import read_fragment

        try:
            fragment = read_fragment(text, self.model.dialect, "it", self.parameters, policy=policy)
        except SemanticError:  # the check of the connection reports it
            return
        for reference in fragment.references:
            found = self._found(reference.parts)
            if found is not None and not (found[0] is self.source and not self._is_physical(found[1])):
                yield member_need(self.model, *found)

    def _found(self, parts: tuple[str, ...]) -> tuple[Source, str] | None:
        measure = self.resolver.measure(self.source, parts)
        if measure is not None:
            return measure[0], measure[1].name
        try:
            source, column = self.resolver.column(self.source, parts)
        except SemanticError:  # the check of the connection reports it
            return None
        return source, column.name

    def _is_physical(self, name: str) -> bool:
        """Whether a name belongs to a column of the table itself; the file defines all others."""
        column = self.source.column(name)
        return self.source.generated and column is not None and column.expr is None

    def _own(self, name: str) -> Need:
        column = self.source.column(name)
        return member_need(self.model, self.source, name if column is None else column.name)


def source_need(model: Model, source: Source) -> Need:
    """Return the need for a source."""
    return Need(source.name, frozenset([source_id(model.connection, source.name)]), _DETAILS)


def member_need(model: Model, source: Source, member: str) -> Need:
    """Return the need for a column, measure or segment."""
    return Need(f"{source.name}.{member}", frozenset([member_id(model.connection, source.name, member)]), _DETAILS)


def ids_of(model: Model, source: Source) -> list[str]:
    """Return the entries for a source and all its members, which its writer knows."""
    members = (*source.columns, *source.measures, *source.segments)
    connection = model.connection
    return [source_id(connection, source.name), *(member_id(connection, source.name, each) for each in members)]


def _bare(measure: Measure) -> list[str]:
    names = [measure.time, measure.cumulative.over if measure.cumulative else None]
    if measure.semi_additive is not None:
        names += [measure.semi_additive.over, *measure.semi_additive.per]
    return [name for name in (*names, *measure.per, *(measure.percent_of or ())) if name]


def _mappings(listed: Any) -> list[Mapping[str, Any]]:
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


_LISTS: Final = frozenset({"columns", "column_overrides", "measures", "segments"})


def defined_names(text: str, lines: range) -> frozenset[str]:
    """Return the lowercase names of the entries that a definition has on these lines (counted from 0).

    Only an entry's own `name` counts. Text in a description, a value or an expression does not define anything, and
    neither does text that cannot be parsed.
    """
    try:
        root = yaml.compose(text, where="")
    except ConfigError:
        return frozenset()
    return frozenset(name.value.casefold() for name in _names(root) if name.line in lines)


def _names(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield the names of the entries of a file of one source, or of a source's part of a manifest."""
    sources = [] if root is None else [root, *(value for _, value in root.pairs)]
    for source in sources:
        for key, listed in source.pairs:
            if key.value in _LISTS:
                yield from (name for entry in listed.items if (name := _name(entry)) is not None)


def _name(entry: yaml.Node) -> yaml.Node | None:
    return next((value for key, value in entry.pairs if key.value == "name" and isinstance(value.value, str)), None)
