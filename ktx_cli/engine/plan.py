"""The immutable plan of a run, and what its models have spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ktx_cli.core import Command, ConfigError, Emit, KtxError, ResultWarning, RunStopped, UsageSoFar
from ktx_cli.llm import Usage, UsageFact, UsageRow
from ktx_cli.project import (
    CURRENT_BRANCH,
    SHARED_STORAGE,
    Destination,
    KtxConfig,
    Layout,
    shared_state_of,
    without_queue,
)
from ktx_cli.scan import Depth, ScanPrompts
from ktx_cli.sources import has_source
from ktx_cli.warehouses import dialect_of

if TYPE_CHECKING:
    from ktx_cli.agent_tools import Layers
    from ktx_cli.runs import Recorder


@dataclass(frozen=True, slots=True)
class Target:
    """A connection to work on."""

    connection: str
    driver: str


@dataclass(frozen=True, slots=True)
class Begun:
    """The commit already made by the same command, which the run's commit replaces, and its message."""

    commit: str
    message: str


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run was asked to do. It does not change during the run; results are passed from step to step."""

    command: Command
    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    recorder: Recorder
    """Receives the run's events and warnings."""
    targets: tuple[Target, ...] = ()
    broken: Mapping[Target, ConfigError] = field(default_factory=dict)
    """Connections that the run should include -> the error in `ktx.yaml` that disables each."""
    depth: Depth = Depth.STRUCTURAL
    prompts: ScanPrompts | None = None
    """The scan prompts; None if the scan uses no model."""
    max_usd: float | None = None
    max_tokens: int | None = None
    databases_only: bool = False
    no_llm: bool = False
    dry_run: bool = False
    awaited: bool = False
    """Whether someone is waiting for this run; if so, its models are checked before anything is read."""
    wait_seconds: float = 0.0
    destination: Destination = CURRENT_BRANCH
    """Where the changes go."""
    begun: Begun | None = None
    tables: tuple[str, ...] = ()
    """The names of tables whose rows are read again, changed or not."""

    @property
    def again(self) -> Command:
        """The command that repeats the run."""
        return self.command.with_words(*self.destination.words)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.recorder.run_id

    @property
    def emit(self) -> Emit:
        """Records an event and passes it on."""
        return self.recorder.emit

    @property
    def warn(self) -> Callable[[ResultWarning], None]:
        """Adds a warning to the run."""
        return self.recorder.warn

    @property
    def asks_model(self) -> bool:
        """Whether agents work in this run: a backend is configured, and the caller did not disable them."""
        return not self.no_llm and self.config.llm.provider.backend != "none"

    @property
    def is_distributed(self) -> bool:
        """Whether work units go to workers."""
        return self.config.ingest.executor in SHARED_STORAGE

    @property
    def needs_queue(self) -> bool:
        """Whether the run may have work units for workers."""
        return self.is_distributed and self.asks_model and self.reads_sources

    def prepare_queue(self) -> None:
        """Create the queue before any work is paid for; raises `StorageError` if it cannot be created."""
        shared = shared_state_of(self.layout) if self.needs_queue else None
        if shared is not None:
            from ktx_cli.engine.queue import prepare_queue

            prepare_queue(shared)

    def require_queue(self) -> None:
        """Raise `ConfigError` if work units should go to workers, but cannot."""
        if not self.needs_queue:
            return
        from ktx_cli.engine.queue import queue_version

        without = without_queue(self.config)
        if without is not None:
            raise ConfigError(without[0], hint=without[1])
        queue_version()

    @property
    def reads_sources(self) -> bool:
        """Whether a target is a context source, or a database whose query history is read."""
        return any(map(has_source, (self.config.connections[each.connection] for each in self.targets)))

    @property
    def dialects(self) -> dict[str, str]:
        """The project's databases with their SQL dialects -> the name of each."""
        named = {each: dialect_of(entry.driver) for each, entry in self.config.databases().items()}
        return {each: dialect for each, dialect in named.items() if dialect is not None}

    @property
    def layers(self) -> Layers:
        """The semantic layers of all databases in a tree."""
        from ktx_cli.agent_tools import Layers
        from ktx_cli.semantic import calendar_of

        dialects = {each: self.dialects.get(each, "") for each in self.config.databases()}
        return Layers(dialects, calendar_of(self.config), self.config.connections.keys(), self.layout)


