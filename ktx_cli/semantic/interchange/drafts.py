"""Drafts of imported sources, and the ktx YAML written from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import ConfigError, file_stem, listing, yaml
from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.report import Imported, Report, UnresolvedError
from ktx_cli.semantic.load.columns import LABEL, QUESTIONS, SYNONYMS
from ktx_cli.semantic.load.joins import table_parts
from ktx_cli.semantic.model import Model, Place, Source, Visibility

TAKEN: Final = "the table already has a column with this name, or the name contains a dot"
"""The reason why an imported computed column was renamed."""


@dataclass(slots=True)
class ColumnDraft:
    """A column. Computed columns have an `expr`; `extra` holds further YAML keys."""

    name: str
    type: str | None = None
    expr: str | None = None
    visibility: str | None = None
    description: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    label: str | None = None


@dataclass(slots=True)
class SourceDraft:
    """An imported source.

    It either changes a source of the manifest (`base`) or has its own `table` or `sql`. `measures` and `segments` map
    names to YAML entries. `hops` maps each prefix that its expressions can use, a source name or join alias, to that
    source. `search_texts` are its questions and synonyms.
    """

    name: str
    place: Place
    dialect: str
    base: Source | None = None
    table: str | None = None
    sql: str | None = None
    grain: tuple[str, ...] = ()
    columns: dict[str, ColumnDraft] = field(default_factory=dict)
    joins: list[dict[str, Any]] = field(default_factory=list)
    measures: dict[str, dict[str, Any]] = field(default_factory=dict)
    segments: dict[str, dict[str, Any]] = field(default_factory=dict)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    time: str | None = None
    description: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    hops: dict[str, SourceDraft] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)
    label: str | None = None
    search_texts: dict[str, list[str]] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        """Return the exact spelling of a column name; the lookup ignores case."""
        if name in self.columns:
            return name
        known = (*self.columns, *(self.base.columns if self.base else ()))
        alike = {each for each in known if each.casefold() == name.casefold()}
        return name if name in alike else min(alike, default=None)

    def physical(self, name: str) -> str | None:
        """Return the exact spelling of a column name if the column is in the table rather than computed."""
        found = self.find(name)
        if found is None:
            return None
        if self.base is not None:
            column = self.base.column(found)
            return column.name if column is not None else None
        return found if self.columns[found].expr is None else None

    def column(self, name: str) -> ColumnDraft:
        """Return the draft for a column, and create it if necessary."""
        found = self.find(name) or name
        return self.columns.setdefault(found, ColumnDraft(found))

    def require(self, name: str, kind: str | None = None) -> str | None:
        """Return the exact spelling of a column name, or None if the table has no such column.

        If the source is not in the manifest, an undeclared column is added as internal, so that definitions can use
        it. ktx cannot refer to names that contain a dot: the result is None for them.
        """
        found = self.find(name)
        if found is None and self.base is None and "." not in name:
            self.columns[name] = ColumnDraft(name, kind, visibility="internal")
            found = name
        elif found is not None and kind and found in self.columns and self.columns[found].type is None:
            self.columns[found].type = kind
        return found

    def define(
        self, name: str, expr: str, kind: str | None, *, otherwise: str | None = "string", renames: bool = False
    ) -> tuple[ColumnDraft, bool]:
        """Return the column for an expression, and whether the column had to be renamed.

        If the expression is a plain column name, that column is used when the names match or when `renames` allows
        another name; otherwise a computed column is added. `otherwise` is the type if it cannot be determined. Raises
        `KtxError` if the source cannot evaluate the expression.
        """
        plain = plain_name(expr)
        if plain is not None and (renames or plain.casefold() == name.casefold()):
            found = self.require(plain, kind)
            if found is None:
                raise UnresolvedError(f"`{self.name}` has no column `{plain}`, or ktx cannot refer to it by name")
            return self.column(found), False
        names = checked(self, expr, aggregate=False)
        if plain is not None:
            self.require(plain, kind)
        column = self.compute(name, expr, kind or names.type or otherwise, names.columns)
        return column, column.name != name

    def compute(self, name: str, expr: str, kind: str | None, reads: Iterable[tuple[str, ...]]) -> ColumnDraft:
        """Add a computed column, renamed if the table has or the expression reads a column with that name."""
        own = {parts[0].casefold() for parts in reads if len(parts) == 1}
        taken = {each.casefold() for each in (*own, *self.columns, *(self.base.columns if self.base else ()))}
        free = name.replace(".", "_")
        while free.casefold() in taken:
            free = f"{free}_expr"
        shown = "public" if self._all_public(reads) else None
        self.columns[free] = ColumnDraft(free, kind, expr, shown)
        return self.columns[free]

    def _all_public(self, reads: Iterable[tuple[str, ...]]) -> bool:
        """Return whether all columns that a column reads were public before the import.

        Otherwise the column that reads them is hidden as well.
        """
        return all(len(parts) == 1 and self._is_public(parts[0]) for parts in reads)

    def _is_public(self, name: str) -> bool:
        column = self.base.column(name) if self.base is not None else None
        if column is not None:
            return column.visibility in (None, Visibility.PUBLIC) and column.expr is None
        draft = self.columns.get(self.find(name) or "")
        return draft is None or draft.expr is None or draft.visibility is not None


DEFAULT_DIALECT: Final = "duckdb"


class Sources:
    """The imported sources by name, matched to the tables of the existing model.

    `dialect` is the sqlglot dialect of the expressions: by default that of the model, or DuckDB without a model.
    """

    def __init__(self, model: Model | None, report: Report, dialect: str | None = None) -> None:
        self.model, self.report = model, report
        self.dialect = dialect or (model.dialect if model else DEFAULT_DIALECT)
        self.drafts: dict[str, SourceDraft] = {}

    def add(self, name: str, place: Place, *, table: str | None = None, sql: str | None = None) -> SourceDraft:
        """Return a new draft. It changes the manifest's source of the table if no other draft does so already."""
        base = self._base(table, name, place) if table else None
        if base is not None and base.name not in self.drafts:
            if base.name != name:
                self.report.approximated(
                    f"the name `{name}`", "the manifest uses another name for this table", place, base.name
                )
            draft = SourceDraft(base.name, place, self.dialect, base=base)
        else:
            draft = SourceDraft(self._free(name, place), place, self.dialect, table=table, sql=sql)
        self.drafts[draft.name] = draft
        return draft

    def has_table(self, table: str) -> bool:
        """Return whether the manifest has exactly one source for a table and no draft changes it yet."""
        found = self._tables(table)
        return len(found) == 1 and found[0].name not in self.drafts

    def name_of(self, table: str) -> str | None:
        """Return the name of the manifest's source for a table, or None unless there is exactly one."""
        found = self._tables(table)
        return found[0].name if len(found) == 1 else None

    def knows(self, table: str) -> bool:
        """Return whether the manifest has a source for a table."""
        return bool(self._tables(table))

    def _base(self, table: str, name: str, place: Place) -> Source | None:
        found = self._tables(table)
        if len(found) > 1:
            exact = [source for source in found if source.name.casefold() == name.casefold()]
            found = exact if len(exact) == 1 else found
        if len(found) > 1:
            names = ", ".join(sorted(source.name for source in found))
            why = f"several sources match the table: {names}; ktx adds a separate source"
            self.report.approximated(f"the table of `{name}`", why, place, name)
            return None
        return found[0] if found else None

    def _tables(self, table: str) -> list[Source]:
        """Return the manifest's sources for a table: exact matches, or names that end with each other."""
        try:
            wanted = _folded(table_parts(table))
        except ConfigError:
            return []
        sources = self.model.sources.values() if self.model else ()
        known = [(source, _folded(source.table)) for source in sources if source.generated and source.table]
        same = [source for source, parts in known if parts == wanted]
        return same or [
            source for source, parts in known if parts[-len(wanted) :] == wanted or wanted[-len(parts) :] == parts
        ]

    def _free(self, name: str, place: Place) -> str:
        """Return the name, with a number appended if a source in another file already has it."""
        free, number = name, 2
        while free in self.drafts or self._is_taken(free):
            free, number = f"{name}_{number}", number + 1
        if free != name:
            self.report.approximated(f"the name `{name}`", "another source already has this name", place, free)
        return free

    def _is_taken(self, name: str) -> bool:
        found = self.model.sources.get(name) if self.model else None
        if found is None:
            return False
        written_before = found.place is not None and found.place.path.endswith(f"/{file_of(name)}")
        return found.generated or not written_before


