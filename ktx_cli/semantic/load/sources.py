"""Read the files of one source: manifest entries, overlays and the user's own sources."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.core import ConfigError, Diagnostic, Severity, listing, suggestion
from ktx_cli.semantic import model
from ktx_cli.semantic.load.columns import (
    LABEL,
    NOT_AUTHORS,
    OVERRIDES,
    QUESTIONS,
    SYNONYMS,
    ColumnDraft,
    best,
    is_imported,
    merged,
    override,
    read_column,
    read_descriptions,
    read_label,
    read_measure,
    read_parameter,
    read_policy,
    read_segment,
    read_source_texts,
    read_test,
    read_visibility,
    texts_in,
    unique,
)
from ktx_cli.semantic.load.entries import APPROVALS, MASK, POLICIES, VISIBILITY, Entry, read_approval
from ktx_cli.semantic.load.joins import Key, join_key, read_join, table_parts
from ktx_cli.semantic.manifest import DISABLED, DISABLED_MEASURES, PROPOSED_MEASURES, PROPOSED_SEGMENTS, plain_on

SHARED_KEYS = (
    "descriptions", "grain", "columns", "joins", "measures", "segments", "default_time_dimension", "tags", "freshness",
    "usage", "lineage", "visibility", "policies", "parameters", "tests", *APPROVALS, LABEL, QUESTIONS, SYNONYMS,
)  # fmt: skip
SOURCE_KEYS = frozenset((*SHARED_KEYS, "name", "table", "sql", "description", "source_type"))
STANDALONE_KEYS = SOURCE_KEYS | {"inherits_columns_from"}
GENERATED_KEYS = SOURCE_KEYS | {PROPOSED_MEASURES, PROPOSED_SEGMENTS}


@dataclass(slots=True)
class SourceDraft:
    """A source that is being read from files.

    `disabled` are manifest joins that its overlay disables. `rejected` are names of rejected proposals. `lost` means
    that an error excludes it from the model. `entries` are its mappings, and `overlay` is the location of its overlay.
    `barred` is an error that makes its access restrictions unknown.
    """

    name: str
    place: model.Place
    generated: bool
    table: tuple[str, ...] | None = None
    sql: str | None = None
    grain: tuple[str, ...] | None = None
    grain_place: model.Place | None = None
    columns: dict[str, ColumnDraft] = field(default_factory=dict)
    joins: dict[Key, model.Join] = field(default_factory=dict)
    measures: dict[str, model.Measure] = field(default_factory=dict)
    disabled: list[model.Join] = field(default_factory=list)
    segments: dict[str, model.Segment] = field(default_factory=dict)
    proposed_measures: dict[str, model.Measure] = field(default_factory=dict)
    proposed_segments: dict[str, model.Segment] = field(default_factory=dict)
    rejected: frozenset[str] = frozenset()
    policies: dict[str, model.Policy] = field(default_factory=dict)
    parameters: dict[str, model.Parameter] = field(default_factory=dict)
    tests: dict[str, model.MetricTest] = field(default_factory=dict)
    time_column: str | None = None
    descriptions: dict[str, str] = field(default_factory=dict)
    visibility: model.Visibility = model.Visibility.PUBLIC
    search: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
    label: str | None = None
    usage_tier: str | None = None
    lost: bool = False
    entries: list[Entry] = field(default_factory=list)
    overlay: model.Place | None = None
    barred: Diagnostic | None = None

    @property
    def protects(self) -> bool:
        """Whether the definitions read so far restrict access to the source."""
        return any(entry.protects for entry in self.entries)

    @property
    def has_table(self) -> bool:
        """Whether the source names a table, even in an unreadable way."""
        return any("table" in entry.values for entry in self.entries)

    def bar(self, problem: Diagnostic) -> None:
        """Exclude the source from the model and from raw SQL, because its access restrictions may contain an error."""
        self.lost, self.barred = True, self.barred or problem

    def settle(self) -> None:
        """Bar the source if a part that restricts access has an error, or if the source is lost and protected."""
        for entry in self.entries:
            if entry.trouble is not None and entry.protects:
                self.bar(entry.trouble)
        if self.lost and self.barred is None and self.protects:
            found = (entry.trouble for entry in self.entries if entry.trouble is not None)
            what = f"`{self.name}` has errors, and some of its data is protected"
            self.bar(
                next(found, model.layer_diagnostic(Severity.ERROR, "duplicate", what, self.place, None, self.name))
            )

    def find(self, column: str) -> ColumnDraft | None:
        """Return the column with that name, or the only one that differs in case."""
        return model.spelled(self.columns, column)

    def spelled(self, column: str) -> str:
        """Return the name as spelled by the column, or unchanged if there is no such column."""
        found = self.find(column)
        return column if found is None else found.name

    @property
    def key(self) -> tuple[str, ...]:
        """The columns declared as the primary key, or else the first one declared as unique and never empty."""
        key = tuple(column.name for column in self.columns.values() if column.pk)
        declared = (each.name for each in self.columns.values() if each.unique and not each.nullable and not each.expr)
        return key or tuple(itertools.islice(declared, 1))

    def adopt_proposals(self) -> None:
        """Add the proposed measures and segments that have not been defined, rejected or made impossible."""
        if not self.proposed_measures and not self.proposed_segments:
            return
        taken = {name.casefold() for name in (*self.columns, *self.measures, *self.segments)} | self.rejected
        hidden = {name.casefold() for name, column in self.columns.items() if column.visibility is _HIDDEN}
        known = {name.casefold() for name in self.columns} - hidden
        conditions = {plain_expr(each.expr) for each in self.segments.values()}
        for name, segment in self.proposed_segments.items():
            is_new = name.casefold() not in taken and plain_expr(segment.expr) not in conditions
            if is_new and _reads_only(segment.expr, known):
                self.segments[name] = segment
                taken.add(name.casefold())
        formulas = {(plain_expr(each.expr), plain_expr(each.filter or "")) for each in self.measures.values()}
        for name, measure in self.proposed_measures.items():
            formula = plain_expr(measure.expr), plain_expr(measure.filter or "")
            usable = known | {key.casefold() for key, each in self.measures.items() if each.visibility is not _HIDDEN}
            if name.casefold() not in taken and formula not in formulas and _reads_only(measure.expr, usable):
                self.measures[name] = measure

    def finish(self) -> model.Source:
        """Return the source. Its grain is the declared one, else its key, else all columns, which proves nothing."""
        unique = self.grain or self.key
        return model.Source(
            self.name, {name: column.finish() for name, column in self.columns.items()},
            tuple(map(self.spelled, unique)) or tuple(name for name, each in self.columns.items() if each.expr is None),
            self.table, self.sql, tuple(self.joins.values()), self.measures, self.segments,
            tuple(self.policies.values()), self.parameters, tuple(self.tests.values()),
            None if self.time_column is None else self.spelled(self.time_column), best(self.descriptions),
            self.visibility, self.generated, bool(unique), self.search, self.place, self.questions, self.synonyms,
            self.grain_place, self.lineage, self.label, self.usage_tier,
        )  # fmt: skip


_HIDDEN: Final = model.Visibility.HIDDEN
_QUOTED: Final = re.compile(r"\"((?:[^\"]|\"\")*)\"|`([^`]*)`|\[([^\]]*)\]")
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
_SQL_WORDS: Final = frozenset((
    *("sum", "avg", "min", "max", "count", "distinct", "case", "when", "then", "else", "end", "and", "or", "not", "is"),
    *("null", "in", "true", "false", "between", "like", "cast", "as", "numeric", "decimal", "float", "integer"),
))  # fmt: skip


def plain_expr(text: str) -> str:
    """Return an expression without whitespace, and with folded case outside strings."""
    parts = re.split(r"('(?:[^']|'')*')", text)
    return "".join(part if index % 2 else "".join(part.split()).casefold() for index, part in enumerate(parts))


def _reads_only(expr: str, known: Collection[str]) -> bool:
    """Return whether all names in a proposed expression, which ktx wrote in a plain form, are existing columns."""
    rest = _TEXT.sub(" ", expr)
    names = {next(filter(None, found.groups()), "") for found in _QUOTED.finditer(rest)}
    names |= {word for word in re.findall(r"[^\W\d]\w*", _QUOTED.sub(" ", rest)) if word.lower() not in _SQL_WORDS}
    return all(name.casefold() in known for name in names)


def read_source_entry(entry: Entry, name: str, dialect: str, *, generated: bool) -> SourceDraft:
    """Return the source for a manifest entry, or for a file of its own."""
    entry.check_keys(GENERATED_KEYS if generated else STANDALONE_KEYS)
    draft = SourceDraft(name, entry.place, generated, entries=[entry])
    _read_origin(entry, draft)
    for key, column in entry.read_all(
        "columns", "column", lambda item: read_column(item, dialect, generated=generated)
    ).items():
        draft.columns[key] = column
    if not draft.columns and not generated:
        entry.error("no_columns", f"source `{name}` has no columns", hint="add columns: [{name: id, type: number}]")
        draft.lost = True
    if generated:
        _read_proposals(entry, draft)
    read_body(entry, draft, dialect)
    return draft


def _read_proposals(entry: Entry, draft: SourceDraft) -> None:
    if PROPOSED_MEASURES in entry.values:
        draft.proposed_measures = entry.read_all(PROPOSED_MEASURES, "proposed measure", read_measure)
    if PROPOSED_SEGMENTS in entry.values:
        draft.proposed_segments = entry.read_all(PROPOSED_SEGMENTS, "proposed segment", read_segment)


def _read_origin(entry: Entry, draft: SourceDraft) -> None:
    """Read `table` or `sql`; a source must have exactly one."""
    draft.sql, table = entry.text("sql"), entry.values.get("table")
    if isinstance(table, dict):
        draft.table = _mapped_table(entry)
    elif (text := entry.text("table")) is not None:
        try:
            draft.table = table_parts(text)
        except ConfigError as error:
            entry.error("value", f"`table` of {entry.what}: {error.message}", "table", hint=error.hint)
    if not entry.failed and (draft.table is None) == (draft.sql is None):
        both = "both `table` and `sql`" if draft.sql else "neither `table` nor `sql`"
        entry.error("value", f"{entry.what} has {both}", hint="set exactly one of the two")
    wanted = "sql" if draft.sql else "table"
    if entry.word("source_type", ("table", "sql")) not in (None, wanted):
        entry.warn("value", f"`source_type` of {entry.what} does not match: the source has `{wanted}`", "source_type",
                   hint=f"write source_type: {wanted}, or remove it")  # fmt: skip
    draft.lost = (draft.table is None) == (draft.sql is None)


def _mapped_table(entry: Entry) -> tuple[str, ...] | None:
    """Return the parts of `table: {catalog, db, name}`."""
    below = entry.mapping("table")
    if below is None:
        return None
    below.check_keys(("catalog", "db", "schema", "name"))
    name = below.required("name")
    outer = (below.text("catalog"), below.text("db") or below.text("schema"))
    return (*filter(None, outer), name) if name else None


def read_body(entry: Entry, draft: SourceDraft, dialect: str) -> None:
    """Set an entry's properties of a source besides columns; an overlay's lists replace or extend previous ones.

    Replaced as a whole: grain, measures, segments. Merged by identity: joins, policies, parameters, tests,
    descriptions.
    """
    values = entry.values
    if values.get("grain") is not None:
        draft.grain = entry.names("grain") or draft.grain
        draft.grain_place = entry.at("grain")
    if values.get("measures") is not None:
        draft.measures = entry.read_all("measures", "measure", read_measure)
        if _is_imported(entry):
            measures = (
                (name, replace(each, imported=True)) for name, each in draft.measures.items() if not each.description
            )
            draft.measures |= measures
    if values.get("segments") is not None:
        draft.segments = entry.read_all("segments", "segment", read_segment)
    if values.get("joins") is not None:
        _read_joins(entry, draft, dialect)
    draft.descriptions = merged(draft.descriptions, read_descriptions(entry))
    draft.visibility = read_visibility(entry) or draft.visibility
    _read_rules(entry, draft)
    _read_time(entry, draft)
    _read_search(entry, draft)
    _read_lineage(entry, draft)
    read_approval(entry)


def _read_lineage(entry: Entry, draft: SourceDraft) -> None:
    """Add the known lineage of the source: `{dbt: {built_from: [...], rules: [...], columns: [...]}}`."""
    tools = entry.mapping("lineage")
    for tool in tools.values if tools else ():
        below = tools.mapping(str(tool)) if tools else None
        if below is None:
            continue
        below.check_free_keys()
        built = below.names("built_from") or ()
        lines = [f"built from {', '.join(built)}"] if built else []
        lines += [*(below.names("rules") or ()), *(below.names("columns") or ())]
        draft.lineage = unique((*draft.lineage, *(f"{tool}: {line}" for line in lines)))


def _is_imported(entry: Entry) -> bool:
    """Return whether only a tool describes the source itself in a file, which also covers undescribed measures."""
    stated = (entry.values.get(key) for key in ("descriptions", "default_time_dimension"))
    authors = {str(who) for texts in stated if isinstance(texts, dict) for who in texts}
    return is_imported(authors.difference(NOT_AUTHORS))


def _read_search(entry: Entry, draft: SourceDraft) -> None:
    """Add the source's search terms: tags, freshness and usage, except the counts and dates in usage."""
    for key in ("tags", "freshness", "usage"):
        value = entry.values.get(key)
        if isinstance(value, dict):
            if below := entry.mapping(key):
                below.check_free_keys()
            tier = value.get("frequencyTier") if key == "usage" else None
            draft.usage_tier = tier if isinstance(tier, str) else draft.usage_tier
            value = {name: each for name, each in value.items() if name not in ("frequencyTier", "staleSince")}
        elif value is not None and not isinstance(value, list):
            entry.error("shape", f"`{key}` of {entry.what} must be a mapping", key, hint=f"write {key}: {{dbt: ...}}")
            continue
        draft.search = unique((*draft.search, *texts_in(value)))
    draft.label = read_label(entry) or draft.label
    draft.questions = read_source_texts(entry, QUESTIONS) or draft.questions
    draft.synonyms = read_source_texts(entry, SYNONYMS) or draft.synonyms


