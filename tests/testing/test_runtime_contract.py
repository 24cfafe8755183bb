"""The contract notices a backend that breaks it: each kind of fault, made by a backend of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Outcome, Shared
from ktx_cli.llm.governor import Governor
from ktx_cli.llm.routing import RoutedRuntime, make_backend
from ktx_cli.llm.usage import UsageSink
from ktx_cli.testing.model_script import PROTOCOL_TAG, ModelRequest, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_cases import CASES
from ktx_cli.testing.runtime_contract import (
    ContractBroken,
    ContractCase,
    Observed,
    RuntimeContract,
    SeenResult,
    Stage,
    Subject,
    is_verbatim,
    seen_results,
)
from ktx_cli.testing.runtime_subjects import subject_config

Fault = Callable[[Any, CallSpec, CallRecord], Awaitable[Outcome]]
BY_TITLE = {case.title: case for case in CASES}


class FaultyBackend:
    """The real backend `gateway` with one fault."""

    def __init__(self, real: Any, fault: Fault) -> None:
        self.name = "gateway"
        self._real = real
        self._fault = fault

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        return await self._fault(self._real, spec, record)

    async def account(self) -> str:
        return str(await self._real.account())

    def versions(self) -> Mapping[str, str]:
        return {}

    async def aclose(self) -> None:
        await self._real.aclose()


async def no_fault(real: Any, spec: CallSpec, record: CallRecord) -> Outcome:
    outcome: Outcome = await real.run(spec, record)
    return outcome


async def asks_twice(real: Any, spec: CallSpec, record: CallRecord) -> Outcome:
    await no_fault(real, spec, record)
    return await no_fault(real, spec, record)


async def changes_the_prompt(real: Any, spec: CallSpec, record: CallRecord) -> Outcome:
    return await no_fault(real, replace(spec, prompt=spec.prompt.strip() + "!"), record)


async def counts_a_step_too_many(real: Any, spec: CallSpec, record: CallRecord) -> Outcome:
    outcome = await no_fault(real, spec, record)
    await record.step_finished()
    return outcome


async def forgets_a_step(real: Any, spec: CallSpec, record: CallRecord) -> Outcome:
    outcome = await no_fault(real, spec, record)
    record.steps -= 1
    return outcome


async def hides_the_end(real: Any, spec: CallSpec, record: CallRecord) -> Outcome:
    return replace(await no_fault(real, spec, record), stop_reason="natural")


async def swallows_errors(real: Any, spec: CallSpec, record: CallRecord) -> Outcome:
    try:
        return await no_fault(real, spec, record)
    except Exception:  # noqa: BLE001 - this is the fault
        return Outcome("fine")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def faulty_subject(server: ModelServer, fault: Fault, folder: Path) -> Subject:
    config = subject_config("gateway", server.url)

    def make(usage_sink: UsageSink) -> RoutedRuntime:
        governor = Governor(config.ingest.rate_limit, max_concurrency=2)
        shared = Shared(config, folder, {}, governor, "run", "", usage_sink, lambda warning: None)
        return RoutedRuntime(shared, lambda name, shared: FaultyBackend(make_backend(name, shared), fault))

    return Subject("faulty", "messages", server, make)


LOOP = "loop with parallel tools"
FAULTS = [
    (asks_twice, "text", "requests: 4, not 1"),
    (changes_the_prompt, "text", "verbatim: False, not True"),
    (counts_a_step_too_many, LOOP, "steps: 4, not 3"),
    (counts_a_step_too_many, "budget of two steps used up", "to at most the budget"),
    (forgets_a_step, LOOP, "steps: 2, not 3"),
    (hides_the_end, "budget of two steps used up", "stop: 'natural', not 'budget'"),
    (swallows_errors, "403", "error: None, not 'auth'"),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("fault", "title", "says_so"), FAULTS)
def test_a_fault_is_named(fault: Fault, title: str, says_so: str, server: ModelServer, tmp_path: Path) -> None:
    contract = RuntimeContract()
    asyncio.run(contract.check(BY_TITLE[title], faulty_subject(server, no_fault, tmp_path)))
    with pytest.raises(ContractBroken) as broken:
        asyncio.run(contract.check(BY_TITLE[title], faulty_subject(server, fault, tmp_path)))
    assert says_so in str(broken.value)


async def never_called(stage: Stage) -> Any:
    raise AssertionError("this case is not run")


@pytest.mark.table(("differs", "reason"), [({"print": Observed()}, ""), ({}, "because")])
def test_a_difference_needs_a_reason_and_a_reason_a_difference(differs: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="a difference must have a reason"):
        ContractCase("odd", (says("hello"),), never_called, Observed(), differs=differs, reason=reason)


def request_of(body: dict[str, Any]) -> ModelRequest:
    return ModelRequest(1, "POST", "/v1/messages", {}, body, 0.0)


def test_tool_results_are_read_from_every_client() -> None:
    called = {"type": "tool_use", "id": "t1", "name": "mcp__ktx__look", "input": {}}
    given = {"type": "tool_use", "id": "t2", "name": "StructuredOutput", "input": {}}
    blocks = [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}], "is_error": True},
        {"type": "tool_result", "tool_use_id": "t2", "content": "does not fit", "is_error": True},
    ]
    messages = [{"role": "assistant", "content": [called, given]}, {"role": "user", "content": blocks}]
    assert seen_results(request_of({"messages": messages})) == [SeenResult("look", "a", True)]
    said = "User: go\n\nUser: The results of your calls, in order:\n[tool_result look failed]\na\n\nb\n[/tool_result]"
    printed = {"system": f"You may write {PROTOCOL_TAG}", "messages": [{"role": "user", "content": said}]}
    assert seen_results(request_of(printed)) == [SeenResult("look", "a\n\nb", True)]


@pytest.mark.table(
    ("said", "verbatim"),
    [("a  b", True), ("User: a  b", True), ("a b", False), ("Note: a  b", False), ("a  b.", False)],
)
def test_verbatim_means_letter_by_letter(said: str, verbatim: bool) -> None:
    body = {"system": "S", "messages": [{"role": "user", "content": [{"type": "text", "text": said}]}]}
    assert is_verbatim(request_of(body), "S", "a  b") is verbatim
    assert not is_verbatim(request_of(body), "T", "a  b")
