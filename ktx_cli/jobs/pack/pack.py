"""Builds the context pack for a question: a draft query, tables, joins, measures, rules, values and open decisions.

A pack comes from files only, without a model or a database, so the same files give the same pack.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, ResultWarning, UsageError, one_line, plural
from ktx_cli.jobs.decide.points import load_decisions
from ktx_cli.jobs.pack.draft import Draft, Drafter
from ktx_cli.jobs.pack.question import measured_part
from ktx_cli.project import DATABASE_SOURCE, KtxConfig, Layout, WorkingTree, connection_of
from ktx_cli.semantic import NOBODY, NOT_SHOWN, Caller, DecisionKind, Decisions, DecisionState, Graph, VisibleModel

if TYPE_CHECKING:
    from ktx_cli.project import Mount
    from ktx_cli.search import FoundTable, Searcher
    from ktx_cli.semantic import Column, DecisionPoint, Edge, LoadLayer, Measure, Source

BUDGET: Final = 2_400
"""The default size of a pack in tokens."""
_NOTHING: Final = (
    "Nothing in this project matches the question. Rephrase it, or list connections, sources and pages; the data may"
    " still exist.\n"
)
LEAST_BUDGET, MOST_BUDGET = 500, 32_000
LONGEST_QUESTION: Final = 1_000

_IN_FULL: Final = 9
"""Number of sources shown with all their columns."""
_IN_SHORT: Final = 14
"""Number of sources shown with their relevant columns."""
_LISTED: Final = 120
"""Number of listed sources."""
_MOST_COLUMNS: Final = 40
"""Maximum number of columns per source, most relevant first."""
_MOST_MEASURES: Final = 8
_MOST_PASSAGES: Final = 11
_ABOUT: Final = 6
"""Number of sources to search passages for."""
_LONGEST_PASSAGE: Final = 700
_LONGEST_RULE: Final = 300
_MOST_RULES: Final = 6
"""Maximum number of rules from the SQL of one source."""
_MOST_VARIANTS: Final = 20
_MOST_MOVING: Final = 5
_NAME: Final = re.compile(r"\w+")
_LITERAL: Final = re.compile(r"'(?:[^']|'')*'")
_MOST_POINTS: Final = 14
_MOST_VALUES: Final = 6
_MOST_QUESTIONS: Final = 3
_MOST_SYNONYMS: Final = 2
_LONGEST_NAMES: Final = 80
"""Maximum number of synonyms for a definition, and of characters in its label and synonyms."""


CHARACTERS: Final = 3.6
"""Characters per token in names and SQL, estimated low so that a pack never exceeds its budget."""

DRAFT, SOURCES, TRAPS, DECISIONS, RULES, VALUES, QUESTIONS, MORE = (
    "Draft", "Sources", "Traps", "Open decisions", "Rules", "Values", "Verified questions", "More sources",
)  # fmt: skip
SECTIONS: Final = (DRAFT, SOURCES, TRAPS, DECISIONS, RULES, VALUES, QUESTIONS, MORE)
"""The sections in order."""

_FILES: Final = "Files"


def tokens_of(text: str) -> int:
    """Estimate the tokens in a text, slightly above the count of the models' tokenizers."""
    return math.ceil(len(text) / CHARACTERS)


@dataclass(frozen=True, slots=True)
class PackLine:
    """One line of a pack. Lines with a lower `rank` are included first in a small pack.

    `path` is the file that the line comes from, or empty if it comes from the question. Lines of the same `group` stay
    together in their order.
    """

    section: str
    text: str
    path: str
    rank: int
    group: str = ""


