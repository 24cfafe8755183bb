"""What a scan asks of made-up companies, compared with the conventions that their generator switched on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.decisions import judge, points_of, run, states_of
from ktx_cli.jobs.proof.company.company import write_company
from ktx_cli.jobs.proof.company.conventions import SettledBy

UNSETTLED = (SettledBy.DATA, SettledBy.NOTHING)


@pytest.mark.parametrize("seeds", [range(7, 8), pytest.param(range(8, 18), marks=pytest.mark.slow)], ids=["one", "ten"])
def test_what_nothing_settles_is_asked_and_little_else(seeds: range, tmp_path: Path) -> None:
    found, missed, false = 0, list[str](), 0
    for seed in seeds:
        judged = run(seed, tmp_path)
        found += sum(each.settled_by in UNSETTLED for each in judged.found)
        missed += [f"{seed}: {each.id}" for each in judged.missed if each.settled_by in UNSETTLED]
        false += len(judged.false)
        assert len(judged.false) <= 2, (seed, [str(each) for each in judged.false])
        assert judged.statements <= 40, seed
    assert found >= 0.95 * (found + len(missed)), missed
    assert false <= max(2, len(seeds) // 3), false


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_company_without_conventions_is_asked_nothing(seed: int, tmp_path: Path) -> None:
    company = write_company(tmp_path / "none", seed, conventions=())
    assert len(judge(company, *points_of(company.warehouse)).false) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8, 9])
def test_documents_and_models_state_what_they_settle_and_nothing_else(seed: int, tmp_path: Path) -> None:
    states = states_of(seed, tmp_path)
    stated = sum(count for (by, state), count in states.items() if by not in UNSETTLED and state == "stated")
    assert stated >= 0.8 * sum(count for (by, _), count in states.items() if by not in UNSETTLED), states
    wrong = sum(count for (by, state), count in states.items() if by in UNSETTLED and state == "stated")
    assert wrong <= 2, states
