"""The company of a seed: its conventions, its questions, and the check that truth and wrong readings are told apart."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.jobs.proof.company.catalog import CATALOG
from ktx_cli.jobs.proof.company.check import AnswerKey, Verdict, self_check
from ktx_cli.jobs.proof.company.company import Company, write_company
from ktx_cli.jobs.proof.company.conventions import SettledBy
from ktx_cli.jobs.proof.company.core import CORE
from ktx_cli.semantic import DecisionKind

Companies = Callable[[int], Company]

FULL = bool(os.environ.get("KTX_TEST_FULL"))
SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 36 if FULL else 9)))


Companies = Callable[[int], Company]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_truth_scores_every_question_and_each_wrong_reading_is_recognized(seed: int, companies: Companies) -> None:
    company = companies(seed)
    with duckdb.connect(company.warehouse, read_only=True) as database:
        check = self_check(AnswerKey(database), company.questions)
    assert (check.right, check.questions) == (60, 60)
    assert check.recognized == check.readings >= 60
    assert check.failures == ()


def test_a_company_has_the_size_and_the_classes_that_a_proof_needs(company: Company) -> None:
    assert len(company.plan.tables) >= 40
    assert 3 <= len({table.schema for table in company.plan.tables}) <= 4
    assert len({str(table) for table in company.plan.tables}) == len(company.plan.tables)
    assert len(company.switched_on) == 30
    classes = Counter(each.settled_by for each in company.switched_on)
    assert set(classes) == set(SettledBy)
    assert min(classes.values()) >= 5
    asked = Counter(convention for question in company.questions for convention in question.conventions)
    assert set(asked) == {each.id for each in company.switched_on}
    assert min(asked.values()) >= 2
    assert len({question.text for question in company.questions}) == 60


def test_the_catalog_has_every_kind_of_decision() -> None:
    assert {each.kind for each in CATALOG} == set(DecisionKind)
    assert len({each.id for each in CATALOG}) == len(CATALOG) >= 40


def test_only_what_is_settled_has_a_statement_and_only_what_is_on_has_alternatives(company: Company) -> None:
    for each in company.conventions:
        settled = each.settled_by in (SettledBy.DOCUMENT, SettledBy.SQL)
        assert bool(each.statement) == (each.is_on and settled), each.id
        assert bool(each.alternatives) == each.is_on, each.id
        assert each.truth in each.readings and each.wrong, each.id


@pytest.mark.parametrize(
    "company", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))], indirect=True
)
def test_a_convention_that_is_switched_off_leaves_no_trace_in_the_data(company: Company, tmp_path: Path) -> None:
    off = [each for each in company.switched_on if each.columns][::3]
    other = write_company(
        tmp_path, 1, conventions={each.id for each in company.switched_on} - {each.id for each in off}
    )
    for each in off:
        plans = {table.concept: table for table in other.plan.tables}
        table = plans.get(each.plan.table)
        base = {line.split()[0].split("|")[0] for line in CORE.splitlines() if line and not line.startswith("#")}
        left = {column.name for column in table.columns if column.concept not in base} if table else set()
        assert not left & set(each.columns), each.id
        assert not other.convention(each.id).is_on
        assert not any(each.id in question.conventions for question in other.questions)
    assert len(other.switched_on) == 30 - len(off)


def test_without_currencies_there_are_no_exchange_rates(tmp_path: Path) -> None:
    company = write_company(tmp_path, 3, conventions=["internal_accounts", "order_amount"])
    assert "exchange_rates" not in {table.concept for table in company.plan.tables}
    assert {each.id for each in company.switched_on} == {"internal_accounts", "order_amount"}


def test_an_answer_that_follows_no_reading_is_wrong(company: Company) -> None:
    with duckdb.connect(company.warehouse, read_only=True) as database:
        key = AnswerKey(database)
        question = next(each for each in company.questions if len(each.columns) == 1)
        score = key.score(question, key.answer(f"SELECT -1 AS {question.columns[0]}"))
    assert (score.verdict, score.reading) == (Verdict.WRONG, None)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"conventions": ["weather"]}, "unknown conventions: weather"),
        ({"truths": {"weather": "fine"}}, "unknown conventions: weather"),
        ({"truths": {"test_orders": "some"}}, "unknown reading of test_orders: some"),
    ],
)
def test_unknown_conventions_and_readings_are_refused(asked: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        write_company(tmp_path, 1, **asked)


def test_a_company_can_change_its_mind(companies: Companies, tmp_path: Path) -> None:
    before = companies(1)
    changed = [each for each in before.switched_on if each.settled_by is SettledBy.DOCUMENT][:3]
    after = write_company(tmp_path, 1, truths={each.id: each.wrong[0] for each in changed})
    assert {each.id for each in after.conventions if each.truth != before.convention(each.id).truth} == {
        each.id for each in changed
    }
    assert after.plan == before.plan
    for each in changed:
        assert after.convention(each.id).statement == each.readings[each.wrong[0]].sentence
        old = {question.id: question.truth for question in before.questions if each.id in question.conventions}
        assert all(old[question.id] != question.truth for question in after.questions if question.id in old)


def test_a_question_says_what_its_least_settled_convention_needs(company: Company) -> None:
    for question in company.questions:
        classes = [company.convention(each).settled_by for each in question.conventions]
        assert question.settled_by is max(classes, key=list(SettledBy).index)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_company_whatever_the_hash_seed(companies: Companies, tmp_path: Path) -> None:
    program = "import sys, pathlib\nfrom ktx_cli.jobs.proof.company.company import write_company\n"
    program += "print(hash('x'), write_company(pathlib.Path(sys.argv[1]), 1))"
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={"PYTHONHASHSEED": "12", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    known = companies(1)
    printed = ran.stdout.partition(" ")[2].strip()
    assert printed == str(replace(known, folder=tmp_path))
    assert digest_of(known, known.warehouse) == digest_of(known, tmp_path / known.warehouse.name)


def digest_of(company: Company, warehouse: Path) -> str:
    digest = hashlib.sha256()
    with duckdb.connect(warehouse, read_only=True) as database:
        for table in company.plan.tables:
            digest.update(repr(database.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall()).encode())
    return digest.hexdigest()
