"""Who asks a server: a person, by an access token or by its start options, and the agent that acts for them.

Also counts what agents took in the last hour, for all servers of a project, and refuses what exceeds their limits.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from ktx_cli.core import KtxError, StorageError, UsageError, did_you_mean, isoformat, listing
from ktx_cli.project import (
    AGENT_USAGE,
    AgentClient,
    KtxConfig,
    Layout,
    StateDatabase,
    clock_of,
    open_for_writing,
    prepare_private_folder,
    shared_state_of,
    transaction,
)
from ktx_cli.semantic import Caller

HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """The person for whom a call is answered, and the agent that makes it.

    `attributes`: those of the person, from the access token or from the options of the server. `rights`: those of the
    agent, if it is in `serving.agents`. Rights only ever restrict: what one of the two may not do, neither does.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)
    issuer: str | None = None
    """The issuer of the access token; None without a token."""
    subject: str | None = None
    agent: str | None = None
    rights: AgentClient | None = None
    may_write: bool = True

    @property
    def has_token(self) -> bool:
        """Whether the caller has an access token."""
        return self.issuer is not None

    @property
    def is_anybody(self) -> bool:
        """Whether neither the person nor the agent is known."""
        return self.issuer is None and self.agent is None

    @property
    def key(self) -> tuple[str | None, ...]:
        """The identity of the caller, for caches and counters."""
        return (self.issuer, self.subject, self.agent)

    @property
    def connections(self) -> frozenset[str] | None:
        """The connections that the agent may use; None for all."""
        chosen = None if self.rights is None else self.rights.connections
        return None if chosen is None else frozenset(chosen)

    def may_call(self, tool: str, *, writes: bool = False) -> bool:
        """Return whether the agent may call a tool.

        An agent that may not use every connection needs an explicit right to tools that write: a model with access to
        the whole project does their work.
        """
        if self.rights is None:
            return True
        if self.rights.tools is None:
            return not writes or self.rights.connections is None
        return tool in self.rights.tools

    def caller(self, config: KtxConfig) -> Caller:
        """Return the principals for whom a project answers: the person, and the agent if it has attributes.

        With a token, the person has the attributes that the token states and no others.
        """
        person = {**({} if self.has_token else config.mcp.user_attributes), **self.attributes}
        own = None if self.rights is None else self.rights.attributes
        return Caller.of(person) if own is None else Caller.of(own, person)

    @property
    def text(self) -> str:
        """A text that distinguishes callers, and the attributes and rights with which they are answered."""
        rights = None if self.rights is None else self.rights.model_dump(mode="json")
        return json.dumps([*self.key, dict(self.attributes), rights], sort_keys=True, default=str)

    def to_json(self) -> dict[str, str]:
        """Return who asks as facts for the audit log."""
        facts = {"issuer": self.issuer, "subject": self.subject, "agent": self.agent}
        return {name: value for name, value in facts.items() if value is not None}


def with_agent(caller: CallerIdentity, config: KtxConfig, name: str) -> CallerIdentity:
    """Return a caller whose questions are asked by an agent in `serving.agents`; raises `UsageError`."""
    agents = config.serving.agents
    if name not in agents:
        near = did_you_mean(name, agents)
        known = f"agents in ktx.yaml: {listing(agents)}" if agents else f"add serving.agents.{name} to ktx.yaml"
        hint = f"did you mean `{near}`?" if near else known
        raise UsageError(f"there is no agent `{name[:100]}` in serving.agents", hint=hint)
    return replace(caller, agent=name, rights=agents[name])


_STEP: Final = 10.0
"""What an agent takes within this many seconds is one row."""