def _read_joins(entry: Entry, draft: SourceDraft, dialect: str) -> None:
    for item in entry.items("joins", "join"):
        join = read_join(item, draft.name, dialect, draft.columns)
        if join is not None:
            draft.joins[join_key(join)] = join


def _read_rules(entry: Entry, draft: SourceDraft) -> None:
    """Read policies, parameters and tests; a source with an unusable policy is not read at all."""
    stated = entry.values.get(POLICIES)
    if stated is None and POLICIES in entry.values:
        hint = "write one `- name: ...` entry below it for each policy, or remove the key"
        entry.error("shape", f"`policies` of {entry.what} has no value", "policies", hint=hint)
        draft.lost = True
    policies = entry.read_all("policies", "policy", read_policy)
    draft.policies |= policies
    if stated is not None and (not isinstance(stated, list) or len(policies) != len(stated)):
        draft.lost = True
    draft.parameters |= entry.read_all("parameters", "parameter", read_parameter)
    draft.tests |= entry.read_all("tests", "test", read_test)


def _read_time(entry: Entry, draft: SourceDraft) -> None:
    """Read `default_time_dimension`: a column, or a mapping of authors to columns."""
    if isinstance(entry.values.get("default_time_dimension"), str):
        draft.time_column = entry.text("default_time_dimension") or draft.time_column
        return
    below = entry.mapping("default_time_dimension")
    if below is not None:
        below.check_free_keys()
        draft.time_column = best(read_time_column(below)) or draft.time_column


