"""Every case on every engine, a test for each topic; all that is wrong in a topic is shown at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.semantic_oracle.adapter import Adapter
from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.judging import NEEDLESS, TOPICS, WRONG, cases_of, judged
from tests.semantic_oracle.tables import ENGINES

FULL = bool(os.environ.get("KTX_TEST_FULL"))
MARKS = {"postgres": (pytest.mark.postgres,)}


@pytest.fixture(scope="module", params=[pytest.param(engine, marks=MARKS.get(engine, ())) for engine in ENGINES])
def adapter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    folder: Path = tmp_path_factory.mktemp(f"oracle-{request.param}")
    with Adapter(request.param, folder, server) as adapter:
        yield adapter


def cases_on(engine: str, topic: str) -> list[Case]:
    """Return the cases of a topic: each on one engine, of six four on DuckDB; all on all with KTX_TEST_FULL."""
    cases = cases_of(topic)
    if FULL or len(cases) == 1:
        return cases
    turns = ("sqlite", "postgres", "duckdb", "duckdb", "duckdb", "duckdb")
    return [case for number, case in enumerate(cases) if turns[number % len(turns)] == engine]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("topic", TOPICS)
def test_numbers_are_right_and_no_refusal_is_needless(topic: str, adapter: Adapter) -> None:
    verdicts = [judged(case, adapter) for case in cases_on(adapter.engine, topic)]
    bad = [each for each in verdicts if each.kind in (WRONG, NEEDLESS)]
    assert not bad, "\n\n".join([f"{len(bad)} of {len(verdicts)}:", *(f"{each.kind}: {each.text}" for each in bad)])
