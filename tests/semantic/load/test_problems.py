"""What is wrong in the files: one problem each, with its line and what to do, and never more left out than must be."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.semantic.model import SemiAdditive, Visibility

SHARD = """\
tables:
  orders:
    table: orders
    columns: [{name: id, type: number, pk: true}, {name: amount, type: number}, {name: "at", type: time}]
"""
HEAD = "name: a\ntable: t\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
COLUMN = "name: a\ntable: t\ngrain: [id]\ncolumns:\n- {name: id, type: "
MEASURE = HEAD + "measures:\n- name: m\n  expr: x\n  "
OVERRIDE = "name: orders\ncolumn_overrides:\n"
JOIN = "to: b, on: id = b.id, relationship: many_to_one"

ERRORS = [
    # text of a source of its own, line, code, part of the message, part of the hint
    ("name: a\ntable: t\ngrain: id\ncolumns: [{name: id, type: number}]", 3, "shape", "a list of names", "grain: [id]"),
    ("name: a\ntable: 5\nsql: select 1\ncolumns: []", 2, "shape", "must be a string", 'table: "5"'),
    ("name: a\ntable: t\nsql: select 1", 1, "value", "both `table` and `sql`", "one of the two"),
    ("name: a\nsql: ''", 1, "value", "neither `table` nor `sql`", "one of the two"),
    ("name: a\ntable: a..b", 2, "value", "not a table name", "schema.table"),
    ("name: a\ntable: {db: x}", 2, "missing", "no `name`", "add `name:`"),
    ("name: a\ntable: t\ngrain: [id]", 1, "no_columns", "has no columns", "add columns"),
    (HEAD + "visibility: hiden", 5, "value", "`hiden`, not one of", "did you mean `hidden`?"),
    (HEAD + "visibility:", 5, "value", "`visibility` of source `a` has no value", "hidden, internal or public"),
    (HEAD + "policies:", 5, "shape", "`policies` of source `a` has no value", "or remove the key"),
    (HEAD + "policies: # below", 5, "shape", "`policies` of source `a` has no value", "- name: ..."),
    (MEASURE + "visibility: null", 8, "value", "`visibility` of measure `m` has no value", "hidden, internal"),
    (HEAD + "measures: 5", 5, "shape", "a list of mappings", "- name:"),
    (HEAD + "measures: [5]", 5, "shape", "must be a mapping", "- name:"),
    (HEAD + "measures:\n- {name: m}", 6, "missing", "measure `m` has no `expr`", "add `expr:`"),
    (HEAD + "measures:\n- {expr: m}", 6, "missing", "measure 1 has no `name`", "add `name:`"),
    (HEAD + "measures:\n- {name: m, expr: x}\n- {name: m, expr: y}", 7, "duplicate", "has two named `m`", "rename"),
    (MEASURE + "offset: soon", 8, "value", "not a duration", '"28 days"'),
    (MEASURE + "offset: 0 days", 8, "value", "not a duration", '"28 days"'),
    (MEASURE + "cumulative:", 8, "shape", "has no value", "cumulative: {}"),
    (MEASURE + "cumulative: {window: 2 days,\n   to_date: year}", 9, "value", "both", "one"),
    (MEASURE + "cumulative: {to_date: yaer}", 8, "value", "yaer", "`year`"),
    (MEASURE + "semi_additive: {take: last}", 8, "missing", "`over`", "add"),
    (MEASURE + "semi_additive: {over: id,\n   take: lst}", 9, "value", "lst", "`last`"),
    (MEASURE + "percent_of: all", 8, "shape", "a list of names", "[all]"),
    (MEASURE + "segments: paid", 8, "shape", "a list of names", "[paid]"),
    (HEAD + "segments: [{name: s}]", 5, "missing", "segment `s` has no `expr`", "add"),
    (HEAD + "joins:\n- {to: b, on: id = b.id}", 6, "missing", "no `relationship`", "many_to_one"),
    (HEAD + "joins:\n- {to: b, on: id = b.id, relationship: many_to_many}", 6, "value", "many_to_many", "did you mean"),
    (HEAD + f"joins:\n- {{{JOIN}, source: guessed}}", 6, "value", "guessed", "source: formal"),
    (HEAD + "joins:\n- to: b\n  relationship: one_to_one\n  on: id > b.id", 8, "join_on", "from `a`", "b.column"),
    (HEAD + "policies: [{name: p, filter: 5}]", 5, "shape", "must be a string", 'filter: "5"'),
    (HEAD + "policies: [{name: p}]", 5, "missing", "no `filter`", "add"),
    (HEAD + "policies: {name: p}", 5, "shape", "a list of mappings", "- name"),
    (HEAD + "parameters: [{name: p}]", 5, "missing", "no `type`", "string"),
    (HEAD + "parameters: [{name: p, type: number, default: x}]", 5, "value", "is not a number", "number"),
    (HEAD + "parameters: [{name: p, type: time, default: soon}]", 5, "value", "is not a time", "time"),
    (HEAD + "parameters: [{name: p, type: number, default: 3, values: [1]}]", 5, "value", "not one of its", "add it"),
    (HEAD + "parameters: [{name: p, type: number, values: [a]}]", 5, "value", "each a number", "values: ["),
    (HEAD + "tests: [{name: t, expect_value: 1}]", 5, "missing", "no `query`", "measures"),
    (HEAD + "tests: [{name: t, query: {}}]", 5, "value", "has none", "one of them"),
    (HEAD + "tests: [{name: t, query: {}, expect: 3}]", 5, "shape", "a list of rows", "[["),
    (HEAD + "tests: [{name: t, query: {}, expect_value: 3, tolerance: -1}]", 5, "value", "at least 0", "0.01"),
    (HEAD + "default_time_dimension: [id]", 5, "shape", "must be a mapping", ""),
    (HEAD + "tags: 5", 5, "shape", "must be a mapping", "dbt"),
    (HEAD + "descriptions: {user: 5}", 5, "shape", "must be a string", '"5"'),
    (HEAD + "inherits_columns_from: x", 5, "unknown_source", "manifest does not have", "available: orders"),
    (HEAD + "inherits_columns_from: order", 5, "unknown_source", "manifest does not have", "did you mean `orders`?"),
    (COLUMN + "nubmer}", 5, "value", "nubmer", "did you mean `number`?"),
    (COLUMN + "time, role: tiem}", 5, "value", "tiem", "`time`"),
    (COLUMN + "time, timezone: Europe/Wien}", 5, "value", "not a time zone", ""),
    (COLUMN + "time, natural_granularity: dya}", 5, "value", "dya", "`day`"),
    (COLUMN + "time, pk: maybe}", 5, "shape", "true or false", "true"),
    (COLUMN + "time, enum_values: x}", 5, "shape", "a list", "dbt"),
    (COLUMN + "time}\n- {name: id, type: time}", 6, "duplicate", "has two named `id`", "rename"),
    ("table: t", 1, "no_name", "no `name`", "add `name:`"),
    ("name: 5\ntable: t", 1, "no_name", "not a string", "quotes"),
    ("- name: a", 1, "no_name", "no `name`", "add `name:`"),
    ("name: a\nx: [\n", 3, "broken_source", "", ""),
    ("name: a\nname: b", 2, "broken_source", "twice", ""),
    ("name: ordres\ndescriptions: {user: x}", 1, "unknown_source", "neither `table` nor `sql`", "`orders`?"),
    # overlays
    ("name: orders\ndescription: x", 2, "forbidden_key", "is an overlay", "descriptions: {user"),
    ("name: orders\ninherits_columns_from: x", 2, "forbidden_key", "is an overlay", "remove it"),
    ("name: orders\ncolumns:\n- {name: c, type: number}", 3, "missing", "no `expr`", "add `expr:`"),
    ("name: orders\ncolumns:\n- {name: c, expr: id}", 3, "missing", "no `type`", "add `type:`"),
    ("name: orders\ncolumns:\n- {name: amount, type: number, expr: id}", 3, "duplicate",
     "same name as a column", "rename"),
    (OVERRIDE + "- {name: amount, type: string}", 3, "forbidden_key", "cannot change `type`", "exclude"),
    (OVERRIDE + "- {name: amount, expr: id}", 3, "forbidden_key", "cannot change `expr`", "exclude"),
    (OVERRIDE + "- {name: amuont}", 3, "unknown_column", "does not have", "`amount`?"),
    ("name: orders\nexclude_columns: [id]\ncolumn_overrides:\n- {name: id}", 4, "forbidden_key",
     "that `exclude_columns` removes", "one"),
]  # fmt: skip

WARNINGS = [
    (HEAD + "colums: []", 5, "unknown_key", "`colums` is not a key of source `a`", "did you mean `columns`?"),
    (HEAD + "zzz: 1", 5, "unknown_key", "`zzz`", "use one of"),
    (MEASURE + "filtr: y", 8, "unknown_key", "`filtr`", "`filter`?"),
    (MEASURE + "cumulative:\n    windw: 1 day", 9, "unknown_key", "`windw`", "`window`?"),
    (HEAD + f"joins:\n- {{{JOIN}, relation: x}}", 6, "unknown_key", "`relation`", "`relationship`?"),
    (HEAD + "source_type: sql", 5, "value", "the source has `table`", "source_type: table"),
    ("name: a\ntable: t\ncolumns: [{name: id, type: number}]", 1, "no_grain", "no grain", "add grain"),
    ("name: a\ntable: t\ngrain: [id]\ncolumns:\n- {name: id}", 5, "no_type", "treats it as a string", "type: string|"),
    (HEAD.replace("name: a", "name: orders"), 1, "shadows_manifest", "_schema/x.yaml:2", "rename"),
    ("name: orders\nexclude_columns: [id, amuont]", 2, "unknown_column", "`amuont`", "`amount`?"),
    ("name: orders\ndisable_joins:\n- id = x.y", 3, "unknown_join", "not the `on` of a join", "none are defined"),
    (COLUMN + "time, constraints: {dbt: {not_nul: true}}}", 5, "unknown_key", "`not_nul`", "`not_null`?"),
    (HEAD + f"joins:\n- {{{JOIN}, name: x}}", 6, "unknown_key", "`name` is not a key of join `x`", ""),
    ("name: orders\nsource_type: table", 2, "unknown_key", "`source_type`", ""),
]


@pytest.mark.parametrize(
    ("severity", "text", "line", "code", "message", "hint"),
    [("error", *case) for case in ERRORS] + [("warning", *case) for case in WARNINGS],
)
def test_a_problem_has_its_line_and_a_hint(
    load: Any, severity: str, text: str, line: int, code: str, message: str, hint: str
) -> None:
    model = load({"_schema/x.yaml": SHARD, "a.yaml": text})
    problem = next(each for each in model.problems if each.code == code and each.path.endswith("a.yaml"))
    assert (problem.severity, problem.line) == (severity, line)
    assert message in problem.message
    assert hint in (problem.hint or "")
    assert {each.severity for each in model.problems} <= {severity, "warning"}
    assert "orders" in model.sources


def test_the_wrong_part_alone_is_left_out(load: Any) -> None:
    text = (
        HEAD
        + """\
