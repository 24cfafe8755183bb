"""The gates of a change: what the database says against it, beside definitions, tests and pages."""

from __future__ import annotations

import pytest

from ktx_cli.agent_tools.layers import Layers
from ktx_cli.core.diagnostics import Diagnostic, Location, Severity
from ktx_cli.core.errors import ResultWarning
from ktx_cli.engine.gates import Gates
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.model import CalendarSettings, Model

ORDERS = "semantic-layer/shop/orders.yaml"
BASE = "name: orders\ntable: orders\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"


def tree(text: str) -> Workspace:
    found = Workspace(EmptyTree())
    found.write(ORDERS, text)
    return found


def finding(severity: Severity, code: str) -> Diagnostic:
    return Diagnostic(code, severity, f"{code} in it", Location(ORDERS, 5), "look at it")


@pytest.mark.table(
    ("measure", "found", "stops", "warned"),
    [
        ("sum(id)", [finding(Severity.ERROR, "dangling")], ["dangling"], []),
        ("sum(id)", [finding(Severity.WARNING, "dangling")], [], []),
        ("sum(id)", [finding(Severity.WARNING, "not_checked")], [], ["connection `shop`: not_checked in it"]),
        ("sum(id)", [], [], []),
        ("sum(gone)", [finding(Severity.ERROR, "dangling")], ["unknown_name"], []),
    ],
)
def test_what_the_database_says_against_a_change(
    measure: str, found: list[Diagnostic], stops: list[str], warned: list[str]
) -> None:
    asked: list[tuple[int, int]] = []
    warnings: list[ResultWarning] = []

    def check(before: Model, after: Model) -> list[Diagnostic]:
        asked.append((len(before.sources["orders"].measures), len(after.sources["orders"].measures)))
        return found

    layers = Layers({"shop": "sqlite", "other": "sqlite"}, CalendarSettings())
    gates = Gates(tree(BASE), layers, check_data=check, warn=warnings.append)
    changed = tree(f"{BASE}measures: [{{name: m, expr: {measure}}}]\n")
    assert [each.code for each in gates.everything(changed, {ORDERS})] == stops
    assert [each.message for each in warnings] == warned
    assert asked == ([] if "gone" in measure else [(0, 1)]), "only of the connection that changed"
    assert Gates(tree(BASE), layers).everything(changed, {ORDERS}) == [] or "gone" in measure


@pytest.mark.table(
    ("body", "found"),
    [
        ("`orders.id` is the key.", []),
        ("`net_orders.total_amount` is net.", ["net_orders.total_amount"]),
        ("`fct_orders.total_amount` is gross.", []),
        ("`old_orders.total_amount` is old.", []),
        ("`np.array` and `Account.Name` are code.", []),
    ],
)
def test_a_repair_may_not_bring_names_that_nothing_has(body: str, found: list[str]) -> None:
    page = "wiki/global/orders.md"

    def with_page(text: str) -> Workspace:
        made = tree(BASE)
        made.write(page, f"---\nsummary: Orders.\n---\n{text}\n".encode())
        return made

    gates = Gates(tree(BASE), Layers({"shop": "sqlite"}, CalendarSettings()))
    before = with_page("`old_orders.total_amount` was dropped.")
    texts = ["the unit wrote `fct_orders.total_amount`"]
    invented = gates.invented(before, with_page(body), {page, ORDERS}, texts)
    assert [each.message.split("`")[1] for each in invented] == found
    assert all((each.code, each.path, each.line) == ("unknown_name", page, 4) for each in invented)
