"""The mutations of the semantic layer against its code: each breaks one place, which must be there."""

from __future__ import annotations

import pytest

from benchmarks.mutate_semantic import MUTATIONS, PACKAGE, ROOT, Mutation


@pytest.mark.table("mutation", MUTATIONS)
def test_its_text_is_once_in_its_file(mutation: Mutation) -> None:
    assert (ROOT / PACKAGE / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.instead != mutation.text
