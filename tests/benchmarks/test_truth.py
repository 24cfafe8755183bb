from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.relationship_fixtures.truth import PrimaryKey, Reference, Truth, read_truth, write_truth
from ktx_cli.core.errors import ConfigError

NAMES = st.sampled_from(["no", "1e3", "null", "Order Details", "año", "a: b", '"', "#x", "- y", "'", "tab\\le", "ID"])
COLUMNS = st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def links(draw: st.DrawFn) -> Reference:
    columns = draw(COLUMNS)
    return Reference(draw(NAMES), columns, draw(NAMES), draw(st.permutations(columns).map(tuple)))


@given(st.lists(st.builds(PrimaryKey, NAMES, COLUMNS), max_size=3, unique=True), st.lists(links(), unique=True))
def test_what_is_written_is_read(keys: list[PrimaryKey], found: list[Reference]) -> None:
    half = len(found) // 2
    truth = Truth(
        tuple(sorted(keys)), tuple(sorted(found[half:])), frozenset(found[half : half + 1]), frozenset(found[:half])
    )
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "data.sqlite").touch()
        write_truth(Path(name), truth)
        assert read_truth(Path(name)) == truth


def test_a_folder_that_is_no_fixture(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no fixture"):
        read_truth(tmp_path)
