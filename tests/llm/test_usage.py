"""Usage facts: their key and their origin."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.llm.types import Cost, Usage
from ktx_cli.llm.usage import UsageFact, ignore_usage
from ktx_cli.project.config.blocks import SUPPORTED_BACKENDS


def fact(backend: str = "claude-code", run_id: str = "r", attempt: int = 0, unit_id: str = "s") -> UsageFact:
    usage = Usage(1, 2, 3, 4)
    return UsageFact(run_id, attempt, unit_id, backend, "default", "ask", "m", usage, Cost(0.5, "list_price"))


@pytest.mark.requirement("C2")
@pytest.mark.table(
    ("backend", "origin"),
    [
        ("claude-code", ("anthropic_sdk", "claude_sdk")),
        ("claude-cli", ("claude_cli", "claude_print")),
        ("anthropic", ("anthropic_api", "messages")),
        ("vertex", ("anthropic_api", "messages")),
        ("gateway", ("anthropic_api", "messages")),
    ],
)
def test_who_counted(backend: str, origin: tuple[str, str]) -> None:
    assert (fact(backend).source, fact(backend).executor_type) == origin


@pytest.mark.table("backend", SUPPORTED_BACKENDS)
def test_every_backend_has_an_origin(backend: str) -> None:
    assert fact(backend).source and fact(backend).executor_type


IDS = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="-_"), min_size=1)


@pytest.mark.requirement("C3")
@given(IDS, st.integers(0, 9), IDS)
def test_the_key_names_run_attempt_and_unit(run_id: str, attempt: int, unit_id: str) -> None:
    key = fact(run_id=run_id, attempt=attempt, unit_id=unit_id).idempotency_key
    assert key.split("/") == [run_id, str(attempt), unit_id]


@pytest.mark.requirement("C2")
def test_a_fact_is_json() -> None:
    plain = json.loads(json.dumps(fact().to_json()))
    assert (plain["usage_unit_id"], plain["cost_usd"], plain["cost_basis"], plain["complete"]) == (
        "s",
        0.5,
        "list_price",
        True,
    )
    assert plain["total_tokens"] == 10
    ignore_usage(fact())
