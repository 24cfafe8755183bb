"""What a run wrote that is like something else."""

from __future__ import annotations

from typing import Any

from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.reconciliation import likeness_notes
from ktx_cli.engine.work import UnitOutcome, UnitStatus
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.workspace import Workspace

WORDS = " ".join(f"Refunds of kind {number} come off revenue on the day they are paid." for number in range(20))
ORDERS = """\
name: orders
table: orders
grain: [id]
columns: [{name: id, type: number}, {name: amount, type: number}]
measures:
  - {name: revenue, expr: sum(amount)}
  - {name: turnover, expr: "SUM(amount)"}
  - {name: paid, expr: sum(amount), filter: amount > 0}
"""
REFUNDS = ORDERS.replace("orders", "refunds").replace("sum(amount)}", "sum(amount) * -1}").replace("turnover", "minus")


def page(summary: str, body: str) -> str:
    return f"---\nsummary: {summary}\n---\n\n{body}\n"


def session() -> ToolSession:
    files = {
        "wiki/global/refunds.md": page("What refunds are.", WORDS),
        "wiki/global/returns.md": page("What returns are.", f"{WORDS} And more."),
        "wiki/global/stock.md": page("What stock is.", "Stock is counted on Sunday."),
        "semantic-layer/shop/orders.yaml": ORDERS,
        "semantic-layer/shop/refunds.yaml": REFUNDS,
    }
    workspace = Workspace(EmptyTree())
    workspace.apply(files)
    return ToolSession(workspace.child(), {"shop": "sqlite"})


def outcome(*written: tuple[str, str], status: UnitStatus = UnitStatus.DONE) -> UnitOutcome:
    actions: list[dict[str, Any]] = [
        {"target": target, "kind": "created", "key": key, "connection": "shop", "raw_paths": [], "detail": ""}
        for target, key in written
    ]
    return UnitOutcome("docs", "files", WorkUnit("u", "u", ()), status, session={"actions": actions})


def test_pages_and_measures_that_are_alike_are_listed_once() -> None:
    notes = likeness_notes(session(), [outcome(("wiki", "refunds"), ("wiki", "returns"), ("sl", "orders"))])
    assert notes.count("wiki:refunds and wiki:returns share ") == 1
    assert "stock" not in notes
    assert "`orders.revenue` and `orders.turnover` have the same expression and filter: sum(amount)" in notes
    assert "`orders.revenue` is `sum(amount)`, and `refunds.revenue` is `sum(amount) * -1`: one name" in notes
    assert "`orders.revenue` and `orders.paid`" not in notes, "another filter is another figure"


def test_what_the_run_did_not_write_is_not_listed() -> None:
    assert likeness_notes(session(), [outcome(("wiki", "stock"))]) == ""
    assert likeness_notes(session(), [outcome(("wiki", "refunds"), status=UnitStatus.FAILED)]) == ""
    assert likeness_notes(session(), []) == ""
