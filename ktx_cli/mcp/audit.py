"""The audit log of a server: what each call asked for, what it took, and which requests were refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from ktx_cli.core import KtxError, isoformat, monotonic, now, one_line
from ktx_cli.jobs.serve.audit import AuditStore, audit_store, note_lost, take_lost
from ktx_cli.jobs.serve.caller import Account
from ktx_cli.mcp.server import ACCOUNTS, outcome_of, size_of, user_of
from ktx_cli.privacy import secrets
from ktx_cli.project import MASK, Layout, prepare_private_folder

log = logging.getLogger(__name__)

WAITING: Final = 10_000
"""Maximum number of lines that wait to be written; further lines are counted, not stored."""

RETRY_SECONDS: Final = 1.0
"""How long a line waits after it could not be written."""

REFUSALS_AT_ONCE: Final = 60
REFUSAL_SECONDS: Final = 60.0
"""How many lines about refused requests of unknown senders a server writes at once, and how often it may write one
more: whoever can reach a server could otherwise push everything else out of the log."""

LONGEST_TEXT: Final = 200
LONGEST_SQL: Final = 2_000
"""Maximum number of characters of a stored statement: both ends of a statement contain names."""
MOST_ITEMS: Final = 20
DEEPEST: Final = 6

_NAMED: Final = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
_SUBJECTS: Final = {"tools/call": "tool", "resources/read": "resource", "prompts/get": "prompt"}


@dataclass(slots=True)
class Refusals:
    """Decides which refused requests of unknown senders get a line of their own; counts the others by their reason."""

    at_once: int = REFUSALS_AT_ONCE
    seconds: float = REFUSAL_SECONDS
    _used: float = 0.0
    """The number of lines that were written recently."""
    _at: float = field(default_factory=lambda: monotonic())
    _counted: dict[tuple[Any, Any], dict[str, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a refusal gets a line; otherwise, it is counted."""
        key = (entry.get("refused"), entry.get("status"))
        with self._lock:
            if key not in self._counted and self._has_room():
                self._used += 1
                return True
            first = {"refused": key[0], "status": key[1], "count": 0, "since": isoformat(now())}
            self._counted.setdefault(key, first)["count"] += 1
        return False

    def due(self, *, at_end: bool = False) -> list[dict[str, Any]]:
        """Return the lines about counted refusals that may be written now; all of them at the end."""
        found = []
        with self._lock:
            while self._counted and (self._has_room() or at_end):
                self._used += 1
                found.append(self._counted.pop(next(iter(self._counted))))
        return found

    @property
    def waiting(self) -> bool:
        """Whether there are counted refusals."""
        return bool(self._counted)

    def _has_room(self) -> bool:
        moment = monotonic()
        self._used = max(0.0, self._used - (moment - self._at) / self.seconds)
        self._at = moment
        return self._used <= self.at_once - 1


