"""The kinds of context sources say of their sources what can be known without importing these."""

from __future__ import annotations

import pytest

from ktx_cli.project.plugins import SOURCES
from ktx_cli.sources.registry import SourceKind, source_for


@pytest.mark.table("kind", SOURCES.all())
def test_a_kind_and_its_source_agree(kind: SourceKind) -> None:
    source = source_for(kind.driver)
    assert (kind.kind or kind.driver, kind.documents) == (source.kind, source.documents)
