"""Datasets, fields and relationships of OSI as sources, columns and joins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.context.semantic.interchange.drafts import TAKEN, ColumnDraft, SourceDraft, Sources, described
from ktx_cli.context.semantic.interchange.items import Item
from ktx_cli.context.semantic.interchange.joining import on_text
from ktx_cli.context.semantic.interchange.osi.format import ANSI, DIALECTS, TYPES, read_extension
from ktx_cli.context.semantic.interchange.result import Report
from ktx_cli.context.semantic.interchange.sql import fault, plain_name, read
from ktx_cli.context.semantic.loading.columns import NATURAL, VISIBILITIES
from ktx_cli.context.semantic.loading.columns import TYPES as KTX_TYPES
from ktx_cli.core.errors import KtxError

_OTHER_TOOL: Final = "they are of another tool"
_QUERY: Final = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
_FACTS: Final = ("timezone", "unit", "role")


def add_dataset(item: Item, sources: Sources, drafts: dict[str, SourceDraft], report: Report) -> SourceDraft | None:
    """Add a dataset under its name; None after a report."""
    name, origin = item.text("name"), item.text("source")
    what = f"dataset `{name or '?'}`"
    if not name or not origin or name in drafts:
        why = "another one has the name" if name in drafts else "it has no `name` or no `source`"
        report.dropped(what, why, item.place)
        return None
    query = _QUERY.match(origin) is not None
    draft = sources.add(name, item.place, table=None if query else origin, sql=origin if query else None)
    drafts[name] = draft
    facts = extended(item, what, report)
    draft.description = with_context(item, item.text("description"), what, draft.name, report)
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
            why = "ktx has one grain; a further key of several columns has no place"
            report.dropped(f"unique key {', '.join(names)} of `{draft.name}`", why, item.at("unique_keys"))


def extended(item: Item, what: str, report: Report) -> dict[str, Any]:
    """Return what an extension of ktx says; others are reported."""
    facts, others = read_extension(item.value("custom_extensions"))
    if others:
        report.dropped(f"`custom_extensions` of {what}", _OTHER_TOOL, item.at("custom_extensions"))
    return facts


def with_context(item: Item, text: str | None, what: str, target: str, report: Report) -> str | None:
    """Return a description with what `ai_context` says behind it."""
    context = item.value("ai_context")
    if context is None:
        return text
    parts = [text] if text else []
    if isinstance(context, str):
        parts.append(context)
    elif isinstance(context, Mapping):
        synonyms = context.get("synonyms")
        parts += [str(value) for key, value in context.items() if isinstance(value, str)]
        if isinstance(synonyms, list):
            parts.append(f"Also: {', '.join(map(str, synonyms))}.")
        rest = [str(key) for key, value in context.items() if not isinstance(value, str) and key != "synonyms"]
        if rest:
            why = f"ktx has no place for {', '.join(rest)}"
            report.dropped(f"`ai_context` of {what} ({', '.join(rest)})", why, item.at("ai_context"))
    report.approximated(f"`ai_context` of {what}", "it stands in the description", item.at("ai_context"), target)
    return " ".join(part.strip() for part in parts) or None


def expression_of(item: Item, dialect: str) -> str | None:
    """Return the expression of a field or metric in a dialect: its own where it has one, else the ANSI one.

    Raises `SemanticError` where neither can be read.
    """
    value = item.value("expression")
    if isinstance(value, str):
        return value.strip() or None
    listed = value.get("dialects") if isinstance(value, Mapping) else value
    found = {str(each.get("dialect")): text for each in listed if isinstance(each, Mapping) and (text := _text(each))} \
        if isinstance(listed, list) else {}  # fmt: skip
    own = found.get(DIALECTS.get(dialect, ""))
    ansi = found.get(ANSI) or found.get("None")
    return own or (in_dialect(ansi, dialect) if ansi else None)


def _text(entry: Mapping[Any, Any]) -> str | None:
    """Return the text of one dialect; an early form has the aggregate beside what it aggregates."""
    text = entry.get("expression")
    if text is None and entry.get("aggregation_type") and entry.get("input_expr"):
        text = f"{entry['aggregation_type']}({entry['input_expr']})"
    return str(text).strip() if isinstance(text, str | int | float) else None


def in_dialect(text: str, dialect: str) -> str:
    """Return ANSI SQL in a dialect, as it stands where both read it alike."""
    from ktx_cli.context.semantic.errors import SemanticError
    from ktx_cli.context.semantic.expressions.fragments import parse

    written = str(parse(text, "", what="it").sql(dialect))
    try:
        same = parse(text, dialect, what="it").sql(dialect) == written
    except SemanticError:
        same = False
    return text if same else written


def _add_field(item: Item, draft: SourceDraft, report: Report) -> None:
    name = item.text("name")
    what = f"field `{draft.name}.{name or '?'}`"
    if name is None:
        report.dropped(what, "it has no name", item.place)
        return
    try:
        text = expression_of(item, draft.dialect)
        column = _column(item, name, text, draft, what, report) if text else None
    except KtxError as error:
        report.dropped(what, error.message, item.place)
        return
    if text is None:
        report.dropped(what, "it has no expression in ANSI SQL or the connection's dialect", item.place)
    if column is None:
        return
    target = f"{draft.name}.{column.name}"
    text = described(item.text("description"), item.text("label"))
    column.description = with_context(item, text, what, target, report)
    report.kept(what, item.place, target)
    item.report_rest(report, what)


def _column(item: Item, name: str, text: str, draft: SourceDraft, what: str, report: Report) -> ColumnDraft | None:
    """Return the column of a field, None after a report."""
    facts = extended(item, what, report)
    kind, is_time = _kind(item, facts)
    plain = plain_name(text)
    if plain is not None and plain.casefold() == name.casefold():
        found = draft.require(plain, kind)
        if found is None:
            report.dropped(what, f"`{draft.name}` has no column `{plain}` that can be named", item.place)
            return None
        column = draft.column(found)
        column.visibility = None
    else:
        why = fault(draft, text, aggregate=False)
        if why is not None:
            report.dropped(what, why, item.place)
            return None
        if plain is not None:
            draft.require(plain, kind)
        names = read(text, draft.dialect)
        column = draft.compute(name, text, kind or names.type or "string", names.columns)
        if column.name != name:
            report.approximated(f"the name of {what}", TAKEN, item.place, column.name)
    _set_facts(column, facts, kind, is_time=is_time)
    return column


def _kind(item: Item, facts: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return the ktx type of a field and whether it is a time to ask by."""
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
        column.extra["enum_values"] = {"osi": [str(each) for each in values]}
    if facts.get("visibility") in VISIBILITIES:
        column.visibility = facts["visibility"]


