"""What agents asked, a line each: who, what, how it ended; written beside the answers, never in their way."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from ktx_cli.core import isoformat, monotonic, now, one_line
from ktx_cli.jobs.serve.logs import RotatingLines
from ktx_cli.privacy import secrets
from ktx_cli.project import MASK, Layout, prepare_private_folder
from ktx_cli.runs import masked

WAITING: Final = 10_000
"""Lines that wait to be written at most; more are counted, not kept."""

LONGEST_TEXT: Final = 200
MOST_ITEMS: Final = 20
DEEPEST: Final = 6

_NAMED: Final = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
_SUBJECTS: Final = {"tools/call": "tool", "resources/read": "resource", "prompts/get": "prompt"}


@dataclass(slots=True)
class AuditLog:
    """The audit log of one project. `privacy`: of arguments the hash alone is kept."""

    layout: Layout
    transport: str
    privacy: bool = False
    problem: str | None = None
    """Why the last line could not be written; None where it could."""
    _queue: queue.Queue[dict[str, Any] | None] = field(default_factory=lambda: queue.Queue(WAITING))
    _lost: int = 0
    _thread: threading.Thread | None = None

    def note(self, entry: Mapping[str, Any]) -> None:
        """Hand a line to the writer; returns at once, whatever becomes of it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="audit", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait({"at": isoformat(now()), "transport": self.transport, **entry})
        except queue.Full:
            self._lost += 1
            self.problem = f"{self._lost} lines were lost: more came than could be written"

    def close(self, timeout: float = 2.0) -> None:
        """Write what waits, for as long as may be waited."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                self._queue.put(None, timeout=timeout)
            except queue.Full:
                return
            thread.join(timeout)

    def _write_all(self) -> None:
        lines = RotatingLines(self.layout.mcp_audit)
        while (entry := self._queue.get()) is not None:
            try:
                if not self.layout.private.exists():
                    prepare_private_folder(self.layout)
                lines.write(self._line(entry))
                self.problem = None if not self._lost else self.problem
            except Exception as error:  # noqa: BLE001 - a log that fails is told, and stops no answer
                self.problem = (os.strerror(error.errno) if isinstance(error, OSError) and error.errno else None) or (
                    type(error).__name__
                )
        lines.close()

    def _line(self, entry: dict[str, Any]) -> bytes:
        result = entry.pop("result", None)
        if result is not None:
            entry["outcome"], entry["bytes"] = _outcome(result), _size(result)
        if "arguments" in entry:
            arguments = entry.pop("arguments")
            text = json.dumps(arguments, sort_keys=True, default=str)
            entry["arguments_sha256"] = hashlib.sha256(text.encode()).hexdigest()
            if not self.privacy:
                entry["arguments"] = _shortened(arguments)
        return json.dumps(masked(entry), default=str).encode("ascii") + b"\n"

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Note every call of a tool, every reading of a resource or a prompt, and every session that begins."""
        if ctx.request_id is None or (ctx.method not in _NAMED and ctx.method != "initialize"):
            return await call_next(ctx)
        started = monotonic()
        outcome: dict[str, Any] = {"outcome": "cancelled"}
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
            self.note({**_asked(ctx), **outcome, "ms": round((monotonic() - started) * 1000, 1)})


def _asked(context: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    params = context.params or {}
    entry: dict[str, Any] = {"method": context.method, "session": _session(context), "client": _client(context)}
    if context.method in _NAMED:
        entry[_SUBJECTS[context.method]] = one_line(str(params.get(_NAMED[context.method], "")), LONGEST_TEXT)
        entry["arguments"] = params.get("arguments") or {}
    return entry


def _session(context: ServerRequestContext[Any, Any]) -> str | None:
    """Return what tells sessions apart; not the id itself, which is as good as a key to the session."""
    headers = getattr(context.request, "headers", None)
    given = None if headers is None else headers.get("mcp-session-id")
    return None if given is None else hashlib.sha256(given.encode()).hexdigest()[:12]


def _client(context: ServerRequestContext[Any, Any]) -> dict[str, str] | None:
    params = context.session.client_params
    if params is not None:
        return {
            "name": one_line(params.client_info.name, LONGEST_TEXT),
            "version": one_line(params.client_info.version, LONGEST_TEXT),
        }
    given = (context.params or {}).get("clientInfo")
    if not isinstance(given, Mapping):
        return None
    return {name: one_line(str(given.get(name, "")), LONGEST_TEXT) for name in ("name", "version")}


def _outcome(result: Any) -> str:
    """Return `ok`, or the code of the error an answer is."""
    data = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True)
    if not data.get("isError"):
        return "ok"
    try:
        return str(json.loads(data["content"][0]["text"])["error"]["code"])
    except (LookupError, TypeError, ValueError):
        return "error"


def _size(result: Any) -> int:
    data = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True)
    parts = [*(data.get("content") or ()), *(data.get("contents") or ())]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str))


def _shortened(value: Any, name: str = "value", depth: int = 0) -> Any:
    """Return arguments with long texts and lists cut, and what looks like a secret masked."""
    if isinstance(value, str):
        if any(secrets(f"{name}: {value[:10_000]}")):
            return MASK
        return value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT] + "…"
    if depth >= DEEPEST and isinstance(value, Mapping | list):
        return "…"
    if isinstance(value, Mapping):
        kept = list(value.items())[:MOST_ITEMS]
        return {str(key)[:LONGEST_TEXT]: _shortened(each, str(key)[:LONGEST_TEXT], depth + 1) for key, each in kept}
    if isinstance(value, list):
        return [_shortened(each, name, depth + 1) for each in value[:MOST_ITEMS]]
    return value
