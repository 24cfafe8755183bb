"""A small company over DuckDB whose accounts are partly internal, and the record of that decision point."""

from __future__ import annotations

import subprocess
from pathlib import Path

import duckdb

from ktx_cli.scan import FoundPoint, decisions_path, points_bytes
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import TableRef

POINT = "accounts.internal.is_internal"
OVERLAY = "semantic-layer/wh/subscriptions.yaml"

INTERNAL = FoundPoint(
    TableRef("main", "accounts"),
    DecisionKind.INTERNAL,
    ("is_internal",),
    "Do internal accounts count?",
    (
        Alternative("count", "Internal accounts count"),
        Alternative("exclude", "Internal accounts do not count", filter="is_internal IS NOT TRUE"),
    ),
    ("`is_internal` is true in 1 of 4 rows.",),
    0.25,
)

SUBSCRIPTIONS = TableRef("main", "subscriptions")
AMOUNT = FoundPoint(
    SUBSCRIPTIONS, DecisionKind.AMOUNT, ("mrr", "net"), "Is revenue gross or net?",
    (Alternative("mrr", "Gross", expr="sum(mrr)"), Alternative("net", "Net", expr="sum(net)")),
)  # fmt: skip
DATE = FoundPoint(
    SUBSCRIPTIONS, DecisionKind.DATE, ("started_at", "paid_at"), "Which date do subscriptions belong to?",
    (Alternative("started_at", "By start", time="started_at"), Alternative("paid_at", "By payment", time="paid_at")),
)  # fmt: skip
FISCAL = FoundPoint(
    TableRef("main", "accounts"), DecisionKind.FISCAL_START, ("fiscal_year",),
    "In which month does the fiscal year begin?",
    (Alternative("1", "It begins in January"), Alternative("6", "It begins in June")),
)  # fmt: skip

AMOUNT_ID, DATE_ID, FISCAL_ID = (
    "subscriptions.amount.mrr",
    "subscriptions.date.started_at",
    "accounts.fiscal_start.fiscal_year",
)
"""The ids of these points."""

_MANIFEST = """\
tables:
  accounts:
    table: main.accounts
    proposed_measures:
      - {name: account_count, expr: count(*), status: proposed, descriptions: {ktx: Number of accounts.}}
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: is_internal, type: boolean}
      - {name: created_at, type: time, natural_granularity: day}
  subscriptions:
    table: main.subscriptions
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: account_id, type: number}
      - {name: mrr, type: number}
      - {name: started_at, type: time, natural_granularity: day}
    joins:
      - {to: accounts, "on": account_id = accounts.id, relationship: many_to_one, source: formal}
"""
_SUBSCRIPTIONS = """\
name: subscriptions   # ours
default_time_dimension: {user: started_at}
measures:
  # money
  - {name: revenue, expr: sum(mrr), descriptions: {user: Monthly revenue.}}   # keep
"""


def make(project: Path, *points: FoundPoint) -> Path:
    """Make the project with these decision points (none: that of internal accounts), committed.

    Revenue is 100 a subscription: in June 400, of which 100 of the internal account; in July one subscription so far.
    """
    database = duckdb.connect(str(project / "wh.duckdb"))
    database.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, is_internal BOOLEAN, created_at DATE)")
    database.execute("INSERT INTO accounts SELECT i, i = 4, DATE '2025-05-01' FROM range(1, 5) t(i)")
    database.execute(
        "CREATE TABLE subscriptions (id INTEGER PRIMARY KEY, account_id INTEGER REFERENCES accounts (id), "
        "mrr DECIMAL(9, 2), started_at DATE)"
    )
    database.execute("INSERT INTO subscriptions SELECT i, i, 100, DATE '2025-06-10' FROM range(1, 5) t(i)")
    database.execute("INSERT INTO subscriptions VALUES (5, 1, 100, DATE '2025-07-02')")
    database.close()
    files = {
        "ktx.yaml": "connections:\n  wh: {driver: duckdb, path: wh.duckdb}\n",
        ".gitignore": "*.duckdb*\n.ktx/\n",
        "semantic-layer/wh/_schema/main.yaml": _MANIFEST,
        OVERLAY: _SUBSCRIPTIONS,
        decisions_path("wh"): points_bytes(points or (INTERNAL,)).decode(),
    }
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.name", "Ada Lee")
    git(project, "config", "user.email", "ada@example.com")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "start")
    return project


def make_undecided(project: Path) -> Path:
    """Make the project with a point of each form of answer: rows, an amount, a date, the start of the fiscal year.

    Net is 80 of 100, and payments come 40 days after the start.
    """
    make(project, INTERNAL, AMOUNT, DATE, FISCAL)
    with duckdb.connect(str(project / "wh.duckdb")) as database:
        database.execute("ALTER TABLE accounts ADD COLUMN fiscal_year INTEGER DEFAULT 2025")
        database.execute("ALTER TABLE subscriptions ADD COLUMN net DECIMAL(9, 2)")
        database.execute("ALTER TABLE subscriptions ADD COLUMN paid_at DATE")
        database.execute(
            "UPDATE subscriptions SET net = mrr * 0.8, paid_at = CASE WHEN id > 1 THEN started_at + 40 END"
        )
        database.execute("INSERT INTO subscriptions VALUES (6, 2, 50, DATE '2025-02-03', 40, DATE '2025-02-03')")
    return project


def git(project: Path, *words: str) -> str:
    """Run git in the project."""
    done = subprocess.run(["git", *words], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout
