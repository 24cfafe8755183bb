"""The semantic layer of a connection after its files are read: sources with columns, joins, measures, segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any, Final, TypeVar

from ktx_cli.core import EXIT_USAGE, Diagnostic, KtxError, Location, Severity, did_you_mean, listing
from ktx_cli.warehouses import SemanticType, TableRef

_Named = TypeVar("_Named")

SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR = (
    "second", "minute", "hour", "day", "week", "month", "quarter", "year",
)  # fmt: skip
FISCAL_QUARTER, FISCAL_YEAR = "fiscal_quarter", "fiscal_year"
GRAINS = (SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR, FISCAL_QUARTER, FISCAL_YEAR)
"""Time grains, finest first; the fiscal ones begin in the month the project says."""


class Visibility(StrEnum):
    """The people who may use a column, a measure or a source.

    `internal`: definitions, filters and aggregates, but no dimension and no list. `hidden`: definitions alone.
    """

    PUBLIC = "public"
    INTERNAL = "internal"
    HIDDEN = "hidden"


class Status(StrEnum):
    """How far a definition is settled; a definition without one is as people or their tools wrote it."""

    PROPOSED = "proposed"
    """Derived by ktx from structure and data; nobody has reviewed it."""
    ACCEPTED = "accepted"
    CERTIFIED = "certified"


class Relationship(StrEnum):
    """The number of rows of the other source for one of this, and the other way round."""

    MANY_TO_ONE = "many_to_one"
    ONE_TO_MANY = "one_to_many"
    ONE_TO_ONE = "one_to_one"


@dataclass(frozen=True, slots=True)
class Place(Location):
    """A location in a file of the project: path as git sees it, line from 1."""

    path: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source; `expr` is SQL over the source's columns where it is computed.

    `natural_granularity`: the finest grain its values have; `day` or coarser makes them calendar dates, which no time
    zone shifts. `timezone`: what its timestamps mean where they do not say it. `values`: the values it may have, known
    from a definition. `visibility` None: as visible as the columns its `expr` reads. `place`: where it was defined.
    `unique`: whether a definition (a dbt test) says that no two rows have the same value; nothing has checked it.
    `label`: what people call it; `synonyms`: other names of it.
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

    @property
    def is_date(self) -> bool:
        """Whether its values are calendar dates for sure."""
        return self.natural_granularity in (DAY, WEEK, MONTH, QUARTER, YEAR)


@dataclass(frozen=True, slots=True)
class Condition:
    """A constant a column of one side of a join must have: `own` is the side that declares the join."""

    own: bool
    column: str
    value: Any


@dataclass(frozen=True, slots=True)
class Join:
    """A join as declared: `pairs[i]` is (own column, column of `to`), all must be equal.

    `provenance`: `formal`, `inferred`, `manual` or None as its `source:` says.
    """

    to: str
    on: str
    pairs: tuple[tuple[str, str], ...]
    relationship: Relationship
    alias: str | None = None
    conditions: tuple[Condition, ...] = ()
    provenance: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class SemiAdditive:
    """A measure that cannot be added over `over`: take the `last` or `first` value of it, or the `average` of all.

    `per`: the columns for each of whose values the last is looked for; empty: one last for all.
    """

    over: str
    take: str = "last"
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A length of calendar time: `count` of `unit` (a grain that is not fiscal)."""

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Cumulative:
    """A measure that counts from a start to each period's end: all before, the last `window`, or since `to_date`."""

    over: str | None = None
    window: Span | None = None
    to_date: str | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate over a source, or a formula over measures; see the fields of `docs/reference/semantic-files.md`.

    `percent_of`: None, or the dimensions over which the whole is taken (empty: the total). `per`: the keys of a
    two-level measure. `questions` that it answers, its `label` and `synonyms` are there to find it by. `imported`:
    whether a tool such as dbt defines it, so that nobody changes it here.
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
    """Why it was proposed, one sentence."""
    questions: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    imported: bool = False
    owner: str | None = None
    """The person who answers for it."""
    review_by: date | None = None
    """The day after which it counts as certified no longer."""
    label: str | None = None

    @property
    def is_proposed(self) -> bool:
        """Whether nobody has reviewed it."""
        return self.status is Status.PROPOSED


@dataclass(frozen=True, slots=True)
class Segment:
    """A named condition on a source's rows; `questions`, `label` and `synonyms` are there to find it by.

    `status`, `reason`, `owner` and `review_by` are those of a measure.
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
        """Whether nobody has reviewed it."""
        return self.status is Status.PROPOSED


@dataclass(frozen=True, slots=True)
class Policy:
    """A condition every row read from a source must meet; `{{ user.NAME }}` stands for the caller's attribute."""

    name: str
    filter: str
    description: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value a question may set, as `{{ param.NAME }}`; `values`: the only ones it may have."""

    name: str
    type: SemanticType
    default: Any = None
    values: tuple[Any, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class MetricTest:
    """A question with what must come out: rows, one value, or an invariant over the result's columns."""

    name: str
    query: Mapping[str, Any]
    expect: tuple[tuple[Any, ...], ...] | None = None
    expect_value: Any = None
    invariant: str | None = None
    tolerance: float = 0.0
    place: Place | None = None


