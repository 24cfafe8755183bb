"""Read the columns, measures and segments that files declare.

A column belongs to a table in the manifest or to the user's own source, is computed, or overrides another one. A
measure
with an error is skipped completely."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from ktx_cli.core import did_you_mean
from ktx_cli.semantic import model
from ktx_cli.semantic.load.entries import APPROVALS, MASK, Entry, read_approval
from ktx_cli.warehouses import SemanticType, StoredAs, dialect_named

TYPES = tuple(each.value for each in SemanticType)
VISIBILITIES = tuple(each.value for each in model.Visibility)
ROLES = ("default", "time")
NOT_CONVERTED: Final = "none"
"""The `stored_as` of a column that is used as the database stores it."""
STORED: Final = (*(each.value for each in StoredAs), NOT_CONVERTED)
NATURAL = tuple(grain for grain in model.GRAINS if not grain.startswith("fiscal"))
_FINER_THAN_SECOND = ("nanosecond", "microsecond", "millisecond")
OVERRIDES = (
    "name", "visibility", "role", "description", "descriptions", "natural_granularity", "constraints", "enum_values",
    "tests", "nullable", "timezone", "unit", "label", "synonyms", "stored_as", "mask",
)  # fmt: skip
RULES = ("not_null", "unique")
UNLESS, MASK_VALUE = "unless", "value"
"""The keys of a mask."""
KEYS = frozenset((*OVERRIDES, "type", "expr", "pk", *APPROVALS))


@dataclass(slots=True)
class ColumnDraft:
    """A column that is being read from files. `type` and `role` are None if no file sets them."""

    name: str
    place: model.Place
    type: SemanticType | None = None
    expr: str | None = None
    visibility: model.Visibility | None = None
    role: str | None = None
    descriptions: dict[str, str] = field(default_factory=dict)
    natural_granularity: str | None = None
    timezone: str | None = None
    unit: str | None = None
    values: tuple[str, ...] = ()
    nullable: bool = True
    unique: bool = False
    pk: bool = False
    label: str | None = None
    synonyms: tuple[str, ...] = ()
    stored_as: StoredAs | None = None
    mask: model.Mask | None = None

    def convert(self, stored_as: StoredAs | None) -> None:
        """Set how the values are stored, and with it the type; None for the type of the database."""
        if stored_as is not None:
            self.type = stored_as.type
        elif self.stored_as is not None:
            self.type, self.natural_granularity = self.stored_as.native, None
            self.role = None if self.role == "time" else self.role
        self.stored_as = stored_as

    def finish(self) -> model.Column:
        """Return the column. Time columns of the manifest have the role `time`.

        A `type` that does not fit `stored_as` is the decision of a person, so that the values are not converted. A
        masked column has no allowed values, and no descriptions that a scan took from the data.
        """
        stored = self.stored_as if self.stored_as is not None and self.stored_as.type is self.type else None
        grain = self.natural_granularity or (model.DAY if stored is StoredAs.ISO_DATE else None)
        values, descriptions = self.values, self.descriptions
        if self.mask is not None:
            values, descriptions = (), {who: text for who, text in descriptions.items() if who not in _FROM_DATA}
        return model.Column(
            self.name, self.type or SemanticType.STRING, self.expr, self.visibility, self.role or "default",
            best(descriptions), grain, self.timezone, self.unit, values, self.nullable,
            self.place, self.unique, self.label, self.synonyms, stored, self.mask,
        )  # fmt: skip


def read_column(entry: Entry, dialect: str, *, generated: bool) -> ColumnDraft | None:
    """Return a declared column, or None if its name or `expr` is invalid.

    `generated` columns of the manifest may have native database types, and their time columns have the role `time`.
    """
    entry.check_keys(KEYS)
    read_approval(entry)
    draft = ColumnDraft(entry.required("name"), entry.place)
    if not draft.name:
        return None
    values = entry.values
    if "expr" in values:
        draft.expr = entry.text("expr")
        if entry.failed:
            return None
    if "type" in values:
        draft.type = _type(entry, dialect, generated=generated)
    if "pk" in values:
        draft.pk = bool(entry.flag("pk"))
    override(entry, draft)
    if generated and draft.role is None and draft.type is SemanticType.TIME:
        draft.role = "time"
    return draft


def override(entry: Entry, draft: ColumnDraft) -> None:
    """Apply an entry to a column. Descriptions are merged by author."""
    values = entry.values
    if "descriptions" in values or "description" in values:
        draft.descriptions = merged(draft.descriptions, read_descriptions(entry))
    if "nullable" in values:
        draft.nullable = entry.flag("nullable") is not False
    if values.keys() <= _COMMON:
        return
    draft.visibility = read_visibility(entry, draft.visibility)
    if MASK in values:
        _read_mask(entry, draft)
    draft.role = entry.word("role", ROLES) or draft.role
    draft.natural_granularity = _natural_granularity(entry) or draft.natural_granularity
    draft.timezone = read_timezone(entry) or draft.timezone
    draft.unit = entry.text("unit") or draft.unit
    draft.values = words_by_tool(entry, "enum_values") or draft.values
    draft.label = read_label(entry) or draft.label
    draft.synonyms = read_texts(entry, SYNONYMS) or draft.synonyms
    if values.get("stored_as") is not None:
        _read_stored_as(entry, draft)
    _read_rules(entry, draft)


_COMMON = frozenset(("name", "type", "expr", "pk", "nullable", "description", "descriptions"))


def read_visibility(entry: Entry, otherwise: model.Visibility | None = None) -> model.Visibility | None:
    """Return the visibility, or `hidden` if the value is missing or invalid, so that mistakes reveal nothing."""
    if "visibility" not in entry.values:
        return otherwise
    if entry.values["visibility"] is None:
        hint = "write visibility: hidden, internal or public, or remove the key"
        entry.error("value", f"`visibility` of {entry.what} has no value", "visibility", hint=hint, shows_nothing=True)
    word = entry.word("visibility", VISIBILITIES, shows_nothing=True)
    return model.Visibility(word) if word else model.Visibility.HIDDEN


def _read_mask(entry: Entry, draft: ColumnDraft) -> None:
    """Apply `mask`. A column with an invalid mask is hidden, so that mistakes reveal nothing."""
    below = entry.values[MASK]
    draft.mask = _mask(entry, below) if isinstance(below, dict) else None
    if draft.mask is not None:
        return
    if not isinstance(below, dict):
        hint = "write mask: {unless: {role: [support]}}, or remove the key"
        what = f"`{MASK}` of {entry.what} is not a mapping"
        entry.error("value", what, MASK, hint=hint, shows_nothing=True)
    draft.mask, draft.visibility = model.Mask(), model.Visibility.HIDDEN


def _mask(entry: Entry, below: Mapping[Any, Any]) -> model.Mask | None:
    """Return a mask, or None after an error."""
    what, example = f"`{MASK}` of {entry.what}", "write unless: {role: [support, admin]}"
    for key in below:
        if key not in (UNLESS, MASK_VALUE):
            hint = f"remove it, or use one of: {UNLESS}, {MASK_VALUE}"
            entry.error("unknown_key", f"`{key}` is not a key of {what}", MASK, key, hint=hint, shows_nothing=True)
            return None
    value, unless = below.get(MASK_VALUE), below.get(UNLESS, {})
    if not _is_plain(value) and value is not None:
        hint = 'write one text, number or boolean, for example: value: "***"'
        entry.error("value", f"`{MASK_VALUE}` of {what} is not plain", MASK, MASK_VALUE, hint=hint, shows_nothing=True)
        return None
    if not isinstance(unless, dict) or not all(isinstance(name, str) and name for name in unless):
        message = f"`{UNLESS}` of {what} must map user attributes to lists of values"
        entry.error("shape", message, MASK, UNLESS, hint=example, shows_nothing=True)
        return None
    for name, values in unless.items():
        if not isinstance(values, list) or not all(map(_is_plain, values)):
            message = f"`{name}` in `{UNLESS}` of {what} must be a list of texts, numbers or booleans"
            entry.error("shape", message, MASK, UNLESS, name, hint=example, shows_nothing=True)
            return None
        if not values:
            message = f"`{name}` in `{UNLESS}` of {what} has no values, so nobody sees the column"
            entry.warn("value", message, MASK, UNLESS, name, hint=f"list the values of {name} that see it")
    return model.Mask(tuple((name, tuple(values)) for name, values in unless.items()), value)


def _is_plain(value: Any) -> bool:
    """Return whether a value can be that of a user attribute."""
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def read_timezone(entry: Entry) -> str | None:
    """Return the name of a valid time zone."""
    name = entry.text("timezone")
    if name is None or _is_zone(name):
        return name
    from zoneinfo import available_timezones

    near = did_you_mean(name, sorted(available_timezones()))
    hint = f"did you mean `{near}`?" if near else "use a name of the tz database, for example: timezone: Europe/Berlin"
    entry.error("value", f"`timezone` of {entry.what} is `{name}`, which is not a time zone", "timezone", hint=hint)
    return None


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _type(entry: Entry, dialect: str, *, generated: bool) -> SemanticType | None:
    word = entry.text("type")
    if word is None or word in TYPES:
        return SemanticType(word) if word else None
    native = dialect_named(dialect).semantic_type(word)
    if generated or native is not SemanticType.STRING or word.lower().split("(")[0] in _TEXTS:
        return native
    entry.word("type", TYPES)
    return SemanticType.STRING


_TEXTS = frozenset(("text", "varchar", "char", "character", "character varying", "nvarchar", "nchar", "uuid", "json"))


def _read_stored_as(entry: Entry, draft: ColumnDraft) -> None:
    """Apply `stored_as`. A `type` of the same entry, which may be changed by hand, has precedence over it."""
    word = entry.word("stored_as", STORED)
    if word is None:
        return
    if draft.expr is not None:
        hint = "remove it, and convert the values in `expr`"
        entry.error("forbidden_key", f"{entry.what} is computed and cannot have `stored_as`", "stored_as", hint=hint)
        return
    own_type = draft.type if "type" in entry.values else None
    draft.convert(None if word == NOT_CONVERTED else StoredAs(word))
    if draft.type is SemanticType.TIME:
        draft.role = draft.role or "time"
    draft.type = own_type or draft.type


def _natural_granularity(entry: Entry) -> str | None:
    if entry.values.get("natural_granularity") in _FINER_THAN_SECOND:
        return model.SECOND
    return entry.word("natural_granularity", NATURAL)


def _read_rules(entry: Entry, draft: ColumnDraft) -> None:
    """Apply `constraints` and `tests`, such as `{dbt: {not_null: true, unique: true}}` and `{dbt: [unique]}`."""
    rules = set(words_by_tool(entry, "tests"))
    constraints = entry.mapping("constraints")
    for tool in constraints.values if constraints else ():
        below = constraints.mapping(tool) if constraints else None
        if below is not None:
            below.check_keys(RULES)
            rules |= {rule for rule in RULES if below.flag(rule)}
    draft.nullable = draft.nullable and "not_null" not in rules
    draft.unique = draft.unique or "unique" in rules


PRIORITY = ("user", "ai", "dbt", "db", "ktx")
"""The preferred origins of descriptions, best first. Several texts of one tool are joined, see `merged`."""

_FROM_DATA: Final = frozenset({"ai", "ktx"})
"""The authors whose descriptions of a column may contain its values, because a scan showed them some."""

LABEL, QUESTIONS, SYNONYMS = "label", "questions", "synonyms"
SEARCH_TEXTS: Final = (QUESTIONS, SYNONYMS)
NOT_AUTHORS: Final = frozenset((LABEL, *SEARCH_TEXTS))
"""Keys in a source's `descriptions` that are not authors."""
MOST_TEXTS: Final = 8
LONGEST_TEXT: Final = 200
"""Maximum number of questions and synonyms, and the maximum length of each."""
_PARTS: Final[Mapping[str, re.Pattern[str]]] = {
    QUESTIONS: re.compile(r"\s*\n\s*|(?<=[?？])\s*"),
    SYNONYMS: re.compile(r"\s*[\n,;]\s*"),
}
"""The separator of the items in a source's text."""


