"""The tables of data sources as ktx sources, their joins, and which table's rows an expression is about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.drafts import NAME, SourceDraft, Sources, on_text
from ktx_cli.semantic.interchange.report import Report, UnresolvedError
from ktx_cli.semantic.interchange.tableau.workbook import FILE_DATA, Relation, TableauData, TableauLink
from ktx_cli.semantic.load.joins import Sides, parse_on

TABLEAU_UNKNOWN: Final = "the table is not in the scanned database"
"""The reason why a table is dropped if only known tables are imported."""

TYPES: Final = {
    "integer": "number", "real": "number", "string": "string", "boolean": "boolean", "date": "time", "datetime": "time"
}  # fmt: skip
"""The ktx type for each data type of Tableau."""

_RESERVED: Final = frozenset(
    [
        "all",
        "and",
        "any",
        "as",
        "asc",
        "between",
        "by",
        "case",
        "cast",
        "count",
        "current_date",
        "current_timestamp",
        "desc",
        "distinct",
        "else",
        "end",
        "except",
        "exists",
        "extract",
        "false",
        "for",
        "from",
        "full",
        "group",
        "having",
        "in",
        "inner",
        "intersect",
        "interval",
        "into",
        "is",
        "join",
        "left",
        "like",
        "limit",
        "not",
        "null",
        "offset",
        "on",
        "or",
        "order",
        "outer",
        "over",
        "partition",
        "right",
        "select",
        "set",
        "some",
        "table",
        "then",
        "to",
        "true",
        "union",
        "unique",
        "update",
        "user",
        "using",
        "values",
        "when",
        "where",
        "window",
        "with",
    ]
)


def slug(text: str) -> str:
    """Return a name for a text that people see, such as `profit_ratio` for `Profit Ratio`."""
    name = re.sub(r"\W+", "_", text.casefold().replace("%", " percent ")).strip("_") or "field"
    if not NAME.fullmatch(name):
        name = f"field_{name}"
    return f"{name}_field" if name in _RESERVED else name


@dataclass(eq=False, slots=True)
class Node:
    """A table in a data source. `key` qualifies its columns in expressions until their table is known."""

    key: str
    relation: Relation | None
    draft: SourceDraft


@dataclass(frozen=True, slots=True)
class _Edge:
    """A join to at most one row of a table, by the name `hop`, on pairs of columns."""

    one: Node
    hop: str
    pairs: list[tuple[str, str]]


MEASURE: Final = "ktx_measure_of_"
"""Prefix of the key of a table that qualifies a measure of it."""


def column_of(name: str, table: str = "") -> exp.Column:
    """Return a column of a table, quoted if necessary. `table` is the key of a table, or its name in a query."""
    is_plain = NAME.fullmatch(name) is not None and slug(name) == name.casefold()
    return exp.column(exp.to_identifier(name, quoted=not is_plain), table=table or None)


def keys_in(tree: exp.Expr) -> set[str]:
    """Return the keys of the tables whose columns an expression reads."""
    return {each.table for each in tree.find_all(exp.Column) if each.table and not each.table.startswith(MEASURE)}


@dataclass(slots=True)
class Shared:
    """What the data sources of one import share. `by_table` finds the source for a table, or for the SQL of a query."""

    sources: Sources
    report: Report
    known_only: bool
    by_table: dict[object, SourceDraft] = field(default_factory=dict)

    def draft(self, relation: Relation) -> SourceDraft:
        """Return the source for a relation. Raises `UnresolvedError` if ktx cannot use it."""
        if relation.why_not:
            raise UnresolvedError(relation.why_not)
        key: object = relation.sql or tuple(part.casefold() for part in relation.parts)
        if key not in self.by_table:
            if not relation.sql and self.known_only and not self.sources.knows(relation.table):
                raise UnresolvedError(TABLEAU_UNKNOWN)
            name = slug(relation.name if relation.sql else relation.parts[-1])
            if relation.sql:
                self.by_table[key] = self.sources.add(name, relation.place, sql=relation.sql.rstrip("; \n"))
            else:
                self.by_table[key] = self._of_table(relation, name)
        return self.by_table[key]

    def _of_table(self, relation: Relation, name: str) -> SourceDraft:
        """Return the source for a table, which another data source may name with more or fewer parts."""
        wanted = tuple(part.casefold() for part in relation.parts)
        for parts, known in self.by_table.items():
            if isinstance(parts, tuple) and (parts[-len(wanted) :] == wanted or wanted[-len(parts) :] == parts):
                return known
        return self.sources.add(name, relation.place, table=relation.table)


class Tables:
    """The tables of one data source, and the joins to one row between them."""

    def __init__(self, source: TableauData, shared: Shared) -> None:
        self.source, self._shared = source, shared
        self.nodes: dict[str, Node] = {}
        self.lost: dict[str, str] = {}
        self._edges: dict[str, list[_Edge]] = {}
        for name, relation in source.relations.items():
            self._add(name, relation)

    def _add(self, name: str, relation: Relation) -> None:
        what = f"table `{name}` of `{self.source.title}`"
        try:
            draft = self._shared.draft(relation)
        except KtxError as error:
            self.lost[name] = error.message
            if error.message != FILE_DATA:
                self._shared.report.dropped(what, error.message, relation.place)
            return
        self.add(name, Node(f"ktx_table_{len(self.nodes)}", relation, draft))
        self._shared.report.kept(what, relation.place, draft.name)

    def add(self, name: str, node: Node) -> None:
        """Add a table."""
        self.nodes[name] = node
        self._edges[node.key] = []

    def connect(self, many: Node, one: Node, hop: str, pairs: list[tuple[str, str]]) -> None:
        """Record that each row of a table joins to at most one row of another one on pairs of columns, by the name
        `hop`.
        """
        self._edges[many.key].append(_Edge(one, hop, pairs))

    def column(self, field_name: str) -> tuple[Node, str, str] | None:
        """Return the table, column and data type of a field. Raises `UnresolvedError` if its table was dropped."""
        relation, remote, kind = self.source.fields.get(field_name, ("", "", ""))
        if not relation and len(self.source.relations) == 1:
            relation, remote = next(iter(self.source.relations)), remote or field_name
        if relation in self.lost:
            raise UnresolvedError(self.lost[relation])
        node = self.nodes.get(relation)
        return None if node is None else (node, remote or field_name, kind)

    def reached(self, node: Node) -> dict[str, str]:
        """Return the tables that a row joins to at most one row of, and the names for them; its own is empty."""
        found, todo = {node.key: ""}, [node]
        while todo:
            for edge in self._edges[todo.pop(0).key]:
                if edge.one.key not in found:
                    found[edge.one.key] = edge.hop
                    todo.append(edge.one)
        return found

    def way(self, start: Node, targets: Iterable[Node]) -> list[tuple[Node, Node, list[tuple[str, str]]]] | None:
        """Return the joins from a table to others, each with its two tables and pairs of columns, or None if a table is
        not reached.
        """
        by_target: dict[str, tuple[Node, _Edge]] = {}
        todo, seen = [start], {start.key}
        while todo:
            node = todo.pop(0)
            for edge in self._edges[node.key]:
                if edge.one.key not in seen:
                    seen.add(edge.one.key)
                    by_target[edge.one.key] = (node, edge)
                    todo.append(edge.one)
        found: dict[str, tuple[Node, Node, list[tuple[str, str]]]] = {}
        for target in targets:
            steps: list[tuple[Node, Node, list[tuple[str, str]]]] = []
            key = target.key
            while key != start.key:
                if key not in by_target:
                    return None
                many, edge = by_target[key]
                steps.append((many, edge.one, edge.pairs))
                key = many.key
            found |= {each[1].key: each for each in reversed(steps) if each[1].key not in found}
        return list(found.values())

    def host(self, keys: Iterable[str]) -> Node | None:
        """Return the table whose rows have at most one row of each of the tables, one of them if possible."""
        wanted = set(keys)
        several = [node for node in self.nodes.values() if wanted.issubset(self.reached(node))]
        return next((node for node in several if node.key in wanted), several[0] if several else None)

    @property
    def is_joined(self) -> bool:
        """Whether the tables are joined before anything is aggregated, instead of related."""
        return not self.source.is_related and len(self.source.relations) > 1

    def is_fixed(self, key: str) -> bool:
        """Return whether a table is that of a FIXED expression."""
        return any(node.key == key and node.relation is None for node in self.nodes.values())

    @property
    def base(self) -> Node | None:
        """The table that the rows of the data source are about: the one that reaches the most others."""
        several = list(self.nodes.values())
        return max(several, key=lambda node: len(self.reached(node))) if several else None

    def add_joins(self) -> None:
        """Add the joins of the data source."""
        for link in self.source.links:
            sides = " and ".join(f"`{name}`" for name in dict.fromkeys(side[0] for pair in link.pairs for side in pair))
            what = f"join of {sides or 'two tables'} in `{self.source.title}`"
            with self._shared.report.dropping(what, link.place):
                self._add_join(link, what)

    def _add_join(self, link: TableauLink, what: str) -> None:
        if link.why_not:
            raise UnresolvedError(link.why_not)
        left, right = {pair[0][0] for pair in link.pairs}, {pair[1][0] for pair in link.pairs}
        if len(left) != 1 or len(right) != 1 or left == right:
            raise UnresolvedError("its condition compares columns of more than two tables")
        names = left.pop(), right.pop()
        for name in names:
            if name not in self.nodes:
                raise UnresolvedError(self.lost.get(name, f"`{name}` is not a table of the data source"))
        one, two = (self.nodes[name] for name in names)
        pairs = [(_required(one, a), _required(two, b)) for (_, a), (_, b) in link.pairs]
        relationship, is_known = _relationship(one, two, pairs, link)
        is_turned = relationship == "one_to_many"
        if is_turned:
            one, two, pairs, relationship = two, one, [(b, a) for a, b in pairs], "many_to_one"
        hop = self._written(one, two, pairs, relationship)
        self.connect(one, two, hop, pairs)
        if relationship == "one_to_one" and hop == two.draft.name:
            self.connect(two, one, one.draft.name, [(b, a) for a, b in pairs])
        target = f"{one.draft.name} -> {hop}"
        if not is_known:
            why = (
                f"Tableau does not say which side is unique; ktx assumes one row of `{hop}` and checks it in each query"
            )
            self._shared.report.approximated(what, why, link.place, target)
        keeps = link.kind == ("right" if is_turned else "left")
        if link.kind != "relationship" and not keeps:
            why = f"its type is {link.kind}; ktx keeps the rows of `{one.draft.name}` without a match, and no others"
            self._shared.report.approximated(what, why, link.place, target)
        self._shared.report.kept(what, link.place, target)

    def _written(self, many: Node, one: Node, pairs: list[tuple[str, str]], relationship: str) -> str:
        """Add a join to the source of its first table unless it has it already, and return the name for the other."""
        own, other = many.draft, one.draft
        shares = sum(node.draft is other for node in self.nodes.values()) > 1
        wanted = slug(one.relation.name) if shares and one.relation is not None else other.name
        same = [each for each in own.joins if each["to"] == other.name]
        for hop in (wanted, f"{wanted}_{slug(self.source.title)}", f"{wanted}_{len(same) + 1}"):
            known = next((each for each in same if each.get("alias", other.name) == hop), None)
            is_source = hop != other.name and hop in self._shared.sources.drafts
            if known is None and not is_source and not (other is own and hop == own.name):
                join: dict[str, Any] = {"to": other.name, "on": on_text(pairs, hop), "relationship": relationship}
                if hop != other.name:
                    join["alias"] = hop
                columns = {*own.columns, *(own.base.columns if own.base else ())}
                parse_on(join["on"], Sides(own.name, other.name, join.get("alias"), own.dialect, columns))
                own.joins.append(join)
                return hop
            if known is not None and known["on"] == on_text(pairs, hop):
                return hop
        raise UnresolvedError("other data sources join these tables in too many different ways")


def _required(node: Node, column: str) -> str:
    found = node.draft.require(column)
    if found is None:
        raise UnresolvedError(f"`{node.draft.name}` has no column `{column}`")
    return found


def _relationship(one: Node, two: Node, pairs: list[tuple[str, str]], link: TableauLink) -> tuple[str, bool]:
    """Return the relationship of two tables, and whether it is known, from the manifest or from the data source."""
    base = one.draft.base
    for join in base.joins if base is not None and two.draft.base is not None else ():
        if join.to == two.draft.name and set(join.pairs) == set(pairs):
            return str(join.relationship.value), True
    left = link.left_unique or _is_unique(one.draft, [own for own, _ in pairs])
    right = link.right_unique or _is_unique(two.draft, [theirs for _, theirs in pairs])
    if left and right:
        return "one_to_one", True
    if left:
        return "one_to_many", True
    return "many_to_one", right


def _is_unique(draft: SourceDraft, columns: list[str]) -> bool:
    """Return whether the key of a source is known and among the columns."""
    keyed = draft.base is not None and draft.base.keyed
    grain = draft.base.grain if draft.base is not None and keyed else draft.grain
    return bool(grain) and {each.casefold() for each in grain} <= {each.casefold() for each in columns}
