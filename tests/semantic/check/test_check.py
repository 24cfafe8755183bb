"""What is wrong in definitions that were read without a problem."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.store.reader import check_model

ORDERS = """\
name: orders
table: orders
grain: [id]
default_time_dimension: placed_at
columns:
- {name: id, type: number}
- {name: customer_id, type: number}
- {name: amount, type: number}
- {name: status, type: string}
- {name: placed_at, type: time}
- {name: net, type: number, expr: "amount / 1.2"}
joins:
- {to: customers, on: customer_id = customers.id, relationship: many_to_one}
- {to: customers, on: customer_id = buyer.id, relationship: many_to_one, alias: buyer}
segments:
- {name: paid, expr: "status = 'paid'"}
parameters: [{name: known, type: number}]
measures:
"""
CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
- {name: id, type: number}
- {name: region_id, type: number}
- {name: tier, type: string}
joins:
- {to: regions, on: region_id = regions.id, relationship: many_to_one}
- {to: orders, on: id = orders.customer_id, relationship: one_to_many}
measures:
- {name: people, expr: count(*)}
"""
REGIONS = """\
name: regions
table: regions
grain: [id]
columns:
- {name: id, type: number}
- {name: label, type: string}
- {name: status, type: string}
"""


def measures(*lines: str) -> tuple[str, ...]:
    return (ORDERS + "".join(f"- {line}\n" for line in lines), CUSTOMERS, REGIONS)


GOOD = [
    "{name: m, expr: sum(amount)}",
    "{name: m, expr: SUM ( Amount )}",
    "{name: m, expr: count(*)}",
    "{name: m, expr: sum(net), filter: \"status = 'paid'\", segments: [paid]}",
    "{name: m, expr: sum(orders.amount)}",
    "{name: m, expr: sum(amount) filter (where status = 'paid')}",
    "{name: m, expr: count(distinct customers.tier)}",
    "{name: m, expr: sum(amount), filter: \"buyer.tier = 'gold'\"}",
    "{name: m, expr: sum(amount), filter: \"customers.regions.label = 'x' and regions.label = 'y'\"}",
    "{name: m, expr: count(label)}",
    '{name: m, expr: "percentile(amount, 0.9)"}',
    '{name: m, expr: "quantile_cont(amount, 0.9)"}',
    "{name: m, expr: percentile_cont(0.5) within group (order by amount)}",
    "{name: m, expr: count_distinct(status)}",
    "{name: m, expr: \"sum(datediff('day', placed_at, current_date))\"}",
    "{name: m, expr: my_own_function(amount)}",
    "{name: m, expr: 'sum(amount * {{ param.known }})'}",
    '{name: m, expr: "sum(amount) / nullif(count(*), 0)"}',
    "{name: m, expr: customers.people * 2}",
    "{name: m, expr: sum(amount), semi_additive: {over: placed_at, per: [customer_id]}}",
    "{name: m, expr: sum(amount), cumulative: {over: placed_at}, time: placed_at}",
    "{name: m, expr: sum(amount), percent_of: [status, customers.tier]}",
]


@pytest.mark.parametrize("measure", GOOD)
def test_nothing_is_wrong(load: Any, measure: str) -> None:
    model = load(*measures(measure))
    assert [*model.problems, *check_model(model)] == []


def test_measures_of_measures(load: Any) -> None:
    model = load(
        *measures(
            "{name: revenue, expr: sum(amount)}",
            "{name: n, expr: count(*)}",
            "{name: aov, expr: revenue / n}",
            "{name: twice, expr: 2 * aov}",
            "{name: mean, expr: avg(revenue), per: [customer_id, customers.tier]}",
        )
    )
    assert check_model(model) == []


