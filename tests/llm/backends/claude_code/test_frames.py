"""Frames the real binary is hard to bring to send, played by a fake one behind the real SDK and launcher."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from ktx_cli.llm.backends.claude_code import AUTH_HINT, AUTH_MESSAGE
from ktx_cli.llm.backends.claude_code.isolation import BUILT_IN_TOOLS
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import LoopResult, TextResult
from tests.worlds.fake_claude import SESSION, assistant, result


class Query(BaseModel):
    q: str


class City(BaseModel):
    name: str


LOOK = RuntimeTool("look", "Look up.", Query, lambda query: f"found {query.q}")
INIT, RESULT, TEXT = {"init": {}}, {"result": {}}, {"text": "ok"}


def ask(fake: Any, backend: str = "claude-code", **claude: Any) -> TextResult:
    async def go() -> TextResult:
        async with fake.runtime(backend, **claude) as runtime:
            return await runtime.generate_text("hello", system="be brief")

    return asyncio.run(go())


def loop(fake: Any, **claude: Any) -> LoopResult:
    async def go() -> LoopResult:
        async with fake.runtime(**claude) as runtime:
            return await runtime.run_agent_loop("hello", system="s", tools=[LOOK], step_budget=3)

    return asyncio.run(go())


def fails(fake: Any, **claude: Any) -> LlmError:
    with pytest.raises(LlmError) as caught:
        ask(fake, **claude)
    return caught.value


@pytest.mark.requirement("R26", "R33", "R35", "R63")
def test_what_the_process_is_started_with(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "parent-only")
    fake.environ["AWS_SECRET_ACCESS_KEY"] = "given"
    assert ask(fake).text == "ok"
    [run] = fake.claude.runs
    assert run["cwd"] == str(fake.project)
    assert not {"ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "KTX_CLAUDE_CLI"} & set(run["environ"])
    argv = run["argv"]
    assert "--mcp-config" not in argv
    assert argv[argv.index("--tools") + 1] == ""
    assert "--setting-sources=" in argv
    assert argv[argv.index("--max-turns") + 1] == "1"
    for flag in ("--strict-mcp-config", "--no-session-persistence", "--restricted", "--disable-slash-commands"):
        assert flag in argv
    [initialize] = [line["request"] for line in run["lines"] if line.get("request", {}).get("subtype") == "initialize"]
    assert initialize["skills"] == []
    [prompt] = [line for line in run["lines"] if line["type"] == "user"]
    assert prompt["client_composed"] is True
    assert prompt["message"]["content"] == "hello"
    assert "hello" not in " ".join(argv)


@pytest.mark.requirement("R3", "R10", "R22")
@pytest.mark.parametrize("model", ["sonnet", "haiku", "opus", "sonnet[1m]", "claude-haiku-4-5-20251001"])
def test_the_model_is_passed_on_as_it_is(fake: Any, model: str) -> None:
    async def go() -> TextResult:
        async with fake.runtime() as runtime:
            found: TextResult = await runtime.generate_text("x", model=model)
            return found

    assert asyncio.run(go()).facts.resolved_model == "claude-sonnet-5-5"
    argv = fake.claude.runs[0]["argv"]
    assert argv[argv.index("--model") + 1] == model


ISOLATION: list[tuple[str, Sequence[dict[str, Any]], str]] = [
    ("a plugin", [{"init": {"plugins": [{"name": "evil", "path": "/p"}]}}, TEXT, RESULT], "evil"),
    ("a server", [{"init": {"mcp_servers": [{"name": "jira", "status": "connected"}]}}, TEXT, RESULT], "jira"),
    ("a tool", [{"init": {"tools": ["Bash"]}}, TEXT, RESULT], "has Bash"),
    ("another provider", [{"init": {"served_by_anthropic": False}}, TEXT, RESULT], "a provider other than Anthropic"),
    ("a key", [{"init": {"apiKeySource": "ANTHROPIC_API_KEY"}}, TEXT, RESULT], "ANTHROPIC_API_KEY"),
    ("no first frame", [TEXT, RESULT], "did not report how it was started"),
    (
        "a foreign hook before the first frame",
        [{"frame": {"type": "system", "subtype": "hook_started", "hook_event": "SessionStart"}}, INIT, TEXT, RESULT],
        "SessionStart",
    ),
    (
        "a foreign hook in the middle",
        [INIT, {"frame": {"type": "system", "subtype": "hook_response", "hook_event": "Stop"}}, TEXT, RESULT],
        "Stop",
    ),
    ("a provider in the result", [INIT, TEXT, {"result": {"modelUsage": {"m": {"provider": "vertex"}}}}], "vertex"),
]


@pytest.mark.requirement("R27", "R28", "R29", "R38")
@pytest.mark.parametrize(("steps", "words"), [row[1:] for row in ISOLATION], ids=[row[0] for row in ISOLATION])
def test_not_isolated(fake: Any, steps: Sequence[dict[str, Any]], words: str) -> None:
    fake.claude.play(steps=steps)
    error = fails(fake)
    assert error.code == "isolation"
    assert words in error.message
    assert error.hint


@pytest.mark.requirement("R30", "R39")
def test_what_the_host_has_is_no_failure(fake: Any) -> None:
    host = {"slash_commands": ["context"], "skills": ["pdf"], "agents": ["Explore"]}
    fake.claude.play(steps=[{"init": host}, TEXT, RESULT])
    assert ask(fake).text == "ok"
    fake.claude.play(steps=[{"init": {**host}}, {"call": "look", "input": {"q": "x"}}, TEXT, RESULT])
    assert loop(fake).stop_reason == "natural"


SETTINGS: list[tuple[str, Any, str | None, str | None]] = [
    ("none", [], None, None),
    ("ours", [{"source": "flagSettings", "settings": {"a": 1}}], None, None),
    ("empty ones", [{"source": "policySettings", "settings": {}}], None, None),
    ("a policy", [{"source": "policySettings", "settings": {"env": {}}}], "(env)", "warning"),
    ("the user's", [{"source": "userSettings", "settings": {"env": {}}}], "userSettings", "error"),
    ("no answer", None, "does not report", "error"),
]


@pytest.mark.parametrize(("sources", "words", "accepted"), [row[1:] for row in SETTINGS], ids=[r[0] for r in SETTINGS])
def test_settings_in_force(fake: Any, sources: Any, words: str | None, accepted: str | None) -> None:
    fake.claude.play(settings={"sources": sources})
    if words is None:
        assert ask(fake).text == "ok"
        return
    error = fails(fake)
    assert (error.code, words in error.message) == ("isolation", True)
    prompts = [line for run in fake.claude.runs for line in run["lines"] if line["type"] == "user"]
    assert prompts == []
    if accepted == "warning":
        assert ask(fake, allow_managed_policy=True).text == "ok"
        assert [warning.code for warning in fake.warnings] == ["managed_policy"]
    else:
        assert fails(fake, allow_managed_policy=True).code == "isolation"


ACCOUNTS: list[tuple[dict[str, Any], str]] = [
    ({"tokenSource": "none"}, "auth"),
    ({"apiProvider": "bedrock"}, "isolation"),
    ({"apiKeySource": "ANTHROPIC_API_KEY"}, "isolation"),
]


@pytest.mark.requirement("R6", "R36", "R40", "R41")
@pytest.mark.parametrize(("account", "code"), ACCOUNTS)
def test_without_a_session_no_prompt_is_sent(fake: Any, account: dict[str, Any], code: str) -> None:
    fake.environ["ANTHROPIC_API_KEY"] = "sk-set"
    fake.claude.play(initialize={"account": account})
    error = fails(fake)
    assert error.code == code
    if code == "auth":
        assert (error.message, error.hint) == (AUTH_MESSAGE, AUTH_HINT)
    assert [line for run in fake.claude.runs for line in run["lines"] if line["type"] == "user"] == []


ENDINGS: list[tuple[str, dict[str, Any], str, str]] = [
    ("no result, exit 0", {"steps": [INIT, TEXT], "exit": 0}, "execution", "without a result"),
    ("no result, exit 3", {"steps": [INIT, TEXT, {"stderr": "secret words"}], "exit": 3}, "connection", "unexpectedly"),
    ("exit at once", {"start": {"exit": 2, "stderr": "error: unknown option"}}, "connection", "unexpectedly"),
    (
        "managed MCP servers",
        {"start": {"exit": 1, "stderr": "You cannot use --strict-mcp-config when an enterprise MCP config is present"}},
        "isolation",
        "managed-mcp.json",
    ),
    ("a guard it does not know", {"initialize": {"hook_on_failure_supported": False}}, "isolation", "too old"),
    ("hooks it did not take", {"initialize": {"hooks_applied": False}}, "isolation", "too old"),
    ("too old", {"version": "2.1.247"}, "connection", "2.1.248"),
    (
        "not signed in",
        {
            "steps": [
                INIT,
                {"frame": assistant({"type": "text", "text": "Not logged in"}, error="authentication_failed")},
                {"result": {"is_error": True, "terminal_reason": "api_error", "result": "Not logged in"}},
            ],
            "exit": 1,
        },
        "auth",
        AUTH_MESSAGE,
    ),
    (
        "max budget",
        {"steps": [INIT, {"result": {"subtype": "error_max_budget_usd", "is_error": True}}], "exit": 1},
        "execution",
        "failed",
    ),
    (
        "turns used up in a text call",
        {"steps": [INIT, {"result": {"subtype": "error_max_turns", "is_error": True}}], "exit": 1},
        "max_turns",
        "within its turn limit",
    ),
]


@pytest.mark.requirement("R49", "R52", "C10")
@pytest.mark.parametrize(("scenario", "code", "words"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS])
def test_ending(fake: Any, scenario: dict[str, Any], code: str, words: str) -> None:
    fake.claude.play(**scenario)
    error = fails(fake)
    assert (error.code, words in error.message) == (code, True), error.message
    assert "secret words" not in f"{error.message}{error.hint}{error.details}"


@pytest.mark.requirement("C3")
def test_a_call_that_died_is_still_a_usage_fact(fake: Any) -> None:
    fake.claude.play(steps=[INIT, TEXT], exit=3)
    fails(fake)
    [fact] = fake.facts
    assert (fact.unit_id, fact.complete) == (SESSION, False)


@pytest.mark.requirement("R64")
@pytest.mark.parametrize(
    ("steps", "ok"),
    [
        ([INIT, TEXT, RESULT], False),
        ([INIT, {"result": {"structured_output": {"name": 3}}}], False),
        ([INIT, {"result": {"structured_output": {"name": "Ulm"}}}], True),
    ],
)
def test_an_object_call(fake: Any, steps: Sequence[dict[str, Any]], ok: bool) -> None:
    async def go() -> City:
        async with fake.runtime() as runtime:
            found: City = (await runtime.generate_object("x", City)).value
            return found

    fake.claude.play(steps=steps)
    if ok:
        assert asyncio.run(go()) == City(name="Ulm")
        return
    with pytest.raises(LlmError) as caught:
        asyncio.run(go())
    assert caught.value.code == "structured_output"


def test_a_very_long_line(fake: Any) -> None:
    fake.claude.play(steps=[INIT, {"long": 5_000_000}, RESULT])
    assert len(ask(fake).text) == 5_000_000


def test_lines_that_are_no_frames_are_passed_over(fake: Any) -> None:
    fake.claude.play(steps=[INIT, {"frame": {"type": "a_kind_of_tomorrow", "x": 1}}, TEXT, RESULT])
    assert ask(fake).text == "ok"


def test_limits_of_the_session_reach_the_governor(fake: Any) -> None:
    info = {"status": "allowed", "unifiedWindows": {"5h": {"status": "allowed_warning", "utilization": 0.95}}}
    limit = {"type": "rate_limit_event", "rate_limit_info": info, "uuid": "u", "session_id": SESSION}
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "error": "rate_limit", "retry_delay_ms": 10}
    signals = []

    async def go() -> None:
        async with fake.runtime() as runtime:
            observe = runtime.governor.observe
            runtime.governor.observe = lambda signal: (signals.append(signal), observe(signal))
            await runtime.generate_text("x")

    fake.claude.play(steps=[INIT, {"frame": limit}, {"frame": retry}, TEXT, RESULT])
    asyncio.run(go())
    assert [signal.status for signal in signals][:2] == ["warning", "warning"]
    assert (signals[0].utilization, signals[1].retry_after) == (0.95, 0.01)


@pytest.mark.requirement("R4", "R24", "R61")
def test_the_guard_denies_everything_else(fake: Any, caplog: pytest.LogCaptureFixture) -> None:
    foreign = [*BUILT_IN_TOOLS, "mcp__jira__search", "mcp__ktx__other"]
    asked = [{"hook": name} for name in [*foreign, "mcp__ktx__look"]]
    fake.claude.play(steps=[INIT, *asked, TEXT, RESULT])
    loop(fake)
    answers = [
        line["response"]["response"] for line in fake.claude.runs[0]["lines"] if line["type"] == "control_response"
    ]
    decisions = [one["hookSpecificOutput"]["permissionDecision"] for one in answers if "hookSpecificOutput" in one]
    behaviours = [one["behavior"] for one in answers if "behavior" in one]
    assert decisions == ["deny"] * len(foreign)
    assert behaviours == ["deny"] * len(foreign) + ["allow"]
    assert all(f"denied the tool {name}" in caplog.text for name in foreign)


@pytest.mark.requirement("R43", "R44", "R45")
def test_a_tool_is_carried_out_here(fake: Any) -> None:
    fake.claude.play(steps=[INIT, {"call": "look", "input": {"q": "x"}}, {"call": "look"}, TEXT, RESULT])
    found = loop(fake)
    assert [(one.text, one.is_error) for one in found.invocations] == [
        ("found x", False),
        ("Invalid arguments for `look`:\n- q: Field required", True),
    ]
    said = [
        line["response"]["response"]["mcp_response"]
        for line in fake.claude.runs[0]["lines"]
        if line["type"] == "control_response" and "mcp_response" in line["response"]["response"]
    ]
    texts = [one["result"]["content"][0]["text"] for one in said if "content" in one.get("result", {})]
    assert texts == [one.text for one in found.invocations]


@pytest.mark.requirement("C11")
def test_an_abort_interrupts_and_counts_what_was_used(fake: Any) -> None:
    async def go() -> None:
        async with fake.runtime() as runtime:
            task = asyncio.create_task(runtime.generate_text("x"))
            while not (fake.claude.runs and any(line["type"] == "user" for line in fake.claude.runs[0]["lines"])):
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    fake.claude.play(steps=[INIT, {"hang": True}])
    asyncio.run(go())
    lines = fake.claude.runs[0]["lines"]
    assert any(line.get("request", {}).get("subtype") == "interrupt" for line in lines)
    [fact] = fake.facts
    assert (fact.complete, fact.usage.input_tokens) == (True, 10)


def test_a_result_of_a_fake_is_what_the_sdk_reads() -> None:
    from claude_agent_sdk._internal.message_parser import parse_message

    message: Any = parse_message(result(subtype="error_max_turns", is_error=True))
    assert (message.subtype, message.is_error, message.session_id) == ("error_max_turns", True, SESSION)


def test_no_process_of_a_fake_stays(fake: Any) -> None:
    fake.claude.play(steps=[INIT, TEXT, RESULT])
    assert ask(fake).text == "ok"
    [run] = fake.claude.folder.glob("run-*.json")
    with pytest.raises(ProcessLookupError):
        os.kill(int(run.stem.removeprefix("run-")), 0)
