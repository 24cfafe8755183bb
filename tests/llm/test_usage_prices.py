"""List prices: which models have one, what a request costs, and that the binary says the same."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import claude_agent_sdk
import pytest

from ktx_cli.llm.types import Cost, Usage
from ktx_cli.llm.usage import MEASURED_WITH, MILLION, PRICES, cost_of, price_of
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_script import says
from ktx_cli.testing.model_server import ModelServer


@pytest.mark.table(
    ("model", "name"),
    [
        ("claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("claude-sonnet-5", "claude-sonnet-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-5-5[1m]", "claude-sonnet-5-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-0", "claude-sonnet-4"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("claude-3-5-sonnet-20241022-v2", "claude-3-5-sonnet"),
        ("claude-opus-4-1-20250805", None),
        ("claude-opus-4-20250514", None),
        ("claude-sonnet-9", None),
        ("claude-sonnet-5-55", None),
        ("claude-3-opus-20240229", None),
        ("gpt-5", None),
        ("gpt-6.2-sol", "gpt-6.2-sol"),
        ("gpt-6.1-sol-2026-09-29", "gpt-6.1-sol"),
        ("gpt-5.4-mini-2026-03-17", "gpt-5.4-mini"),
        ("gpt-5.6-sol", None),
        ("gpt-6.2-sol-pro", None),
        ("gpt-6", None),
        ("sonnet", None),
        ("", None),
    ],
)
def test_which_models_have_a_price(model: str, name: str | None) -> None:
    assert price_of(model) == (PRICES[name] if name else None)


MODEL = "claude-sonnet-4-5"


@pytest.mark.table(
    ("usage", "long_writes", "dollars"),
    [
        (Usage(MILLION), 0, 3),
        (Usage(0, MILLION), 0, 15),
        (Usage(0, 0, MILLION), 0, 0.3),
        (Usage(0, 0, 0, MILLION), 0, 3.75),
        (Usage(0, 0, 0, MILLION), MILLION, 6),
        (Usage(0, 0, 0, MILLION), MILLION // 2, 4.875),
        (Usage(MILLION, MILLION, MILLION, MILLION), 0, 22.05),
        (Usage(), 0, 0),
    ],
)
def test_a_request_costs_the_sum_of_its_kinds(usage: Usage, long_writes: int, dollars: float) -> None:
    cost = cost_of("anthropic", MODEL, usage, long_writes=long_writes)
    assert (cost.usd, cost.basis) == (pytest.approx(dollars), "list_price")


@pytest.mark.table(
    ("backend", "model", "known"),
    [
        ("anthropic", MODEL, True),
        ("vertex", f"{MODEL}@20250929", True),
        ("gateway", MODEL, False),
        ("anthropic", "claude-sonnet-9", False),
        ("anthropic", None, False),
        ("claude-code", MODEL, False),
        ("openai", "gpt-9", False),
        ("openai-compatible", "gpt-6.2-sol", False),
    ],
)
def test_who_has_a_list_price(backend: str, model: str | None, known: bool) -> None:
    cost = cost_of(backend, model, Usage(MILLION))
    assert cost == (Cost(3.0, "list_price") if known else Cost())


@pytest.mark.table(
    ("usage", "dollars"),
    [
        (Usage(100_000, MILLION), 0.51),
        (Usage(100_001, MILLION), 2.5500005),
        (Usage(90_000, 0, 10_000, 0), 0.0091),
        (Usage(90_000, 0, 20_000, 8_000), 0.051),
        (Usage(0, MILLION, 300_000), 2.515),
    ],
)
def test_long_prompts_of_haiku_cost_more(usage: Usage, dollars: float) -> None:
    assert cost_of("anthropic", "claude-haiku-5-5", usage).usd == pytest.approx(dollars)


@pytest.mark.table(
    ("model", "usage", "dollars"),
    [
        ("gpt-6.2-sol", Usage(100_000, 10_000, 50_000, 20_000), 0.2 + 0.1 + 0.005 + 0.05),
        ("gpt-6.2-sol", Usage(272_000), 0.544),
        ("gpt-6.2-sol", Usage(272_001, 10_000), 1.088004 + 0.15),
        ("gpt-6.2-sol", Usage(100_000, 0, 150_000, 50_000), 0.4 + 0.03 + 0.25),
        ("gpt-5.4-mini", Usage(300_000, 0, 0, 100_000), 0.3),
    ],
)
def test_what_a_request_to_openai_costs(model: str, usage: Usage, dollars: float) -> None:
    cost = cost_of("openai", model, usage)
    assert (cost.usd, cost.basis) == (pytest.approx(dollars), "list_price")


KINDS = {
    "input": (Usage(MILLION), 0),
    "output": (Usage(0, MILLION), 0),
    "read": (Usage(0, 0, MILLION), 0),
    "writes": (Usage(0, 0, 0, MILLION), 0),
    "long writes": (Usage(0, 0, 0, MILLION), MILLION),
}
MIXED = {"all kinds": (Usage(MILLION, 31 * MILLION, 17 * MILLION, 7 * MILLION), 2 * MILLION)}
"""Numbers of tokens of which no sum of small changes in price is nothing."""


@pytest.mark.slow
def test_the_binary_still_asks_these_prices() -> None:
    """`haiku` is measured again, the model with the most prices: all kinds in one request, each with its own number of
    tokens; with KTX_TEST_FULL one kind at a time."""
    binary = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert version.split()[0] == MEASURED_WITH, "another binary: measure every price again"
    with ModelServer() as server, offline_session(server) as session:
        environ = {**session.environ, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        for kind, (usage, long_writes) in KINDS.items() if os.environ.get("KTX_TEST_FULL") else MIXED.items():
            server.play(
                [
                    says(
                        "ok",
                        input_tokens=usage.input_tokens,
                        output_tokens=usage.output_tokens,
                        cache_read_tokens=usage.cache_read_tokens,
                        cache_write_tokens=usage.cache_write_tokens,
                        long_cache_write_tokens=long_writes,
                    )
                ]
            )
            command = [binary, "--print", "--output-format", "json", "--model", "haiku", "--tools", "", "--restricted"]
            done = subprocess.run(
                [*command, "--setting-sources=", "--no-session-persistence", "--max-turns", "1"],
                input="hi",
                capture_output=True,
                text=True,
                env=environ,
                timeout=60,
                check=True,
            )
            ((model, told),) = json.loads(done.stdout)["modelUsage"].items()
            ours = cost_of("anthropic", model, usage, long_writes=long_writes)
            assert (model, told["costUSD"]) == ("claude-haiku-5-5", pytest.approx(ours.usd)), kind