def read_time_column(entry: Entry) -> dict[str, str]:
    """Return author -> text."""
    return {str(who): text for who in entry.values if (text := entry.text(who))}


KEY = "inherits_columns_from"


def inherit(entry: Entry, draft: SourceDraft, manifest: Mapping[str, SourceDraft]) -> None:
    """Fill in missing types, descriptions, roles and meanings of columns from the named manifest entry."""
    wanted = entry.text(KEY)
    if wanted is None:
        return
    found = _entries(wanted, manifest)
    if len(found) != 1:
        what = f"`{KEY}` of {entry.what} is `{wanted}`, which " + (
            f"is ambiguous: {listing(sorted(each.name for each in found))}" if found else "the manifest does not have"
        )
        hint = f"write {KEY}: {found[0].name}" if found else model.name_hint(wanted, manifest)
        entry.error("unknown_source", what, KEY, hint=hint)
        if entry.trouble is not None:  # what is hidden there would be hidden here
            draft.bar(entry.trouble)
        return
    if found[0].barred is not None:
        draft.bar(found[0].barred)
    for column in draft.columns.values():
        base = found[0].find(column.name)
        if base is not None and column.expr is None:
            _fill(column, base)


def _entries(wanted: str, manifest: Mapping[str, SourceDraft]) -> list[SourceDraft]:
    """Return the entries with that name, else that table, else tables whose names end in it, ignoring case."""
    if wanted in manifest:
        return [manifest[wanted]]
    folded = wanted.casefold().replace('"', "")
    for fits in (_is_named, _is_table, _ends_table):
        result = [draft for draft in manifest.values() if fits(draft, folded)]
        if result:
            return result
    return []


