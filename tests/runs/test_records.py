"""Records of runs."""

from __future__ import annotations

import pytest

from ktx_cli.runs.records import _between


@pytest.mark.table(
    ("started", "finished", "seconds"),
    [
        ("2024-01-01T00:00:00.500Z", "2024-01-01T00:00:02.000Z", 1.5),
        ("2024-01-01T00:00:00.001Z", "2024-01-01T00:00:00.000Z", 0.0),
        ("2024-01-01T00:00:00.001Z", None, None),
    ],
)
def test_no_run_takes_less_than_no_time(started: str, finished: str | None, seconds: float | None) -> None:
    assert _between(started, finished) == seconds