measures:
- {name: good, expr: sum(id)}
- {name: bad, expr: sum(id), semi_additive: {over: id, take: lst}}
- {name: fine, expr: sum(id), semi_additive: {over: id}}
segments: [{name: bad}, {name: good, expr: id = 1}]
joins: [{to: b, on: id > b.id, relationship: one_to_one}, {to: b, on: id = b.id, relationship: one_to_one}]
parameters: [{name: bad, type: x}, {name: good, type: string}]
"""
    )
    source = load({"a.yaml": text}).sources["a"]
    assert list(source.measures) == ["good", "fine"]
    assert source.measures["fine"].semi_additive == SemiAdditive("id", "last")
    assert (list(source.segments), list(source.parameters)) == (["good"], ["good"])
    assert [join.on for join in source.joins] == ["id = b.id"]


HIDING = [
    {"a.yaml": "name: orders\nexclude_columns: [amount", "b.yaml": ""},
    {"a.yaml": "name: 'orders' # x\ncolumns: ["},
    {"orders.yaml": "{"},
    {"a.yaml": "name: orders", "b.yaml": "name: orders\nexclude_columns: [amount]"},
    {"a.yaml": "name: orders\npolicies: [{name: p}]"},
    {"a.yaml": "name: orders\npolicies: [p]"},
    {"a.yaml": "name: orders\npolicies: [{name: p, filter: id = 1}, {name: p, filter: id = 2}]"},
    {"a.yaml": "name: orders\npolicies: {name: p, filter: id = 1}"},
    {"a.yaml": "name: orders\nexclude_columns: amount"},
    {"a.yaml": "name: orders\ncolumn_overrides: [amount]"},
    {"_schema/y.yaml": SHARD},
]


@pytest.mark.parametrize("files", HIDING)
def test_a_source_goes_where_more_than_was_meant_could_be_shown(load: Any, files: dict[str, str]) -> None:
    model = load({"_schema/x.yaml": SHARD, **files})
    assert "orders" not in model.sources
    assert any(each.severity == "error" for each in model.problems)


def test_a_misspelt_visibility_shows_nothing(load: Any) -> None:
    text = "name: orders\nvisibility: privat\ncolumn_overrides: [{name: amount, visibility: secret}]"
    orders = load({"_schema/x.yaml": SHARD, "a.yaml": text}).sources["orders"]
    assert (orders.visibility, orders.columns["amount"].visibility) == (Visibility.HIDDEN, Visibility.HIDDEN)


def test_two_files_for_one_name_are_both_named(load: Any) -> None:
    (problem,) = load({"a.yaml": HEAD, "sub/b.yml": "# x\n" + HEAD}).problems
    assert problem.code == "duplicate"
    assert "semantic-layer/shop/a.yaml:1" in problem.message
    assert "semantic-layer/shop/sub/b.yml:2" in problem.message


def test_a_broken_shard_does_not_block_the_others(load: Any) -> None:
    model = load({"_schema/x.yaml": SHARD, "_schema/y.yaml": "tables: {z: {columns: 5}}", "_schema/z.yaml": "["})
    assert list(model.sources) == ["orders"]
    assert [(each.code, each.path[-6:]) for each in model.problems] == [
        ("broken_shard", "y.yaml"),
        ("broken_shard", "z.yaml"),
    ]


def test_entries_of_a_shard_that_are_no_sources(load: Any) -> None:
    model = load({"_schema/x.yaml": SHARD + "  nothing: 5\n  empty: {columns: []}\nother: 1\n"})
    assert list(model.sources) == ["orders"]
    assert [(each.severity, each.code, each.line) for each in model.problems] == [
        ("error", "shape", 5),
        ("error", "value", 6),
        ("warning", "unknown_key", 7),
    ]


def test_a_folder_with_the_name_of_a_file(load: Any) -> None:
    (problem,) = load({"orders.yaml/x.md": "", "a.yaml": HEAD}).problems
    assert (problem.code, problem.path) == ("broken_source", "semantic-layer/shop/orders.yaml")
