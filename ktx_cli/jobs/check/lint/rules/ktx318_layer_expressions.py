"""KTX318 to KTX320, KTX331, KTX332, KTX335 and KTX399: expressions, types, and everything else.

One checker, that of `ktx sl validate --no-data`, reports all of them, so these rules share a module.
"""

from __future__ import annotations

from ktx_cli.core import Severity
from ktx_cli.jobs.check.lint.registry import other_rule, shared_rule

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_ORDERS = "semantic-layer/warehouse/orders.yaml"
_TICKETS = "semantic-layer/warehouse/tickets.yaml"


RULES = (
    shared_rule(
        "KTX318",
        "aggregate",
        _ERROR,
        "An aggregate is where none can be, or missing where one is needed.",
        "Measures aggregate; columns, segments and filters do not.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: revenue, expr: amount}
"""
        },
    ),
    shared_rule(
        "KTX319",
        "cycle",
        _ERROR,
        "A definition needs itself.",
        "Take one of the names out of the expression of another.",
        bad={
            _ORDERS: """\
name: orders
columns:
  - {name: net, type: number, expr: gross - 1}
  - {name: gross, type: number, expr: net + 1}
"""
        },
    ),
    shared_rule(
        "KTX320",
        "definition",
        _ERROR,
        "An expression cannot be read.",
        "It is not SQL of the database's dialect, or not a single expression.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: revenue, expr: sum(amount}
"""
        },
    ),
    shared_rule(
        "KTX331",
        "no_type",
        _WARNING,
        "A column has no type.",
        "Without it, ktx cannot tell a number from a text or a time.",
        bad={
            _TICKETS: """\
name: tickets
table: shop.tickets
grain: [id]
columns:
  - {name: id}
"""
        },
    ),
    shared_rule(
        "KTX332",
        "not_a_time",
        _WARNING,
        "The default time of a source is not a time.",
        "Questions by month or year need a column of type `time`.",
        bad={
            _ORDERS: """\
name: orders
default_time_dimension: amount
"""
        },
    ),
    shared_rule(
        "KTX335",
        "equal_measures",
        _WARNING,
        "Two measures compute the same.",
        "People will wonder which one to use, and later change only one.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: revenue, expr: sum(amount)}
  - {name: turnover, expr: sum(amount)}
"""
        },
    ),
    other_rule(
        "KTX399",
        "other-layer-problem",
        "Anything else that `ktx sl validate --no-data` reports.",
        "The validation reports a problem for which there is no rule yet.",
    ),
)