Exceeded = Callable[[KtxError], None]
"""Called once, in the thread of the model calls."""


def usage_words(usage: Usage) -> str:
    """Return token counts as one line: the total, then the kinds with different prices."""
    kinds = (
        (usage.input_tokens, "fresh"),
        (usage.cache_write_tokens, "cache writes"),
        (usage.cache_read_tokens, "cache reads"),
        (usage.output_tokens, "output"),
    )
    return f"{usage.total:,} tokens ({', '.join(f'{count:,} {name}' for count, name in kinds)})"


@dataclass(slots=True)
class Spending:
    """Tokens and US dollars at list prices so far, and their limits (None: no limit).

    `usage` separates the kinds of tokens, `roles` the usage of each role.

    `unpriced` counts the calls without a price. Such a call exhausts a limit in dollars, which could not be enforced.
    """

    most_usd: float | None = None
    most_tokens: int | None = None
    usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0
    usage: Usage = field(default_factory=Usage)
    roles: dict[str, UsageRow] = field(default_factory=dict)
    exceeded: KtxError | None = None
    listeners: list[Exceeded] = field(default_factory=list)

    def add(self, fact: UsageFact) -> None:
        """Count the usage of a call."""
        self.usd += fact.cost.usd or 0.0
        self.tokens += fact.usage.total
        self.usage += fact.usage
        row = UsageRow.of(fact, fact.role)
        self.roles[fact.role] = self.roles[fact.role] + row if fact.role in self.roles else row
        self.unpriced += fact.cost.usd is None
        self._end(self._over() or self._unpriced(fact))

    def _end(self, reason: str | None) -> None:
        """End the model work of the run, once, if there is a reason to."""
        if reason is not None and self.exceeded is None:
            self.exceeded = KtxError(
                f"the budget for this run is used up: {reason}",
                code="budget",
                hint="run the same command again with a larger budget; finished work is kept",
                details={"usd": round(self.usd, 6), "tokens": self.tokens},
            )
            for listener in self.listeners:
                listener(self.exceeded)

    def take(self, rows: Iterable[UsageRow]) -> None:
        """Count what other processes have spent for the run too: `rows` are the sums of all processes by role."""
        for row in rows:
            own = self.roles.get(row.keys[0])
            if own is None or own.usage.total < row.usage.total:
                self.roles[row.keys[0]] = row
        found = list(self.roles.values())
        self.usage = sum((row.usage for row in found), Usage())
        self.tokens, self.unpriced = self.usage.total, sum(row.unpriced for row in found)
        self.usd = sum(row.cost.usd or 0.0 for row in found)
        self._end(self._over() or self._unpriced_total())

    def so_far(self) -> UsageSoFar:
        """Return the models' usage so far."""
        return UsageSoFar(self.tokens, round(self.usd, 6), self.unpriced)

    def to_json(self) -> dict[str, Any]:
        """Return the models' usage and its limits."""
        took = {"tokens": self.tokens, "usd": round(self.usd, 6), "unpriced": self.unpriced}
        roles = [row.to_json(("role",)) for _, row in sorted(self.roles.items())]
        most = {"most_usd": self.most_usd, "most_tokens": self.most_tokens}
        return {**took, **self.usage.to_json(), **most, "roles": roles}

    def _unpriced(self, fact: UsageFact) -> str | None:
        """Return why a limit in dollars cannot be enforced."""
        if self.most_usd is None or fact.cost.usd is not None:
            return None
        return f"the model `{fact.model}` has no known price, so --max-usd cannot be enforced; use --max-tokens"

    def _unpriced_total(self) -> str | None:
        if self.most_usd is None or not self.unpriced:
            return None
        return "a model of a worker has no known price, so --max-usd cannot be enforced; use --max-tokens"

    def _over(self) -> str | None:
        if self.most_tokens is not None and self.tokens >= self.most_tokens:
            return f"{self.tokens:,} of {self.most_tokens:,} tokens"
        if self.most_usd is not None and self.usd >= self.most_usd:
            return f"${self.usd:.2f} of ${self.most_usd:.2f} at list prices"
        return None


class PreflightFailed(RunStopped):
    """A configured backend does not respond: this ends the run, while other failures affect only a connection or a
    unit.
    """
