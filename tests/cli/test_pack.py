"""`ktx pack`: what a question needs, on a terminal and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ktx_cli.cli.app import app
from ktx_cli.cli.commands import search
from ktx_cli.jobs.pack import pack


def ktx(project: Path, *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["--project-dir", str(project), *arguments], prog_name="ktx")
    assert done.exit_code == code, done.output
    return done.stdout


def test_it_prints_the_text(demo_project: Path) -> None:
    text = ktx(demo_project, "pack", "Net revenue by region in 2025?")
    assert text.startswith("## Draft\nsl_query {")
    assert '"measures": ["order_revenue.net_revenue"]' in text
    assert "## Files\n[1] semantic-layer/warehouse/" in text


def test_it_is_data_with_json(demo_project: Path) -> None:
    found = json.loads(ktx(demo_project, "pack", "--json", "--tokens", "900", "Net", "revenue", "by", "region?"))
    data = found["data"]
    assert found["schema"] == "ktx/pack/v1" and data["tokens"] <= 900 and data["left_out"] > 0
    assert data["question"] == "Net revenue by region?"
    assert data["draft"]["query"]["dimensions"] == ["order_revenue.region_code"]
    assert data["sources"][0] == "warehouse/order_revenue"


def test_values_stay_out_where_they_are_not_wanted(demo_project: Path) -> None:
    asked = "How many business customers do we have?"
    assert "customers.segment = 'business'" in ktx(demo_project, "pack", asked)
    assert "'business'" not in ktx(demo_project, "pack", "--no-values", asked)


@pytest.mark.table(
    ("arguments", "code"),
    [(("pack", "  "), 2), (("pack", "-c", "nowhere", "revenue"), 2), (("pack", "--tokens", "3", "revenue"), 2)],
)
def test_what_cannot_be_asked(demo_project: Path, arguments: tuple[str, ...], code: int) -> None:
    ktx(demo_project, *arguments, code=code)


def test_the_sizes_are_those_of_packs() -> None:
    """The command knows them by itself, for its help imports nothing that makes packs."""
    assert (search._TOKENS, search._LEAST, search._MOST) == (pack.BUDGET, pack.LEAST_BUDGET, pack.MOST_BUDGET)


def test_a_draft_can_be_pasted(demo_project: Path) -> None:
    found = json.loads(ktx(demo_project, "pack", "--json", "Net revenue by region in 2025?"))
    answer = json.loads(ktx(demo_project, "sl", "query", json.dumps(found["data"]["draft"]["query"]), "--json"))
    assert answer["ok"] and len(answer["data"]["rows"]) == 6


def test_blanks_and_long_questions_end_at_once(demo_project: Path) -> None:
    blanks = ktx(demo_project, "pack", "Net revenue" + " " * 60_000 + "by region?")
    assert blanks == ktx(demo_project, "pack", "Net revenue by region?")
    ktx(demo_project, "pack", "revenue " * 300, code=2)


def test_labels_and_synonyms_are_in_a_pack(tmp_path: Path) -> None:
    (tmp_path / "ktx.yaml").write_text("connections: {wh: {driver: sqlite, path: shop.sqlite}}\n")
    folder = tmp_path / "semantic-layer" / "wh"
    folder.mkdir(parents=True)
    (folder / "refunds.yaml").write_text(
        "name: refunds\ntable: refunds\ngrain: [id]\nlabel: Money back\n"
        "columns:\n  - {name: id, type: number}\n  - {name: why, type: string, label: Cause, synonyms: [a, b, c]}\n"
        "measures: [{name: refunded, expr: sum(id), synonyms: [reimbursements]}]\n"
    )
    text = ktx(tmp_path, "pack", "How many reimbursements, by cause?")
    assert "refunds (Money back)" in text and "why (Cause, a, b)" in text
    assert "refunded (reimbursements) = sum(id)" in text
