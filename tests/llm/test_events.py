"""Events of a call as data."""

from __future__ import annotations

import json

import pytest

from ktx_cli.core.events import Event
from ktx_cli.llm import types

SAMPLES: list[tuple[Event, str]] = [
    (types.Resumed(2, 3), "resumed"),
    (types.TextDelta("x"), "text_delta"),
    (types.ToolStarted("id", "look", {"q": 1}), "tool_started"),
    (types.ToolFinished("id", "look", "text", False), "tool_finished"),
    (types.StepFinished(1, 2), "step_finished"),
    (types.UsageReported({"run_id": "r"}), "usage_reported"),
    (types.RateLimitWait("tick", 1.0, "rate_limit"), "rate_limit_wait"),
    (types.Final("r", "q", "text", "natural", {}), "final"),
    (types.Failed("r", "q", "internal", {"code": "execution"}), "failed"),
    (types.Done(), "done"),
]


@pytest.mark.table(("event", "name"), SAMPLES)
def test_an_event_is_json(event: Event, name: str) -> None:
    assert json.loads(json.dumps(event.to_json()))["event"] == name


def test_every_event_is_in_the_table_of_how_often() -> None:
    kinds = {name for name, kind in vars(types).items() if isinstance(kind, type) and issubclass(kind, Event)}
    kinds.discard("Event")
    assert kinds == {type(event).__name__ for event, _ in SAMPLES}
    assert all(f"`{kind}`" in (types.__doc__ or "") for kind in kinds)


def test_a_final_is_ok_and_has_no_error() -> None:
    final = types.Final("r", "q", "text", "natural", {})
    assert (final.ok, final.error_code) == (True, None)
