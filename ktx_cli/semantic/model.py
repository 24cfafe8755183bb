"""The model of a semantic layer: the sources of a connection with their columns, joins, measures and segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any, Final, TypeVar

from ktx_cli.core import (
    EXIT_USAGE,
    AgentStep,
    Command,
    Diagnostic,
    Hint,
    KtxError,
    Location,
    Severity,
    listing,
    similar_names,
    suggested_names,
    suggestion,
)
from ktx_cli.warehouses import SemanticType, StoredAs, TableRef

_Named = TypeVar("_Named")

SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR = (
    "second", "minute", "hour", "day", "week", "month", "quarter", "year",
)  # fmt: skip
FISCAL_QUARTER, FISCAL_YEAR = "fiscal_quarter", "fiscal_year"
GRAINS = (SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR, FISCAL_QUARTER, FISCAL_YEAR)
"""Time grains, finest first. The project setting `semantic.fiscal_year_start` determines the fiscal ones."""


SEVERAL: Final = object()
"""The value of a user attribute that differs between the principals of a caller. Only row policies support it."""


class Visibility(StrEnum):
    """Who can use a column, measure or source.

    `internal` ones can be used in definitions, filters and aggregates, but not as dimensions, and are not listed.
    `hidden` ones can only be used in definitions.
    """

    PUBLIC = "public"
    INTERNAL = "internal"
    HIDDEN = "hidden"


class Status(StrEnum):
    """The review status of a definition. Definitions that people or their tools wrote may have none."""

    PROPOSED = "proposed"
    """Derived by ktx from structure and data, and not reviewed."""
    ACCEPTED = "accepted"
    CERTIFIED = "certified"


class Relationship(StrEnum):
    """The cardinality of a join, from the declaring source to the other source."""

    MANY_TO_ONE = "many_to_one"
    ONE_TO_MANY = "one_to_many"
    ONE_TO_ONE = "one_to_one"


@dataclass(frozen=True, slots=True)
class Place(Location):
    """A location in a project file: the path relative to the repository, and the line from 1."""

    path: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class Mask:
    """What a column shows instead of its values, unless the caller has certain attributes.

    `unless`: attributes, each with the values that see the column; every principal of the caller must have one of the
    values of every attribute. Without any, nobody sees the column. `value` replaces every value of the column.
    """

    unless: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    value: Any = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column in a source. `expr` is the SQL of a computed column, over the columns of the source.

    `natural_granularity` is the finest grain of its values: if it is `day` or coarser, they are calendar dates without
    time zone. `timezone` applies to timestamps that do not specify one. `values` are the allowed values, if known from
    a definition. If `visibility` is None, the column is as visible as the columns that its `expr` reads. `unique` is
    true if a definition such as a dbt test claims that its values are unique; ktx has not verified the claim. `label`
    is the name that people use, and `synonyms` are further names. `stored_as` is set if the database stores the values
    as another type, such as times as text; statements then convert them to `type`. `mask` hides the values from
    callers without certain attributes.
    """

    name: str
    type: SemanticType
    expr: str | None = None
    visibility: Visibility | None = None
    role: str = "default"
    description: str | None = None
    natural_granularity: str | None = None
    timezone: str | None = None
    unit: str | None = None
    values: tuple[str, ...] = ()
    nullable: bool = True
    place: Place | None = None
    unique: bool = False
    label: str | None = None
    synonyms: tuple[str, ...] = ()
    stored_as: StoredAs | None = None
    mask: Mask | None = None

    @property
    def zone(self) -> str | None:
        """The time zone of its values; None for the default. An instant as text or number is converted to UTC."""
        return "UTC" if self.stored_as is not None and self.stored_as.is_instant else self.timezone

    @property
    def is_date(self) -> bool:
        """Whether the column's values are known to be calendar dates."""
        return self.natural_granularity in (DAY, WEEK, MONTH, QUARTER, YEAR)


@dataclass(frozen=True, slots=True)
class Condition:
    """A constant that a column on one side of a join must equal. `own` means the side that declares the join."""

    own: bool
    column: str
    value: Any