def _is_named(draft: SourceDraft, folded: str) -> bool:
    return draft.name.casefold() == folded


def _is_table(draft: SourceDraft, folded: str) -> bool:
    return ".".join(draft.table or ()).casefold() == folded


def _ends_table(draft: SourceDraft, folded: str) -> bool:
    path = ".".join(draft.table or ()).casefold()
    return path.endswith(f".{folded}") or folded.endswith(f".{path}")


def _fill(column: ColumnDraft, base: ColumnDraft) -> None:
    if column.type is None:
        column.stored_as = base.stored_as
    column.type = column.type or base.type
    column.role = column.role or base.role
    column.descriptions = {**base.descriptions, **column.descriptions}
    column.visibility = column.visibility or base.visibility
    column.mask = column.mask or base.mask
    column.natural_granularity = column.natural_granularity or base.natural_granularity
    column.timezone = column.timezone or base.timezone
    column.unit = column.unit or base.unit
    column.values = column.values or base.values
    column.label = column.label or base.label
    column.synonyms = column.synonyms or base.synonyms


EXCLUDED, OVERRIDDEN = "exclude_columns", "column_overrides"
KEYS = frozenset((*SHARED_KEYS, "name", EXCLUDED, OVERRIDDEN, DISABLED, DISABLED_MEASURES))
_REFUSED = {
    "description": "use `descriptions: {user: ...}` instead",
    "inherits_columns_from": "remove it: an overlay always has the columns of its source",
}


