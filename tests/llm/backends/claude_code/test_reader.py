"""The messages of a call, as the SDK parses them, turned into steps, tools, usage and an ending."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from claude_agent_sdk._internal.message_parser import parse_message

from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Event
from ktx_cli.llm.agent_loop import CallRecord, CallSpec
from ktx_cli.llm.backends.claude_code.reader import MessageReader, usage_of
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.governor import RateSignal
from ktx_cli.llm.types import Cost, StepFinished, TextDelta, ToolFinished, ToolStarted, Usage, UsageReported
from ktx_cli.llm.usage import UsageFact
from tests.worlds.fake_claude import SESSION, assistant, result, tool_result

LOOK = frozenset({"mcp__ktx__look"})


class Reading:
    """A reader fed with frames, and everything it told."""

    def __init__(
        self, kind: Any = "loop", *, allowed: frozenset[str] = LOOK, budget: int = 8, allow_managed: bool = False
    ) -> None:
        self.events: list[Event] = []
        self.facts: list[UsageFact] = []
        self.signals: list[RateSignal] = []
        self.warnings: list[ResultWarning] = []
        spec = CallSpec(kind, "claude-code", "default", "sonnet", "p", step_budget=budget)
        self.record = CallRecord(spec, run_id="r", command="c", emit=self.events.append, usage_sink=self.facts.append)
        self.reader = MessageReader(
            self.record, allowed, allow_managed=allow_managed, observe=self.signals.append, warn=self.warnings.append
        )

    def feed(self, *frames: Mapping[str, Any]) -> Reading:
        async def all_of_them() -> None:
            for frame in frames:
                await self.reader.feed(parse_message(dict(frame)))

        asyncio.run(all_of_them())
        return self

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def init(**facts: Any) -> dict[str, Any]:
    servers = [{"name": "ktx", "status": "connected"}]
    plain = {"tools": sorted(LOOK), "mcp_servers": servers, "plugins": [], "apiKeySource": "none"}
    return {"type": "system", "subtype": "init", "session_id": SESSION, "model": "claude-sonnet-5-5", **plain, **facts}


def text(words: str, message_id: str = "m1", **facts: Any) -> dict[str, Any]:
    return assistant({"type": "text", "text": words}, message_id=message_id, **facts)


def call(call_id: str, message_id: str = "m1", name: str = "mcp__ktx__look", given: Any = None) -> dict[str, Any]:
    return assistant(
        {"type": "tool_use", "id": call_id, "name": name, "input": {} if given is None else given},
        message_id=message_id,
    )


def piece(words: str, **facts: Any) -> dict[str, Any]:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}
    return {"type": "stream_event", "event": event, "session_id": SESSION, "uuid": "s", **facts}


PARALLEL = [call("a"), tool_result("a", "1"), call("b"), tool_result("b", "2"), text("more", "m1")]

STEPS: list[tuple[str, list[dict[str, Any]], int, int]] = [
    ("one text", [text("hi")], 8, 1),
    ("two blocks of one message", [text("a"), text("b")], 8, 1),
    ("results interleaved in one message", PARALLEL, 8, 1),
    ("tools, then text", [*PARALLEL, text("done", "m2")], 8, 2),
    ("two rounds, then text", [*PARALLEL, call("c", "m2"), tool_result("c", "3"), text("done", "m3")], 8, 3),
    ("continued after a cut", [text("a", "m1"), text("b", "m2")], 8, 1),
    ("synthetic", [text("hi"), text("oops", "m2", model="<synthetic>")], 8, 1),
    ("an error message", [text("oops", "m1", error="server_error")], 8, 0),
    ("a sub-agent's", [text("hi"), text("x", "m2", parent_tool_use_id="a")], 8, 1),
    ("its results neither", [text("hi"), {**tool_result("z", "1"), "parent_tool_use_id": "a"}, text("b", "m2")], 8, 1),
    ("budget used up exactly", [call("a"), tool_result("a", "1"), call("b", "m2"), tool_result("b", "2")], 2, 2),
    ("never more than the budget", [call("a"), tool_result("a", "1"), call("b", "m2"), tool_result("b", "2")], 1, 1),
]


@pytest.mark.requirement("R53", "R55", "R56")
@pytest.mark.table(("frames", "budget", "steps"), [row[1:] for row in STEPS])
def test_steps(frames: list[dict[str, Any]], budget: int, steps: int) -> None:
    reading = Reading(budget=budget).feed(init(), *frames, result())
    assert [event.index for event in reading.of(StepFinished)] == list(range(1, steps + 1))
    assert {event.budget for event in reading.of(StepFinished)} <= {budget}


@pytest.mark.requirement("R53")
def test_a_step_ends_when_the_next_begins_and_not_before() -> None:
    reading = Reading().feed(init(), *PARALLEL)
    assert reading.of(StepFinished) == []
    reading.feed(text("next", "m2"))
    assert len(reading.of(StepFinished)) == 1


TEXTS: list[tuple[str, list[dict[str, Any]], str]] = [
    ("two blocks", [text("A"), text("B")], "AB"),
    ("continued", [text("A", "m1"), text("B", "m2")], "AB"),
    ("what was said before the tools does not count", [text("let me see"), *PARALLEL, text("done", "m2")], "done"),
    ("nothing", [], ""),
]


@pytest.mark.requirement("R63")
@pytest.mark.table(("frames", "expected"), [row[1:] for row in TEXTS])
def test_text(frames: list[dict[str, Any]], expected: str) -> None:
    assert "".join(Reading().feed(init(), *frames, result()).reader.texts) == expected


@pytest.mark.requirement("R51", "C6")
def test_tools_are_noted_once_with_the_same_id() -> None:
    reading = Reading().feed(init(), call("a", given={"q": "x"}), call("a", given={"q": "x"}))
    reading.feed(tool_result("a", "found"), tool_result("a", "found"), result())
    assert reading.of(ToolStarted) == [ToolStarted("a", "look", {"q": "x"})]
    assert reading.of(ToolFinished) == [ToolFinished("a", "look", "found", False)]


FAILURES: list[tuple[str, dict[str, Any], str]] = [
    ("a tool that fails", call("a"), "look"),
    ("an unknown tool", call("a", name="mcp__ktx__nope"), "nope"),
    ("a built-in", call("a", name="Bash", given={"command": "id"}), "Bash"),
    ("another server's", call("a", name="mcp__jira__search"), "mcp__jira__search"),
    ("broken JSON", call("a", given={"__unparsedToolInput": {"raw": '{"q": '}}), "look"),
]


@pytest.mark.requirement("R51", "R4", "R48")
@pytest.mark.table(("frame", "name"), [row[1:] for row in FAILURES])
def test_every_failed_call_counts_once(frame: dict[str, Any], name: str) -> None:
    failed = tool_result("a", "no", is_error=True)
    reading = Reading().feed(init(), frame, failed, failed, result())
    assert reading.record.tool_failures == 1
    [invocation] = reading.record.invocations
    assert (invocation.name, invocation.text, invocation.is_error) == (name, "no", True)


@pytest.mark.requirement("R48")
def test_arguments_that_could_not_be_parsed_are_kept_as_they_came() -> None:
    for value in ({"raw": '{"q": '}, '{"q": '):
        reading = Reading().feed(init(), call("a", given={"__unparsedToolInput": value}))
        assert reading.of(ToolStarted)[0].arguments == '{"q": '


def test_a_denied_tool_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    Reading().feed(init(), call("a", name="Bash"))
    assert "Bash" in caplog.text


@pytest.mark.requirement("C5")
def test_pieces_are_emitted_once() -> None:
    reading = Reading("text").feed(init_of_text(), piece("he"), piece("llo"), text("hello"), result())
    assert [event.delta for event in reading.of(TextDelta)] == ["he", "llo"]


@pytest.mark.requirement("C5")
def test_without_pieces_the_blocks_are_emitted() -> None:
    reading = Reading("text").feed(init_of_text(), text("hello"), result())
    assert [event.delta for event in reading.of(TextDelta)] == ["hello"]


def test_pieces_of_a_sub_agent_and_of_objects_are_not_text() -> None:
    reading = Reading("text").feed(init_of_text(), piece("x", parent_tool_use_id="a"))
    assert reading.of(TextDelta) == []
    assert Reading("object").feed(piece("x")).of(TextDelta) == []


def init_of_text() -> dict[str, Any]:
    return init(tools=["mcp__ktx__look"])


@pytest.mark.requirement("R63", "R64")
def test_answers_to_a_schema_are_attempts_and_no_tools() -> None:
    allowed = frozenset({"StructuredOutput"})
    reading = Reading("object", allowed=allowed).feed(init(tools=["StructuredOutput"], mcp_servers=[]))
    for place in ("1", "2", "3"):
        reading.feed(call(place, f"m{place}", "StructuredOutput"), tool_result(place, "no", is_error=True))
    reading.feed(result(structured_output={"a": 1}))
    assert reading.record.attempts == 3
    assert reading.record.tool_failures == 0
    assert reading.of(ToolStarted) == []
    assert reading.reader.structured == {"a": 1}


@pytest.mark.requirement("C2", "C3", "C7")
def test_usage_is_reported_once_under_the_session() -> None:
    by_model = {"m": {"inputTokens": 5, "outputTokens": 7, "cacheReadInputTokens": 2, "cacheCreationInputTokens": 1}}
    reading = Reading().feed(init(), text("hi"), result(modelUsage=by_model, total_cost_usd=0.25))
    reading.reader.lost()
    [fact] = reading.facts
    assert fact.idempotency_key == f"r/0/{SESSION}"
    assert (fact.usage, fact.cost, fact.complete) == (Usage(5, 7, 2, 1), Cost(0.25, "list_price"), True)
    assert fact.model == "claude-sonnet-5-5"
    assert len(reading.of(UsageReported)) == 1


@pytest.mark.requirement("C3", "C7")
def test_a_call_that_is_lost_is_reported_as_incomplete() -> None:
    reading = Reading().feed(init(), text("hi"))
    reading.reader.lost()
    [fact] = reading.facts
    assert (fact.complete, fact.cost) == (False, Cost())
    quiet = Reading()
    quiet.reader.lost()
    assert quiet.facts == []


@pytest.mark.requirement("C3")
def test_a_failed_call_is_reported_too() -> None:
    reading = Reading().feed(init(), result(subtype="error_max_turns", is_error=True, result=None))
    assert len(reading.facts) == 1
    assert reading.reader.ending is not None


def test_usage_by_model_counts_every_request() -> None:
    one = {"inputTokens": 1, "outputTokens": 2}
    totals = {"input_tokens": 9, "output_tokens": 9}
    assert usage_of({"a": one, "b": one}, totals, 1)[0] == Usage(2, 4)
    assert usage_of({}, totals, None) == (Usage(9, 9), Cost())
    assert usage_of(None, None, 0) == (Usage(), Cost(0.0, "list_price"))


def limit(status: str, windows: Any = None, resets_at: Any = None) -> dict[str, Any]:
    info: dict[str, Any] = {"status": status, "rateLimitType": "five_hour"}
    if windows is not None:
        info["unifiedWindows"] = windows
    if resets_at is not None:
        info["resetsAt"] = resets_at
    return {"type": "rate_limit_event", "rate_limit_info": info, "uuid": "l", "session_id": SESSION}


LIMITS: list[tuple[str, dict[str, Any], RateSignal]] = [
    ("allowed", limit("allowed"), RateSignal("allowed")),
    ("with shares", limit("allowed", {"5h": {"utilization": 0.4}, "7d": {"utilization": 0.9}}),
     RateSignal("allowed", utilization=0.9)),
    ("a warning", limit("allowed_warning"), RateSignal("warning")),
    ("a warning of one window", limit("allowed", {"5h": {"status": "allowed_warning", "utilization": 0.8}}),
     RateSignal("warning", utilization=0.8)),
    ("rejected", limit("rejected", resets_at=1_900_000_000), RateSignal("rejected", resets_at=1_900_000_000.0)),
    ("rejected, milliseconds", limit("rejected", resets_at=1_900_000_000_000),
     RateSignal("rejected", resets_at=1_900_000_000.0)),
    ("odd windows", limit("allowed", {"5h": None, "7d": {"utilization": "much"}}), RateSignal("allowed")),
]  # fmt: skip


@pytest.mark.table(("frame", "signal"), [row[1:] for row in LIMITS])
def test_limits(frame: dict[str, Any], signal: RateSignal) -> None:
    assert Reading().feed(frame).signals == [signal]


def test_the_reset_time_of_a_limit_reaches_the_ending() -> None:
    reading = Reading().feed(init(), limit("rejected", resets_at=1_900_000_000), result(is_error=True))
    assert reading.reader.ending is not None
    assert reading.reader.ending.resets_at == 1_900_000_000


RETRIES: list[tuple[dict[str, Any], list[RateSignal]]] = [
    ({"error": "rate_limit", "error_status": 429, "retry_delay_ms": 1500}, [RateSignal("warning", retry_after=1.5)]),
    ({"error": "server_error", "error_status": 529}, [RateSignal("warning")]),
    ({"error": "overloaded"}, [RateSignal("warning")]),
    ({"error": "authentication_failed", "error_status": 401, "retry_delay_ms": 500}, []),
    ({"error": "server_error", "error_status": 500, "retry_delay_ms": 500}, []),
]


@pytest.mark.table(("facts", "signals"), RETRIES)
def test_only_limits_slow_the_others_down(facts: dict[str, Any], signals: list[RateSignal]) -> None:
    reading = Reading().feed({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 5, **facts})
    assert reading.signals == signals
    assert reading.record.retries == 1


HOOK = {"type": "system", "subtype": "hook_started", "hook_event": "SessionStart", "hook_name": "x"}
MANAGED: list[tuple[str, dict[str, Any]]] = [
    ("a foreign hook", HOOK),
    ("another route", init(served_by_anthropic=False)),
    ("another key", init(apiKeySource="apiKeyHelper")),
    ("another provider", result(modelUsage={"m": {"provider": "bedrock"}})),
]


@pytest.mark.requirement("R38")
@pytest.mark.table("frame", [row[1] for row in MANAGED])
def test_signs_of_managed_settings(frame: dict[str, Any]) -> None:
    with pytest.raises(LlmError) as caught:
        Reading().feed(frame)
    assert caught.value.code == "isolation"
    assert "allow_managed_policy" in (caught.value.hint or "")
    accepted = Reading(allow_managed=True).feed(frame)
    assert [warning.code for warning in accepted.warnings] == ["managed_policy"]


@pytest.mark.requirement("R27", "R28", "R29")
@pytest.mark.table(
    "facts", [{"tools": ["Bash"]}, {"mcp_servers": [{"name": "jira"}]}, {"plugins": [{"name": "p", "path": "/p"}]}]
)
def test_accepting_a_policy_does_not_accept_tools_servers_or_plugins(facts: dict[str, Any]) -> None:
    with pytest.raises(LlmError):
        Reading(allow_managed=True).feed(init(**facts))


def test_every_init_frame_is_checked() -> None:
    reading = Reading().feed(init())
    with pytest.raises(LlmError):
        reading.feed(init(tools=["Bash"]))
