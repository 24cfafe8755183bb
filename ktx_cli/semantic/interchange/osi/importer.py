"""Import OSI documents as ktx sources."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.core import KtxError, yaml
from ktx_cli.semantic.interchange.drafts import (
    DEFAULT_DIALECT,
    TAKEN,
    ColumnDraft,
    Read,
    SourceDraft,
    Sources,
    checked,
    described,
    filled,
    imported,
    on_text,
    plain_name,
    quoted,
    reach,
    read,
    with_names,
)
from ktx_cli.semantic.interchange.report import Imported, Item, Report, UnresolvedError
from ktx_cli.semantic.load.columns import LONGEST_TEXT, MOST_TEXTS, NATURAL, QUESTIONS, SYNONYMS, VISIBILITIES
from ktx_cli.semantic.load.columns import TYPES as KTX_TYPES
from ktx_cli.semantic.load.entries import SourceFile
from ktx_cli.semantic.model import Model, Place
from ktx_cli.warehouses import dialect_named

_SUFFIXES: Final = (".yaml", ".yml", ".json")


def import_osi(files: Mapping[str, str], model: Model | None, *, dialect: str | None = None) -> Imported:
    """Return the ktx files for the semantic models in OSI documents.

    `files` maps paths to YAML or JSON texts. `model` is the semantic layer of the connection: sources of its manifest
    are changed, not repeated. `dialect` is the sqlglot dialect of the SQL to write: by default that of the model, or
    DuckDB without a model. Invalid content is listed in the report and raises nothing.
    """
    report = Report()
    sources = Sources(model, report, dialect)
    for path, text in sorted(files.items()):
        if path.endswith(_SUFFIXES):
            top = _load(path, text, report)
            if top is not None:
                _read_document(top, path, sources, report)
    return imported(sources.drafts.values(), report, "osi")


def _load(path: str, text: str, report: Report) -> Item | None:
    try:
        document = yaml.load(text, where=path)
    except KtxError as error:
        place = Place(path, error.details.get("line", 1))
        report.dropped(f"file {path}", f"invalid YAML: {error.message}", place)
        return None
    if not isinstance(document, dict):
        report.dropped(f"file {path}", "the content is not a mapping", Place(path))
        return None
    return Item(document, SourceFile(path, text.encode("utf-8", "replace"), document).place)


def _read_document(top: Item, path: str, sources: Sources, report: Report) -> None:
    models = top.items("semantic_model")
    single = top.item("semantic_model")
    for item in [*models, *([single] if single else [])]:
        _read_model(item, sources, report)
    top.skip("version")
    top.report_rest(report, path)


def _read_model(item: Item, sources: Sources, report: Report) -> None:
    name = item.text("name") or "?"
    drafts: dict[str, SourceDraft] = {}
    entries: list[tuple[Item, SourceDraft]] = []
    for below in item.items("datasets"):
        draft = add_dataset(below, sources, drafts, report)
        if draft is not None:
            entries.append((below, draft))
    several = _several(item.items("relationships"))
    for below in item.items("relationships"):
        add_relationship(below, drafts, report, aliased=_ends(below) in several)
    reach(drafts.values())
    for below, draft in entries:
        for metric in below.items("metrics"):
            add_metric(metric, drafts, report, home=draft)
        below.report_rest(report, f"dataset `{draft.name}`")
    for metric in item.items("metrics"):
        add_metric(metric, drafts, report)
    if described(item.text("description"), None):
        report.dropped(f"description of semantic model `{name}`", _NO_MODEL, item.place)
    item.report_rest(report, f"semantic model `{name}`", {
        "ai_context": _NO_MODEL, "custom_extensions": _OTHER_TOOL,
    })  # fmt: skip


def _ends(item: Item) -> tuple[Any, Any]:
    return item.text("from"), item.text("to")


def _several(items: list[Item]) -> set[tuple[Any, Any]]:
    """Return the pairs of datasets with more than one relationship in the same direction."""
    seen: set[tuple[Any, Any]] = set()
    several: set[tuple[Any, Any]] = set()
    for item in items:
        (several if _ends(item) in seen else seen).add(_ends(item))
    return several


_OTHER_TOOL: Final = "they belong to another tool"
_NO_MODEL: Final = "ktx stores descriptions of sources, not of models"
_QUERY: Final = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
_FACTS: Final = ("timezone", "unit", "role")


def add_dataset(item: Item, sources: Sources, drafts: dict[str, SourceDraft], report: Report) -> SourceDraft | None:
    """Add a dataset. Returns None if it was reported as dropped."""
    name, origin = item.text("name"), item.text("source")
    what = f"dataset `{name or '?'}`"
    if not name or not origin or name in drafts:
        why = "another dataset has the same name" if name in drafts else "`name` or `source` is missing"
        report.dropped(what, why, item.place)
        return None
    query = _QUERY.match(origin) is not None
    draft = sources.add(name, item.place, table=None if query else origin, sql=origin if query else None)
    drafts[name] = draft
    facts = extended(item, what, report)
    draft.description, draft.search_texts = with_context(item, item.text("description"), what, draft.name, report)
    draft.label = _text_fact(facts, "label")
    if facts.get("visibility") in VISIBILITIES:
        draft.extra["visibility"] = facts["visibility"]
    for below in item.items("fields"):
        _add_field(below, draft, report)
    draft.grain = tuple(found for key in item.words("primary_key") if (found := draft.require(key)))
    _add_unique(item, draft, report)
    time = facts.get("time")
    draft.time = draft.find(time) if isinstance(time, str) else None
    report.kept(what, item.place, draft.name)
    return draft


def _add_unique(item: Item, draft: SourceDraft, report: Report) -> None:
    keys = item.value("unique_keys")
    for key in keys if isinstance(keys, list) else ():
        names = [str(each) for each in key] if isinstance(key, list) else [str(key)]
        found = draft.require(names[0]) if len(names) == 1 else None
        if found is not None and names != list(draft.grain):
            draft.column(found).extra["tests"] = {"osi": ["unique"]}
        elif names != list(draft.grain):
            why = "a ktx source has a single grain and no further composite keys"
            report.dropped(f"unique key {', '.join(names)} of `{draft.name}`", why, item.at("unique_keys"))


def extended(item: Item, what: str, report: Report) -> dict[str, Any]:
    """Return the facts in the ktx extension. Other extensions are reported as dropped."""
    facts, others = read_extension(item.value("custom_extensions"))
    if others:
        report.dropped(f"`custom_extensions` of {what}", _OTHER_TOOL, item.at("custom_extensions"))
    return facts


SearchTexts = dict[str, list[str]]
"""`questions` and `synonyms`, each with its texts."""

_SEARCHED: Final = {"synonyms": SYNONYMS, "examples": QUESTIONS}
"""Lists in `ai_context` -> the keys in ktx."""


def with_context(
    item: Item, text: str | None, what: str, target: str, report: Report
) -> tuple[str | None, SearchTexts]:
    """Return a description followed by the text of `ai_context`, and its synonyms and examples of questions."""
    context = item.value("ai_context")
    if context is None:
        return text, {}
    place, of = item.at("ai_context"), f"`ai_context` of {what}"
    found: SearchTexts = {}
    notes = [context] if isinstance(context, str) else []
    if isinstance(context, Mapping):
        for key, own in _SEARCHED.items():
            listed = context.get(key)
            texts = [str(each).strip() for each in listed if str(each).strip()] if isinstance(listed, list) else []
            found[own] = [each for each in dict.fromkeys(texts) if len(each) <= LONGEST_TEXT][:MOST_TEXTS]
            if len(found[own]) < len(set(texts)):
                bounds = f"at most {MOST_TEXTS} texts of {LONGEST_TEXT} characters"
                report.approximated(f"`{key}` in {of}", f"ktx keeps {bounds}", place, target)
        notes = [str(value) for value in context.values() if isinstance(value, str)]
        rest = [str(key) for key, value in context.items() if not isinstance(value, str) and key not in _SEARCHED]
        if rest:
            report.dropped(f"{of} ({', '.join(rest)})", f"not supported by ktx: {', '.join(rest)}", place)
    found = {key: texts for key, texts in found.items() if texts}
    if notes:
        report.approximated(of, "its text is added to the description", place, target)
    elif found:
        report.kept(of, place, target)
    return " ".join(part.strip() for part in (*([text] if text else []), *notes)) or None, found


def expression_of(item: Item, dialect: str) -> str:
    """Return a field's or metric's expression for a dialect, or its ANSI expression.

    Raises `KtxError` if neither exists or the ANSI expression cannot be parsed.
    """
    value = item.value("expression")
    if isinstance(value, str) and value.strip():
        return value.strip()
    listed = value.get("dialects") if isinstance(value, Mapping) else value
    found = {str(each.get("dialect")): text for each in listed if isinstance(each, Mapping) and (text := _text(each))} \
        if isinstance(listed, list) else {}  # fmt: skip
    own = found.get(dialect_named(dialect).osi_name)
    ansi = found.get(ANSI) or found.get("None")
    if not own and not ansi:
        raise UnresolvedError("no expression in ANSI SQL or in the dialect of the connection")
    return own or in_dialect(ansi or "", dialect)


def _text(entry: Mapping[Any, Any]) -> str | None:
    """Return the text for one dialect. In an early version of OSI, the aggregate had its own key."""
    text = entry.get("expression")
    if text is None and entry.get("aggregation_type") and entry.get("input_expr"):
        text = f"{entry['aggregation_type']}({entry['input_expr']})"
    return str(text).strip() if isinstance(text, str | int | float) else None


def in_dialect(text: str, dialect: str) -> str:
    """Translate ANSI SQL into a dialect. The text does not change if it means the same in both."""
    from ktx_cli.semantic.expressions.fragments import parse
    from ktx_cli.semantic.model import SemanticError

    written = str(parse(text, "", what="the expression").sql(dialect))
    try:
        same = parse(text, dialect, what="the expression").sql(dialect) == written
    except SemanticError:
        same = False
    return text if same else written


def _add_field(item: Item, draft: SourceDraft, report: Report) -> None:
    name = item.text("name")
    what = f"field `{draft.name}.{name or '?'}`"
    with report.dropping(what, item.place):
        if name is None:
            raise UnresolvedError("`name` is missing")
        text = expression_of(item, draft.dialect)
        facts = extended(item, what, report)
        kind, is_time = _kind(item, facts)
        column, is_renamed = draft.define(name, text, kind)
        if is_renamed:
            report.approximated(f"the name of {what}", TAKEN, item.place, column.name)
        if (plain_name(text) or "").casefold() == name.casefold():
            column.visibility = None
        _set_facts(column, facts, kind, is_time=is_time)
        target = f"{draft.name}.{column.name}"
        column.label = item.text("label")
        shown = described(item.text("description"), column.label)
        column.description, texts = with_context(item, shown, what, target, report)
        if SYNONYMS in texts:
            column.extra[SYNONYMS] = texts[SYNONYMS]
        report.kept(what, item.place, target)
        item.report_rest(report, what)


def _text_fact(facts: Mapping[str, Any], key: str) -> str | None:
    return facts[key] if isinstance(facts.get(key), str) else None


def _kind(item: Item, facts: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return a field's ktx type, and whether it is a time dimension."""
    datatype = item.text("datatype")
    dimension = item.item("dimension")
    stated = dimension.values.get("is_time") if dimension else None
    if dimension is not None:
        dimension.skip("is_time")
    kind = facts.get("type") if facts.get("type") in KTX_TYPES else TYPES.get(datatype or "")
    is_time = bool(stated) if stated is not None else kind == "time"
    return kind or ("time" if is_time and datatype is None else None), is_time