def read_texts(entry: Entry, key: str) -> tuple[str, ...]:
    """Return questions or synonyms. Unusable ones lead to a warning."""
    value = entry.values.get(key)
    if value is None:
        return ()
    example = '["How many orders were late?"]' if key == QUESTIONS else '["delayed orders", "late shipments"]'
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        entry.warn("shape", f"`{key}` of {entry.what} must be a list of strings", key, hint=f"write {key}: {example}")
        return ()
    return _bounded(entry, key, texts, key)


def read_label(entry: Entry) -> str | None:
    """Return the label that people use, on one line; an unusable one is reported as a warning.

    A source's label may also be in its `descriptions`; see `read_source_texts`.
    """
    below = entry.values.get("descriptions")
    steps: tuple[str, ...] = (LABEL,)
    value = entry.values.get(LABEL)
    if LABEL not in entry.values and isinstance(below, dict):
        steps, value = ("descriptions", LABEL), below.get(LABEL)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        what = f"`{LABEL}` of {entry.what} must be a string"
        entry.warn("shape", what, *steps, hint=f"write {LABEL}: Net revenue")
        return None
    label = " ".join(str(value).split())
    if len(label) > LONGEST_TEXT:
        what = f"`{LABEL}` of {entry.what} has more than {LONGEST_TEXT} characters"
        entry.warn("value", what, *steps, hint="shorten it, and move the rest to `descriptions`")
        return None
    return label or None


