"""Tokens, costs and facts as values."""

from __future__ import annotations

import pytest

from ktx_cli.llm.types import CallFacts, Cost, ProbeReport, Usage, total_cost


def test_usage_adds_field_by_field() -> None:
    total = Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40)
    assert total == Usage(11, 22, 33, 44)
    assert total.total == 110
    assert total.to_json() == {
        "input_tokens": 11,
        "output_tokens": 22,
        "cache_read_tokens": 33,
        "cache_write_tokens": 44,
        "total_tokens": 110,
    }


@pytest.mark.table(
    ("costs", "total"),
    [
        ([], Cost()),
        ([Cost()], Cost()),
        ([Cost(), Cost()], Cost()),
        ([Cost(0.5, "list_price")], Cost(0.5, "list_price")),
        ([Cost(0.0, "list_price")], Cost(0.0, "list_price")),
        ([Cost(0.5, "list_price"), Cost(0.25, "list_price")], Cost(0.75, "list_price")),
        ([Cost(0.5, "list_price"), Cost()], Cost(0.5, "partial")),
        ([Cost(), Cost(0.5, "list_price"), Cost()], Cost(0.5, "partial")),
    ],
)
def test_a_sum_says_when_a_price_is_missing(costs: list[Cost], total: Cost) -> None:
    assert total_cost(costs) == total
    assert total.to_json() == {"usd": total.usd, "basis": total.basis}


def test_facts_and_reports_are_plain_values() -> None:
    facts = CallFacts("anthropic", "default", "m", usage=Usage(1), cost=Cost(0.1, "list_price"), seconds=1.23456)
    plain = facts.to_json()
    assert (plain["seconds"], plain["attempts"], plain["resolved_model"]) == (1.235, 1, None)
    assert plain["cost"] == {"usd": 0.1, "basis": "list_price"}
    report = ProbeReport("anthropic", "m", "m-1", "API key", 0.98765, facts, {"anthropic": "2"}).to_json()
    assert (report["seconds"], report["account"], report["versions"]) == (0.988, "API key", {"anthropic": "2"})
    assert report["usage"] == facts.usage.to_json()