@dataclass(frozen=True, slots=True)
class Join:
    """A declared join. Each of `pairs` is an own column and a column of `to`; all pairs must be equal.

    `provenance` is the `source:` of the join: `formal`, `inferred`, `manual` or None.
    """

    to: str
    on: str
    pairs: tuple[tuple[str, str], ...]
    relationship: Relationship
    alias: str | None = None
    conditions: tuple[Condition, ...] = ()
    provenance: str | None = None
    place: Place | None = None
    mirrored: bool = False
    """Whether the other source's file declares the join, from its own side; `place` is in that file."""


@dataclass(frozen=True, slots=True)
class SemiAdditive:
    """A measure that cannot be summed over `over`. Its `last` or `first` value or the `average` is used instead.

    With `per`, the last or first value is determined separately for each combination of these columns.
    """

    over: str
    take: str = "last"
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A span of calendar time: a `count` and a `unit`, which is a grain that is not fiscal."""

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Cumulative:
    """A measure that accumulates up to the end of each period: over all time, over a `window`, or since `to_date`."""

    over: str | None = None
    window: Span | None = None
    to_date: str | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate over a source, or a formula over measures. `docs/reference/semantic-files.md` describes the fields.

    `percent_of` is None or the dimensions of the whole (empty for the grand total). `per` are the keys of a two-level
    measure. Search uses `questions`, `label` and `synonyms`. `imported` measures are defined by another tool such as
    dbt and must be changed there.
    """

    name: str
    expr: str
    filter: str | None = None
    segments: tuple[str, ...] = ()
    description: str | None = None
    visibility: Visibility = Visibility.PUBLIC
    unit: str | None = None
    format: str | None = None
    time: str | None = None
    semi_additive: SemiAdditive | None = None
    cumulative: Cumulative | None = None
    offset: Span | None = None
    percent_of: tuple[str, ...] | None = None
    per: tuple[str, ...] = ()
    place: Place | None = None
    status: Status | None = None
    reason: str | None = None
    """Why ktx proposed the definition, in one sentence."""
    questions: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    imported: bool = False
    owner: str | None = None
    """The owner of the definition."""
    review_by: date | None = None
    """The last day on which the definition counts as certified."""
    label: str | None = None

    @property
    def is_proposed(self) -> bool:
        """Whether the definition has not been reviewed."""
        return self.status is Status.PROPOSED


@dataclass(frozen=True, slots=True)
class Segment:
    """A named condition on the rows of a source.

    Search uses `questions`, `label` and `synonyms`. `status`, `reason`, `owner` and `review_by` mean the same as for
    measures.
    """

    name: str
    expr: str
    description: str | None = None
    place: Place | None = None
    status: Status | None = None
    reason: str | None = None
    questions: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    owner: str | None = None
    review_by: date | None = None
    label: str | None = None

    @property
    def is_proposed(self) -> bool:
        """Whether it has not been reviewed."""
        return self.status is Status.PROPOSED


