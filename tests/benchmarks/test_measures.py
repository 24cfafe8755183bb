"""What a scan proposes for made-up companies, compared with what their generator knows of each column."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measures import main, run
from ktx_cli.jobs.proof.company.warehouse import ADDITIVE, Kind, Role, build_company, plan_company
from ktx_cli.warehouses.port import ConnectionSpec, Scope
from ktx_cli.warehouses.registry import connect

SCALE = 0.2
SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3)))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_sum_of_ids_rates_or_balances_and_most_amounts_are_summed(seed: int, tmp_path: Path) -> None:
    judged = run(seed, tmp_path, SCALE)
    assert {name: [str(each) for each in found] for name, found in judged.wrong.items()} == {}
    assert judged.found >= 0.85 * judged.wanted, judged.missing
    assert len(judged.proposals) >= 100


def test_the_company_has_what_real_ones_have() -> None:
    for seed in range(20):
        company = plan_company(seed)
        places = {(each.schema, each.name) for each in company.tables}
        assert len(places) == len(company.tables) >= 40
        assert {each.role for each in company.tables} == set(Role)
        assert {column.kind for each in company.tables for column in each.columns} == set(Kind)
        assert all(len({column.name for column in each.columns}) == len(each.columns) for each in company.tables)
        traps = sum(column.kind not in ADDITIVE for each in company.tables for column in each.columns)
        assert traps > 250
    assert plan_company(1) == plan_company(1) != plan_company(2)
    assert company.accepted_values()["crm.leads"]


def test_the_warehouse_has_the_planned_tables_with_rows(tmp_path: Path) -> None:
    company = build_company(4, tmp_path / "made.duckdb", SCALE)
    assert company == plan_company(4, SCALE)
    with connect(ConnectionSpec("w", "duckdb", {"path": str(tmp_path / "made.duckdb")})) as connector:
        tables = {(each.ref.schema, each.ref.name): each for each in connector.introspect(Scope()).tables}
    planned = {(each.schema, each.name): [column.name for column in each.columns] for each in company.tables}
    assert {place: [column.name for column in table.columns] for place, table in tables.items()} == planned
    assert all(table.row_estimate for table in tables.values())


def test_the_program_prints_the_proposals_to_judge(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "--demo", "--draw", "5"]) == 0
    printed = capsys.readouterr().out
    assert "5 of " in printed and printed.count("demo     ") == 5
