"""Decision points and their effects on every engine: the same questions, evidence and figures."""

from __future__ import annotations

import json
import os
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.decide.points import load_effects
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.project import Layout
from ktx_cli.scan.stages import Depth
from tests.small_project import make_shop_project
from tests.warehouses.conftest import Engine

START = date(2024, 1, 1)


def day(number: int) -> date:
    return START + timedelta(days=number)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, int | float) else f"'{value}'"


def filled(name: str, columns: str, rows: list[tuple[Any, ...]]) -> tuple[str, str]:
    """Return the statements of a table with rows."""
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    return f"CREATE TABLE {name} ({columns})", f"INSERT INTO {name} VALUES {values}"


def statements() -> tuple[str, ...]:
    customers, orders, payments = [], [], []
    for i in range(1, 201):
        box = f"qa+{i}" if i % 25 == 0 else f"p{i}"
        domain = "acme.io" if i % 20 == 1 else f"firm{i % 40}.com"
        above = 1 + i % 40 if i > 40 and i % 3 == 0 else None
        customers.append((i, f"Firm {i}", f"{box}@{domain}", above, i % 10 != 3, day(i * 4)))
    for i in range(1, 401):
        status = "refused" if i % 12 == 0 else "packed" if i % 5 == 0 else "done"
        orders.append((i, 1 + i % 200, day(i * 2), day(i * 2 + 20), 10 + i * 37 % 400 + 0.25, i % 6 * 5, status))
        n = i - 380 if i > 390 else i
        payments.append((i, n * 7 % 61, 20 + n * 53 % 700 + 0.5, day(n * 2)))
    days = [(day(i), day(i).year + (day(i).month >= 4)) for i in range(800)]
    staff = [(i, f"s{i}@acme.io") for i in range(1, 41)]
    made = (
        filled(
            "customers",
            "customer_id INT PRIMARY KEY, name VARCHAR(60), email VARCHAR(80), rolls_up_to INT, is_active BOOLEAN,"
            " joined_on DATE",
            customers,
        ),
        filled(
            "orders",
            "order_id INT PRIMARY KEY, customer_id INT REFERENCES customers (customer_id), ordered_on DATE,"
            " shipped_on DATE, amount DECIMAL(10, 2), discount_pct INT, workflow_step VARCHAR(20)",
            orders,
        ),
        filled(
            "payments", "payment_id INT PRIMARY KEY, terminal_no INT, amount DECIMAL(10, 2), paid_on DATE", payments
        ),
        filled("calendar", "full_day DATE PRIMARY KEY, fiscal_year INT", days),
        filled("employees", "employee_id INT PRIMARY KEY, email VARCHAR(80)", staff),
    )
    return tuple(each for pair in made for each in pair)


POINTS = {
    "calendar.fiscal_start.fiscal_year": "fiscal_year changes in April of full_day.",
    "customers.internal.email": "email names a test in 8 of 200 rows.",
    "customers.deleted.is_active": "is_active is false in 20 of 200 rows.",
    "customers.staff.email": "email has the domain acme.io in 10 of 200 rows.",
    "customers.entity.rolls_up_to": "rolls_up_to is set in 53 of 200 rows, with 40 different values.",
    "orders.status.workflow_step": "workflow_step is one of these values in 33 of 400 rows: refused 33.",
    "orders.amount.amount": "orders has amount, discount_pct.",
    "orders.date.ordered_on": "ordered_on and shipped_on fall in different months in 260 of 400 rows.",
    "payments.duplicates.terminal_no": "10 of 400 rows differ from another row only in payment_id.",
}
EFFECTS = {
    ("customers.internal.email", "customers.customer_count"): {"count": 200, "exclude": 192},
    ("customers.deleted.is_active", "orders.total_order_amount"): {"count": 83900, "exclude": 75530},
    ("customers.staff.email", "orders.order_count"): {"count": 400, "exclude": 380},
    ("customers.entity.rolls_up_to", "customers.customer_count"): {"entity": 200, "parent": 147},
    ("orders.status.workflow_step", "orders.order_count"): {"all": 400, "without_ended": 367, "only_usual": 293},
    ("orders.amount.amount", "orders.total_order_amount"): {"amount": 83900, "amount_discount_pct": 73628},
    ("payments.duplicates.terminal_no", "payments.payment_count"): {"rows": 400, "distinct": 390},
}


@pytest.mark.one_in(4)
def test_the_same_points_and_effects(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_shop_project(tmp_path, monkeypatch)
    options = "".join(f"    {name}: {json.dumps(value)}\n" for name, value in engine.make(*statements()).items())
    (project / "ktx.yaml").write_text(f"connections:\n  shop:\n    driver: {engine.driver}\n{options}")
    ingest(IngestRequest(project, os.environ, depth=Depth.PROFILE))
    (record,) = (project / "raw-sources").rglob("decisions.json")
    points = json.loads(record.read_text())["points"]
    assert {f"{each['table']}.{each['kind']}.{each['columns'][0]}": each["evidence"][0] for each in points} == POINTS
    effects = load_effects(Layout(project), "shop")
    without = {"orders.date.ordered_on"}  # no measure of this shop has a time
    assert {each.point for each in effects} == POINTS.keys() - without
    by_measure = {(each.point, each.measure): each.values for each in effects}
    assert {key: by_measure[key] for key in EFFECTS} == EFFECTS