def add_relationship(item: Item, drafts: Mapping[str, SourceDraft], report: Report, *, aliased: bool) -> None:
    """Add a relationship as a join of the dataset on its many side; `aliased`: by its name."""
    name = item.text("name") or "?"
    what = f"relationship `{name}`"
    one, other = drafts.get(item.text("from") or ""), drafts.get(item.text("to") or "")
    own, its = item.words("from_columns"), item.words("to_columns")
    if one is None or other is None or not own or len(own) != len(its):
        why = "it names a dataset that was not imported, or not as many columns on both sides"
        report.dropped(what, why, item.place)
        return
    found = [(one.require(left), other.require(right)) for left, right in zip(own, its, strict=True)]
    columns = [(left, right) for left, right in found if left is not None and right is not None]
    if len(columns) < len(own):
        report.dropped(what, "a table does not have one of its columns", item.place)
        return
    facts = extended(item, what, report)
    said = facts.get("alias")
    alias = said if isinstance(said, str) else name if (aliased and not facts) or one is other else None
    hop = alias or other.name
    unique = {tuple(one.grain)} | {(key,) for key, each in one.columns.items() if "tests" in each.extra}
    single = facts.get("relationship") == "one_to_one" or (tuple(own) in unique and bool(one.grain))
    relationship = "one_to_one" if single else "many_to_one"
    join = {"to": other.name, "on": on_text(columns, hop), "relationship": relationship}
    if alias:
        join["alias"] = alias
    one.joins.append(join)
    if item.has("ai_context"):
        item.skip("ai_context")
        report.dropped(f"`ai_context` of {what}", "a join has no description", item.at("ai_context"))
    report.kept(what, item.place, f"{one.name} -> {hop}")
    item.report_rest(report, what)