@dataclass(slots=True)
class AuditLog:
    """The audit log of one project. `privacy`: only the hash of arguments is stored.

    `agent`: the agent for which the server was started. `store`: where the lines go; a file of the project by default.
    Lines that cannot be written wait. If too many wait, or the server ends, they are lost, and a line of the log says
    how many.
    """

    layout: Layout
    transport: str
    privacy: bool = False
    agent: str | None = None
    store: AuditStore | None = None
    refusals: Refusals = field(default_factory=Refusals)
    session: str = field(default_factory=lambda: os.urandom(6).hex())
    """Distinguishes servers, and the sessions of those that have a single session without an id."""
    problem: str | None = None
    """The reason why lines wait or were lost; None if the log is complete, or says what it lacks."""
    _queue: queue.Queue[dict[str, Any] | None] = field(default_factory=lambda: queue.Queue(WAITING))
    _waiting: deque[dict[str, Any]] = field(default_factory=deque)
    """The lines that are next, in their final form."""
    _lost: int = 0
    _since: str = ""
    """When the first lost line was noted."""
    _reason: str = ""
    _retry_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def note(self, entry: Mapping[str, Any]) -> None:
        """Pass a line to the writer; returns at once, whatever happens to it."""
        self._start()
        facts = {"at": isoformat(now()), "transport": self.transport, **entry}
        try:
            self._queue.put_nowait(facts)
        except queue.Full:
            self._lose(1, facts["at"], "they arrived faster than they could be written")

    def note_refusal(self, entry: Mapping[str, Any]) -> None:
        """Note a refused request: in a line of its own, or in one that counts those of unknown senders."""
        if "issuer" in entry or self.refusals.admit(entry):
            self.note(entry)
        else:
            self._start()

    def close(self, timeout: float = 2.0) -> None:
        """Write the waiting lines within the allowed time; the next server notes how many were lost."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=timeout)
        thread.join(timeout)
        lines = [*self._waiting, *filter(None, list(self._queue.queue))]
        if lines:
            self._lose(len(lines), str(lines[0].get("at") or ""), self._reason or "the server ended")
        if self._lost:
            log.error("%d lines of the audit log were lost: %s", self._lost, self._reason)
            note_lost(self.layout, self.session, {"lost": self._lost, "since": self._since, "reason": self._reason})
        self._lost = 0
        self._waiting, self._queue = deque(), queue.Queue(WAITING)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="audit", daemon=True)
            self._thread.start()

    def _lose(self, count: int, since: str, reason: str) -> None:
        with self._lock:
            self._since = min(filter(None, (self._since, since)), default="") if self._lost else since
            self._lost += count
            self._reason = reason
            self.problem = f"{self._lost:,} lines were lost: {reason}"

    def _write_all(self) -> None:
        lines, waiting = self._queue, self._waiting
        for count, since, reason in take_lost(self.layout):
            self._lose(count, since, reason)
        ended = False
        while not ended and waiting is self._waiting:
            is_idle = not (waiting or self._lost or self.refusals.waiting)
            entries: list[dict[str, Any]] = []
            with contextlib.suppress(queue.Empty):
                entry = lines.get(timeout=None if is_idle else RETRY_SECONDS)
                ended = entry is None
                entries += [] if entry is None else [entry]
            for each in self.refusals.due(at_end=ended):
                entries.append({"at": isoformat(now()), "transport": self.transport, **each})
            for each in entries:
                self._hold(each, waiting)
            if ended or monotonic() >= self._retry_at:
                self._flush(waiting)
        if self.store is not None:
            self.store.close()

    def _hold(self, entry: dict[str, Any], waiting: deque[dict[str, Any]]) -> None:
        """Let a line wait in its final form, which is small, unlike what was asked and answered."""
        try:
            line = self._line(entry)
        except Exception as error:  # noqa: BLE001 - it counts as a lost line
            self._lose(1, str(entry.get("at") or ""), type(error).__name__)
            return
        if len(waiting) >= WAITING:
            self._lose(1, line["at"], self._reason or "they arrived faster than they could be written")
        else:
            waiting.append(line)

    def _flush(self, waiting: deque[dict[str, Any]]) -> None:
        """Write the waiting lines, then how many were lost; stops at the first that cannot be written now."""
        while (waiting or self._lost) and waiting is self._waiting:
            line = waiting[0] if waiting else None
            with self._lock:
                lost, facts = self._lost, {"lost": self._lost, "since": self._since, "reason": self._reason}
            moment = isoformat(now())
            entry = {"at": moment, "transport": self.transport, **facts, "server": self.session}
            try:
                if not self.layout.private.exists():
                    prepare_private_folder(self.layout)
                self.store = self.store or audit_store(self.layout)
                self.store.append(entry if line is None else line)
            except Exception as error:  # noqa: BLE001 - `problem` reports it; answers go on
                reason = (os.strerror(error.errno) if isinstance(error, OSError) and error.errno else None) or (
                    type(error).__name__
                )
                if line is not None and not isinstance(error, OSError | KtxError):  # the line itself is the reason
                    waiting.popleft()
                    self._lose(1, line["at"], reason)
                    continue
                self._reason = reason
                self.problem = f"{lost:,} lines were lost: {reason}" if lost else reason
                self._retry_at = monotonic() + RETRY_SECONDS
                return
            if line is not None:
                waiting.popleft()
                continue
            with self._lock:
                self._lost, self._since = self._lost - lost, moment
        with self._lock:
            if not self._lost:
                self.problem, self._reason = None, ""

    def _line(self, entry: dict[str, Any]) -> dict[str, Any]:
        result = entry.pop("result", None)
        if result is not None:
            entry["outcome"], entry["bytes"] = outcome_of(result), size_of(result)
            if entry.get("tool") in _SEARCHES:
                hits = _fact(result, "total")
                entry |= {"hits": hits} if isinstance(hits, int) else {}
        for each in entry.pop("taken", ()):
            entry["bytes"] = each.bytes
            if entry.get("tool") in QUERIES:
                entry |= {"queries": each.queries, "rows": each.rows}
        entry["session"], entry["server"] = entry.get("session") or self.session, self.session
        if "arguments" in entry:
            arguments = entry.pop("arguments")
            text = json.dumps(arguments, sort_keys=True, default=str)
            entry["arguments_sha256"] = hashlib.sha256(text.encode()).hexdigest()
            if not self.privacy:
                entry["arguments"] = _shortened(arguments)
        return entry

    def _asker(self, context: ServerRequestContext[Any, Any]) -> dict[str, str]:
        """Return who sends a request; never the token."""
        user = user_of(context)
        if user is not None:
            return user.known_as.to_json()
        return {} if self.agent is None else {"agent": self.agent}

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Log every tool call, every access to a resource or a prompt, and every session that begins."""
        if ctx.request_id is None or (ctx.method not in _NAMED and ctx.method != "initialize"):
            return await call_next(ctx)
        started = monotonic()
        outcome: dict[str, Any] = {"outcome": "cancelled"}
        accounts: list[Account] = []
        token = ACCOUNTS.set(accounts)
        try:
            result = await call_next(ctx)
            outcome = {"result": result}
            return result
        except MCPError as error:
            outcome = {"outcome": f"protocol {error.error.code}"}
            raise
        except Exception as error:
            outcome = {"outcome": type(error).__name__}
            raise
        finally:
            ACCOUNTS.reset(token)
            taken = [each.taken for each in accounts]
            facts = {**_asked(ctx), **outcome, "ms": round((monotonic() - started) * 1000, 1), "taken": taken}
            self.note({**self._asker(ctx), **facts})