WRONG = [
    ("{name: m, expr: sum(amuont)}", "unknown_name", "`amuont`", "did you mean `amount`?"),
    ("{name: m, expr: sum(amount) + amuont}", "unknown_name", "no measure `amuont`", "`amount`?"),
    ("{name: m, expr: sum(customers.teir)}", "unknown_name", "no column `teir` in `customers`", "`customers.tier`?"),
    ("{name: m, expr: sum(custmers.tier)}", "unknown_name", "`custmers`", "`customers`?"),
    ("{name: m, expr: sum(amount), filter: teir = 1}", "unknown_name", "`filter` of measure `m`", "available: "),
    ("{name: m, expr: amount}", "aggregate", "outside an aggregate", "sum(amount)"),
    ("{name: m, expr: sum(amount) / amount}", "aggregate", "outside an aggregate", "sum(amount)"),
    ("{name: m, expr: 1 + 1}", "aggregate", "neither an aggregate nor a measure", "sum(amount)"),
    ("{name: m, expr: sum(avg(amount))}", "aggregate", "inside another", "per: [column]"),
    ("{name: m, expr: sum(amount) over ()}", "definition", "a window function", "sql"),
    ("{name: m, expr: (select 1)}", "definition", "a subquery", "sql"),
    ("{name: m, expr: sum(amount}", "definition", "is not a valid duckdb expression", ""),
    ("{name: m, expr: sum(amount); select 1}", "definition", "is not a valid duckdb expression", ""),
    ("{name: m, expr: sum(amount) as x}", "definition", "is not a valid duckdb expression", ""),
    ("{name: m, expr: sum(amount), filter: sum(amount) > 1}", "aggregate", "applies to individual rows", "measure"),
    ("{name: m, expr: sum(amount); count(id)}", "definition", "a second statement", "single expression"),
    ("{name: m, expr: \"sum('{{ param.known }}')\"}", "definition", "inside a string", "without quotes"),
    ("{name: m, expr: 'sum({{ param.x }})'}", "unknown_name", "no parameter `x`", "available: known"),
    ("{name: m, expr: 'sum({{ user.x }})'}", "definition", "only allowed in policies", "param.NAME"),
    ("{name: m, expr: 'sum({{ x }})'}", "definition", "invalid template", "param.NAME"),
    ("{name: m, expr: sum(amount), segments: [piad]}", "unknown_segment", "`piad`", "`paid`?"),
    ("{name: m, expr: sum(amount), time: placedat}", "unknown_column", "`time` of measure `m`", "`placed_at`?"),
    ("{name: m, expr: sum(amount), semi_additive: {over: day}}", "unknown_column", "semi_additive.over", "available: "),
    ("{name: m, expr: sum(amount), semi_additive: {over: id, per: [x]}}", "unknown_column", "semi_additive.per", ""),
    ("{name: m, expr: sum(amount), cumulative: {over: day}}", "unknown_column", "cumulative.over", "available: "),
    ("{name: m, expr: avg(m), per: [day]}", "unknown_name", "`per` of measure `m`", "available: "),
    ("{name: m, expr: sum(amount), percent_of: [tir]}", "unknown_name", "`percent_of`", ""),
    ("{name: a.b, expr: sum(amount)}", "dotted_name", "contains a dot", "rename"),
]


@pytest.mark.parametrize(("measure", "code", "message", "hint"), WRONG)
def test_a_wrong_measure(load: Any, measure: str, code: str, message: str, hint: str) -> None:
    problem = next(each for each in check_model(load(*measures(measure))) if each.code == code)
    assert (problem.severity, problem.location.object) == ("error", "orders")
    assert message in problem.message
    assert hint in (problem.hint or "")
    assert str(problem.location) == "semantic-layer/shop/0.yaml:19"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("sum(amount)", "SUM( amount )", "`a` and `b` of `orders` have the same definition"),
        (
            "sum(amount), filter: id = 1",
            "sum(amount), filter: id=1",
            "`a` and `b` of `orders` have the same definition",
        ),
    ],
)
def test_equal_measures(load: Any, first: str, second: str, message: str) -> None:
    (problem,) = check_model(load(*measures(f"{{name: a, expr: {first}}}", f"{{name: b, expr: {second}}}")))
    assert (problem.severity, problem.code, problem.line) == ("warning", "equal_measures", 20)
    assert message in problem.message