_NO_LIMIT: Final = 2**62


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken. `at`: Unix time in seconds."""

    at: float = 0.0
    queries: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Taken) -> Taken:
        return Taken(other.at, self.queries + other.queries, self.rows + other.rows, self.bytes + other.bytes)


_LIMITED: Final = (
    ("queries", "queries_per_hour", 1, "queries"),
    ("rows", "rows_per_hour", 1, "rows"),
    ("bytes", "megabytes_per_hour", 1_000_000, "megabytes"),
)

_TAKEN: Final = "SELECT at, queries, row_count, bytes FROM agent_usage WHERE caller = ? ORDER BY at"
_ADD: Final = (
    "INSERT INTO agent_usage VALUES (?, ?, ?, ?, ?) ON CONFLICT (caller, at) DO UPDATE SET"
    " queries = agent_usage.queries + excluded.queries, row_count = agent_usage.row_count + excluded.row_count,"
    " bytes = agent_usage.bytes + excluded.bytes"
)


@dataclass(slots=True)
class Meter:
    """Counts what each agent took for each person in the last hour; thread-safe.

    The counts are in the shared state, or else in a file beside the state. All servers of a project use the same ones,
    and they do not depend on the audit log, whose old lines are removed.
    """

    layout: Layout
    clock: Callable[[], float] | None = None
    """Returns the Unix time; that of the database by default, which all servers share."""
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _shared: StateDatabase | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def applies_to(self, caller: CallerIdentity) -> bool:
        """Return whether a caller has limits."""
        limits = None if caller.rights is None else caller.rights.limits
        return limits is not None and any(getattr(limits, setting) is not None for _, setting, _, _ in _LIMITED)

    def admit(self, caller: CallerIdentity, *, queries: int = 0) -> Taken:
        """Count a call that begins; raises `KtxError` (`rate_limit`) and counts nothing if nothing is left for it.

        If nothing is left, nothing may be computed: whether its answer is refused would be an answer, too.
        """
        with self._counting(caller) as counts:
            wanted = Taken(counts.at, queries)
            error = counts.error(caller, Taken(counts.at, queries, min(queries, 1), 1))
            if error is None:
                counts.add(wanted)
        if error is not None:
            raise error
        return wanted

    def settle(self, caller: CallerIdentity, *, rows: int = 0, size: int = 0) -> tuple[Taken, KtxError | None]:
        """Count an answer, and return what was counted, and the error (`rate_limit`) if it may not be given.

        An answer that may not be given uses up what was left: otherwise, an agent could ask again and again whether an
        answer fits.
        """
        with self._counting(caller) as counts:
            wanted = Taken(counts.at, 0, rows, size)
            if counts.exceeded(wanted) is None:
                counts.add(wanted)
                return wanted, None
            counted = Taken(counts.at, 0, min(rows, counts.left("rows")), min(size, counts.left("bytes")))
            counts.add(counted)
            return counted, counts.error(caller, wanted)

    def close(self) -> None:
        """Release what is open; counting opens it again."""
        with self._lock:
            self._shared = None
            self._stack.close()

    @contextlib.contextmanager
    def _counting(self, caller: CallerIdentity) -> Iterator[_Counts]:
        """Read what a caller took in the last hour, and store what is added in the block, in one transaction."""
        assert caller.rights is not None
        limits = caller.rights.limits
        most = {name: (getattr(limits, setting), unit) for name, setting, unit, _ in _LIMITED}
        key = json.dumps(caller.key)
        with self._database() as database, transaction(database):
            moment = clock_of(database) if self.clock is None else self.clock()
            database.execute("DELETE FROM agent_usage WHERE at <= ?", (moment - HOUR,))
            taken = [Taken(*row) for row in database.execute(_TAKEN, (key,)).fetchall()]
            # rounded up, so that nothing is forgotten before an hour has passed
            counts = _Counts(
                math.ceil(moment / _STEP) * _STEP,
                taken,
                {name: most * unit for name, (most, unit) in most.items() if most is not None},
            )
            yield counts
            for each in counts.added:
                database.execute(_ADD, (key, each.at, each.queries, each.rows, each.bytes))

    @contextlib.contextmanager
    def _database(self) -> Iterator[StateDatabase]:
        if shared_state_of(self.layout) is not None:
            with self._lock:
                if self._shared is None:
                    self._shared = self._stack.enter_context(open_for_writing(self.layout, part="limits"))
            yield self._shared
            return
        path = self.layout.mcp_usage
        prepare_private_folder(self.layout)
        try:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
                connection.execute(AGENT_USAGE.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
                yield connection
        except (sqlite3.Error, OSError) as error:
            message = f"{path}, which counts the usage of agents, cannot be used: {error}"
            hint = "check the free space and the permissions of its folder; if the file is damaged, remove it"
            raise StorageError(message, hint=hint, details={"path": str(path)}) from error


@dataclass(slots=True)
class _Counts:
    """What a caller took in the last hour. `most`: the limits. `added`: what is to be stored."""

    at: float
    taken: list[Taken]
    most: dict[str, float]
    added: list[Taken] = field(default_factory=list)

    def left(self, name: str) -> int:
        """Return how much a caller may still take."""
        used = sum(getattr(each, name) for each in self.taken)
        return max(0, int(self.most.get(name, _NO_LIMIT) - used))

    def add(self, wanted: Taken) -> None:
        """Count what is taken."""
        if wanted.queries or wanted.rows or wanted.bytes:
            self.taken.append(wanted)
            self.added.append(wanted)

    def exceeded(self, wanted: Taken) -> str | None:
        """Return the name of the first limit that would be exceeded, or None."""
        names = (name for name in self.most if getattr(wanted, name) > self.left(name))
        return next(names, None)

    def error(self, caller: CallerIdentity, wanted: Taken) -> KtxError | None:
        """Return the error of a request that exceeds a limit, or None."""
        name = self.exceeded(wanted)
        if name is None:
            return None
        setting, unit, word = next((setting, unit, word) for each, setting, unit, word in _LIMITED if each == name)
        frees_at = _frees_at(self.taken, name, getattr(wanted, name), self.most[name])
        return _exceeded(caller, setting, self.most[name] / unit, word, frees_at)


def _frees_at(taken: Iterable[Taken], name: str, asked: int, most: float) -> float | None:
    """Return when enough of what was taken is an hour old, or None if the request alone exceeds the limit."""
    over = sum(getattr(each, name) for each in taken) + asked - most
    for each in taken:
        over -= getattr(each, name)
        if over <= 0:
            return each.at + HOUR
    return None


def _exceeded(caller: CallerIdentity, setting: str, most: float, word: str, frees_at: float | None) -> KtxError:
    message = f"the agent `{caller.agent}` is limited to {most:g} {word} per hour for each person"
    details: dict[str, Any] = {"limit": setting, "most": most}
    if frees_at is None:
        return KtxError(message, hint="request less at once", details=details, code="rate_limit")
    resets_at = isoformat(datetime.fromtimestamp(frees_at, UTC))
    details["resets_at"] = frees_at
    return KtxError(message, hint=f"try again after {resets_at}", details=details, code="rate_limit")


@dataclass(slots=True)
class Account:
    """Counts what one call takes, which the audit log states. `taken`: the total so far."""

    meter: Meter
    caller: CallerIdentity
    taken: Taken = Taken()

    def admit(self, *, queries: int = 0) -> None:
        """Count a call that begins; raises `KtxError` (`rate_limit`), and `StorageError` if nothing can be counted."""
        if self.meter.applies_to(self.caller):
            self.taken += self.meter.admit(self.caller, queries=queries)
        else:
            self.taken += Taken(queries=queries)

    def settle(self, *, rows: int = 0, size: int = 0) -> None:
        """Count the answer; raises `KtxError` (`rate_limit`) if it may not be given."""
        if not self.meter.applies_to(self.caller):
            self.taken += Taken(rows=rows, bytes=size)
            return
        counted, error = self.meter.settle(self.caller, rows=rows, size=size)
        self.taken += counted
        if error is not None:
            raise error
