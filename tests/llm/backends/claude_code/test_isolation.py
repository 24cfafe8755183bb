"""What a process must say of itself, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.llm.backends.claude_code.backend import describe_account
from ktx_cli.llm.backends.claude_code.isolation import check_init, check_result_route, foreign_hook
from ktx_cli.llm.errors import LlmError

TOOLS = frozenset({"mcp__ktx__look", "mcp__ktx__boom"})
KTX = [{"name": "ktx", "status": "connected", "source": "sdk"}]


def init(**facts: Any) -> dict[str, Any]:
    plain = {"tools": [], "mcp_servers": [], "plugins": [], "apiKeySource": "none", "served_by_anthropic": True}
    return {**plain, **facts}


GOOD: list[tuple[str, dict[str, Any], frozenset[str]]] = [
    ("text", {}, frozenset()),
    ("loop", {"tools": sorted(TOOLS), "mcp_servers": KTX}, TOOLS),
    ("object", {"tools": ["StructuredOutput"]}, frozenset({"StructuredOutput"})),
    ("built-in plugins", {"plugins": [{"name": "p", "path": "builtin", "source": "p@builtin"}]}, frozenset()),
    (
        "what the host has",
        {"slash_commands": ["context"], "skills": ["pdf"], "agents": ["general-purpose"]},
        frozenset(),
    ),
    ("a console login", {"apiKeySource": "/login managed key"}, frozenset()),
    ("a version that does not say who serves it", {"served_by_anthropic": None}, frozenset()),
]

BAD: list[tuple[str, dict[str, Any], frozenset[str], str]] = [
    ("one more tool", {"tools": ["Bash"]}, frozenset(), "has Bash"),
    ("one tool less", {"tools": ["mcp__ktx__look"], "mcp_servers": KTX}, TOOLS, "lacks mcp__ktx__boom"),
    ("other tools", {"tools": ["x"]}, frozenset({"StructuredOutput"}), "has x; lacks StructuredOutput"),
    ("a server", {"mcp_servers": [{"name": "jira", "status": "connected"}]}, frozenset(), "jira (connected)"),
    ("no server", {"tools": sorted(TOOLS)}, TOOLS, "none"),
    (
        "our server is down",
        {"tools": sorted(TOOLS), "mcp_servers": [{"name": "ktx", "status": "failed"}]},
        TOOLS,
        "ktx (failed)",
    ),
    ("one server more", {"tools": sorted(TOOLS), "mcp_servers": [*KTX, {"name": "jira"}]}, TOOLS, "jira"),
    ("a plugin", {"plugins": [{"name": "evil", "path": "/p", "source": "evil@local"}]}, frozenset(), "evil"),
    ("a plugin without a path", {"plugins": [{"name": "evil"}]}, frozenset(), "evil"),
    ("a key of the environment", {"apiKeySource": "ANTHROPIC_API_KEY"}, frozenset(), "ANTHROPIC_API_KEY"),
    ("a helper", {"apiKeySource": "apiKeyHelper"}, frozenset(), "apiKeyHelper"),
    ("another provider", {"served_by_anthropic": False}, frozenset(), "a provider other than Anthropic"),
]


@pytest.mark.requirement("R27", "R28", "R29", "R30", "R38")
@pytest.mark.table(("facts", "allowed"), [row[1:] for row in GOOD])
def test_accepted(facts: dict[str, Any], allowed: frozenset[str]) -> None:
    check_init(init(**facts), allowed, backend="claude-code")


@pytest.mark.requirement("R27", "R28", "R29", "R38")
@pytest.mark.table(("facts", "allowed", "words"), [row[1:] for row in BAD])
def test_refused(facts: dict[str, Any], allowed: frozenset[str], words: str) -> None:
    with pytest.raises(LlmError) as caught:
        check_init(init(**facts), allowed, backend="claude-code")
    assert caught.value.code == "isolation"
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.requirement("R38")
def test_a_call_served_by_another_provider() -> None:
    check_result_route({"m": {"provider": "firstParty"}, "n": {}}, backend="claude-code")
    check_result_route(None, backend="claude-code")
    with pytest.raises(LlmError, match="bedrock") as caught:
        check_result_route({"m": {"provider": "bedrock"}}, backend="claude-code")
    assert caught.value.code == "isolation"


def test_a_foreign_hook_names_its_origin() -> None:
    error = foreign_hook({"hook_event": "SessionStart"}, backend="claude-code")
    assert (error.code, error.details["origin"]) == ("isolation", "managed settings")
    assert "SessionStart" in error.message


ACCOUNTS: list[tuple[dict[str, Any], str]] = [
    ({"subscriptionType": "max", "apiProvider": "firstParty"}, "local Claude Code session (session, max)"),
    ({"tokenSource": "CLAUDE_CODE_OAUTH_TOKEN"}, "local Claude Code session (CLAUDE_CODE_OAUTH_TOKEN)"),
    ({"apiKeySource": "/login managed key"}, "local Claude Code session (/login managed key)"),
    ({"tokenSource": "none"}, "!auth"),
    ({"apiProvider": "bedrock"}, "!isolation bedrock"),
    ({"tokenSource": "ANTHROPIC_AUTH_TOKEN"}, "!isolation ANTHROPIC_AUTH_TOKEN"),
    ({"tokenSource": "apiKeyHelper"}, "!isolation apiKeyHelper"),
    ({"apiKeySource": "ANTHROPIC_API_KEY"}, "!isolation ANTHROPIC_API_KEY"),
]


@pytest.mark.requirement("R6", "R40", "R41")
@pytest.mark.table(("account", "expected"), ACCOUNTS)
def test_account(account: dict[str, Any], expected: str) -> None:
    if not expected.startswith("!"):
        assert describe_account(account) == expected
        return
    code, _, words = expected[1:].partition(" ")
    with pytest.raises(LlmError) as caught:
        describe_account(account)
    assert caught.value.code == code
    assert words in caught.value.message