@dataclass(frozen=True, slots=True)
class Policy:
    """A condition that every row read from a source must meet. `{{ user.NAME }}` is an attribute of the caller."""

    name: str
    filter: str
    description: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that queries can set, used as `{{ param.NAME }}`. `values` are the allowed values."""

    name: str
    type: SemanticType
    default: Any = None
    values: tuple[Any, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class MetricTest:
    """A query with its expected result: rows, one value, or an invariant over the columns of the result."""

    name: str
    query: Mapping[str, Any]
    expect: tuple[tuple[Any, ...], ...] | None = None
    expect_value: Any = None
    invariant: str | None = None
    tolerance: float = 0.0
    place: Place | None = None


def spelled(known: Mapping[str, _Named], name: str) -> _Named | None:
    """Return the item with exactly this name, or the only one whose name differs in case."""
    found = known.get(name)
    if found is not None:
        return found
    folded = name.casefold()
    alike = [other for other in known if other.casefold() == folded]
    return known[alike[0]] if len(alike) == 1 else None


_STARTS: Final = frozenset({"from", "start", "begin", "starts", "begins", "effective", "von", "ab"})
_ENDS: Final = frozenset({"to", "until", "end", "ends", "thru", "through", "expires", "expired", "bis"})


@dataclass(frozen=True, slots=True)
class Source:
    """One source, resolved from all its files. Exactly one of `table` and `sql` is set.

    `table` are the parts of its physical name, outermost first. `grain` are the columns that make a row unique. `keyed`
    is true if the grain is declared or a key; otherwise the grain is all columns. `generated` sources are in the
    manifest. Search uses `search`, `questions`, `label` and `synonyms`. `grain_place` is the location of a declared
    grain. `lineage` are sentences of a tool such as dbt about the origin of its rows and columns. `usage_tier` is how
    often queries read it compared with other tables: `high`, `mid`, `low` or `unused`, None if that is not known.
    """

    name: str
    columns: Mapping[str, Column]
    grain: tuple[str, ...]
    table: tuple[str, ...] | None = None
    sql: str | None = None
    joins: tuple[Join, ...] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict)
    segments: Mapping[str, Segment] = field(default_factory=dict)
    policies: tuple[Policy, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    tests: tuple[MetricTest, ...] = ()
    time_column: str | None = None
    description: str | None = None
    visibility: Visibility = Visibility.PUBLIC
    generated: bool = False
    keyed: bool = True
    search: tuple[str, ...] = ()
    place: Place | None = None
    questions: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    grain_place: Place | None = None
    lineage: tuple[str, ...] = ()
    label: str | None = None
    usage_tier: str | None = None

    def column(self, name: str) -> Column | None:
        """Return the column with exactly this name, or the only one that differs in case."""
        return spelled(self.columns, name)

    def measure(self, name: str) -> Measure | None:
        """Return the measure with exactly this name, or the only one that differs in case."""
        return spelled(self.measures, name)

    @property
    def validity(self) -> tuple[str, str] | None:
        """The columns with the start and end of a row's validity, found by name. None unless there is one of each."""
        times = [each.name for each in self.columns.values() if each.type is SemanticType.TIME]
        words = {name: set(name.casefold().split("_")) for name in times}
        starts = [name for name in times if words[name] & _STARTS and not words[name] & _ENDS]
        ends = [name for name in times if words[name] & _ENDS]
        return (starts[0], ends[0]) if len(starts) == len(ends) == 1 else None

    @property
    def is_all_public(self) -> bool:
        """Whether the source and all its columns and measures are public."""
        measures = all(each.visibility is Visibility.PUBLIC for each in self.measures.values())
        return measures and self.has_public_columns

    @property
    def has_public_columns(self) -> bool:
        """Whether the source and all its columns are public."""
        columns = all(each.visibility in (None, Visibility.PUBLIC) for each in self.columns.values())
        return columns and self.visibility is Visibility.PUBLIC

    @property
    def is_protected(self) -> bool:
        """Whether people have restricted who can see the source or a part of it."""
        is_hidden = self.visibility is Visibility.HIDDEN
        return bool(self.policies) or is_hidden or any(map(_is_hidden_or_masked, self.columns.values()))

    @property
    def has_masks(self) -> bool:
        """Whether any column has a mask."""
        return any(each.mask is not None for each in self.columns.values())

    def is_of(self, ref: TableRef) -> bool:
        """Whether the source reads this table: the names match, and so do the schemas if both have one."""
        schemas = (self.table or ())[-2:-1]
        return not schemas or ref.schema is None or schemas[0].casefold() == ref.schema.casefold()


def _is_hidden_or_masked(column: Column) -> bool:
    return column.visibility is Visibility.HIDDEN or column.mask is not None


PROBLEM_KEYS: Final[Mapping[str, str]] = {
    **{name: name for name in ("severity", "code", "message", "path", "line", "hint")},
    "source": "object",
}
"""The JSON keys of a semantic layer diagnostic. Its object is the source."""


def layer_diagnostic(
    severity: Severity, code: str, message: str, place: Place, hint: str | None = None, source: str | None = None
) -> Diagnostic:
    """Return a semantic layer diagnostic. An error excludes its source, or the named part, from the model."""
    return Diagnostic(code, severity, message, place.within(object=source), hint)