def test_measures_that_only_look_equal(load: Any) -> None:
    lines = [f"{{name: {name}, expr: \"sum(case when status = '{name}' then 1 end)\"}}" for name in "aA"]
    lines += ["{name: c, expr: sum(amount)}", "{name: d, expr: sum(amount), offset: 1 year}"]
    lines += ["{name: e, expr: sum(amount), filter: id = 1}", "{name: f, expr: sum(amount), filter: id = 2}"]
    assert check_model(load(*measures(*lines))) == []


@pytest.mark.table(
    ("descriptions", "reported"),
    [
        ("", True),
        (", descriptions: {user: Gross.}", True),
        (", descriptions: {ai: Gross., dbt: Gross.}", True),
        (", descriptions: {dbt: Gross.}", False),
    ],
)
def test_a_measure_with_the_name_of_a_column(load: Any, descriptions: str, reported: bool) -> None:
    found = check_model(load(*measures(f"{{name: amount, expr: sum(amount){descriptions}}}")))
    assert [(each.severity, each.code) for each in found] == ([("warning", "shadowed_name")] if reported else [])


@pytest.mark.table(
    ("dialect", "expr", "severity"),
    [
        ("sqlite", "sum(preferences)", "warning"),
        ("sqlite", "avg(preferences)", "warning"),
        ("sqlite", "sum(placed_at)", "warning"),
        ("sqlite", "sum(is_paid)", "warning"),
        ("postgres", "sum(preferences)", "warning"),
        ("postgres", "sum(is_paid)", "error"),
        ("redshift", "sum(is_paid)", "error"),
        ("duckdb", "sum(placed_at) / 2", "error"),
        ("duckdb", "sum(is_paid)", "warning"),
        ("duckdb", "avg(placed_at)", None),
        ("postgres", "sum(distinct (preferences))", "warning"),
        ("postgres", "sum(amount)", None),
        ("postgres", "sum(cast(preferences as decimal))", None),
        ("postgres", "sum(case when is_paid then 1 end)", None),
        ("postgres", "count(preferences) + max(preferences)", None),
        ("postgres", "sum(note)", None),
    ],
)
def test_sums_of_what_is_no_number(write: Any, dialect: str, expr: str, severity: str | None) -> None:
    columns = ("id: number", "amount: number", "preferences: string", "is_paid: boolean", "placed_at: time")
    listed = ", ".join("{{name: {}, type: {}}}".format(*each.split(": ")) for each in columns)
    files = {
        "_schema/x.yaml": f"tables: {{orders: {{table: orders, columns: [{listed}]}}}}",
        "orders.yaml": f"name: orders\ngrain: [id]\ncolumns: [{{name: note, type: string, expr: preferences}}]\n"
        f"measures: [{{name: m, expr: '{expr}'}}]\n",
    }
    found = check_model(load_model(write(files), "shop", dialect))
    assert [(each.severity, each.code) for each in found] == ([] if severity is None else [(severity, "not_a_number")])


def test_an_aggregate_of_a_measure_needs_keys(load: Any) -> None:
    (problem,) = check_model(load(*measures("{name: a, expr: sum(amount)}", "{name: b, expr: avg(a)}")))
    assert (problem.code, problem.hint) == ("aggregate", "set the keys of the inner aggregation: per: [column]")


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (("{name: a, expr: a + sum(amount)}",), "orders.a -> orders.a"),
        (
            ("{name: a, expr: b * 2}", "{name: b, expr: c}", "{name: c, expr: a}"),
            "a -> orders.b -> orders.c -> orders.a",
        ),
    ],
)
def test_measures_computed_from_themselves(load: Any, lines: tuple[str, ...], shown: str) -> None:
    (problem,) = [each for each in check_model(load(*measures(*lines))) if each.code == "cycle"]
    assert shown in problem.message
    assert problem.line == 19


