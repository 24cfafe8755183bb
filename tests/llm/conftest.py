"""In-process doubles for the unit tests of the port: a backend that does what a test says, and calls to give it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Event
from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Outcome, Shared
from ktx_cli.llm.governor import Governor
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.usage import UsageFact
from ktx_cli.project.config.model import KtxConfig

Work = Callable[[CallSpec, CallRecord], Awaitable[Outcome]]


class FakeClock:
    """A clock that only moves when somebody sleeps on it; `slept` keeps how long."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


@dataclass
class Double:
    """A backend that does what the test says."""

    name: str
    work: Work
    seen: list[CallSpec] = field(default_factory=list)
    closed: int = 0
    account_work: Callable[[], Awaitable[str]] | None = None

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        self.seen.append(spec)
        return await self.work(spec, record)

    async def account(self) -> str:
        return await self.account_work() if self.account_work else f"account of {self.name}"

    def versions(self) -> dict[str, str]:
        return {self.name: "1"}

    async def aclose(self) -> None:
        self.closed += 1


@dataclass
class Bench:
    """A runtime on doubles. `made` are the backends it made, `facts` what was billed."""

    runtime: RoutedRuntime
    made: dict[str, Double]
    facts: list[UsageFact]
    clock: FakeClock


async def _echo(spec: CallSpec, record: CallRecord) -> Outcome:
    return Outcome(f"{spec.backend}/{spec.model}", value={})


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    """Make a runtime on doubles: `bench(llm={...}, work=...)`."""

    def make(
        llm: dict[str, Any] | None = None,
        work: Work = _echo,
        *,
        ingest: dict[str, Any] | None = None,
        max_concurrency: int = 4,
        account: Callable[[], Awaitable[str]] | None = None,
    ) -> Bench:
        clock = FakeClock()
        config = KtxConfig.model_validate(
            {"llm": llm or {"provider": {"backend": "claude-code"}}, "ingest": ingest or {}}
        )
        governor = Governor(
            config.ingest.rate_limit,
            max_concurrency=max_concurrency,
            clock=clock,
            sleep=clock.sleep,
            rng=random.Random(1),
        )
        facts: list[UsageFact] = []
        warnings: list[ResultWarning] = []
        shared = Shared(config, tmp_path, {}, governor, "run-1", "test", facts.append, warnings.append)
        made: dict[str, Double] = {}

        def make_backend(name: str, _shared: Shared) -> Double:
            made[name] = Double(name, work, account_work=account)
            return made[name]

        return Bench(RoutedRuntime(shared, make_backend), made, facts, clock)

    return make


@dataclass
class Noted:
    """A record, and what it told: events and usage facts."""

    record: CallRecord
    events: list[Event]
    facts: list[UsageFact]


@pytest.fixture
def noted() -> Callable[..., Noted]:
    """Make a record for a call: `noted(kind="loop", step_budget=3)`."""

    def make(on_step_finish: Any = None, **fields: Any) -> Noted:
        given = {"kind": "text", "backend": "anthropic", "role": "default", "model": "m", "prompt": "p", **fields}
        events: list[Event] = []
        facts: list[UsageFact] = []
        record = CallRecord(
            CallSpec(**given),
            run_id="run-1",
            command="test",
            emit=events.append,
            usage_sink=facts.append,
            on_step_finish=on_step_finish,
        )
        return Noted(record, events, facts)

    return make