def _set_facts(column: ColumnDraft, facts: Mapping[str, Any], kind: str | None, *, is_time: bool) -> None:
    column.type = column.type or kind
    if is_time and kind == "time":
        column.extra["role"] = "time"
    column.extra |= {key: facts[key] for key in _FACTS if isinstance(facts.get(key), str)}
    if facts.get("natural_granularity") in NATURAL:
        column.extra["natural_granularity"] = facts["natural_granularity"]
    values = facts.get("values")
    if isinstance(values, list) and values:
        column.extra["enum_values"] = {"osi": [str(value) for value in values]}
    if facts.get("visibility") in VISIBILITIES:
        column.visibility = facts["visibility"]


def add_relationship(item: Item, drafts: Mapping[str, SourceDraft], report: Report, *, aliased: bool) -> None:
    """Add a relationship as a join from the dataset on its many side.

    If `aliased` is true, the name of the relationship becomes the alias of the join.
    """
    name = item.text("name") or "?"
    what = f"relationship `{name}`"
    one, other = drafts.get(item.text("from") or ""), drafts.get(item.text("to") or "")
    own, its = item.words("from_columns"), item.words("to_columns")
    if one is None or other is None or not own or len(own) != len(its):
        why = "a dataset was not imported, or the two sides have different numbers of columns"
        report.dropped(what, why, item.place)
        return
    result = [(one.require(left), other.require(right)) for left, right in zip(own, its, strict=True)]
    columns = [(left, right) for left, right in result if left is not None and right is not None]
    if len(columns) < len(own):
        report.dropped(what, "a table lacks one of the columns", item.place)
        return
    facts = extended(item, what, report)
    alias_text = facts.get("alias")
    alias = alias_text if isinstance(alias_text, str) else name if (aliased and not facts) or one is other else None
    hop = alias or other.name
    unique = {tuple(one.grain)} | {(key,) for key, column in one.columns.items() if "tests" in column.extra}
    single = facts.get("relationship") == "one_to_one" or (tuple(own) in unique and bool(one.grain))
    relationship = "one_to_one" if single else "many_to_one"
    join = {"to": other.name, "on": on_text(columns, hop), "relationship": relationship}
    if alias:
        join["alias"] = alias
    one.joins.append(join)
    if item.has("ai_context"):
        item.skip("ai_context")
        report.dropped(f"`ai_context` of {what}", "ktx joins have no description", item.at("ai_context"))
    report.kept(what, item.place, f"{one.name} -> {hop}")
    item.report_rest(report, what)