def apply_overlay(entry: Entry, draft: SourceDraft, dialect: str) -> None:
    """Apply the overlay to a source; anything that an overlay may not contain is an error and is skipped.

    If it is unknown which columns it removes or hides, the source is lost.
    """
    excluded = _exclude(entry, draft)
    _override(entry, draft, excluded)
    draft.lost = draft.lost or entry.failed
    for name in excluded:
        del draft.columns[name]
    _refuse_keys(entry)
    entry.check_keys(KEYS)
    _add_computed(entry, draft, dialect)
    _disable_joins(entry, draft)
    draft.rejected |= {name.casefold() for name in entry.names(DISABLED_MEASURES) or ()}
    read_body(entry, draft, dialect)


def _refuse_keys(entry: Entry) -> None:
    for key, hint in _REFUSED.items():
        if entry.values.get(key) is not None:
            entry.error("forbidden_key", f"{entry.what} is an overlay, which cannot have `{key}`", key, hint=hint)
    entry.values = {key: value for key, value in entry.values.items() if key not in _REFUSED}


def _exclude(entry: Entry, draft: SourceDraft) -> set[str]:
    """Return the removed columns, as spelled in the source."""
    result: set[str] = set()
    for index, name in enumerate(entry.names(EXCLUDED) or ()):
        column = draft.find(name)
        if column is None:
            what = f"`{EXCLUDED}` of {entry.what} names `{name}`, which `{draft.name}` does not have"
            entry.warn(
                "unknown_column", what, EXCLUDED, index, hint=model.name_hint(name, draft.columns, source=draft.name)
            )
        else:
            result.add(column.name)
    return result