@dataclass(frozen=True, slots=True)
class CalendarSettings:
    """The settings for periods. `week_start` is `monday` or `sunday`, `fiscal_year_start` a month from 1 to 12."""

    week_start: str = "monday"
    fiscal_year_start: int = 1
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class Barred:
    """A source with unknown restrictions, because a file that may define them has an error.

    `tables` are the tables that it reads, with the parts of their names outermost first.
    """

    problem: Diagnostic
    tables: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """The semantic layer of one connection.

    `dialect` is the sqlglot dialect of its expressions. `sources` are the sources without errors, by name. `problems`
    are the diagnostics of all files in order. `barred` are further sources whose tables cannot be queried with raw SQL.
    `sealed` is an error that bars raw SQL for all tables, because the affected tables are unknown. `lookups` and
    `remembered` are caches of `lookup_of`, `graph_of` and others.
    """

    connection: str
    dialect: str
    sources: Mapping[str, Source]
    problems: Sequence[Diagnostic] = ()
    calendar: CalendarSettings = CalendarSettings()
    barred: Mapping[str, Barred] = field(default_factory=dict)
    sealed: Diagnostic | None = None
    lookups: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)
    remembered: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)


class SemanticError(KtxError):
    """A query or a definition that has no correct answer.

    Codes: `unknown_name`, `ambiguous_name`, `ambiguous_path`, `unreachable`, `unreachable_filter`, `hidden`, `grain`,
    `query`, `time_range`, `definition`, `policy`, `parameter`, `fan_out`, `cardinality`, `conversion`.
    `details.candidates` are names, `details.choices` are values for `via`.
    """

    code = "query"

    @property
    def exit_code(self) -> int:
        """The process exit code: an invalid query is a usage error, unlike a `query` error of the database."""
        return EXIT_USAGE if self.code == "query" else super().exit_code


def unknown(
    what: str, name: str, known: Iterable[str], where: str = "", *, source: str = "", prefix: str = ""
) -> SemanticError:
    """Return the error for an unknown name. The hint is as by `name_hint`.

    `details.candidates` are all known names, or only the similar ones if there are many; the closest comes first.
    `where` qualifies the message; if it does, only `source` makes the names those that search finds.
    """
    names = sorted(set(known))
    similar = similar_names(name, names)
    candidates = similar if len(names) > _MOST_CANDIDATES else [*dict.fromkeys((*similar, *names))]
    facts = {"kind": what, "candidates": candidates[:_MOST_CANDIDATES], "known": len(names)}
    message = f"there is no {what} `{name}`{where}"
    is_listed = what in _FOUND_BY_SEARCH and (not where or bool(source))
    hint = name_hint(name, names, source=source, prefix=prefix) if is_listed else suggestion(name, names, prefix)
    return SemanticError(message, hint=hint, code="unknown_name", details=facts)


def name_hint(name: str, known: Iterable[str], *, source: str = "", prefix: str = "") -> Hint:
    """Return the hint for an unknown name in a semantic layer: the nearest names, or where to look for names.

    `source` has the known names; if it is not given, a name such as `orders.totl` may say so. `prefix`: see
    `suggestion`.
    """
    names = set(known)
    named = suggested_names(name, names, prefix)
    if named is not None:
        return Hint(named)
    owner, _, _ = name.rpartition(".")
    source = source or (owner if any(each.startswith(f"{owner}.") for each in names) else "")
    typed = Hint("to list the sources: {}", Command("sl", "list"))
    if source:
        typed = Hint("to list the names of this source: {}", Command("sl", "read", source))
    return Hint("{}; {}", suggestion(name, names), AgentStep("find names with discover_data", typed=typed))


_FOUND_BY_SEARCH: Final = frozenset({"measure", "source", "column", "segment", "source or alias"})
"""Kinds of names that search finds."""

_MOST_CANDIDATES: Final = 50
"""Maximum number of names in the details of an error."""


def ambiguous(what: str, name: str, candidates: Iterable[str]) -> SemanticError:
    """Return the error for an ambiguous name. Without visible candidates, it is the error for an unknown name."""
    names = sorted(set(candidates))
    if not names:
        return unknown(what.removeprefix("the "), name, ())
    message = f"{what} `{name}` is ambiguous: {listing(names)}"
    return SemanticError(
        message,
        hint=f"write the full name, for example: {names[0]}",
        code="ambiguous_name",
        details={"candidates": names},
    )