_METRIC_FACTS: Final = ("label", "unit", "format")


def add_metric(item: Item, drafts: Mapping[str, SourceDraft], report: Report, home: SourceDraft | None = None) -> None:
    """Add a metric. `home` is its dataset, or None for a metric of the whole model."""
    name = item.text("name")
    what = f"metric `{name or '?'}`"
    with report.dropping(what, item.place):
        if name is None or "." in name:
            raise UnresolvedError("`name` is missing or contains a dot")
        _add(item, name, drafts, home, what, report)
        item.skip("datatype")
        item.report_rest(report, what)


def _add(
    item: Item, name: str, drafts: Mapping[str, SourceDraft], home: SourceDraft | None, what: str, report: Report
) -> None:
    """Add the measure to the first dataset that can evaluate it."""
    dialect = next(iter(drafts.values())).dialect if drafts else DEFAULT_DIALECT
    text = expression_of(item, dialect)
    facts = extended(item, what, report)
    names = read(text, dialect)
    owners = [home] if home is not None else _owners(names, drafts, facts)
    problem: KtxError = UnresolvedError("the expression uses no imported dataset")
    for draft in owners:
        expr = with_names(text, _renamed(names, drafts, draft))
        measures = {*draft.measures, *(f"{each.name}.{own}" for each in drafts.values() for own in each.measures)}
        try:
            checked(draft, expr, aggregate=True, measures=measures)
        except KtxError as error:
            problem = error
        else:
            return _write(item, name, expr, draft, facts, what, report)
    raise problem


