"""A command that takes long shows on a terminal that it is at work, and nothing of it stays."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.cli.setup_terminal import KTX
from tests.worlds.terminal import Terminal

SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000000) SELECT max(i) FROM n"


@pytest.fixture
def project(work: Path) -> Path:
    with sqlite3.connect(work / "shop.sqlite") as database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY)")
    database.close()
    (work / "ktx.yaml").write_text("connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n")
    return work


@pytest.mark.parametrize(
    ("options", "shown"), [((), True), (("--quiet",), False), (("--json",), False), (("--progress", "none"), False)]
)
@pytest.mark.one_in(2)
def test_a_slow_statement_shows_a_line_that_goes_away(project: Path, options: tuple[str, ...], shown: bool) -> None:
    with Terminal([KTX, "sql", SLOW, *options], folder=project, environ=os.environ) as terminal:
        if shown:
            terminal.wait_until(lambda seen: "ktx sql · 2 s" in seen or "ktx sql · 3 s" in seen, "the line")
        assert terminal.wait(90) == 0, terminal.transcript()
        assert ("ktx sql ·" in terminal.output) == shown
        assert "ktx sql ·" not in terminal.transcript()
        assert "12000000" in terminal.transcript().replace(",", "")


def test_a_fast_command_shows_none(project: Path) -> None:
    with Terminal([Path(sys.executable).with_name("ktx"), "sql", "SELECT 1 AS one"], folder=project) as terminal:
        assert terminal.wait(60) == 0
        assert "one" in terminal.transcript()
