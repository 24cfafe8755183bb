"""The statuses that are looked up in git at the end of a run: joins of other tools, and columns that change."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

import ktx_cli
from ktx_cli.jobs.semantic.statuses import keep_statuses
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.project import Layout, load_config
from ktx_cli.semantic import Definition, DefinitionKind, Statuses, Used
from ktx_cli.sources import Delivery, delivery_path, render_delivery
from ktx_cli.sources.ownership import digest_of

SHARD = "semantic-layer/shop/_schema/main.yaml"
JOIN = {"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one", "source": "manual"}
MANIFEST = """\
tables:
  orders:
    table: orders
    columns: [{name: id, type: number}, {name: customer_id, type: number}]
    joins:
      - {to: customers, "on": customer_id = customers.id, relationship: RELATIONSHIP, source: manual}
"""


@pytest.mark.parametrize(
    ("relationship", "status", "why"),
    [
        ("many_to_one", "accepted", "another tool, such as dbt, defines it"),
        ("one_to_one", "proposed", "ktx run 20270101-1 wrote it"),
    ],
)
def test_a_join_is_accepted_as_long_as_it_is_what_dbt_says(
    relationship: str, status: str, why: str, tmp_path: Path
) -> None:
    pointer = 'tables.orders.joins."customers on customer_id = customers.id"'
    owned = {SHARD: {pointer: digest_of(JOIN)}}
    files = {
        "ktx.yaml": b"connections:\n  shop: {driver: sqlite, path: shop.sqlite}\n",
        SHARD: MANIFEST.replace("RELATIONSHIP", relationship).encode(),
        delivery_path("dbt", "dbt"): render_delivery(Delivery({}, owned)),
    }
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "ktx ingest\n\nKtx-Run: 20270101-1")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    layout = Layout(tmp_path)
    keep_statuses(layout, load_config(layout.config).config)
    join = Used(Definition(DefinitionKind.JOIN, "orders", "customers"), SHARD)
    found = Statuses(layout, "shop", "sqlite").of(join)
    assert (found.status.value, found.why.split(" (")[0]) == (status, why)


def test_no_tool_of_an_agent_leads_to_the_commands_that_accept() -> None:
    """Agents have tools of ingest, memory and MCP: none of their modules imports what accepts definitions or joins."""
    root = Path(ktx_cli.__file__).parent
    accepting = {"ktx_cli.jobs.semantic.accept", "ktx_cli.jobs.review", "ktx_cli.jobs.decide.decide"}

    def imported(file: Path) -> set[str]:
        tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        return {each.module for each in tree if isinstance(each, ast.ImportFrom) and each.module}

    folders = ("mcp", "agent_tools", "engine", "jobs/serve", "jobs/capture")
    files = [file for folder in folders for file in sorted((root / folder).rglob("*.py"))]
    assert len(files) > 50
    assert [str(file) for file in files if imported(file) & accepting] == []
    assert [each.name for each in TOOLS if "accept" in each.name or "certify" in each.name] == []
