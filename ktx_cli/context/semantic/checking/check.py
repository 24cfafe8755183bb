"""Checks a model without a look at the database: names, joins, grains, expressions."""

from __future__ import annotations

from ktx_cli.context.semantic.checking.expressions import ExpressionChecks
from ktx_cli.context.semantic.checking.joins import check_joins
from ktx_cli.context.semantic.checking.projections import check_projection
from ktx_cli.context.semantic.checking.reporting import Report
from ktx_cli.context.semantic.checking.sources import check_source
from ktx_cli.context.semantic.model import Model, Problem


def check_model(model: Model) -> list[Problem]:
    """Return what is wrong in a model beyond what its files showed when they were read, by file and line.

    An `error` is a definition no question can use; a `warning` one that may give a wrong number, or none.
    """
    report = Report()
    expressions = ExpressionChecks(model, report)
    for source in model.sources.values():
        check_source(source, report)
        expressions.check(source)
        if source.sql is not None:
            check_projection(source, model.dialect, expressions.parameters, report)
    expressions.check_cycles()
    check_joins(model, report)
    return report.sorted()