def _asked(context: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    params = context.params or {}
    entry: dict[str, Any] = {"method": context.method, "session": _session(context), "client": _client(context)}
    if context.method in _NAMED:
        entry[_SUBJECTS[context.method]] = one_line(str(params.get(_NAMED[context.method], "")), LONGEST_TEXT)
        entry["arguments"] = params.get("arguments") or {}
    return entry


def _session(context: ServerRequestContext[Any, Any]) -> str | None:
    """Return a value that distinguishes sessions, but not the id itself, which is as good as a key to the session."""
    headers = getattr(context.request, "headers", None)
    given = None if headers is None else headers.get("mcp-session-id")
    return None if given is None else hashlib.sha256(given.encode()).hexdigest()[:12]


def _client(context: ServerRequestContext[Any, Any]) -> dict[str, str] | None:
    params = context.session.client_params
    if params is not None:
        given: Any = {"name": params.client_info.name, "version": params.client_info.version}
    else:
        given = (context.params or {}).get("clientInfo")
    if not isinstance(given, Mapping):
        return None
    return {name: one_line(str(given.get(name, "")), LONGEST_TEXT) for name in ("name", "version")}


_SEARCHES: Final = frozenset(("discover_data", "wiki_search"))
QUERIES: Final = frozenset(("sl_query", "sql_execution", "mongo_query", "sl_validate"))
"""The tools whose calls count as queries."""


def _fact(result: Any, name: str) -> Any:
    """Return a fact from the answer of a tool, or None."""
    data = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True)
    return (data.get("structuredContent") or {}).get(name)


def _shortened(value: Any, name: str = "value", depth: int = 0) -> Any:
    """Return arguments with long text and lists truncated, and likely secrets masked."""
    if isinstance(value, str):
        if any(secrets(f"{name}: {value[:10_000]}")):
            return MASK
        most = LONGEST_SQL if name == "sql" else LONGEST_TEXT
        return value if len(value) <= most else value[:most] + "…"
    if depth >= DEEPEST and isinstance(value, Mapping | list):
        return "…"
    if isinstance(value, Mapping):
        kept = list(value.items())[:MOST_ITEMS]
        return {str(key)[:LONGEST_TEXT]: _shortened(each, str(key)[:LONGEST_TEXT], depth + 1) for key, each in kept}
    if isinstance(value, list):
        return [_shortened(each, name, depth + 1) for each in value[:MOST_ITEMS]]
    return value
