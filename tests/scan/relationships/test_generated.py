"""Joins and keys of generated databases: floors well under what is measured, over what a broken step would give."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.relationship_fixtures.discovering import discover
from benchmarks.relationship_fixtures.generate import generate
from benchmarks.relationship_fixtures.scoring import Rates, score, silent_links
from benchmarks.relationship_fixtures.truth import Reference

SEEDS = range(700, 706 if os.environ.get("KTX_TEST_FULL") else 702)
Links = Sequence[Reference]


def all_of(links: Links) -> set[Reference]:
    return set(links)


def of_several_columns(links: Links) -> set[Reference]:
    return {link for link in links if len(link.child_columns) > 1}


def of_split_columns(links: Links) -> set[Reference]:
    parents = Counter((link.child, link.child_columns) for link in links)
    return {link for link in links if parents[link.child, link.child_columns] > 1}


KINDS: dict[str, tuple[Callable[[Links], set[Reference]], float, float]] = {
    "general": (all_of, 0.65, 0.8),
    "composite": (of_several_columns, 0.15, 0.7),
    "polymorphic": (of_split_columns, 0.25, 0.8),
}
"""Kind -> which references it is about, the least recall of them, and the least recall of keys."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_databases(tmp_path: Path, kind: str) -> None:
    which, least_links, least_keys = KINDS[kind]
    links = keys = about = Rates(0, 0, 0)
    for seed in SEEDS:
        fixture = generate(tmp_path / str(seed), kind, seed)
        silent = silent_links(fixture.folder, fixture.truth)
        answer = discover(fixture.folder, hide=True)
        found = score(fixture.truth, answer, silent=silent)
        links, keys = links + found.links, keys + found.keys
        wanted = which(fixture.truth.links) - silent
        about += Rates(len(wanted & answer.accepted), 0, len(wanted))
    assert about.wanted >= 3
    assert links.precision >= 0.8
    assert about.recall >= least_links
    assert keys.recall >= least_keys