def _override(entry: Entry, draft: SourceDraft, excluded: set[str]) -> None:
    """Change columns, except for those that are also excluded, which is an error."""
    stated: dict[tuple[str, str], Any] = {}
    for item in entry.items(OVERRIDDEN, "column override"):
        name = item.required("name")
        column = draft.find(name)
        if not name:
            continue
        if column is None:
            what = f"{item.what} refers to a column that `{draft.name}` does not have"
            item.error("unknown_column", what, "name", hint=model.name_hint(name, draft.columns, source=draft.name))
        elif column.name in excluded:
            message = f"{item.what} refers to a column that `{EXCLUDED}` removes"
            item.error("forbidden_key", message, hint="remove one of the two")
        elif (key := _disputed(stated, column.name, item)) is not None:
            what = f"{item.what} is defined twice with a different `{key}`"
            item.error("duplicate", what, hint="remove one of the two")
        else:
            _override_one(item, column)


def _disputed(stated: dict[tuple[str, str], Any], name: str, item: Entry) -> str | None:
    """Record the visibility and mask of a column, and return the key that differs from a previous override."""
    for key in (VISIBILITY, MASK):
        if key in item.values and stated.setdefault((name, key), item.values[key]) != item.values[key]:
            return key
    return None


def _override_one(item: Entry, column: ColumnDraft) -> None:
    restores = column.stored_as is not None and item.values.get("type") == column.stored_as.native.value
    for key in ("type", "expr"):
        if key in item.values and not (key == "type" and restores):
            hint = f"remove it; to change the {key}, exclude the column and add one with another name under `columns`"
            item.error("forbidden_key", f"{item.what} cannot change `{key}`", key, hint=hint)
    item.check_keys((*OVERRIDES, "type", "expr"))
    override(item, column)
    if restores:
        column.convert(None)
    column.place = item.place


def _add_computed(entry: Entry, draft: SourceDraft, dialect: str) -> None:
    """Add the overlay's columns, which are computed."""
    for name, column in entry.read_all("columns", "column", lambda item: _computed(item, draft, dialect)).items():
        draft.columns[name] = column


def _computed(item: Entry, draft: SourceDraft, dialect: str) -> ColumnDraft | None:
    column = read_column(item, dialect, generated=False)
    if column is None:
        return None
    if column.name in draft.columns:
        hint = f"rename it, or change the existing column under `{OVERRIDDEN}`"
        item.error("duplicate", f"{item.what} has the same name as a column of `{draft.name}`", "name", hint=hint)
    elif column.expr is None or column.type is None:
        missing = "expr" if column.expr is None else "type"
        if not item.failed:
            item.error("missing", f"{item.what} of an overlay has no `{missing}`", hint=f"add `{missing}:` to it")
    return None if item.failed else column


def _disable_joins(entry: Entry, draft: SourceDraft) -> None:
    """Remove the joins whose `on` is listed, ignoring whitespace."""
    for index, listed in enumerate(entry.names(DISABLED) or ()):
        result = [key for key in draft.joins if key[1] == plain_on(listed)]
        draft.disabled += [draft.joins.pop(key) for key in result]
        if not result:
            what = f"`{DISABLED}` of {entry.what} lists `{listed}`, which is not the `on` of a join of `{draft.name}`"
            entry.warn("unknown_join", what, DISABLED, index, hint=suggestion(listed, (key[1] for key in draft.joins)))