def read_source_texts(entry: Entry, key: str) -> tuple[str, ...]:
    """Return a source's questions or synonyms, from their key or from a text in its `descriptions`.

    The TypeScript ktx rejects unknown keys of a source but accepts any description.
    """
    if key in entry.values:
        return read_texts(entry, key)
    below = entry.values.get("descriptions")
    text = below.get(key) if isinstance(below, dict) else None
    return _bounded(entry, key, _PARTS[key].split(text), "descriptions", key) if isinstance(text, str) else ()


def _bounded(entry: Entry, key: str, texts: Iterable[str], *steps: str) -> tuple[str, ...]:
    found = list(dict.fromkeys(text for each in texts if (text := each.strip())))
    kept = tuple(each for each in found if len(each) <= LONGEST_TEXT)[:MOST_TEXTS]
    if len(kept) < len(found):
        bounds = f"more than {MOST_TEXTS} texts, or one of more than {LONGEST_TEXT} characters"
        what = f"`{key}` of {entry.what} has {bounds}"
        entry.warn("value", what, *steps, hint="keep the most useful ones; ktx ignores the others")
    return kept


def read_descriptions(entry: Entry) -> dict[str, str]:
    """Return the texts in `descriptions` by author. `description` counts as the user's unless there is one."""
    below = entry.mapping("descriptions")
    if below is not None:
        below.check_free_keys()
    texts = {} if below is None else {str(who): text for who in below.values if (text := below.text(who))}
    flat = entry.text("description")
    return {"user": flat, **texts} if flat else texts