def _owners(names: Read, drafts: Mapping[str, SourceDraft], facts: Mapping[str, Any]) -> list[SourceDraft]:
    """Return the candidate datasets for a metric: the one that ktx exported it from, then those that it uses."""
    source = facts.get("source")
    named = [source] if isinstance(source, str) else []
    named += [parts[-2] for parts in (*names.columns, *names.outside) if len(parts) > 1]
    if not named and len(drafts) == 1:
        named = list(drafts)
    return [drafts[name] for name in dict.fromkeys(named) if name in drafts]


def _renamed(names: Read, drafts: Mapping[str, SourceDraft], own: SourceDraft) -> dict[str, str]:
    """Return the ktx names of the fields that a metric uses. Fields of its own dataset have no prefix."""
    result = {}
    for parts in (*names.columns, *names.outside):
        draft = drafts.get(parts[-2]) if len(parts) > 1 else None
        if draft is not None:
            column = draft.find(parts[-1]) or parts[-1]
            named = (column,) if draft is own else (draft.name, column)
            result[".".join(parts)] = ".".join(quoted(each, own.dialect) for each in named)
    return result


def _write(
    item: Item, name: str, expr: str, draft: SourceDraft, facts: Mapping[str, Any], what: str, report: Report
) -> None:
    own = facts.get("name") if isinstance(facts.get("name"), str) else name
    if own in draft.measures:
        raise UnresolvedError(f"`{draft.name}` already has a measure with this name")
    target = f"{draft.name}.{own}"
    text, texts = with_context(item, item.text("description"), what, target, report)
    time = facts.get("time")
    draft.measures[str(own)] = filled({
        "name": own, "expr": expr, "descriptions": {"osi": text} if text else None, **texts,
        "time": draft.find(time) if isinstance(time, str) else None,
        **{key: facts[key] for key in _METRIC_FACTS if isinstance(facts.get(key), str)},
    })  # fmt: skip
    report.kept(what, item.place, target)


VERSION: Final = "0.1.1"
ANSI: Final = "ANSI_SQL"
TYPES: Final = {
    "String": "string", "Integer": "number", "Decimal": "number", "Float": "number", "Boolean": "boolean",
    "Date": "time", "Time": "string", "DateTime": "time", "DateTimeTz": "time",
}  # fmt: skip
_VENDOR: Final = "COMMON"
_KEY: Final = "ktx"


def extension(facts: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """Return the OSI extension for ktx's facts, or None if there are none."""
    held = {key: value for key, value in facts.items() if value is not None and value != [] and value is not False}
    if not held:
        return None
    return [{"vendor_name": _VENDOR, "data": json.dumps({_KEY: held}, sort_keys=True, ensure_ascii=False)}]


def read_extension(value: Any) -> tuple[dict[str, Any], bool]:
    """Return the facts in the ktx extension, and whether there are other extensions."""
    facts: dict[str, Any] = {}
    others = False
    for each in value if isinstance(value, list) else ():
        found = _facts(each)
        facts |= found or {}
        others = others or found is None
    return facts, others


def _facts(extension_entry: Any) -> dict[str, Any] | None:
    data = extension_entry.get("data") if isinstance(extension_entry, Mapping) else None
    try:
        held = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        return None
    facts = held.get(_KEY) if isinstance(held, dict) and len(held) == 1 else None
    return facts if isinstance(facts, dict) else None
