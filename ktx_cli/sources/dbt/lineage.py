"""What the SQL of dbt models says of their tables, as `lineage` in the manifest: what they are built from, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.core import one_line
from ktx_cli.privacy import secrets
from ktx_cli.semantic import Place, Relation, Report
from ktx_cli.sources.dbt.models import SqlModel
from ktx_cli.sources.dbt.sql import FILTERS, Rule
from ktx_cli.sources.table_texts import Wanted

_MOST_RULES: Final = 40
_MOST_COLUMNS: Final = 60
_MOST_UPSTREAM: Final = 200
_LONGEST: Final = 300
PASSED_ON: Final = ("ephemeral", "view", "")
"""Ways to materialize a model that keep no rows: what it leaves out, all that is built from it lacks."""


def want_lineage(models: Mapping[Relation, SqlModel], wanted: Wanted, report: Report, tool: str) -> None:
    """Want what the SQL of each model says of its table, with the filters of views and ephemeral models it reads."""
    for relation, model in models.items():
        if model.table is None:
            continue
        target = f"{model.table.connection}/{model.table.source.name}"
        what, place = f"SQL of `{model.node.shown}`", Place(model.path)
        if model.facts.problem is not None:
            report.dropped(what, model.facts.problem, place)
            continue
        steps = ("tables", model.table.source.name, "lineage", tool)
        wanted.add(model.table.shard, steps, lineage_of(relation, models), model.path)
        report.kept(what, place, target)


def lineage_of(relation: Relation, models: Mapping[Relation, SqlModel]) -> dict[str, Any]:
    """Return what is known of how the rows and columns of a model come to be, each part only where there is any."""
    facts = models[relation].facts
    computed = {column.name for column in facts.columns if column.expression}
    rules = [rule.shown for rule in facts.rules if rule.kind in FILTERS or rule.scope or rule.column not in computed]
    rules += [f"in `{name}`: {rule.shown}" for name, rule in _upstream(relation, models)]
    rules += [f"comment: {each.text}" for each in facts.comments if each.is_telling]
    columns = [f"{each.name}: {each.expression}" for each in facts.columns if each.expression]
    found = {
        "file": models[relation].path,
        "built_from": [".".join(each[1:]) for each in facts.references],
        "rules": _plain(rules, _MOST_RULES),
        "columns": _plain(columns, _MOST_COLUMNS),
        "unresolved": _plain(list(facts.unresolved), _MOST_RULES),
    }
    return {key: value for key, value in found.items() if value}


def _upstream(relation: Relation, models: Mapping[Relation, SqlModel]) -> Iterator[tuple[str, Rule]]:
    """Yield the rules of the models without rows of their own that a model is built from, each with its model.

    Of those without a table everything counts, as nothing else says it; of views their filters.
    """
    seen, waiting = {relation}, [*models[relation].facts.references]
    while waiting and len(seen) < _MOST_UPSTREAM:
        each = waiting.pop(0)
        model = models.get(each)
        if each in seen or model is None or model.node.materialized not in PASSED_ON:
            continue
        seen.add(each)
        for rule in model.facts.rules:
            if model.table is None or rule.kind in FILTERS:
                yield model.node.shown, rule
        waiting += model.facts.references


def _plain(texts: list[str], most: int) -> list[str]:
    """Return texts on one line each, without those that hold what looks like a secret."""
    lines = (one_line(text, _LONGEST) for text in texts)
    return [line for line in dict.fromkeys(lines) if not any(secrets(line))][:most]