_WRITERS: Final = frozenset({"user", "ai"})
"""The authors, except tools."""


def is_imported(authors: Collection[str]) -> bool:
    """Return whether the authors are only tools such as dbt, not people or agents."""
    return bool(authors) and _WRITERS.isdisjoint(authors)


def merged(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Merge the descriptions from two files by author.

    Later texts of people and agents replace earlier ones. Different texts of a tool, such as dbt in a model and in a
    semantic model, are joined unless one contains the other.
    """
    result = {**before, **after}
    for who in before.keys() & after.keys() - _WRITERS:
        result[who] = _joined(before[who], after[who])
    return result


def _joined(one: str, other: str) -> str:
    plain, others = (" ".join(text.split()).casefold().rstrip(".") for text in (one, other))
    if others in plain:
        return one
    if plain in others:
        return other
    end = "" if one.rstrip().endswith((".", "!", "?", ":")) else "."
    return f"{one.rstrip()}{end} {other}"


def best(descriptions: Mapping[str, str]) -> str | None:
    """Return the preferred author's description."""
    for who in PRIORITY:
        if who in descriptions:
            return descriptions[who]
    return next((text for who, text in descriptions.items() if who not in NOT_AUTHORS), None)


def texts_in(value: Any) -> list[str]:
    """Return all texts in a value in order, without the keys of mappings."""
    result: list[str] = []
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, str) and each.strip():
            result.append(each.strip())
        elif isinstance(each, dict):
            stack += reversed(list(each.values()))
        elif isinstance(each, list):
            stack += reversed(each)
    return result


def words_by_tool(entry: Entry, key: str) -> tuple[str, ...]:
    """Return the distinct words in a list, or in nested lists by tool and package (`{dbt: [...]}`).

    For an item that is a mapping (a test with arguments), the keys are the words.
    """
    result: list[str] = []
    stack = [entry.values.get(key)]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += reversed(list(value.values()))
        elif isinstance(value, list):
            result += [word for item in value for word in _words(item)]
        elif value is not None:
            hint = f"write {key}: {{dbt: [first, second]}}"
            entry.error("shape", f"`{key}` of {entry.what} must be a list", key, hint=hint)
    return unique(result)


