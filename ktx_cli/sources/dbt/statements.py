"""Statements of dbt models about decision points: filters, mappings and computed columns that read their columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ktx_cli.core import one_line
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.scan import FoundPoint, name_words
from ktx_cli.semantic import DecisionKind, Statement
from ktx_cli.sources.dbt.sql import RuleKind
from ktx_cli.sources.statements import LONGEST, Find

if TYPE_CHECKING:
    from ktx_cli.semantic import Relation
    from ktx_cli.sources.dbt.models import SqlModel
    from ktx_cli.sources.table_texts import LayerTable


def statements_of_models(
    models: Mapping[Relation, SqlModel], tables: Mapping[Relation, LayerTable], connection: str
) -> Find:
    """Return a finder for dbt model rules that read the columns of a decision point, with their lines."""
    reads: dict[Relation, frozenset[tuple[str, ...]]] = {}
    for relation, model in models.items():
        found: set[tuple[str, ...]] = set()
        for each in model.facts.references:
            table = tables.get(each)
            if table is not None and table.connection == connection and table.source.table is not None:
                found.add(table.source.table)
            found |= reads.get(each, frozenset())
        reads[relation] = frozenset(found)

    def find(point: FoundPoint) -> Iterator[Statement]:
        if point.kind is DecisionKind.FISCAL_START:
            yield from _fiscal_years(models.values())
            return
        wanted = set(point.columns)
        fewest = 2 if len(wanted) > 2 else 1
        for relation, model in models.items():
            if not any(_is_table(parts, point) for parts in reads[relation]):
                continue
            if point.kind is DecisionKind.DATE:
                yield from _renamed(model, wanted)
            for line, text, tree in _rules(model, computed=point.kind in _COMPUTED):
                if len(wanted & _columns(tree, model.dialect)) >= fewest and not any(
                    (*secrets(text), *personal_data(text))
                ):
                    shown = one_line(f"{model.facts.name}: {text}", LONGEST)
                    yield Statement(shown, model.path, max(1, line))

    return find


def _fiscal_years(models: Iterable[SqlModel]) -> Iterator[Statement]:
    """Yield model columns for fiscal years that are computed by shifting a date by some months."""
    for model in models:
        for column in model.facts.columns:
            words = {*name_words(column.name), *name_words(model.facts.name)}
            if words & {"fiscal", "financial"} and "MONTH" in column.expression.upper():
                shown = one_line(f"{model.facts.name}: `{column.name}` is `{column.expression}`", LONGEST)
                yield Statement(shown, model.path)


def _is_table(parts: tuple[str, ...], point: FoundPoint) -> bool:
    schema = parts[-2] if len(parts) > 1 else None
    same = schema is None or point.table.schema is None or schema.casefold() == point.table.schema.casefold()
    return same and parts[-1].casefold() == point.table.name.casefold()


def _renamed(model: SqlModel, wanted: set[str]) -> Iterator[Statement]:
    """Yield a point's dates that a model exposes under another name, such as `day`."""
    for column in model.facts.columns:
        for _, origin in column.origins:
            if origin in wanted and not column.expression and column.name not in wanted:
                yield Statement(f"{model.facts.name}: `{column.name}` is `{origin}`", model.path)


_COMPUTED: Final = frozenset({DecisionKind.AMOUNT, DecisionKind.UNIT, DecisionKind.CURRENCY, DecisionKind.DATE})
"""Kinds of points that are decided by computed columns rather than filters."""

_EITHER: Final = frozenset({RuleKind.MAPPING, RuleKind.FALLBACK})


def _rules(model: SqlModel, *, computed: bool) -> Iterator[tuple[int, str, str]]:
    """Yield line, words and SQL of a model's decisions: filters and mappings, or else computed columns."""
    for rule in model.facts.rules:
        if not computed or rule.kind in _EITHER:
            yield rule.line, rule.shown, rule.text
    for column in model.facts.columns:
        if column.expression and (computed or "CASE" in column.expression.upper() or "(" in column.expression):
            yield 0, f"`{column.name}` is `{column.expression}`", column.expression


def _columns(text: str, dialect: str) -> frozenset[str]:
    try:
        tree = sqlglot.parse_one(text, dialect=dialect or None)
    except SqlglotError:  # A rule in words, such as keeping one row of several.
        return frozenset(_WORD_OF_SQL.findall(text))
    return frozenset(column.name for column in tree.find_all(exp.Column))


_WORD_OF_SQL: Final = re.compile(r"[^\W\d]\w*")
