"""What dbt says of models and their columns beside semantic models: descriptions, types, tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.connectors.types import semantic_type
from ktx_cli.context.semantic.interchange.drafts import ColumnDraft, SourceDraft
from ktx_cli.context.semantic.interchange.items import Item
from ktx_cli.context.semantic.interchange.joining import on_text
from ktx_cli.context.semantic.interchange.result import Report
from ktx_cli.context.semantic.model import Place

_TESTS: Final = ("unique", "not_null")
_KNOWN: Final = (
    "name", "semantic_model", "agg_time_dimension", "primary_entity", "derived_semantics", "metrics", "columns",
    "latest_version", "versions", "docs", "access",
)  # fmt: skip
_REASONS: Final = {
    "config": "it steers dbt, and means nothing for questions",
    "meta": "it means nothing for questions",
    "time_spine": "ktx computes the periods; it needs no table of them",
    "tests": "a test of a whole model says nothing a question can use",
    "data_tests": "a test of a whole model says nothing a question can use",
    "constraints": "the database knows its constraints; a scan reads them",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A `relationships` test: a column whose values are those of `field` of the relation `to`."""

    draft: SourceDraft
    column: str
    to: str
    field: str
    what: str
    place: Place


def add_properties(item: Item, draft: SourceDraft, report: Report) -> list[Reference]:
    """Add what an entry of `models:` says to a source; return the references its tests claim."""
    text = item.text("description")
    if text:
        several = [each.strip() for each in (draft.description, text) if each]
        draft.description = " ".join(dict.fromkeys(several))
        report.kept(f"description of `{draft.name}`", item.at("description"), draft.name)
    found = [each for column in item.items("columns") for each in _add_column(column, draft, report)]
    item.skip(*_KNOWN)
    item.report_rest(report, f"model `{draft.name}`", _REASONS)
    return found


def _add_column(item: Item, draft: SourceDraft, report: Report) -> list[Reference]:
    name = item.text("name")
    what = f"column `{name or '?'}` of `{draft.name}`"
    if name is None or (draft.base is not None and draft.physical(name) is None):
        report.dropped(what, f"the table of `{draft.name}` has no such column", item.place)
        return []
    column = draft.column(draft.physical(name) or name)
    if column.expr is not None:
        report.dropped(what, "a computed column has its name", item.place)
        return []
    column.visibility = None if column.visibility == "internal" else column.visibility
    _describe(item, column, what, draft, report)
    found = _add_tests(item, column, what, draft, report)
    item.skip("entity", "dimension", "granularity", "quote")
    item.report_rest(report, what, _REASONS)
    return found


def _describe(item: Item, column: ColumnDraft, what: str, draft: SourceDraft, report: Report) -> None:
    text, native = item.text("description"), item.text("data_type")
    if text and column.description:
        report.dropped(f"description of {what}", "its dimension or entity has one", item.at("description"))
    elif text:
        column.description = text
        report.kept(what, item.place, f"{draft.name}.{column.name}")
    if native and draft.base is None and column.type is None:
        column.type = semantic_type(draft.dialect, native).value


def _add_tests(item: Item, column: ColumnDraft, what: str, draft: SourceDraft, report: Report) -> list[Reference]:
    tests: list[str] = []
    references: list[Reference] = []
    for key in ("tests", "data_tests"):
        for test in _listed(item, key):
            name, arguments = _test(test)
            said, target = f"test `{name}` of {what}", f"{draft.name}.{column.name}"
            values, to = _values(arguments), _reference(arguments)
            if name in _TESTS:
                tests.append(name)
                report.kept(said, item.at(key), target)
            elif name == "accepted_values" and values:
                column.extra["enum_values"] = {"dbt": values}
                report.kept(said, item.at(key), target)
            elif name == "relationships" and to is not None:
                references.append(Reference(draft, column.name, *to, said, item.at(key)))
            else:
                report.dropped(said, "it says nothing a question can use", item.at(key))
    if tests:
        known = column.extra.get("tests", {}).get("dbt", [])
        column.extra["tests"] = {"dbt": list(dict.fromkeys([*known, *tests]))}
    return references


def _reference(arguments: Any) -> tuple[str, str] | None:
    to, field = (arguments.get("to"), arguments.get("field")) if isinstance(arguments, Mapping) else (None, None)
    return (to, field) if isinstance(to, str) and isinstance(field, str) else None


def add_references(references: Iterable[Reference], drafts: Mapping[str, SourceDraft], report: Report) -> None:
    """Join what `relationships` tests refer to, where that is unique; `drafts`: by relation."""
    for each in references:
        target = drafts.get(each.to)
        field = target.find(each.field) if target is not None else None
        if target is None or field is None:
            report.dropped(each.what, f"`{each.to}` was not imported", each.place)
        elif not _is_unique(target, field):
            report.dropped(each.what, f"nothing says that `{field}` is unique in `{target.name}`", each.place)
        elif any(join["to"] == target.name for join in each.draft.joins):
            report.kept(each.what, each.place, f"{each.draft.name} -> {target.name}")
        else:
            on = on_text([(each.column, field)], target.name)
            each.draft.joins.append({"to": target.name, "on": on, "relationship": "many_to_one"})
            report.kept(each.what, each.place, f"{each.draft.name} -> {target.name}")


def _is_unique(draft: SourceDraft, field: str) -> bool:
    column = draft.columns.get(field)
    tested = column is not None and "unique" in column.extra.get("tests", {}).get("dbt", ())
    known = draft.base is not None and draft.base.keyed and draft.base.grain == (field,)
    return tested or known or draft.grain == (field,)


def _listed(item: Item, key: str) -> list[Any]:
    value = item.value(key)
    return value if isinstance(value, list) else []


def _test(test: Any) -> tuple[str, Any]:
    if isinstance(test, Mapping):
        name = test.get("test_name") or next(iter(test), "")
        below = test.get(name, test)
        arguments = below.get("arguments", below) if isinstance(below, Mapping) else below
        return str(name), arguments
    return str(test), None


def _values(arguments: Any) -> list[str]:
    values = arguments.get("values") if isinstance(arguments, Mapping) else None
    return [str(each) for each in values if isinstance(each, str | int | float)] if isinstance(values, list) else []