def _words(item: Any) -> list[str]:
    if isinstance(item, dict):
        return [str(key) for key in item]
    if item is None or isinstance(item, list):
        return []
    return [str(item).lower() if isinstance(item, bool) else str(item)]


def unique(words: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct words in order."""
    return tuple(dict.fromkeys(words))


MEASURE_KEYS = frozenset((
    "name", "expr", "filter", "segments", "description", "descriptions", "visibility", "unit", "format", "time",
    "semi_additive", "cumulative", "offset", "percent_of", "per", *APPROVALS, "reason", LABEL, QUESTIONS, SYNONYMS,
))  # fmt: skip
SEGMENT_KEYS = frozenset((
    "name", "expr", "description", "descriptions", *APPROVALS, "reason", LABEL, QUESTIONS, SYNONYMS,
))  # fmt: skip
TAKES = ("last", "first", "average")
TO_DATE = (model.WEEK, model.MONTH, model.QUARTER, model.YEAR, model.FISCAL_QUARTER, model.FISCAL_YEAR)
TOTAL: Final = "total"
_SPAN = re.compile(rf"\s*(\d{{1,6}})\s+({'|'.join(NATURAL)})s?\s*", re.IGNORECASE)


def read_measure(entry: Entry) -> model.Measure | None:
    """Return a measure, or None if it has errors."""
    entry.check_keys(MEASURE_KEYS)
    descriptions, approval = read_descriptions(entry), read_approval(entry)
    measure = model.Measure(
        name=entry.required("name"),
        expr=entry.required("expr"),
        filter=entry.text("filter"),
        segments=entry.names("segments") or (),
        description=best(descriptions),
        visibility=read_visibility(entry) or model.Visibility.PUBLIC,
        unit=entry.text("unit"),
        format=entry.text("format"),
        time=entry.text("time"),
        semi_additive=_semi_additive(entry),
        cumulative=_cumulative(entry),
        offset=read_span(entry, "offset"),
        percent_of=_percent_of(entry),
        per=entry.names("per") or (),
        place=entry.place,
        status=approval.status,
        reason=entry.text("reason"),
        questions=read_texts(entry, QUESTIONS),
        synonyms=read_texts(entry, SYNONYMS),
        imported=is_imported(descriptions),
        owner=approval.owner,
        review_by=approval.review_by,
        label=read_label(entry),
    )
    return None if entry.failed else measure


def read_segment(entry: Entry) -> model.Segment | None:
    """Return a segment, or None if it has errors."""
    entry.check_keys(SEGMENT_KEYS)
    approval = read_approval(entry)
    segment = model.Segment(
        entry.required("name"), entry.required("expr"), best(read_descriptions(entry)), entry.place, approval.status,
        entry.text("reason"), read_texts(entry, QUESTIONS), read_texts(entry, SYNONYMS), approval.owner,
        approval.review_by, read_label(entry),
    )  # fmt: skip
    return None if entry.failed else segment


def read_span(entry: Entry, key: str) -> model.Span | None:
    """Return a duration such as `28 days`."""
    text = entry.text(key)
    if text is None:
        return None
    found = _SPAN.fullmatch(text)
    if found is None or not int(found[1]):
        what = f"`{key}` of {entry.what} is `{text}`, which is not a duration"
        entry.error("value", what, key, hint=f'write {key}: "28 days"; the units are {", ".join(NATURAL)}')
        return None
    return model.Span(int(found[1]), found[2].lower())


def _semi_additive(entry: Entry) -> model.SemiAdditive | None:
    below = _stated(entry, "semi_additive", "{over: day, take: last}")
    if below is None:
        return None
    below.check_keys(("over", "take", "per"))
    return model.SemiAdditive(below.required("over"), below.word("take", TAKES) or TAKES[0], below.names("per") or ())


def _cumulative(entry: Entry) -> model.Cumulative | None:
    below = _stated(entry, "cumulative", "{}")
    if below is None:
        return None
    below.check_keys(("over", "window", "to_date"))
    found = model.Cumulative(below.text("over"), read_span(below, "window"), below.word("to_date", TO_DATE))
    if found.window and found.to_date:
        below.error("value", f"{below.what} sets both `window` and `to_date`", "to_date", hint="keep one of the two")
    return found


def _stated(entry: Entry, key: str, example: str) -> Entry | None:
    """Return the mapping under a key. A key without a value is an error, because it would have no effect."""
    if key in entry.values and entry.values[key] is None:
        entry.error("shape", f"`{key}` of {entry.what} has no value", key, hint=f"write {key}: {example}, or remove it")
    return entry.mapping(key)


def _percent_of(entry: Entry) -> tuple[str, ...] | None:
    return () if entry.values.get("percent_of") == TOTAL else entry.names("percent_of")


EXPECTATIONS = ("expect", "expect_value", "invariant")


def read_policy(entry: Entry) -> model.Policy | None:
    """Return a row policy, or None if it has errors. Its source must not be read in this case."""
    entry.check_keys(("name", "filter", "description"))
    policy = model.Policy(entry.required("name"), entry.required("filter"), entry.text("description"), entry.place)
    return None if entry.failed else policy


def read_parameter(entry: Entry) -> model.Parameter | None:
    """Return a parameter. Its default must be one of its values, and all must have its type."""
    entry.check_keys(("name", "type", "default", "values"))
    name, word = entry.required("name"), entry.word("type", TYPES)
    if word is None and not entry.failed:
        entry.error("missing", f"{entry.what} has no `type`", hint=f"add type: {'|'.join(TYPES)}")
    if entry.failed or word is None:
        return None
    kind, default = SemanticType(word), entry.values.get("default")
    parameter = model.Parameter(name, kind, default, _values(entry, kind), entry.place)
    if default is not None and not is_of(default, kind):
        entry.error("value", f"`default` of {entry.what} is not a {kind.value}", "default", hint=f"use a {kind.value}")
    elif default is not None and parameter.values and default not in parameter.values:
        entry.error(
            "value", f"`default` of {entry.what} is not one of its `values`", "default", hint="add it to `values`"
        )
    return None if entry.failed else parameter


def _values(entry: Entry, kind: SemanticType) -> tuple[Any, ...]:
    listed = entry.values.get("values")
    if listed is None:
        return ()
    if isinstance(listed, list) and listed and all(is_of(each, kind) for each in listed):
        return tuple(listed)
    what = f"`values` of {entry.what} must be a list of values, each a {kind.value}"
    entry.error("value", what, "values", hint="write values: [first, second], or remove it")
    return ()


def is_of(value: Any, kind: SemanticType) -> bool:
    """Return whether a value in a file or query has a type. A time is a date or timestamp in ISO 8601."""
    if kind is SemanticType.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is SemanticType.BOOLEAN:
        return isinstance(value, bool)
    return isinstance(value, str) and (kind is SemanticType.STRING or _is_time(value))


def _is_time(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def read_test(entry: Entry) -> model.MetricTest | None:
    """Return a test: a query with exactly one expectation."""
    entry.check_keys(("name", "query", "tolerance", *EXPECTATIONS))
    given = [key for key in EXPECTATIONS if key in entry.values]
    if len(given) != 1:
        what = (
            f"{entry.what} must have exactly one of {', '.join(EXPECTATIONS)}, but has {' and '.join(given) or 'none'}"
        )
        entry.error("value", what, *given[1:], hint="keep or add one of them")
    query = entry.mapping("query")
    if query is None and not entry.failed:
        entry.error("missing", f"{entry.what} has no `query`", hint="add query: {measures: [...]}")
    test = model.MetricTest(
        entry.required("name"), {} if query is None else query.values, _rows(entry), entry.values.get("expect_value"),
        entry.text("invariant"), _tolerance(entry), entry.place,
    )  # fmt: skip
    return None if entry.failed else test


def _rows(entry: Entry) -> tuple[tuple[Any, ...], ...] | None:
    rows = entry.values.get("expect")
    if "expect" not in entry.values:
        return None
    if isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return tuple(tuple(row) for row in rows)
    entry.error(
        "shape", f"`expect` of {entry.what} must be a list of rows", "expect", hint="write expect: [[a, 1], [b, 2]]"
    )
    return None


def _tolerance(entry: Entry) -> float:
    value = entry.values.get("tolerance", 0)
    if is_of(value, SemanticType.NUMBER) and 0 <= value < 1e300:
        return float(value)
    entry.error(
        "value",
        f"`tolerance` of {entry.what} must be a number of at least 0",
        "tolerance",
        hint="write tolerance: 0.01",
    )
    return 0.0