@pytest.mark.parametrize(
    ("column", "code"),
    [
        ("{name: a, type: number, expr: b}\n- {name: b, type: number, expr: a}", "cycle"),
        ("{name: a, type: number, expr: a + 1}", "cycle"),
        ("{name: a, type: number, expr: sum(id)}", "aggregate"),
        ("{name: a, type: number, expr: idd}", "unknown_name"),
        ("{name: a, type: number, expr: 'id +'}", "definition"),
    ],
)
def test_computed_columns(load: Any, column: str, code: str) -> None:
    (problem,) = check_model(load(f"{REGIONS}- {column}"))
    assert (problem.severity, problem.code, problem.line) == ("error", code, 8)


@pytest.mark.parametrize(
    ("more", "severity", "code", "message"),
    [
        ("- {name: x.y, type: string}", "error", "dotted_name", "`x.y`"),
        ("- {name: x, type: string}\ndefault_time_dimension: x", "warning", "not_a_time", "is a string"),
        ("default_time_dimension: when", "error", "unknown_column", "`when`"),
        ("segments: [{name: s, expr: labell = 'x'}]", "error", "unknown_name", "`labell`"),
        ("segments: [{name: s, expr: count(*) > 1}]", "error", "aggregate", "individual rows"),
        ("policies: [{name: p, filter: labell = 'x'}]", "error", "unknown_name", "policy `p`"),
        ('policies: [{name: p, filter: "label = {{ usr.x }}"}]', "error", "definition", "`usr.x`"),
    ],
)
def test_sources(load: Any, more: str, severity: str, code: str, message: str) -> None:
    (problem,) = check_model(load(REGIONS + more))
    assert (problem.severity, problem.code) == (severity, code)
    assert message in problem.message


def test_templates_that_are_known(load: Any) -> None:
    more = """\
policies: [{name: p, filter: "label = {{ user.region }} and id > {{ param.least }}"}]
parameters: [{name: least, type: number, default: 1}]
"""
    assert check_model(load(REGIONS + more)) == []


def test_a_grain_that_is_no_column(load: Any) -> None:
    (problem,) = check_model(load(REGIONS.replace("grain: [id]", "grain: [idd]")))
    assert (problem.code, problem.hint) == ("unknown_column", "did you mean `id`?")


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("select id, label, status from x", None),
        ("with a as (select 1) select * from a", None),
        ("select ID, Label, status from x union all select 1, 2, 3", None),
        ("select id, label from x", "not_projected"),
        ("select id, label from", "definition"),
        ("drop table x", "definition"),
        ("select 1; select 2", "definition"),
        ("select id, label, status from x where a = {{ param.a }}", "unknown_name"),
    ],
)
def test_sql_of_a_source(load: Any, sql: str, code: str | None) -> None:
    found = check_model(load(REGIONS.replace("table: regions", f'sql: "{sql}"')))
    assert [each.code for each in found] == ([code] if code else [])


def join(text: str) -> tuple[str, ...]:
    return (CUSTOMERS.replace("measures:", f"- {text}\nmeasures:"), ORDERS.split("joins:")[0], REGIONS)


MISSING, UNPROVEN = ("error", "unknown_column"), ("warning", "unproven_cardinality")


@pytest.mark.parametrize(
    ("to", "on", "relationship", "found", "message", "hint"),
    [
        ("regoins", "region_id = regoins.id", "many_to_one", ("error", "unknown_source"), "not a source", "`regions`?"),
        ("regions", "regoin_id = regions.id", "many_to_one", MISSING, "`customers.regoin_id`", "`region_id`?"),
        ("regions", "region_id = regions.idd", "many_to_one", MISSING, "`regions.idd`", "`id`?"),
        ("regions", "region_id = regions.id and kind = 1", "many_to_one", MISSING, "`customers.kind`", ""),
        ("regions", "region_id = regions.label", "many_to_one", UNPROVEN, "label is unique in `regions`", "grain of"),
        ("orders", "tier = orders.status", "one_to_many", UNPROVEN, "tier is unique in `customers`", "grain of"),
        ("regions", "id = regions.id", "one_to_one", None, "", ""),
        ("orders", "id = orders.id and orders.status = 'x'", "many_to_one", None, "", ""),
    ],
)
def test_joins(
    load: Any, to: str, on: str, relationship: str, found: tuple[str, str] | None, message: str, hint: str
) -> None:
    problems = check_model(load(*join(f'{{to: {to}, on: "{on}", relationship: {relationship}}}')))
    assert [(each.severity, each.code) for each in problems] == ([found] if found else [])
    for each in problems:
        assert message in each.message
        assert hint in (each.hint or "")
        assert each.line == 11


