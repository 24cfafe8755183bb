"""KTX310 to KTX315, KTX328, KTX329 and KTX336: names in definitions.

One checker, that of `ktx sl validate --no-data`, reports all of them, so these rules share a module.
"""

from __future__ import annotations

from ktx_cli.core import Severity
from ktx_cli.jobs.check.lint.registry import shared_rule

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_ORDERS = "semantic-layer/warehouse/orders.yaml"
_TICKETS = "semantic-layer/warehouse/tickets.yaml"


RULES = (
    shared_rule(
        "KTX310",
        "unknown_source",
        _ERROR,
        "A definition refers to a source that does not exist.",
        "Usually the name is misspelled, or the table was dropped or is not scanned.",
        bad={
            _ORDERS: """\
name: orders
joins:
  - {to: customer, on: customer_id = customer.id, relationship: many_to_one}
"""
        },
    ),
    shared_rule(
        "KTX311",
        "unknown_column",
        _ERROR,
        "A definition refers to a column that does not exist.",
        "The column was renamed or dropped, or the name is misspelled.",
        bad={
            _ORDERS: """\
name: orders
default_time_dimension: order_date
"""
        },
    ),
    shared_rule(
        "KTX312",
        "unknown_name",
        _ERROR,
        "An expression contains a name that nothing has.",
        "Expressions may use columns and measures of their source, and columns of sources it has one row of.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: revenue, expr: sum(amont)}
"""
        },
    ),
    shared_rule(
        "KTX313",
        "unknown_segment",
        _ERROR,
        "A measure uses a segment that its source does not have.",
        "Without the segment the measure would count all rows, so ktx does not use it at all.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: revenue, expr: sum(amount), segments: [paid]}
"""
        },
    ),
    shared_rule(
        "KTX314",
        "unknown_join",
        _WARNING,
        "`disable_joins` lists a join that does not exist.",
        "The entry has no effect. The join may have another condition, or a scan no longer finds it.",
        bad={
            _ORDERS: """\
name: orders
disable_joins: [customer_id = customers.number]
"""
        },
    ),
    shared_rule(
        "KTX315",
        "ambiguous_name",
        _ERROR,
        "A name in an expression fits several things.",
        "Write `source.column` to say which one is meant.",
        bad={
            "semantic-layer/warehouse/shops.yaml": """\
name: shops
table: shop.shops
grain: [id]
columns:
  - {name: id, type: number}
  - {name: country, type: string}
""",
            _ORDERS: """\
name: orders
joins:
  - {to: shops, on: id = shops.id, relationship: many_to_one}
segments:
  - {name: german, expr: country = 'DE'}
""",
        },
    ),
    shared_rule(
        "KTX328",
        "dotted_name",
        _ERROR,
        "A name contains a dot.",
        "Dots separate sources from their columns and measures in questions.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: total.revenue, expr: sum(amount)}
"""
        },
    ),
    shared_rule(
        "KTX329",
        "shadowed_name",
        _WARNING,
        "A measure has the name of a column.",
        "In filters the name means the column, which is easily misread.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: amount, expr: sum(amount)}
"""
        },
    ),
    shared_rule(
        "KTX336",
        "not_projected",
        _ERROR,
        "The `sql` of a source does not return one of its columns.",
        "Queries for the column would fail.",
        bad={
            _TICKETS: """\
name: tickets
sql: SELECT id FROM shop.orders
grain: [id]
columns:
  - {name: id, type: number}
  - {name: topic, type: string}
"""
        },
    ),
)
