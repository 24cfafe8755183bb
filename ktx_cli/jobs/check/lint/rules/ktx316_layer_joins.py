"""KTX316, KTX317, KTX326, KTX330, KTX333, KTX334 and KTX338: grains and joins.

One checker, that of `ktx sl validate --no-data`, reports all of them, so these rules share a module.
"""

from __future__ import annotations

from ktx_cli.core import Severity
from ktx_cli.jobs.check.lint.registry import shared_rule

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_ORDERS = "semantic-layer/warehouse/orders.yaml"
_TICKETS = "semantic-layer/warehouse/tickets.yaml"


RULES = (
    shared_rule(
        "KTX316",
        "ambiguous_path",
        _ERROR,
        "Several joins lead to the same source.",
        "Give each join an `alias` and use it, for example `bill_to.name`.",
        bad={
            _ORDERS: """\
name: orders
columns:
  - {name: payer_id, type: number, expr: customer_id}
joins:
  - {to: customers, on: payer_id = customers.id, relationship: many_to_one}
segments:
  - {name: german, expr: customers.country = 'DE'}
"""
        },
    ),
    shared_rule(
        "KTX317",
        "unreachable",
        _ERROR,
        "An expression reads a source that no join to one row leads to.",
        "Over a join to several rows the expression would count rows twice.",
        bad={
            "semantic-layer/warehouse/customers.yaml": """\
name: customers
columns:
  - {name: big, type: boolean, expr: orders.amount > 100}
"""
        },
    ),
    shared_rule(
        "KTX326",
        "join_on",
        _ERROR,
        "The `on` of a join cannot be read.",
        "It has to be equalities joined by AND, each with a column of the other source: `customer_id = customers.id`.",
        bad={
            _ORDERS: """\
name: orders
joins:
  - {to: customers, on: customer_id > customers.id, relationship: many_to_one}
"""
        },
    ),
    shared_rule(
        "KTX330",
        "no_grain",
        _WARNING,
        "A source has no grain.",
        "Without the columns that make a row unique, ktx cannot tell whether a join repeats rows.",
        bad={
            _TICKETS: """\
name: tickets
table: shop.tickets
columns:
  - {name: id, type: number}
"""
        },
    ),
    shared_rule(
        "KTX333",
        "unproven_cardinality",
        _WARNING,
        "No key proves that a join leads to one row.",
        "Where it finds several rows, measures count them several times. Correct the relationship, or the grain of the "
        "other source.",
        bad={
            _ORDERS: """\
name: orders
joins:
  - {to: customers, on: status = customers.country, relationship: many_to_one, alias: home}
columns:
  - {name: status, type: string, expr: "'DE'"}
"""
        },
    ),
    shared_rule(
        "KTX334",
        "display_value",
        _WARNING,
        "A join compares a text for people with an identifier.",
        "Names and titles change and repeat. Join on the column that holds the identifier.",
        bad={
            _ORDERS: """\
name: orders
columns:
  - {name: customer_name, type: number, expr: customer_id}
joins:
  - {to: customers, on: customer_name = customers.id, relationship: many_to_one, alias: by_name}
"""
        },
    ),
    shared_rule(
        "KTX338",
        "disconnected",
        _INFO,
        "No join connects some sources with the others.",
        "Questions cannot combine them. Add joins, or accept inferred ones with `ktx scan relationships`.",
        bad={
            _TICKETS: """\
name: tickets
table: shop.tickets
grain: [id]
columns:
  - {name: id, type: number}
"""
        },
    ),
)