@dataclass(slots=True)
class PackText:
    """The lines within a budget, and the number of omitted lines."""

    budget: int
    kept: list[PackLine] = field(default_factory=list)
    left_out: int = 0
    _files: dict[str, int] = field(default_factory=dict)
    _spent: int = 0

    @classmethod
    def of(cls, lines: Sequence[PackLine], budget: int) -> PackText:
        """Return the lines with the lowest ranks that fit the token budget, each cut to a maximum length.

        Text from files cannot start a section or fake a file reference.
        """
        lines = [replace(each, text=_flat(each.text), path=_flat(each.path)) for each in lines]
        text = cls(budget, _spent=_RESERVE)
        order = sorted(range(len(lines)), key=lambda place: (lines[place].rank, place))
        chosen = [place for place in order if text._add(lines[place])]
        text.kept = [lines[place] for place in sorted(chosen)]
        return text

    def _add(self, line: PackLine) -> bool:
        cost = tokens_of(line.text) + _LINE
        if line.path and line.path not in self._files:
            cost += tokens_of(line.path) + _LINE
        if self._spent + cost > self.budget:
            self.left_out += 1
            return False
        self._spent += cost
        if line.path:
            self._files.setdefault(line.path, 0)
        return True

    def render(self) -> str:
        """Return the text. Lines refer to their files by number, and the files are listed at the end."""
        numbers = {path: number for number, path in enumerate(dict.fromkeys(self._paths()), 1)}
        parts = []
        for section in SECTIONS:
            lines = [each for each in self.kept if each.section == section]
            if lines:
                parts.append("\n".join([f"## {section}", *_numbered(lines, numbers)]))
        if self.left_out:
            parts.append(f"({plural(self.left_out, 'line')} omitted; use a larger budget or a narrower question)")
        if numbers:
            parts.append("\n".join([f"## {_FILES}", *(f"[{number}] {path}" for path, number in numbers.items())]))
        return "\n\n".join(parts) + "\n"

    def _paths(self) -> Iterable[str]:
        return (each.path for section in SECTIONS for each in self.kept if each.section == section and each.path)


_LONGEST: Final = 1_600
"""Maximum number of characters in a line."""
_BREAKS: Final = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_MARK: Final = re.compile(r"\[(\d+)\]")


def _flat(text: str) -> str:
    from ktx_cli.agent_tools import visible

    flat = _MARK.sub(r"(\1)", _BREAKS.sub(" ", visible(text)))
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 1]}…"


_RESERVE: Final = 60
"""Tokens for headings and the line about omitted lines."""
_LINE: Final = 3
"""Tokens for the line break and the file number of a line."""


def _numbered(lines: Sequence[PackLine], numbers: dict[str, int]) -> Iterable[str]:
    """Yield lines by group with their file numbers. Groups are in the order of their first lines."""
    groups: dict[str, list[PackLine]] = {}
    for number, each in enumerate(lines):
        groups.setdefault(each.group or f"\0{number}", []).append(each)
    for group in groups.values():
        for each in group:
            yield f"{each.text} [{numbers[each.path]}]" if each.path else each.text


@dataclass(frozen=True, slots=True)
class PackRequest:
    """The request for a pack. `budget` is its size in tokens, and `values` allows row values.

    `caller` is used by row policies. `mount` is the mounted project that the pack is for, if any. `shown_note` returns
    a note as the caller may see it.
    """

    question: str
    budget: int = BUDGET
    connection: str | None = None
    user: str | None = None
    values: bool = True
    caller: Caller = NOBODY
    mount: Mount | None = None
    shown_note: Callable[[str], str] = str

    def named(self, name: str) -> str:
        """Return a connection or page name as the caller knows it."""
        return name if self.mount is None else self.mount.qualified(name)


