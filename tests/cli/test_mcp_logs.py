"""`ktx mcp logs` where there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_only_an_empty_log_of_a_server_asks_to_start_one(work: Path, ktx: Run) -> None:
    (work / "ktx.yaml").write_text("connections: {}\n")
    assert "ktx mcp start" in ktx("mcp", "logs").err
    done = ktx("mcp", "logs", "--audit", "--json")
    assert (done.code, done.data["lines"]) == (0, [])
    assert "ktx mcp start" not in ktx("mcp", "logs", "--audit").err, "clients over stdio write there too"
