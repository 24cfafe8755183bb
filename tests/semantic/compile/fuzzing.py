"""What is asked of the shop to break it: fragments with hostile parts, and questions made of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ktx_cli.semantic.model import GRAINS

COLUMNS = (
    *("orders.status", "orders.amount", "orders.gift", "orders.placed_at", "orders.shipped_on", "orders.big"),
    *("customers.tier", "customers.label", "customers.since", "billed.name", "sent.name", "regions.name"),
    *("customers.regions.name", "products.name", "lines.quantity", "tickets.grade", "stock.day", "status", "name"),
    *("metric_time", "spenders.spent", "billed.team", "regions.team"),
)
HIDDEN = ("customers.phone", "phone", '"phone"', "customers.PHONE", "orders.customers.phone", "`phone`", "[phone]")
MEASURES = (
    *("orders.revenue", "orders", "paid_revenue", "orders.per_order", "orders.buyers", "tickets.tickets", "value"),
    *("lines.pieces", "customers.balance_total", "orders.share", "orders.revenue_28", "orders.revenue_before"),
    *("stock.on_hand", "orders.mean_of_customers", "spenders.spent", "orders.typical", "orders.buyer_days"),
)
ATTACKS = (
    *(
        "1; DROP TABLE shop.orders",
        "1 = 1; --",
        "/* */ 1 = 1",
        "-- x\n1 = 1",
        "' OR '1' = '1",
        '" OR 1 = 1',
        "\\' OR 1=1",
    ),
    *(
        "1 UNION SELECT phone FROM shop.customers",
        "(SELECT phone FROM shop.customers LIMIT 1) = 'x'",
        "EXISTS(SELECT 1)",
    ),
    *("orders.id IN (SELECT id FROM shop.tickets)", "orders.id IN (TABLE shop.tickets)", "pg_sleep(9) IS NULL"),
    *("read_text('/etc/passwd') = ''", "SUM(1) OVER () > 0", "(VALUES (1))", "CASE WHEN 1 THEN", "{{ user.grade }}"),
    *(
        "{{ user.nobody }} = 1",
        "'{{ user.grade }}' = 'x'",
        "{{ param.least }} > 1",
        "ktx_template_0",
        "$1 = 1",
        ":x = 1",
    ),
    *("? = 1", "@x = 1", "@@version = 'x'", "orders.*", "*", "d0 = 1", "orders__1.m0 > 1", "shop.orders.amount > 1"),
    *(
        "x -> x + 1",
        "LIST_TRANSFORM([1], x -> x)",
        "COLUMNS('.*')",
        "orders.amount AS x",
        "getenv('HOME')",
        "1 = 1 LIMIT 1",
    ),
    *(
        "SELECT 1",
        "DELETE FROM shop.orders",
        "orders.status = 'a' GROUP BY 1",
        "ROW(1, 2) = 1",
        "x'00'",
        "orders.status = '",
    ),
    *("COPY orders TO 'x'", "ATTACH 'x'", "SET x = 1", "PRAGMA x", "INTERVAL '1 day'", "CAST(orders.amount AS NOSUCH)"),
)

words = st.sampled_from((*COLUMNS, *MEASURES, *HIDDEN, *ATTACKS)) | st.text(max_size=12)
_values = st.sampled_from(("1", "0", "'a'", "''", "NULL", "TRUE", "1e400", "DATE '2024-01-01'", "{{ user.grade }}"))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(("=", "<>", ">", "AND", "OR", "+", "/", "||", "IS DISTINCT FROM", "LIKE", "IN", ";"))
    calls = st.sampled_from(("SUM", "COUNT", "COUNT(DISTINCT", "AVG", "MEDIAN", "UPPER", "COALESCE", "PG_SLEEP", "NOT"))
    return (
        st.builds("{} {} {}".format, inner, operators, inner)
        | st.builds("({})".format, inner)
        | st.builds(lambda name, text: f"{name}({text})" + ")" * name.count("("), calls, inner)
        | st.builds("CASE WHEN {} THEN {} END".format, inner, inner)
        | st.builds("{} IS NULL".format, inner)
    )


fragments = st.recursive(words | _values, _larger, max_leaves=6)
_sound = st.builds(
    "{} {} {}".format,
    st.sampled_from((*COLUMNS, *MEASURES)),
    st.sampled_from(("=", "<", ">=", "<>")),
    st.sampled_from(("1", "NULL")),
)
conditions = (
    _sound | st.builds("{} {} {}".format, words, st.sampled_from(("=", "<", ">=", "LIKE", "IN")), _values) | fragments
)
names = st.text(min_size=1, max_size=20) | st.sampled_from(
    ('a"b', "a`b", "a]b", "x; DROP TABLE y", "d0", "--", "x" * 9000)
)
_paths = st.sampled_from(("billed", "sent", "customers", "nowhere", "a.b", "'", "")) | st.lists(
    st.text(max_size=4), max_size=2
)


def _lists(of: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, max_size=most)


def _optional(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


measures = st.sampled_from(MEASURES) | fragments | _optional({"expr": st.sampled_from(MEASURES)}, {"name": names})
dimensions = (
    st.sampled_from(COLUMNS)
    | fragments
    | _optional(
        {"field": st.sampled_from(COLUMNS)},
        {"granularity": st.sampled_from((*GRAINS, "eon", "'")), "name": names, "via": _paths},
    )
)
filters = conditions | _optional(
    {"expr": conditions}, {"via": _paths, "facts": _lists(st.sampled_from(("orders", "tickets", "nothing")))}
)
_moments = st.sampled_from(("2024-01-01", "2024-02-30", "2024-03-01T12:00:00", "0001-01-01", "9999-12-31", "now", "'"))
_ranges = _optional(
    {}, {"field": words, "start": _moments, "end": _moments, "last": st.sampled_from(("3 days", "9999 years", "x"))}
)

questions = _optional(
    {"measures": _lists(measures)},
    {
        "dimensions": _lists(dimensions),
        "filters": _lists(filters),
        "segments": _lists(st.sampled_from(("orders.done", "done", "x", "orders.'"))),
        "having": _lists(conditions),
        "order_by": _lists(words | st.builds("{} desc".format, words)),
        "limit": st.integers(-1, 100_001),
        "offset": st.integers(-1, 10),
        "include_empty": st.booleans(),
        "time_range": _ranges,
        "comparison": st.sampled_from(({"offset": "1 year"}, {"offset": "previous_period"}, {"offset": "9999 years"})),
        "totals": st.booleans(),
        "fill": st.booleans(),
        "parameters": st.dictionaries(st.sampled_from(("least", "x")), st.floats() | st.integers() | words, max_size=1),
        "timezone": st.sampled_from(("UTC", "Europe/Berlin", "Mars/One", "'; --")),
        "via": st.dictionaries(st.sampled_from(("regions", "billed", "'")), _paths, max_size=1),
    },
)
attributes = st.fixed_dictionaries(
    {}, optional={"grade": st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(ATTACKS) | st.none()}
)