@dataclass(frozen=True, slots=True)
class ContextPack:
    """The context for a question as text. `sources` lists its sources as `connection/source`, best first."""

    question: str
    text: str
    tokens: int
    sources: tuple[str, ...]
    draft: Draft | None
    left_out: int
    warnings: tuple[ResultWarning, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the pack for the envelope."""
        return {
            "question": self.question,
            "tokens": self.tokens,
            "sources": list(self.sources),
            "draft": None if self.draft is None else self.draft.to_json(),
            "left_out": self.left_out,
            "text": self.text,
        }


def context_pack(
    layout: Layout,
    config: KtxConfig,
    request: PackRequest,
    *,
    searcher: Searcher,
    load: LoadLayer,
    elsewhere: Sequence[PackLine] = (),
) -> ContextPack:
    """Return the context pack for a question about a project. `elsewhere` are lines about sources of other projects.

    Raises `UsageError` for an empty or too long question, and for an unknown connection.
    """
    from ktx_cli.search import KINDS, VALUE, Scope

    question = " ".join(request.question.split())
    if not question:
        raise UsageError("the question is empty", hint="ask in words: How many orders were shipped late?")
    if len(question) > LONGEST_QUESTION:
        raise UsageError(f"the question is longer than {LONGEST_QUESTION:,} characters", hint="shorten the question")
    if request.connection is not None:
        connection_of(config, request.connection)
    request = replace(request, question=question)
    layers = _Layers(layout, config, load)
    kinds = tuple(kind for kind in KINDS if request.values or kind != VALUE)
    scope = Scope(kinds, request.connection, request.user)
    tables, warnings = searcher.tables(request.question, layers.neighbors, scope, limit=_LISTED * 2)
    known = (each for each in tables if each.connection in config.connections and layers.shows(each))
    found = list(itertools.islice(known, _LISTED))
    lines: list[PackLine] = []
    draft = None
    if found:
        first = found[0].connection
        here = [each for each in found if each.connection == first]
        asked, _ = searcher.tables(
            measured_part(request.question), _no_neighbors, Scope(kinds, first, request.user), 30
        )
        facts = [each for each in asked if layers.shows(each)] or here
        shown, graph = layers.of(first), layers.graph(first)

        def find_values(text: str) -> list[str]:
            return [each.id for each in searcher.search(text, Scope((VALUE,), first), limit=20).found.hits]

        find = find_values if request.values else None
        draft = Drafter(shown, graph, request.question, facts, here, find, request.caller).draft()
        if draft is not None and draft.query is not None:
            draft = replace(draft, query={**draft.query, "connection": request.named(first)})
        lines += _draft_lines(layers, first, draft)
    packer = _Packer(layout, layers, request, searcher, found, draft)
    lines += packer.lines()
    if request.mount is not None:
        lines = [replace(each, path=each.path and request.mount.shown_path(each.path)) for each in lines]
    text = PackText.of([*lines, *elsewhere], request.budget)
    rendered = text.render() if text.kept else _NOTHING
    kept = {each.group for each in text.kept if each.section in (SOURCES, MORE)}
    groups = (f"{each.connection}/{each.name}" for each in packer.order)
    names = [request.named(each) for each in groups if each in kept]
    return ContextPack(
        request.question,
        rendered,
        tokens_of(rendered),
        tuple(names),
        draft,
        text.left_out,
        (*warnings, *packer.warnings),
    )


@dataclass(frozen=True, slots=True)
class PackedProject:
    """A project that a pack can be built from, which is a root or one of its mounts, with the request."""

    layout: Layout
    config: KtxConfig
    request: PackRequest
    searcher: Searcher
    load: LoadLayer

    def pack(self, elsewhere: Sequence[PackLine] = ()) -> ContextPack:
        """Return the pack for this project. Raises the errors of `context_pack`."""
        return context_pack(
            self.layout, self.config, self.request, searcher=self.searcher, load=self.load, elsewhere=elsewhere
        )

    def line(self, table: FoundTable) -> PackLine | None:
        """Return a line about a source, or None if it is hidden."""
        if table.connection not in self.config.connections:
            return None
        shown = VisibleModel(self.load(self.layout, self.config, table.connection))
        source = shown.model.sources.get(table.name)
        if source is None or not shown.has(source):
            return None
        about = f": {one_line(source.description, 200)}" if source.description else ""
        path, mount = _path(source), self.request.mount
        name = f"{self.request.named(table.connection)}/{table.name}"
        return PackLine(MORE, f"{name}{about}", path if mount is None else mount.shown_path(path), 1)


_ELSEWHERE: Final = 0.4
"""Minimum score of a listed source of another project, relative to the best score."""
_MOST_ELSEWHERE: Final = 2
"""Maximum number of listed sources from each other project."""
_MOST_LINES: Final = 6
"""Maximum number of listed sources from all other projects."""


def pack_of_several(projects: Sequence[PackedProject]) -> ContextPack:
    """Return the pack from the project with the best matching source. It lists sources of the other projects.

    Apart from names, it equals the pack from that project alone. Raises the errors of `context_pack`.
    """
    from ktx_cli.search import KINDS, VALUE, Scope, tables_together

    question = projects[0].request.question
    scopes = [
        Scope(tuple(kind for kind in KINDS if each.request.values or kind != VALUE), None, each.request.user)
        for each in projects
    ]
    found = tables_together([each.searcher for each in projects], question, scopes, _MOST_ELSEWHERE)
    scores = [max((table.score for table in tables), default=0.0) for tables in found]
    best = max(range(len(projects)), key=lambda place: (scores[place], -place))
    lines = [
        projects[place].line(table)
        for place in sorted(range(len(projects)), key=lambda place: -scores[place])
        for table in found[place]
        if place != best and table.score >= _ELSEWHERE * scores[best]
    ]
    return projects[best].pack([each for each in lines if each is not None][:_MOST_LINES])


def _no_neighbors(connection: str, source: str) -> tuple[str, ...]:
    return ()


@dataclass(slots=True)
class _Layers:
    """The semantic layers for a question, loaded on first use."""

    layout: Layout
    config: KtxConfig
    load: LoadLayer
    _known: dict[str, VisibleModel] = field(default_factory=dict)
    _graphs: dict[str, Graph] = field(default_factory=dict)

    def of(self, connection: str) -> VisibleModel:
        """Return the visible part of a connection's layer."""
        if connection not in self._known:
            self._known[connection] = VisibleModel(self.load(self.layout, self.config, connection))
        return self._known[connection]

    def graph(self, connection: str) -> Graph:
        """Return the joins of a connection's layer."""
        if connection not in self._graphs:
            self._graphs[connection] = Graph(self.of(connection).model)
        return self._graphs[connection]

    def hides(self, connection: str, text: str) -> bool:
        """Whether a text refers to something hidden in a connection's layer."""
        return self.of(connection).hides(text)

    def has_policies(self, connection: str, sources: Iterable[str]) -> bool:
        """Whether any of the sources has a row policy."""
        model = self.of(connection).model
        return any(model.sources[name].policies for name in sources if name in model.sources)

    def neighbors(self, connection: str, source: str) -> list[str]:
        """Return the joined sources."""
        if connection not in self.config.connections:
            return []
        return list(dict.fromkeys(edge.target for edge in self.graph(connection).edges(source)))

    def shows(self, table: FoundTable) -> bool:
        """Whether a matching source exists and is visible."""
        shown = self.of(table.connection)
        source = shown.model.sources.get(table.name)
        return source is not None and shown.has(source)


def _draft_lines(layers: _Layers, connection: str, draft: Draft | None) -> Iterator[PackLine]:
    if draft is None:
        return
    if draft.query is not None:
        yield PackLine(DRAFT, f"sl_query {draft.query_text()}", draft.path, 0, "draft")
    for reason, path in draft.reasons:
        if not layers.hides(connection, reason):
            yield PackLine(DRAFT, f"- {one_line(reason, _LONGEST_RULE)}", path, 0, "draft")
    if draft.sql and not layers.hides(connection, draft.sql) and not layers.has_policies(connection, draft.sources):
        yield PackLine(DRAFT, f"SQL to start with: {draft.sql}", draft.path, 0, "draft")


class _Packer:
    """Builds the lines about the matching sources."""

    def __init__(
        self,
        layout: Layout,
        layers: _Layers,
        request: PackRequest,
        searcher: Searcher,
        found: Sequence[FoundTable],
        draft: Draft | None,
    ) -> None:
        self._layout, self._layers, self._request, self._searcher = layout, layers, request, searcher
        self._draft = draft
        self._tree = WorkingTree(layout.root)
        self.warnings: list[ResultWarning] = []
        self._known_decisions: dict[str, Decisions] = {}
        self._known_probabilities: dict[str, Mapping[tuple[str, str], float]] = {}
        self._variants: dict[str, list[str]] = {}
        self.order = self._closed(found)

    def lines(self) -> Iterator[PackLine]:
        """Yield the lines, starting with the best sources and the conventions that affect their numbers."""
        for place, each in enumerate(self.order):
            if place < _IN_FULL:
                yield from self._described(each, 2 if place < 3 else 4, in_full=True)
            elif place < _IN_SHORT:
                yield from self._described(each, 6, in_full=False)
            else:
                yield self._named(each, 8 + place // 20)
        yield from self._traps()
        yield from self._decisions()
        yield from self._passages()
        yield from self._values()
        yield from self._questions()

    def _closed(self, found: Sequence[FoundTable]) -> list[FoundTable]:
        """Return the sources by relevance: those in the draft, those that affect its numbers, then the best matches.

        The tables that the SQL of a source reads precede the source.
        """
        from ktx_cli.search import FoundTable

        by_name = {(each.connection, each.name): each for each in found}
        wanted: dict[tuple[str, str], None] = {}
        if self._draft is not None:
            connection = self._draft.connection
            fact = self._draft.sources[0]
            bases = self._bases(connection, fact)
            for name in (*self._draft.sources, *bases, *self._moving(connection, fact)):
                wanted.setdefault((connection, name))
            self._variants = self._variants_of(found, connection, {fact, *bases})
        for place, each in enumerate(found):
            for base in self._bases(each.connection, each.name) if place < _IN_FULL else ():
                wanted.setdefault((each.connection, base))
            wanted.setdefault((each.connection, each.name))
        return [by_name.get(key) or FoundTable(*key) for key in wanted if self._layers.shows(FoundTable(*key))]

    def _variants_of(
        self, found: Sequence[FoundTable], connection: str, tables: Collection[str]
    ) -> dict[str, list[str]]:
        """Return each table with the sources whose SQL reads it, if they have a similar name or match as well."""
        sources = self._layers.of(connection).model.sources
        near = [each.name for each in found[:_MOST_VARIANTS] if each.connection == connection]
        named = (name for name in sources if any(table in name for table in tables))
        variants: dict[str, list[str]] = {}
        for name in dict.fromkeys((*itertools.islice(named, _MOST_VARIANTS), *near)):
            for base in self._bases(connection, name):
                if base in tables:
                    variants.setdefault(base, []).append(name)
        return variants

    def _moving(self, connection: str, fact: str) -> list[str]:
        """Return the sources whose decision points affect measures of a fact, and the sources in their readings."""
        found: dict[str, None] = {}
        reached = self._draft.reached if self._draft is not None else ()
        for point in self._points(connection):
            if point.kind is DecisionKind.FISCAL_START or not (_moves(point, fact) or _is_above(point, reached)):
                continue
            found.setdefault(point.source)
            for reading in point.alternatives:
                for word in _NAME.findall(f"{reading.filter or ''} {reading.expr or ''}"):
                    found.setdefault(word)
        sources = self._layers.of(connection).model.sources
        named = [name for name in found if name in sources]
        return [*self._rates(connection, fact), *named][:_MOST_MOVING]

    def _rates(self, connection: str, fact: str) -> list[str]:
        """Return the source with exchange rates for a fact with a currency column."""
        from ktx_cli.search import Scope, plain_words

        sources = self._layers.of(connection).model.sources
        if not any("currency" in plain_words(name) for name in sources[fact].columns):
            return []
        hits = self._searcher.search("currency exchange rates", Scope(("source",), connection), limit=8).found.hits
        for name in (hit.id for hit in hits):
            words = [set(plain_words(column)) for column in sources[name].columns] if name in sources else []
            if any("rate" in own for own in words) and any("currency" in own for own in words):
                return [name]
        return []

    def _warn(self, code: str, what: str, error: KtxError) -> None:
        self.warnings.append(ResultWarning.because(code, what, error))

    def _points(self, connection: str) -> Sequence[DecisionPoint]:
        return self._decided(connection).points

    def _decided(self, connection: str) -> Decisions:
        if connection not in self._known_decisions:
            model = self._layers.of(connection).model
            try:
                found = load_decisions(self._tree, model, self._layout).decisions
            except KtxError as error:
                self._warn("decisions_unreadable", "open decisions are missing", error)
                found = Decisions()
            self._known_decisions[connection] = found
        return self._known_decisions[connection]

    def _bases(self, connection: str, name: str) -> list[str]:
        """Return the sources for the tables that the SQL of a source reads."""
        from ktx_cli.protection import sources_of, view_reads

        model = self._layers.of(connection).model
        sql = model.sources[name].sql
        if sql is None:
            return []
        tables = sorted(view_reads(sql, model.dialect).tables)
        return list(dict.fromkeys(each.name for table in tables for each in sources_of(model, table)))

    def _described(self, table: FoundTable, rank: int, *, in_full: bool) -> Iterator[PackLine]:
        shown = self._layers.of(table.connection)
        source = shown.model.sources[table.name]
        group, path = f"{table.connection}/{table.name}", _path(source)
        about = f": {one_line(source.description, 200)}" if source.description else ""
        head = f"{self._shown_name(table)}{_other_names(source)}{_relation(source)}{about}"
        yield PackLine(SOURCES, head, path, rank, group)
        yield PackLine(SOURCES, f"  {self._columns(shown, source, table, in_full=in_full)}", path, rank, group)
        for text in self._measures(shown, source, table):
            yield PackLine(SOURCES, f"  {text}", path, rank + 1, group)
        joins = self._joins(table)
        if joins:
            yield PackLine(SOURCES, f"  joins: {'; '.join(joins)}", path, rank, group)
        for text in self._rules_of(shown, source):
            yield PackLine(SOURCES, f"  {text}", path, rank, group)
        for name in self._variants.get(table.name, ()):
            variant = shown.model.sources[name]
            rules = list(self._rules_of(shown, variant))
            if rules and name != table.name:
                yield PackLine(SOURCES, f"  used by {name}: {'; '.join(rules)}", _path(variant), rank, group)

    def _shown_name(self, table: FoundTable) -> str:
        several = len({each.connection for each in self.order}) > 1
        return f"{self._request.named(table.connection)}/{table.name}" if several else table.name

    def _columns(self, shown: VisibleModel, source: Source, table: FoundTable, *, in_full: bool) -> str:
        """Return the grain, the time and the columns of a source, most relevant first."""
        columns = shown.columns(source)
        names = {each.name for each in columns}
        keys = {own for edge in self._layers.graph(table.connection).edges(source.name) for own, _ in edge.pairs}
        drafted = self._draft.columns.get(source.name, ()) if self._draft is not None else ()
        matching = {name for name, score in table.members.items() if score > 0} | set(drafted)
        chosen = [each for each in columns if each.name in matching or each.name in keys or each.name in source.grain]
        if in_full:
            rest = [each for each in columns if each not in chosen]
            chosen = [each for each in columns if each in (*chosen, *rest)[:_MOST_COLUMNS]]
        texts = [_column_text(each, values=self._request.values) for each in chosen]
        more = len(columns) - len(chosen)
        grain = [each for each in source.grain if each in names] if source.keyed else []
        parts = [f"one row per {', '.join(grain)}"] if grain else ["key unknown"]
        parts.append(f"columns: {', '.join(texts)}{f' and {more} more' if more else ''}" if texts else "")
        return "; ".join(filter(None, parts))

    def _measures(self, shown: VisibleModel, source: Source, table: FoundTable) -> Iterator[str]:
        measures = sorted(
            (each for each in shown.measures(source)), key=lambda each: (-table.members.get(each.name, 0.0), each.name)
        )
        texts = [self._measure_text(shown, source, each) for each in measures[:_MOST_MEASURES]]
        if texts:
            more = len(measures) - len(texts)
            yield f"measures: {'; '.join(texts)}{f'; and {more} more' if more else ''}"
        segments = [
            f"{each.name} = {each.expr}" if shown.can_show(source, each.expr) else each.name
            for each in source.segments.values()
        ]
        if segments:
            yield f"segments: {'; '.join(segments[:_MOST_MEASURES])}"

    def _measure_text(self, shown: VisibleModel, source: Source, measure: Measure) -> str:
        expr = measure.expr if shown.can_show(source, measure.expr) else NOT_SHOWN
        where = ""
        if measure.filter:
            known = shown.can_show(source, measure.filter)
            where = f" where {one_line(measure.filter, 120) if known else NOT_SHOWN}"
        mark = " (proposed)" if measure.is_proposed else ""
        return f"{measure.name}{_other_names(measure)} = {one_line(expr, 120)}{where}{mark}"

    def _joins(self, table: FoundTable) -> list[str]:
        """Return the joins of a source to others in the pack, with cardinality and probability."""
        here = {each.name for each in self.order[:_IN_SHORT] if each.connection == table.connection}
        shown = self._layers.of(table.connection)
        return [
            _join_text(edge, self._probabilities(table.connection))
            for edge in self._layers.graph(table.connection).edges(table.name)
            if edge.target in here and _may_show(shown, edge) and not self._layers.hides(table.connection, edge.name)
        ]

    def _probabilities(self, connection: str) -> Mapping[tuple[str, str], float]:
        """Return the probability of each inferred join by the lower-case `table.column` of both sides."""
        from ktx_cli.scan import RELATIONSHIPS, join_probabilities

        path = Layout.raw_path(connection, DATABASE_SOURCE, RELATIONSHIPS)
        if connection not in self._known_probabilities:
            content = self._tree.read(path)
            try:
                found = {} if content is None else join_probabilities(content, path)
            except KtxError as error:
                self._warn("joins_unreadable", "join probabilities are missing", error)
                found = {}
            self._known_probabilities[connection] = found
        return self._known_probabilities[connection]

    def _rules_of(self, shown: VisibleModel, source: Source) -> Iterator[str]:
        """Yield the rules in the SQL of a source, or of the model behind its table."""
        rules = [*shown.lineage(source)]
        if source.sql is not None:
            from ktx_cli.sources import query_lines

            connection, sources = shown.model.connection, shown.model.sources
            read = [source, *(sources[name] for name in self._bases(connection, source.name))]
            lines = query_lines(source.sql, shown.model.dialect)
            rules += [line for line in lines if all(shown.can_show(each, line) for each in read)]
        for each in itertools.islice(rules, _MOST_RULES):
            yield one_line(each if self._request.values else _LITERAL.sub("'…'", each), _LONGEST_RULE)

    def _named(self, table: FoundTable, rank: int) -> PackLine:
        shown = self._layers.of(table.connection)
        source = shown.model.sources[table.name]
        keys = [own for edge in self._layers.graph(table.connection).edges(source.name) for own, _ in edge.pairs]
        names = [each.name for each in shown.columns(source)]
        matching = sorted(table.members, key=lambda name: (-table.members[name], name))
        wanted = [each for each in dict.fromkeys((*matching[:4], *source.grain[:2], *keys[:4])) if each in names]
        text = f"{self._shown_name(table)}: {', '.join(wanted)}" if wanted else self._shown_name(table)
        return PackLine(MORE, text, _path(source), rank, f"{table.connection}/{table.name}")

    def _traps(self) -> Iterator[PackLine]:
        """Yield the pitfalls of joining the fact of the draft to the other best sources."""
        from ktx_cli.semantic import SemanticError

        if self._draft is None:
            return
        connection, fact = self._draft.connection, self._draft.sources[0]
        graph, path = self._layers.graph(connection), self._draft.path
        near = {*self._draft.reached, *(edge.target for edge in graph.edges(fact))}
        for each in self.order[:_IN_FULL]:
            if each.connection != connection or each.name == fact or each.name not in near:
                continue
            try:
                way = graph.path(fact, (each.name,))
            except SemanticError as error:
                yield PackLine(TRAPS, one_line(f"{fact} to {each.name}: {error.message}", 300), path, 4)
                continue
            if way is not None and not way.to_one and len(way.edges) == 1:
                text = f"{fact} to {each.name}: one-to-many, so amounts of {fact} would be counted several times"
                yield PackLine(TRAPS, text, path, 5)

    def _decisions(self) -> Iterator[PackLine]:
        """Yield open decisions, decisions and statements about the decision points of the best sources."""
        from ktx_cli.semantic import decision_text, shown_decision

        places = {(each.connection, each.name): place for place, each in enumerate(self.order[:_IN_SHORT])}
        count = 0
        for connection in dict.fromkeys(each.connection for each in self.order[:_IN_SHORT]):
            shown = self._layers.of(connection)
            decisions = self._decided(connection)
            path = Layout.raw_path(connection, DATABASE_SOURCE, "decisions.json")
            answers = {point.id: answer for point, _, answer in decisions.decided()}
            fact = self._draft.sources[0] if self._draft is not None and self._draft.connection == connection else None
            reached = self._draft.reached if fact is not None and self._draft is not None else ()
            points = sorted(
                decisions.points,
                key=lambda each: (
                    not (_moves(each, fact) or _is_above(each, reached)),
                    places.get((connection, each.source), 99),
                    each.id,
                ),
            )
            for point in points:
                place = places.get((connection, point.source))
                if point.kind is DecisionKind.FISCAL_START:
                    place = 0 if self._is_fiscal else None
                if place is None or count >= _MOST_POINTS:
                    continue
                count += 1
                rank = 3 if place < _IN_FULL else 5
                measures = [each for each in point.spreads if each.partition(".")[0] in {n for c, n in places}]
                opened = shown_decision(decisions, shown, point, measures)
                if point.id in answers and not opened.is_masked:
                    text = f"decided: {decision_text(point, answers[point.id], private=not self._request.values)}"
                    yield PackLine(RULES, text, "decisions.yaml", rank)
                elif point.is_unsettled:
                    values, mount = self._request.values, self._request.mount
                    note = opened.note(values=values, private=not values)
                    text = self._request.shown_note(note if mount is None else mount.placed(note))
                    yield PackLine(DECISIONS, text, path, rank)
                if not opened.is_masked:
                    yield from self._statements(connection, point, rank)

    def _statements(self, connection: str, point: DecisionPoint, rank: int) -> Iterator[PackLine]:
        if point.state is DecisionState.DECIDED:
            return
        for each in {statement.text: statement for statement in point.statements[:4]}.values():
            if not self._layers.hides(connection, each.text):
                text = each.text if self._request.values else _LITERAL.sub("'…'", each.text)
                yield PackLine(RULES, f"stated about {point.source}: {_short(text)}", each.path, rank)

    @property
    def _is_fiscal(self) -> bool:
        """Whether the question might be about fiscal periods."""
        return any(word in self._request.question.casefold() for word in ("fiscal", "financial year", "quarter"))

    def _passages(self) -> Iterator[PackLine]:
        """Yield the passages and pages that match the question or are about the best sources."""
        from ktx_cli.agent_tools import passage_of
        from ktx_cli.jobs.wiki import place_of_hit
        from ktx_cli.search import Scope

        scope = Scope(("passage", "page"), None, self._request.user)
        seen: set[str] = set()
        queries = [(self._request.question, 4)]
        if self._is_fiscal:
            queries.append(("the fiscal year begins", 2))
        for each in self.order[:_ABOUT]:
            source = self._layers.of(each.connection).model.sources[each.name]
            queries.append((f"{each.name} {one_line(source.description or '', 120)}", 2))
        for place, (query, most) in enumerate(queries):
            for hit in self._searcher.search(query, scope, limit=most).found.hits:
                if hit.id in seen or len(seen) >= _MOST_PASSAGES:
                    continue
                seen.add(hit.id)
                rank = 3 if place <= self._is_fiscal else 5
                if hit.kind == "passage":
                    passage = passage_of(self._layout, self._layers.config, hit.id)
                    if passage is not None:
                        path = f"{hit.id.partition(':')[0]}/{hit.id.partition(':')[2].rsplit(':', 2)[0]}"
                        yield PackLine(RULES, f"{passage.title}: {_short(passage.text)}", path, rank)
                elif hit.id and hit.summary:
                    path, _ = place_of_hit(self._layout, hit.id, self._request.user)
                    page = self._request.named(hit.id)
                    yield PackLine(RULES, f"page {page}: {_short(hit.summary)}", path, rank)

    def _values(self) -> Iterator[PackLine]:
        """Yield conditions for the values in the question."""
        if not self._request.values or self._draft is None:
            return
        for condition, path in self._draft.bindings[:_MOST_VALUES]:
            yield PackLine(VALUES, condition, path, 2)

    def _questions(self) -> Iterator[PackLine]:
        """Yield the eval cases that are most similar to the question."""
        from ktx_cli.jobs.check.eval.cases import load_evals
        from ktx_cli.search import Document, Field, Index

        if not self._request.values:  # they contain row values
            return
        try:
            cases = {each.name: each for each in load_evals(self._layout).cases if each.asked.question}
        except KtxError:  # `ktx eval` reports errors in the files
            return
        if not cases:
            return
        documents = [
            Document("page", name, "", "", (Field("q", each.asked.question or ""),)) for name, each in cases.items()
        ]
        for hit in Index(documents).search(self._request.question, _MOST_QUESTIONS).hits:
            case = cases[hit.id]
            asked = case.asked.query or case.asked.sql
            connections = [case.connection] if case.connection else list(self._layers.config.databases())
            text = f"{case.asked.question} {case.asked.query} {case.asked.sql}"
            if asked is not None and not any(self._layers.hides(each, text) for each in connections):
                text = f"{case.asked.question} -> {one_line(str(asked), 400)}"
                yield PackLine(QUESTIONS, text, f"evals/{case.file}.yaml", 4)


def _moves(point: DecisionPoint, fact: str | None) -> bool:
    """Whether the readings of a point affect measures of a fact."""
    return point.source == fact or any(name.partition(".")[0] == fact for name in point.spreads)


def _is_above(point: DecisionPoint, reached: Sequence[str]) -> bool:
    """Whether a point decides which rows of a source above the fact count, and so affects the fact's rows as well."""
    return point.is_about_rows and point.source in reached


def _path(source: Source) -> str:
    return "" if source.place is None else source.place.path


def _relation(source: Source) -> str:
    if source.table is not None:
        return "" if source.table == (source.name,) else f" ({'.'.join(source.table)})"
    return " (SQL)"


def _column_text(column: Column, *, values: bool) -> str:
    kind = column.type.value[0] if column.type.value != "time" else ("date" if column.is_date else "time")
    known = f" in ({', '.join(column.values[:8])})" if column.values and values else ""
    unit = f" {column.unit}" if column.unit else ""
    short = {"s": "", "n": " number", "b": " bool"}.get(kind, f" {kind}")
    return f"{column.name}{_other_names(column)}{short}{unit}{known}"


def _other_names(entity: Source | Measure | Column) -> str:
    """Return the label and the first synonyms in parentheses; empty if there are none."""
    names = dict.fromkeys((*([entity.label] if entity.label else []), *entity.synonyms[:_MOST_SYNONYMS]))
    return f" ({one_line(', '.join(names), _LONGEST_NAMES)})" if names else ""


def _join_text(edge: Edge, probabilities: Mapping[tuple[str, str], float]) -> str:
    on = " and ".join(f"{own} = {edge.name}.{other}" for own, other in edge.pairs)
    called = "" if edge.name == edge.target else f" (alias of {edge.target})"
    rows = "one row" if edge.to_one else "several rows"
    own, other = edge.pairs[0] if edge.pairs else ("", "")
    pair = (f"{edge.source}.{own}".casefold(), f"{edge.target}.{other}".casefold())
    known = probabilities.get(pair, probabilities.get((pair[1], pair[0])))
    sure = f", probability {known:.2f}" if known is not None else f", {edge.provenance}" if edge.provenance else ""
    return f"{on}{called}, {rows}{sure}"


def _may_show(shown: VisibleModel, edge: Edge) -> bool:
    target = shown.model.sources.get(edge.target)
    source = shown.model.sources[edge.source]
    if target is None or not shown.has(target):
        return False
    ours, theirs = ({each.name for each in shown.columns(one)} for one in (source, target))
    return all(own in ours and other in theirs for own, other in edge.pairs)


def _short(text: str) -> str:
    from ktx_cli.agent_tools import visible

    return one_line(visible(text), _LONGEST_PASSAGE)
