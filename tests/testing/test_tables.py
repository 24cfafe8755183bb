"""One test for a table of cases: every row is run, and the error names those that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = "pytester"

CASES = """
import pytest

@pytest.mark.table(("one", "other"), [(1, 1), (1, 2), (3, 3), (3, 4)])
def test_pairs(tmp_path, one, other):
    assert tmp_path.is_dir()
    assert one == other

@pytest.mark.table("word", {"a": 1, "b": 2})
@pytest.mark.parametrize("end", ["", "."])
def test_words(word, end):
    assert (word + end)[0] in "ab"

def numbers():
    yield 1
    yield 2

@pytest.mark.table("number", numbers)
def test_raises(number):
    with pytest.raises(ValueError):
        if number == 1:
            raise ValueError
"""


def test_every_row_is_run_and_the_failing_ones_are_named(pytester: pytest.Pytester) -> None:
    pytester.makeconftest((Path(__file__).parents[1] / "conftest.py").read_text())
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nmarkers = ["table(names, rows): rows"]')
    pytester.makepyfile(CASES)
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    ran.assert_outcomes(passed=2, failed=2)
    said = ran.stdout.str()
    assert "2 of 4 rows failed" in said
    assert [line.split("row: ")[1] for line in said.splitlines() if "row: " in line] == ["(1, 2)", "(3, 4)", "(2,)"]
    assert "1 of 2 rows failed" in said


MANY_CASES = """
import pytest

@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(7))
def test_many(number):
    assert number >= 0

@pytest.mark.one_in(2)
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow), 2, 3])
def test_beside_a_slow_one(number):
    assert number >= 0
"""


def test_of_many_cases_one_in_so_many_runs_by_default_and_the_others_with_the_sweeps(pytester: pytest.Pytester) -> None:
    pytester.makeconftest((Path(__file__).parents[1] / "conftest.py").read_text())
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nmarkers = ["one_in(number): cases", "slow: sweeps"]')
    pytester.makepyfile(MANY_CASES)
    options = ("-p", "no:cacheprovider", "-p", "no:xdist", "-v")
    ran = pytester.runpytest_inprocess(*options, "-m", "not slow")
    ran.assert_outcomes(passed=5, deselected=6)
    ran.stdout.fnmatch_lines(
        ["*test_many[[]0]*", "*test_many[[]3]*", "*test_many[[]6]*", "*slow_one[[]0]*", "*slow_one[[]3]*"]
    )
    pytester.runpytest_inprocess(*options, "-m", "slow").assert_outcomes(passed=6, deselected=5)