def file_of(name: str) -> str:
    """Return the file of a source, relative to the connection's folder."""
    return f"{file_stem(name)}.yaml"


def _folded(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)


def described(description: str | None, label: str | None) -> str | None:
    """Return a description, or else the label."""
    return description or label


def filled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping without its empty values."""
    return {key: value for key, value in entry.items() if value is not None and value not in ("", [], (), {})}


LONGEST: Final = 20_000
"""Maximum length of an imported SQL expression, in characters."""

NAME: Final = re.compile(r"[A-Za-z_]\w*")
_TOKEN: Final = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*(?!\w*\s*\()"
)


@dataclass(frozen=True, slots=True)
class Read:
    """The columns that an SQL expression uses.

    `columns` are those inside aggregates (all columns if there is no aggregate), `outside` the others. `numbers` are
    the columns whose values are added up. `added` lists each `sum` or `avg` directly over a column, with that column.
    `type` is the ktx type of the result, or None if it cannot be determined.
    """

    columns: tuple[tuple[str, ...], ...]
    outside: tuple[tuple[str, ...], ...]
    numbers: frozenset[tuple[str, ...]]
    added: tuple[tuple[str, tuple[str, ...]], ...]
    aggregates: bool
    type: str | None


def read(text: str, dialect: str) -> Read:
    """Analyze one expression. Raises `KtxError` if it is invalid or not allowed in a definition."""
    from ktx_cli.semantic.check import added_columns
    from ktx_cli.semantic.expressions.fragments import is_aggregate, parse

    if len(text) > LONGEST:
        raise UnresolvedError(f"the expression is longer than {LONGEST:,} characters")
    if "{{" in text or "{%" in text or "${" in text:
        raise UnresolvedError("the expression contains a template that ktx cannot resolve")
    tree = parse(text, dialect, what="the expression")
    inside: list[tuple[str, ...]] = []
    outside: list[tuple[str, ...]] = []
    numbers: set[tuple[str, ...]] = set()
    for column in tree.find_all(exp.Column):
        if isinstance(column.this, exp.Star):
            continue
        parts = tuple(part.name for part in column.parts)
        around = _aggregate_around(column, is_aggregate)
        (outside if around is None else inside).append(parts)
        if _is_added(column, around):
            numbers.add(parts)
    if any(_is_nested(node, is_aggregate) for node in tree.walk()):
        raise UnresolvedError("the expression nests an aggregate inside another aggregate")
    aggregates = any(is_aggregate(node) for node in tree.walk())
    found = tuple(dict.fromkeys(inside if aggregates else outside))
    added = tuple(added_columns(tree))
    return Read(found, tuple(dict.fromkeys(outside)), frozenset(numbers), added, aggregates, type_of(tree))


def _is_nested(node: exp.Expr, fits: Callable[[exp.Expr], bool]) -> bool:
    """Return whether a node is an aggregate inside another one. FILTER and WITHIN GROUP do not count as nesting."""
    above = _aggregate_around(node, fits) if fits(node) else None
    return above is not None and above.this is not node


def _aggregate_around(node: exp.Expr, fits: Callable[[exp.Expr], bool]) -> exp.Expr | None:
    above = node.parent
    while above is not None and not fits(above):
        above = above.parent
    return above


def _is_added(column: exp.Expr, aggregate: exp.Expr | None) -> bool:
    """Return whether a numeric aggregate takes the column directly or in arithmetic."""
    if not isinstance(aggregate, exp.Sum | exp.Avg | exp.Median | exp.Quantile):
        return False
    above = column.parent
    while above is not aggregate and isinstance(above, exp.Paren | exp.Add | exp.Sub | exp.Mul | exp.Div):
        above = above.parent
    return above is aggregate


_CAST_TYPES: Final = ("number", "time", "string", "boolean")


def type_of(tree: exp.Expr) -> str | None:
    """Return the ktx type of an expression, or None if it cannot be determined."""
    while isinstance(tree, exp.Paren | exp.Neg):
        tree = tree.this
    if isinstance(tree, exp.Case):
        branches = [branch.args["true"] for branch in tree.args["ifs"]]
        return next((kind for branch in branches if (kind := type_of(branch))), None)
    if isinstance(tree, exp.Literal):
        return "string" if tree.is_string else "number"
    if isinstance(tree, exp.Cast):
        to = tree.args["to"].this
        types = exp.DataType.NUMERIC_TYPES, exp.DataType.TEMPORAL_TYPES, exp.DataType.TEXT_TYPES, {exp.DType.BOOLEAN}
        return next((kind for kind, of in zip(_CAST_TYPES, types, strict=True) if to in of), None)
    if isinstance(tree, exp.Predicate | exp.Connector | exp.Not | exp.Boolean):
        return "boolean"
    if isinstance(tree, exp.TimestampTrunc | exp.DateTrunc | exp.TsOrDsToDate):
        return "time"
    if isinstance(tree, exp.Extract | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Sum | exp.Count | exp.Avg):
        return "number"
    return (
        "string"
        if isinstance(tree, exp.Upper | exp.Lower | exp.Concat | exp.DPipe | exp.Trim | exp.Substring)
        else None
    )


def checked(draft: SourceDraft, text: str, *, aggregate: bool, measures: Iterable[str] = ()) -> Read:
    """Return the columns that a definition uses, and add the undeclared ones to the draft.

    If `aggregate` is true, the definition must contain an aggregate or one of `measures`; otherwise it must not. Raises
    `KtxError` if the source cannot evaluate the definition.
    """
    found = read(text, draft.dialect)
    if found.aggregates and not aggregate:
        raise UnresolvedError("the expression contains an aggregate, but it applies to single rows")
    named = found.outside if aggregate else ()
    if aggregate and not found.aggregates and not named:
        raise UnresolvedError("the expression contains no aggregate")
    known = set(measures)
    strange = [".".join(parts) for parts in named if ".".join(parts) not in known]
    if strange:
        raise UnresolvedError(f"`{strange[0]}` is not an imported measure")
    columns = found.columns if found.aggregates or not aggregate else ()
    owners = [(_owner(draft, parts), parts) for parts in columns]
    for function, parts in found.added:
        _refuse_sum(draft, function, parts)
    for owner, parts in owners:
        owner.require(parts[-1], "number" if parts in found.numbers else None)
    return found


def _refuse_sum(draft: SourceDraft, function: str, parts: tuple[str, ...]) -> None:
    """Raise `KtxError` if the database cannot apply the aggregate to a column of the manifest."""
    from ktx_cli.semantic.check import is_never_added

    owner = _owner(draft, parts)
    column = owner.base.columns.get(owner.find(parts[-1]) or "") if owner.base is not None else None
    if column is not None and is_never_added(column, function, draft.dialect):
        raise UnresolvedError(
            f"the database cannot apply `{function}` to `{'.'.join(parts)}` of type {column.type.value}"
        )


def _owner(draft: SourceDraft, parts: tuple[str, ...]) -> SourceDraft:
    """Return the source that contains a column, and add the column if necessary."""
    owner: SourceDraft | None = draft
    for hop in parts[:-1]:
        if owner is not None and hop != owner.name:
            owner = owner.hops.get(hop)
    if owner is None:
        raise UnresolvedError(f"`{'.'.join(parts)}` is not a column of a source that `{draft.name}` joins")
    if owner.find(parts[-1]) is None and owner.base is not None:
        raise UnresolvedError(f"`{owner.name}` has no column `{parts[-1]}`")
    if owner.find(parts[-1]) is None and "." in parts[-1]:
        raise UnresolvedError(f"the column name `{parts[-1]}` contains a dot")
    return owner


def plain_name(text: str) -> str | None:
    """Return the column name if the text is only a bare or quoted name, or None."""
    stripped = text.strip()
    if NAME.fullmatch(stripped):
        return stripped
    quoted = re.fullmatch(r'"([^"]+)"|`([^`]+)`', stripped)
    return quoted[1] or quoted[2] if quoted else None


def quoted(name: str, dialect: str) -> str:
    """Return a name in the SQL of a dialect, quoted if necessary."""
    return name if NAME.fullmatch(name) else str(exp.to_identifier(name, quoted=True).sql(dialect))


def with_names(text: str, names: dict[str, str]) -> str:
    """Return the text with bare names replaced. Functions, string literals and quoted names do not change."""
    return _TOKEN.sub(lambda found: names.get(re.sub(r"\s", "", found[0]), found[0]), text)


def truncated(text: str, grain: str, dialect: str) -> str:
    """Return a column truncated to a grain. Raises `SemanticError` if the text is not a valid expression."""
    from ktx_cli.semantic.expressions.fragments import parse

    tree = parse(text, dialect, what="the expression").copy()
    if grain == "day":
        return str(exp.cast(tree, "date").sql(dialect))
    return str(exp.TimestampTrunc(this=tree, unit=exp.var(grain.upper())).sql(dialect))


def all_of(conditions: Iterable[str]) -> str | None:
    """Return the conjunction of the conditions."""
    several = list(dict.fromkeys(conditions))
    if len(several) < 2:
        return several[0] if several else None
    return " AND ".join(f"({each})" for each in several)


IMPORT_HEADER = "# Imported from {tool}: the next import replaces this file. Take this line out to keep your changes.\n"
"""First line of every imported file. An import never replaces a file without this line, so do not reword it."""

HEADER_START = IMPORT_HEADER.split("{", maxsplit=1)[0]


def imported(drafts: Iterable[SourceDraft], report: Report, tool: str) -> Imported:
    """Return the files for the drafts. `tool` names the tool that the descriptions come from."""
    files = {}
    for draft in drafts:
        if draft.base is None and not draft.columns:
            report.dropped(f"source `{draft.name}`", "the source has no columns", draft.place)
            continue
        _guess_types(draft, report)
        document = _overlay(draft, report, tool) if draft.base is not None else _standalone(draft, tool)
        if len(document) > 1:
            files[file_of(draft.name)] = IMPORT_HEADER.format(tool=tool) + yaml.dump(document)
    return Imported(files, report.sorted())


def _guess_types(draft: SourceDraft, report: Report) -> None:
    """Set the type `string` for columns without a type, and report them."""
    guessed = [each for each in draft.columns.values() if each.type is None and draft.physical(each.name) is None]
    if draft.base is None:
        guessed = [each for each in draft.columns.values() if each.type is None]
    for column in guessed:
        column.type = "string"
    if guessed:
        names = listing([column.name for column in guessed], 20)
        why = f"unknown for {names}; ktx assumes string"
        report.approximated(f"types of columns of `{draft.name}`", why, draft.place, draft.name)


def _standalone(draft: SourceDraft, tool: str) -> dict[str, Any]:
    own = [_column(column, tool) for column in draft.columns.values()]
    origin = {"table": draft.table, "sql": draft.sql}
    return filled({"name": draft.name, **origin, **_shared(draft, tool), "columns": own, **_lists(draft)})


def _overlay(draft: SourceDraft, report: Report, tool: str) -> dict[str, Any]:
    overridden, computed = [], []
    for column in draft.columns.values():
        if column.expr is not None:
            computed.append(_column(column, tool))
        elif (name := draft.physical(column.name)) is None:
            why = f"the table of `{draft.name}` does not have this column"
            report.dropped(f"column `{column.name}` of `{draft.name}`", why, draft.place)
        elif len(entry := _override(draft, column, name, tool)) > 1:
            overridden.append(entry)
    return filled({
        "name": draft.name, **_shared(draft, tool), "column_overrides": overridden, "columns": computed, **_lists(draft)
    })  # fmt: skip


def _shared(draft: SourceDraft, tool: str) -> dict[str, Any]:
    """Return the keys that new sources and overlays share. The grain is included only if the manifest has none."""
    texts = {QUESTIONS: "\n".join, SYNONYMS: ", ".join}
    return {
        "descriptions": filled(
            {
                LABEL: draft.label,
                tool: draft.description,
                **{key: join(draft.search_texts.get(key, ())) for key, join in texts.items()},
            }
        )
        or None,
        "grain": None if (draft.base is not None and draft.base.keyed) else list(draft.grain),
        "default_time_dimension": {tool: draft.time} if draft.time else None,
        **draft.extra,
        "visibility": _stricter(draft.extra.get("visibility"), draft.base.visibility if draft.base else None),
    }


def _lists(draft: SourceDraft) -> dict[str, Any]:
    return {
        "joins": draft.joins,
        "measures": list(draft.measures.values()),
        "segments": list(draft.segments.values()),
        "policies": list(draft.policies.values()),
    }


def _column(column: ColumnDraft, tool: str) -> dict[str, Any]:
    return filled({
        "name": column.name, "type": column.type, "expr": column.expr, "visibility": _visibility(column),
        "label": column.label, "descriptions": {tool: column.description} if column.description else None,
        **column.extra,
    })  # fmt: skip


def _visibility(column: ColumnDraft) -> str | None:
    """Return the visibility to write. A computed column may read an internal one, so `public` is written for it."""
    return None if column.visibility == "public" and column.expr is None else column.visibility


def _override(draft: SourceDraft, column: ColumnDraft, name: str, tool: str) -> dict[str, Any]:
    """Return the override for a column of the manifest. It can restrict the visibility, never widen it."""
    entry = _column(column, tool)
    entry.pop("type", None)
    known = draft.base.columns[name].visibility if draft.base is not None else None
    entry["visibility"] = _stricter(column.visibility, known)
    return {**filled(entry), "name": name}


def _stricter(wanted: str | None, known: Visibility | None) -> str | None:
    """Return the visibility to write, or None if the manifest's visibility is at least as strict."""
    order = list(Visibility)
    is_stricter = wanted is not None and order.index(Visibility(wanted)) > order.index(known or Visibility.PUBLIC)
    return wanted if is_stricter else None


