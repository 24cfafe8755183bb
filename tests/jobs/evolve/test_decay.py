"""A week of decay of the bundled company: what is scripted is right in most cases, and no regression lands."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.evolve import make_world, pass_week


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_week_of_decay_is_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    world = make_world(tmp_path, 3, questions=10, weeks=1)
    assert world.renames and world.changed[0] and world.dropped[0]
    figures = pass_week(world)
    assert figures.without < figures.after and figures.before < figures.after, figures
    assert figures.verdicts["accepted"] >= 2 and figures.repairs["rejected"] >= 1, figures
    assert figures.regressions == 0