def spelled(known: Mapping[str, _Named], name: str) -> _Named | None:
    """Return what has the name, else the only one whose name differs in case alone."""
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
    """One source, everything of its files resolved. Exactly one of `table` and `sql` is set.

    `table`: the parts of its physical name, outermost first. `grain`: the columns that make a row unique, verbatim.
    `keyed`: whether the grain is said or a key; else it is all columns for want of one. `generated`: whether the
    manifest has it (with an overlay or without). `search`: further text to find it by, as are the `questions` that it
    answers, its `label` and its `synonyms`. `grain_place`: where its grain is stated, None where it follows from a key
    or nothing says it. `lineage`: what a tool such as dbt says of how its rows and columns come to be, a sentence each.
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

    def column(self, name: str) -> Column | None:
        """Return the column of that name, else the only one that differs in case alone."""
        return spelled(self.columns, name)

    def measure(self, name: str) -> Measure | None:
        """Return the measure of that name, else the only one that differs in case alone."""
        return spelled(self.measures, name)

    @property
    def validity(self) -> tuple[str, str] | None:
        """The columns from which and to which a row holds, as their names say; None without exactly one of each."""
        times = [each.name for each in self.columns.values() if each.type is SemanticType.TIME]
        words = {name: set(name.casefold().split("_")) for name in times}
        starts = [name for name in times if words[name] & _STARTS and not words[name] & _ENDS]
        ends = [name for name in times if words[name] & _ENDS]
        return (starts[0], ends[0]) if len(starts) == len(ends) == 1 else None

    @property
    def is_all_public(self) -> bool:
        """Whether nothing of it is internal or hidden: not the source, and no column or measure."""
        measures = all(each.visibility is Visibility.PUBLIC for each in self.measures.values())
        return measures and self.has_public_columns

    @property
    def has_public_columns(self) -> bool:
        """Whether it says neither of itself nor of a column that it is internal or hidden."""
        columns = all(each.visibility in (None, Visibility.PUBLIC) for each in self.columns.values())
        return columns and self.visibility is Visibility.PUBLIC

    @property
    def is_protected(self) -> bool:
        """Whether people said of it that not everybody sees all of it."""
        is_hidden = self.visibility is Visibility.HIDDEN
        return bool(self.policies) or is_hidden or any(map(_is_hidden, self.columns.values()))

    def is_of(self, ref: TableRef) -> bool:
        """Whether the source is of a table of its table's name: the schema is the same, or one of them has none."""
        schemas = (self.table or ())[-2:-1]
        return not schemas or ref.schema is None or schemas[0].casefold() == ref.schema.casefold()


def _is_hidden(column: Column) -> bool:
    return column.visibility is Visibility.HIDDEN


PROBLEM_KEYS: Final[Mapping[str, str]] = {
    **{name: name for name in ("severity", "code", "message", "path", "line", "hint")},
    "source": "object",
}
"""The keys of a diagnostic of a semantic layer in JSON output; its object is the source it is about."""


def layer_diagnostic(
    severity: Severity, code: str, message: str, place: Place, hint: str | None = None, source: str | None = None
) -> Diagnostic:
    """Return a diagnostic of a semantic layer; an error keeps its source (or the part named) out of the model."""
    return Diagnostic(code, severity, message, place.within(object=source), hint)


@dataclass(frozen=True, slots=True)
class CalendarSettings:
    """The periods that time is cut into: `week_start` is `monday` or `sunday`; `fiscal_year_start` a month, 1 to 12."""

    week_start: str = "monday"
    fiscal_year_start: int = 1
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class Barred:
    """A source about which nobody can tell who sees what, because of an error in a file that may say it.

    `tables`: what it reads, parts outermost first.
    """

    problem: Diagnostic
    tables: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """The semantic layer of one connection.

    `dialect` is sqlglot's name for the SQL of its expressions. `sources`: by name, those without errors. `problems`: of
    all files, in their order. `barred`: by name, sources that are not among them and whose tables nobody reads by raw
    SQL. `sealed`: the error for which no table is read so, as nobody can tell which ones a file is about. `lookups`:
    kept by `lookup_of`. `remembered`: what was computed of the layer, by what it is: `graph_of` and others keep it.
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
    """A question or a definition that has no right answer as it is put.

    Codes: `unknown_name`, `ambiguous_name`, `ambiguous_path`, `unreachable`, `unreachable_filter`, `hidden`, `grain`,
    `query`, `definition`, `policy`, `parameter`, `fan_out`, `cardinality`. `details.candidates` are names,
    `details.choices` are values for `via`.
    """

    code = "query"

    @property
    def exit_code(self) -> int:
        """The process exit code: a question put wrongly is wrong usage; a database's `query` error is not."""
        return EXIT_USAGE if self.code == "query" else super().exit_code


def unknown(what: str, name: str, known: Iterable[str], where: str = "", **details: Any) -> SemanticError:
    """Return the error for a name nothing has; the hint is the nearest known one, else some of them."""
    names = sorted(set(known))
    near = did_you_mean(name, names)
    hint = f"did you mean `{near}`?" if near else _others(name, names)
    message = f"there is no {what} `{name}`{where}"
    return SemanticError(message, hint=hint, code="unknown_name", details={"candidates": names[:50], **details})


def _others(name: str, names: list[str]) -> str:
    """Return some of the names there are, first of all those with the name in them."""
    having = [each for each in names if name.casefold() in each.casefold()]
    if having:
        return f"similar names: {listing(having, 12)}"
    return f"available: {listing(names, 12)}" if names else "none are defined"


def ambiguous(what: str, name: str, candidates: Iterable[str]) -> SemanticError:
    """Return the error for a name several things have; without candidates that may be named, as if nothing had it."""
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