def test_a_scan_that_inferred_a_join_has_counted_the_rows(load: Any) -> None:
    text = '{to: regions, on: "region_id = regions.label", relationship: one_to_one, source: SOURCE}'
    assert check_model(load(*join(text.replace("SOURCE", "inferred")))) == []
    assert check_model(load(*join(text.replace("SOURCE", "manual"))))


def test_all_columns_for_want_of_a_grain_prove_nothing(load: Any) -> None:
    regions = "name: regions\ntable: regions\ncolumns: [{name: id, type: number}]\n"
    found = check_model(load(CUSTOMERS, ORDERS.split("joins:")[0], regions))
    assert [(each.code, each.line) for each in found] == [("unproven_cardinality", 9)]


def test_an_alias_that_is_a_source(load: Any) -> None:
    text = "{to: regions, on: region_id = orders.id, relationship: many_to_one, alias: orders}"
    (problem,) = check_model(load(*join(text)))
    assert (problem.severity, problem.code) == ("error", "duplicate")
    assert "is also the name of a source" in problem.message


def test_an_alias_twice(load: Any) -> None:
    text = "{to: regions, on: region_id = r.id, relationship: many_to_one, alias: r}"
    (problem,) = check_model(load(*join(f"{text}\n- {text.replace('region_id', 'id')}")))
    assert "two joins with the alias `r`" in problem.message


def test_a_text_joined_to_an_identifier(load: Any) -> None:
    customers = CUSTOMERS.replace("region_id", "region_name")
    (problem,) = check_model(load(customers, ORDERS.split("joins:")[0], REGIONS))
    assert (problem.severity, problem.code) == ("warning", "display_value")


def test_a_column_said_to_be_unique_proves_a_join(load: Any) -> None:
    regions = REGIONS.replace("{name: label, type: string}", "{name: label, type: string, tests: {dbt: [unique]}}")
    first, *_, _ = join("{to: regions, on: tier = regions.label, relationship: many_to_one}")
    assert check_model(load(first, ORDERS.split("joins:")[0], regions)) == []


def test_sources_that_nothing_joins(load: Any) -> None:
    alone = "name: alone\ntable: x\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
    (problem,) = check_model(load(*measures("{name: m, expr: count(*)}"), alone, alone.replace("alone", "lonely")))
    assert (problem.severity, problem.code) == ("info", "disconnected")
    assert "2 sources with the others: alone, lonely" in problem.message


def test_a_name_two_sources_have(load: Any) -> None:
    text = CUSTOMERS.replace("{name: tier, type: string}", "{name: tier, type: string}\n- {name: label, type: string}")
    (problem,) = check_model(load(ORDERS + "- {name: m, expr: count(label)}", text, REGIONS))
    assert (problem.code, problem.hint) == ("ambiguous_name", "write the full name, for example: customers.label")


def test_columns_of_the_many_side_are_refused(load: Any) -> None:
    orders = ORDERS.split("joins:")[0]
    (problem,) = check_model(load(orders, CUSTOMERS + "- {name: m, expr: sum(orders.amount)}", REGIONS))
    assert (problem.code, problem.hint) == (
        "unreachable",
        "define it in orders, or make the joins of the path many_to_one",
    )


@pytest.mark.parametrize(
    "dialect", ["duckdb", "postgres", "mysql", "sqlite", "bigquery", "snowflake", "tsql", "clickhouse"]
)
def test_every_dialect_reads_conditions(load: Any, dialect: str) -> None:
    model = load(
        *measures("{name: m, expr: \"sum(case when status = 'x' then amount end)\", filter: status = 'paid'}"),
        dialect=dialect,
    )
    assert check_model(model) == []
