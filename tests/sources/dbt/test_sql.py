"""What the SQL of a model says: filters, mappings, fallbacks, comments, and where columns come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.sources.dbt.sql import Columns, ModelFacts, OutputColumn, read_facts
from ktx_cli.sources.dbt.templates import Texts, rendered

COLUMNS: Columns = {("ref", "orders"): ("id", "status", "amount"), ("source", "s", "t"): ("id", "kind")}


def facts(text: str, dialect: str = "duckdb", columns: Columns = COLUMNS) -> ModelFacts:
    return read_facts("m", "models/m.sql", rendered(text, Texts({}, {"days": 90}), dialect), dialect, columns)


ORDERS = "{{ ref('orders') }}"


@pytest.mark.table(
    ("text", "lines"),
    [
        (
            f"select id\nfrom {ORDERS} o\nwhere o.status <> 'cancelled' and (amount > 0)",
            ["line 3: keeps rows where `amount > 0`", "line 3: keeps rows where `o.status <> 'cancelled'`"],
        ),
        (f"select id from {ORDERS} where 1 = 1 and true", []),
        (f"select id from {ORDERS} where amount > {{{{ var('days') }}}}", ["line 1: keeps rows where `amount > 90`"]),
        (
            f"select id from {ORDERS} where {{{{ only_valid('x') }}}}",
            ["line 1: keeps rows where `{{ only_valid('x') }}`", "only dbt can resolve: `{{ only_valid('x') }}`"],
        ),
        (
            f"select id, count(*) from {ORDERS} group by id having count(*) > 1",
            ["keeps groups where `COUNT(*) > 1`"],
        ),
        (
            f"select o.id from {ORDERS} o left join {{{{ source('s', 't') }}}} t on t.id = o.id and t.kind = 'b'",
            ["line 1: joins only rows where `t.kind = 'b'`"],
        ),
        (
            f"with paid as (\nselect id from {ORDERS}\nwhere status = 'paid')\nselect * from paid",
            ["line 3: keeps rows where `status = 'paid'` (in `paid`)"],
        ),
        (
            f"with r as (select id, row_number() over (partition by id order by amount desc) as n from {ORDERS})\n"
            "select id from r where n = 1",
            ["line 2: keeps one row for each `id`, the first by `amount DESC`"],
        ),
        (
            f"select id from {ORDERS} qualify row_number() over (partition by id order by amount) = 1",
            ["line 1: keeps one row for each `id`, the first by `amount`"],
        ),
        (
            f"select id from {ORDERS} where id is not null and status not in ('a', 'b') and not (x or y)",
            [
                "line 1: keeps rows where `NOT (x OR y)`",
                "line 1: keeps rows where `id IS NOT NULL`",
                "line 1: keeps rows where `status NOT IN ('a', 'b')`",
            ],
        ),
        (f"select distinct id, status from {ORDERS}", ["line 1: keeps distinct rows: `id, status`"]),
        (
            f"select distinct on (id) id from {ORDERS} order by amount",
            ["line 1: keeps one row for each `id`, the first by `amount`"],
        ),
        (
            f"select case when card = 'guest' then null else card end as card from {ORDERS}",
            ["line 1: `card` is `CASE WHEN card = 'guest' THEN NULL ELSE card END`"],
        ),
        (
            f"select sum(coalesce(amount, 0)) as amount from {ORDERS}",
            ["line 1: `amount` has a fallback: `COALESCE(amount, 0)`"],
        ),
        (
            f"select id from {ORDERS} where exists (select 1 from {{{{ ref('z') }}}} z where z.id = 1)",
            ["line 1: keeps rows where `EXISTS(SELECT 1 FROM z AS z WHERE z.id = 1)`"],
        ),
        (
            f"-- 48 h since spring 2025\nselect id -- key\nfrom {ORDERS}",
            ["line 1: comment: 48 h since spring 2025"],
        ),
        (f"select id from {ORDERS}\n{{% if is_incremental() %}} where id > 1 {{% endif %}}", []),
        ("select from from", ["its SQL could not be read: it cannot be parsed as duckdb"]),
        ("select 1; select 2", ["its SQL could not be read: it is not a single query"]),
        ("delete from x", ["its SQL could not be read: it is not a single query"]),
        ("select " + "(" * 500 + "1" + ")" * 500, ["its SQL could not be read: it is too long or nested too deeply"]),
    ],
)  # fmt: skip
def test_rules(text: str, lines: list[str]) -> None:
    found = facts(text)
    assert list(found.lines) == lines and found.says_something is bool(lines)


def column(name: str, *origins: str, expression: str = "", of: str = "orders") -> OutputColumn:
    relation = ("ref", of) if of != "t" else ("source", "s", "t")
    return OutputColumn(name, expression, tuple((relation, each) for each in origins))


@pytest.mark.table(
    ("text", "columns", "is_whole"),
    [
        (f"select id, amount as net from {ORDERS}", [column("id", "id"), column("net", "amount")], True),
        (f"select * from {ORDERS}", [column(each, each) for each in ("id", "status", "amount")], True),
        (
            f"with a as (select * from {ORDERS}), b as (select id, amount * 2 as twice from a) select b.* from b",
            [column("id", "id"), column("twice", "amount")],
            True,
        ),
        (
            f"select o.id, t.kind from {ORDERS} o join {{{{ source('s', 't') }}}} t on t.id = o.id",
            [column("id", "id"), column("kind", "kind", of="t")],
            True,
        ),
        (
            f"select status, kind from {ORDERS} cross join {{{{ source('s', 't') }}}}",
            [column("status", "status"), column("kind", "kind", of="t")],
            True,
        ),
        ("select * from {{ ref('unknown') }}", [], False),
        ("select a.x from {{ ref('unknown') }} a", [column("x", "x", of="unknown")], True),
        (
            f"select id from {ORDERS} union all select id from {{{{ source('s', 't') }}}}",
            [OutputColumn("id", "", ((("ref", "orders"), "id"), (("source", "s", "t"), "id")))],
            True,
        ),
        (
            f"select {{{{ star() }}}}, sum(amount) as total from {ORDERS}",
            [column("total", "amount", expression="SUM(amount)")],
            False,
        ),
        ("with recursive a as (select * from a) select * from a", [], False),
    ],
)
def test_where_columns_come_from(text: str, columns: list[OutputColumn], is_whole: bool) -> None:
    found = facts(text)
    assert (list(found.columns), found.has_all_columns) == (columns, is_whole)


@pytest.mark.table(
    ("text", "grain"),
    [
        (f"select status, count(*) from {ORDERS} group by 1", ("status",)),
        (f"select count(*) from {ORDERS} group by status, id", ("status", "id")),
        (f"select id from {ORDERS}", ()),
        (f"select id from {ORDERS} group by 99", ("99",)),
    ],
)
def test_grain(text: str, grain: tuple[str, ...]) -> None:
    assert facts(text).grain == grain


PIECES = st.sampled_from(
    ["select ", "from ", ORDERS, " where ", "a", " = ", "1", "'x'", ", ", "(", ")", "*", " as ", "case when ", " then ",
     " end ", "with ", " union all ", " join ", " on ", "coalesce(", " over (", "row_number()", " qualify ", "{{ x }}",
     "{% if y %}", "{% endif %}", "-- c\n", "; ", "group by ", " distinct ", "pivot", "\"", "::", "."]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25).map("".join), st.sampled_from(["duckdb", "postgres", "bigquery", "tsql", ""]))
def test_any_text_is_read_or_says_why_not(text: str, dialect: str) -> None:
    found = facts(text, dialect)
    assert found.problem is None or not (found.rules or found.columns)
    assert all("ktx_part" not in line for line in found.lines)
