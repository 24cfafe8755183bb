"""The allow-list: which attributes and names may leave the process."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.core import ERROR_CODES
from ktx_cli.telemetry.attributes import KNOWN, METRICS, MOST_KNOWN, OTHER, RULES, SPANS, AllowList


@pytest.fixture
def allowed() -> AllowList:
    found = AllowList()
    found.know("ktx.connection", ["warehouse"])
    found.know("gen_ai.tool.name", ["sl_query"])
    found.know("gen_ai.request.model", ["claude-sonnet-5-5", "anthropic/claude", "arn:aws:bedrock:eu:123456789012:p"])
    return found


@pytest.mark.parametrize(
    ("key", "value", "sent"),
    [
        ("error.type", "query", "query"),
        ("error.type", "ValueError", "ValueError"),
        ("error.type", "CancelledError", "CancelledError"),
        ("error.type", "no such table: salaries", OTHER),
        ("error.type", ["query"], OTHER),
        ("process.exit.code", 7, 7),
        ("process.exit.code", "7", None),
        ("db.response.returned_rows", 12, 12),
        ("db.response.returned_rows", float("nan"), None),
        ("db.response.returned_rows", [1], None),
        ("ktx.connection", "warehouse", "warehouse"),
        ("ktx.connection", "salaries", None),
        ("ktx.connection", ("warehouse",), None),
        ("gen_ai.tool.name", "sl_query", "sl_query"),
        ("gen_ai.tool.name", "drop table", "unknown"),
        ("gen_ai.request.model", "claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("gen_ai.request.model", "anthropic/claude", "anthropic/claude"),
        ("gen_ai.request.model", "arn:aws:bedrock:eu:123456789012:p", None),
        ("gen_ai.response.model", "claude-sonnet-5-5", None),
        ("ktx.run.id", "20260131T093000-5f3a9c", "20260131T093000-5f3a9c"),
        ("ktx.run.id", "20260131T093000-5f3a9c; drop", None),
        ("ktx.step", "profile", "profile"),
        ("ktx.step", "salaries", OTHER),
        ("mcp.method.name", "tools/call", "tools/call"),
        ("mcp.method.name", "salaries/list", OTHER),
        ("ktx.trace_id", "t-1", None),
        ("db.query.text", "select 1", None),
        ("exception.message", "secret", None),
        ("jsonrpc.request.id", "secret", None),
    ],
)
def test_an_attribute_is_sent_with_a_known_value_or_not_at_all(
    allowed: AllowList, key: str, value: Any, sent: Any
) -> None:
    assert allowed.value(key, value) == sent
    assert allowed.attributes({key: value}) == ({} if sent is None else {key: sent})
    assert allowed.attributes({key: value}, ()) == {}


@pytest.mark.parametrize(
    ("name", "attributes", "sent"),
    [
        ("ktx", {"ktx.command": "scan"}, "ktx scan"),
        ("compile", {"ktx.command": "scan"}, "compile"),
        ("mcp", {"mcp.method.name": "tools/call", "gen_ai.tool.name": "sl_query"}, "tools/call sl_query"),
        ("mcp", {}, OTHER),
        ("chat", {}, "chat"),
        ("tools/call salaries", {}, None),
        ("SELECT salaries", {}, None),
    ],
)
def test_a_span_is_named_from_what_is_sent(
    allowed: AllowList, name: str, attributes: dict[str, Any], sent: str | None
) -> None:
    assert allowed.name(name, attributes) == sent


def test_every_key_has_one_rule() -> None:
    keys = {key for metric in METRICS.values() for key in metric.keys} | {key for key in SPANS.values() if key}
    assert keys <= {*RULES, *KNOWN} and not set(RULES) & set(KNOWN)
    assert all(AllowList().value("error.type", code) == code for code in ERROR_CODES)


def test_known_values_are_bounded() -> None:
    allowed = AllowList()
    for number in range(2 * MOST_KNOWN):
        allowed.know("ktx.connection", [f"c{number}"])
    assert len(allowed.known["ktx.connection"]) == MOST_KNOWN


def test_steps_of_ktx_are_known(pytestconfig: pytest.Config) -> None:
    """Every step that the source announces with a literal name has a value of its own."""
    import re

    pattern = re.compile(r"""(?:StepStarted|ScanStep|_step|_run_step)\((?:work, )?f?"([a-z]+)""")
    texts = [path.read_text("utf-8") for path in (pytestconfig.rootpath / "ktx_cli").rglob("*.py")]
    names = {name for text in texts for name in pattern.findall(text)}
    assert len(names) > 10
    assert {name for name in names if AllowList().value("ktx.step", name) == OTHER} == set()
