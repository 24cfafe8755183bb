"""Metrics of OSI as measures of the dataset whose rows they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.context.semantic.interchange.drafts import SourceDraft, filled
from ktx_cli.context.semantic.interchange.items import Item
from ktx_cli.context.semantic.interchange.osi.datasets import expression_of, extended, with_context
from ktx_cli.context.semantic.interchange.result import Report
from ktx_cli.context.semantic.interchange.sql import Read, fault, quoted, read, with_names
from ktx_cli.core.errors import KtxError

_FACTS: Final = ("unit", "format")


def add_metric(item: Item, drafts: Mapping[str, SourceDraft], report: Report, home: SourceDraft | None = None) -> None:
    """Add a metric; `home`: the dataset it stands in, None for one of the whole model."""
    name = item.text("name")
    what = f"metric `{name or '?'}`"
    try:
        problem = (
            "it has no name, or one with a dot"
            if name is None or "." in name
            else _add(item, name, drafts, home, what, report)
        )
    except KtxError as error:
        problem = error.message
    if problem is not None:
        report.dropped(what, problem, item.place)
    else:
        item.skip("datatype")
        item.report_rest(report, what)


def _add(
    item: Item, name: str, drafts: Mapping[str, SourceDraft], home: SourceDraft | None, what: str, report: Report
) -> str | None:
    """Write the measure; return why it cannot be, None where it is."""
    dialect = next(iter(drafts.values())).dialect if drafts else "duckdb"
    text = expression_of(item, dialect)
    if text is None:
        return "it has no expression in ANSI SQL or the connection's dialect"
    facts = extended(item, what, report)
    names = read(text, dialect)
    owners = [home] if home is not None else _owners(names, drafts, facts)
    if not owners:
        return "it names no dataset that was imported"
    problem: str | None = None
    for draft in owners:
        expr = with_names(text, _renamed(names, drafts, draft))
        measures = {*draft.measures, *(f"{each.name}.{own}" for each in drafts.values() for own in each.measures)}
        problem = fault(draft, expr, aggregate=True, measures=measures)
        if problem is None:
            return _write(item, name, expr, draft, facts, what, report)
    return problem


def _owners(names: Read, drafts: Mapping[str, SourceDraft], facts: Mapping[str, Any]) -> list[SourceDraft]:
    """Return the datasets a metric may be of: the one ktx exported it from, then those it names."""
    source = facts.get("source")
    named = [source] if isinstance(source, str) else []
    named += [parts[-2] for parts in (*names.columns, *names.outside) if len(parts) > 1]
    if not named and len(drafts) == 1:
        named = list(drafts)
    return [drafts[each] for each in dict.fromkeys(named) if each in drafts]


def _renamed(names: Read, drafts: Mapping[str, SourceDraft], own: SourceDraft) -> dict[str, str]:
    """Return what names of datasets' fields are called here: own ones bare."""
    found = {}
    for parts in (*names.columns, *names.outside):
        draft = drafts.get(parts[-2]) if len(parts) > 1 else None
        if draft is not None:
            column = draft.find(parts[-1]) or parts[-1]
            named = (column,) if draft is own else (draft.name, column)
            found[".".join(parts)] = ".".join(quoted(each, own.dialect) for each in named)
    return found


def _write(
    item: Item, name: str, expr: str, draft: SourceDraft, facts: Mapping[str, Any], what: str, report: Report
) -> str | None:
    own = facts.get("name") if isinstance(facts.get("name"), str) else name
    if own in draft.measures:
        return f"`{draft.name}` has another measure of that name"
    target = f"{draft.name}.{own}"
    text = with_context(item, item.text("description"), what, target, report)
    time = facts.get("time")
    draft.measures[str(own)] = filled({
        "name": own, "expr": expr, "descriptions": {"osi": text} if text else None,
        "time": draft.find(time) if isinstance(time, str) else None,
        **{key: facts[key] for key in _FACTS if isinstance(facts.get(key), str)},
    })  # fmt: skip
    report.kept(what, item.place, target)
    return None
