"""Formulas that nobody wrote: what is imported of them loads without errors, and the database understands it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.interchange.tableau.importer import import_tableau
from ktx_cli.semantic.model import Model
from ktx_cli.warehouses.port import Connector
from tests.semantic.interchange.conftest import errors
from tests.semantic.interchange.tableau.conftest import Load
from tests.semantic.interchange.tableau.shop_workbook import Field, data_source, workbook

Texts = st.SearchStrategy[str]

LEAVES: dict[str, list[str]] = {
    "number": ["[amount]", "[cost]", "[quantity]", "[credit]", "2", "0", "0.5", "NULL", "[Parameters].[Parameter 1]"],
    "text": ["[status]", "[name]", "[region]", "'a b'", '"it\'s"', "''"],
    "boolean": ["[is_gift]", "TRUE", "[status] IN ('paid', 'open')", "[Good]"],
    "date": ["[shipped_on]", "[signed_up]", "#2024-02-29#", "TODAY()"],
    "time": ["[ordered_at]", "NOW()", "DATETIME('2024-01-01 10:00:00')"],
}
UNITS = st.sampled_from(["year", "quarter", "month", "week", "day"])


def deeper(kinds: dict[str, Texts]) -> dict[str, Texts]:
    """Return expressions of each kind that contain expressions of all kinds."""
    number, text, boolean = kinds["number"], kinds["text"], kinds["boolean"]
    moment = st.one_of(kinds["date"], kinds["time"])
    return {
        "number": st.one_of(
            st.builds("({} {} {})".format, number, st.sampled_from(["+", "-", "*", "/", "%"]), number),
            st.builds("{}({})".format, st.sampled_from(["ABS", "ZN", "FLOOR", "INT", "SQRT", "LN", "SIGN"]), number),
            st.builds("-({})".format, number),
            st.builds("MIN({}, {})".format, number, number),
            st.builds("IIF({}, {}, {})".format, boolean, number, number),
            st.builds("ROUND({}, 1)".format, number), st.builds("LEN({})".format, text),
            st.builds("FIND({}, {})".format, text, text), st.builds("INT({})".format, boolean),
            st.builds("DATEPART('{}', {})".format, UNITS, moment),
            st.builds("DATEDIFF('{}', {}, {})".format, UNITS, moment, moment),
        ),
        "text": st.one_of(
            st.builds("({} + {})".format, text, text), st.builds("LEFT({}, 2)".format, text),
            st.builds("RIGHT({}, 3)".format, text), st.builds("SPLIT({}, ' ', 2)".format, text),
            st.builds("CASE {} WHEN 'a' THEN 'b' ELSE {} END".format, text, text),
            st.builds("IFNULL({}, {})".format, text, text), st.builds("STR(INT({}))".format, number),
        ),
        "boolean": st.one_of(
            st.builds("({} {} {})".format, number, st.sampled_from(["=", "<", ">=", "<>"]), number),
            st.builds("({} {} {})".format, boolean, st.sampled_from(["AND", "OR"]), boolean),
            st.builds("NOT {}".format, boolean), st.builds("ISNULL({})".format, moment),
            st.builds("({} < {})".format, moment, moment), st.builds("STARTSWITH({}, {})".format, text, text),
        ),
        "date": st.one_of(
            st.builds("DATE({})".format, moment), st.builds("DATEADD('{}', 2, {})".format, UNITS, kinds["date"]),
            st.builds("DATETRUNC('{}', {})".format, UNITS, moment), st.builds("({} - 3)".format, kinds["date"]),
        ),
        "time": st.builds("DATEADD('{}', -1, {})".format, st.sampled_from(["hour", "day", "month"]), kinds["time"]),
    }  # fmt: skip


def formulas() -> Texts:
    """Return formulas of rows and of aggregates."""
    levels: list[dict[str, Texts]] = [{kind: st.sampled_from(leaves) for kind, leaves in LEAVES.items()}]
    for _ in range(2):
        below = levels[-1]
        above = deeper(below)
        levels.append({kind: st.one_of(below[kind], above[kind]) for kind in LEAVES})
    rows = levels[-1]
    total = st.builds("{}({})".format, st.sampled_from(["SUM", "AVG", "MIN", "MAX", "COUNT", "COUNTD"]), rows["number"])
    parts = st.one_of(
        total, st.builds("MAX({})".format, rows["date"]).map("DAY({})".format),
        st.builds("AVG({{FIXED [quantity] : {}}})".format, total),
        st.builds("AVG({{INCLUDE [status] : {}}})".format, total),
    )  # fmt: skip
    groups = st.one_of(
        parts,
        st.builds("{} {} {}".format, parts, st.sampled_from(["+", "-", "*", "/"]), parts),
        st.builds("IF {} > {} THEN 'a' ELSE 'b' END".format, parts, parts),
    )
    return st.one_of(groups, *rows.values())


@pytest.mark.filterwarnings("ignore")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(formula=formulas())
def test_what_is_imported_loads_and_runs(formula: str, manifest: Model, load: Load, connector: Connector) -> None:
    fields = data_source([Field("Any", formula, datatype="")])
    found = import_tableau({"shop.twb": workbook(fields)}, manifest)
    (item,) = [each for each in found.report if each.what == "calculated field `Any` of `Shop`"]
    if item.target is None:
        assert "Formula: " in item.why
        return
    model = load(found.files)
    assert errors(model) == [], formula
    source, _, name = item.target.partition(".")
    is_measure = name in model.sources[source].measures
    asked = {"measures": [item.target]} if is_measure else {"measures": ["count(orders)"], "dimensions": [item.target]}
    ask(model, asked, connector)
