from __future__ import annotations

from pathlib import Path

from benchmarks.relationship_fixtures.describe import describe
from benchmarks.relationship_fixtures.generate import generate_corpus


def test_a_corpus_is_described(tmp_path: Path) -> None:
    corpus = generate_corpus(tmp_path, 6, 2)
    lines = describe(corpus)
    assert lines[0] == "6 databases"
    assert any(line.startswith("tables: median ") for line in lines)
    assert any(line.startswith(f"{sum(len(f.truth.links) for f in corpus)} links: ") for line in lines)
    assert any(line.startswith("language: ") and "%" in line for line in lines)
