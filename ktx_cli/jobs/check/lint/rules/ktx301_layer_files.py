"""KTX301 to KTX309, KTX327, KTX337 and KTX339: files of the semantic layer, and the shape of what is in them.

One checker, that of `ktx sl validate --no-data`, reports all of them, so these rules share a module.
"""

from __future__ import annotations

from ktx_cli.core import Severity
from ktx_cli.jobs.check.lint.registry import shared_rule

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_SHARD = "semantic-layer/warehouse/_schema/shop.yaml"
_ORDERS = "semantic-layer/warehouse/orders.yaml"
_TICKETS = "semantic-layer/warehouse/tickets.yaml"


RULES = (
    shared_rule(
        "KTX301",
        "broken_shard",
        _ERROR,
        "A manifest shard cannot be read.",
        "Its tables are missing from the semantic layer. Restore the file from git, or let `ktx scan` write it again.",
        bad={_SHARD: "tables: [\n"},
    ),
    shared_rule(
        "KTX302",
        "broken_source",
        _ERROR,
        "The file of a source cannot be read.",
        "The file is not valid YAML, or not a mapping. Its source and its overlay are missing from the semantic layer.",
        bad={
            _ORDERS: """\
name: orders
measures: [
"""
        },
    ),
    shared_rule(
        "KTX303",
        "no_name",
        _ERROR,
        "A file does not name its source.",
        "The `name:` in the file counts, not the name of the file.",
        bad={_TICKETS: "table: shop.tickets\n"},
    ),
    shared_rule(
        "KTX304",
        "duplicate",
        _ERROR,
        "Two definitions have the same name.",
        "Neither is used where it is unclear which one is meant.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: revenue, expr: sum(amount)}
  - {name: revenue, expr: sum(amount) / 100}
"""
        },
    ),
    shared_rule(
        "KTX305",
        "shape",
        _ERROR,
        "A part of a file has the wrong shape.",
        "For example a text where a list is expected.",
        bad={
            _ORDERS: """\
name: orders
measures: revenue
"""
        },
    ),
    shared_rule(
        "KTX306",
        "value",
        _ERROR,
        "A key has a value that it cannot have.",
        "The message lists the values that are allowed.",
        bad={
            _ORDERS: """\
name: orders
visibility: secret
"""
        },
    ),
    shared_rule(
        "KTX307",
        "missing",
        _ERROR,
        "A required key is missing.",
        "The part is ignored until the key is there.",
        bad={
            _ORDERS: """\
name: orders
measures:
  - {name: revenue}
"""
        },
    ),
    shared_rule(
        "KTX308",
        "unknown_key",
        _WARNING,
        "ktx does not know a key.",
        "The key has no effect; usually it is misspelled. In a file with policies it is an error, because it may be "
        "meant to protect rows.",
        bad={
            _ORDERS: """\
name: orders
colour: red
"""
        },
    ),
    shared_rule(
        "KTX309",
        "forbidden_key",
        _ERROR,
        "A key is not allowed in this file.",
        "For example `description` in an overlay, which has `descriptions` of its own.",
        bad={
            _ORDERS: """\
name: orders
description: Orders of the shop
"""
        },
    ),
    shared_rule(
        "KTX327",
        "no_columns",
        _ERROR,
        "A source has no columns.",
        "Nothing can be queried of it.",
        bad={
            _TICKETS: """\
name: tickets
table: shop.tickets
grain: [id]
"""
        },
    ),
    shared_rule(
        "KTX337",
        "shadows_manifest",
        _WARNING,
        "A source replaces one of the manifest.",
        "The file defines a table that a scan already describes. An overlay (a file without `table` and `sql`) adds to "
        "the scanned source instead.",
        bad={
            _ORDERS: """\
name: orders
table: shop.orders
grain: [id]
columns:
  - {name: id, type: number}
  - {name: amount, type: number}
  - {name: customer_id, type: number}
"""
        },
    ),
    shared_rule(
        "KTX339",
        "no_connection",
        _ERROR,
        "A file outside the folder of every connection may be meant to hide something.",
        "ktx cannot tell which tables it protects, so it refuses raw SQL until the file is moved or removed.",
        bad={
            "semantic-layer/orders.yaml": """\
name: orders
visibility: hidden
"""
        },
    ),
)