_WORDS: Final = frozenset({"and", "true", "false", "null"})


def on_text(pairs: Iterable[tuple[str, str]], hop: str) -> str:
    """Return the `on` of a join that compares pairs of columns. Names are quoted if necessary."""
    return " AND ".join(f"{_named(own)} = {_named(hop)}.{_named(other)}" for own, other in pairs)


def _named(name: str) -> str:
    plain = NAME.fullmatch(name) is not None and name.lower() not in _WORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def reach(drafts: Iterable[SourceDraft]) -> None:
    """Let the expressions of each source refer to all sources that it reaches over to-one joins."""
    by_name = {draft.name: draft for draft in drafts}
    edges: dict[str, list[tuple[str, SourceDraft]]] = {name: [] for name in by_name}
    for draft in by_name.values():
        for join in draft.joins:
            target = by_name.get(join["to"])
            if target is not None and join["relationship"] != "one_to_many":
                edges[draft.name].append((join.get("alias") or target.name, target))
            if target is not None and join["relationship"] != "many_to_one" and "alias" not in join:
                edges[target.name].append((draft.name, draft))
    for draft in by_name.values():
        ways = list(edges[draft.name])
        while ways:
            hop, target = ways.pop()
            if hop != draft.name and hop not in draft.hops:
                draft.hops[hop] = target
                ways += edges[target.name]
