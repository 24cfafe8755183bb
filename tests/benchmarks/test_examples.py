"""What a ranker learns from, and which references nothing can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.relationship_fixtures.ambiguity import is_ambiguous
from benchmarks.relationship_fixtures.examples import examples_of
from ktx_cli.scan.relationships.ranker import FEATURES


@pytest.mark.table(
    ("child", "parent", "others", "expected"),
    [
        ({1, 2}, {1, 2, 3, 4}, [{1, 2, 3}], True),
        ({1, 2}, {1, 2, 3}, [{1, 2, 3, 4}], False),
        ({1, 2}, {1, 2, 3}, [{1, 2, 9}], True),
        ({1, 7}, {1, 2, 3, 7}, [{1, 2, 3}], False),
        ({1, 2}, {1, 2, 3}, [], False),
    ],
)
def test_a_key_no_larger_that_holds_all_values_is_a_rival(
    child: set[int], parent: set[int], others: list[set[int]], expected: bool
) -> None:
    assert is_ambiguous(child, parent, others) is expected


@pytest.mark.parametrize("seed", [4, 5])
def test_the_pairs_of_a_database_with_and_without_rows(tmp_path: Path, seed: int) -> None:
    seen, unseen = examples_of("tiny", seed, tmp_path)
    assert seen.rows and len(seen.rows) == len(seen.summary.candidates)
    assert all(len(row.features) == len(FEATURES) for row in (*seen.rows, *unseen.rows))
    assert 0 < sum(row.label for row in seen.rows) < len(seen.rows)
    assert sum(row.empty for row in unseen.rows) > sum(row.empty for row in seen.rows)
    assert all(row.empty for row in unseen.rows) or seed % 2
    assert (tmp_path / f"tiny-{seed}" / "expected-links.yaml").exists()
    assert examples_of("tiny", seed, tmp_path) == (seen, unseen)
