"""A rehearsal: one request of a Codex binary that goes to ktx itself, which checks the tools and texts in it.

Codex reports what it does, but not which tools it offers to a model. So before the first call to a model, a process
that is prepared like any other sends a request to a server of this module, on loopback and for one request. Its login
is made up, and no prompt of the user is in it. A version of Codex that ignores one of ktx's settings, or offers a new
tool, is refused here, before it has seen anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from ktx_cli.core import Command, listing
from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Conversation, Entry
from ktx_cli.llm.backends.claude.binary import private_folder
from ktx_cli.llm.backends.codex.binary import FOLDER_PREFIX, NAME, CodexBinary
from ktx_cli.llm.backends.codex.conversation import CodexConversation
from ktx_cli.llm.backends.codex.home import Login, prepare_home
from ktx_cli.llm.backends.codex.isolation import isolation_error
from ktx_cli.llm.backends.codex.server import AppServer
from ktx_cli.llm.errors import llm_error
from ktx_cli.llm.tools import RuntimeTool

SECONDS: Final = 30.0
SYSTEM: Final = "Instructions of the rehearsal."
PROMPT: Final = "Prompt of the rehearsal."
MAX_BODY: Final = 1_000_000

_MADE_UP: Final = {"auth_mode": "apikey", "OPENAI_API_KEY": "made-up"}
_ANSWER: Final = {
    "id": "resp_rehearsal",
    "object": "response",
    "status": "completed",
    "output": [],
    "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
}


class _Nothing(BaseModel):
    """The arguments of the tool, which nobody calls."""


_TOOL: Final = RuntimeTool("rehearse", "A tool of the rehearsal.", _Nothing, lambda value: "")
_CHECKED: Final[set[tuple[str, int, str]]] = set()
"""The binaries, with the time of their last change, and the models whose request was right in this process."""


async def rehearse(binary: CodexBinary, environment: Callable[[Path], Mapping[str, str]], model: str) -> None:
    """Check the request that a binary sends for a model, once per process of ktx.

    `environment` returns the environment of a process with a home folder. Raises `LlmError`: `isolation` for a request
    with anything but ktx's tools and texts, `connection` if the binary does not send one.
    """
    key = (str(binary.path), binary.path.stat().st_mtime_ns, model)
    if key in _CHECKED:
        return
    sent: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(SECONDS), _server(sent) as port:
            with private_folder(FOLDER_PREFIX) as folder:
                login = Login(folder, json.dumps(_MADE_UP).encode(), _MADE_UP)
                url = f"http://127.0.0.1:{port}/v1"
                work = prepare_home(folder, login, model=model, features=binary.features, base_url=url)
                kept = {name: value for name, value in environment(folder).items() if "PROXY" not in name.upper()}
                server = await AppServer.start(binary.path, environment=kept, work=work)
                try:
                    await _ask(server, work, model)
                finally:
                    await server.kill()
    except TimeoutError as error:
        message = "Codex did not send a request to a model on this machine"
        raise llm_error("connection", backend=NAME, model=model, message=message, hint=Command("doctor")) from error
    if len(sent) != 1:
        raise isolation_error(f"Codex sent {len(sent)} requests for one turn")
    check_request(sent[0])
    _CHECKED.add(key)


def check_request(sent: Mapping[str, Any]) -> None:
    """Raise `LlmError` (`isolation`) for a request with anything but the tool and the texts of the rehearsal."""
    tools = [str(tool.get("name") or tool.get("type")) for tool in sent.get("tools") or ()]
    foreign = sorted(name for name in tools if name != _TOOL.name)
    if foreign or len(tools) != 1 or sent["tools"][0].get("type") != "function":
        message = f"Codex offers the model tools that are not ktx's: {listing(foreign) or 'unknown'}"
        if not foreign:
            message = "Codex does not offer ktx's tools to the model"
        raise isolation_error(message, origin=foreign)
    texts = [sent.get("instructions") or ""]
    for item in sent.get("input") or ():
        if item.get("type") != "message":
            raise isolation_error(f"Codex adds an item of the type {item.get('type')} to a request")
        texts += [str(part.get("text", "")) for part in item.get("content") or ()]
    if sorted(filter(None, texts)) != sorted((SYSTEM, PROMPT)):
        added = [text[:80] for text in texts if text not in ("", SYSTEM, PROMPT)]
        raise isolation_error("Codex adds texts of its own to a request", origin=added)


async def _ask(server: AppServer, work: Path, model: str) -> None:
    """Let a process send the request of a loop with one tool."""
    spec = CallSpec("loop", NAME, "default", model, PROMPT, SYSTEM, tools={_TOOL.name: _TOOL}, effort="medium")
    record = CallRecord(spec, run_id="rehearsal", command="", emit=_ignore, usage_sink=_ignore)
    conversation = CodexConversation(server, work, spec, _ignore)
    await conversation.turn(spec, Conversation(SYSTEM, [Entry("user", PROMPT)]), record)


def _ignore(event: object) -> None:
    """Drop what nobody reads."""


@contextlib.asynccontextmanager
async def _server(sent: list[dict[str, Any]]) -> AsyncIterator[int]:
    """Answer each request to a model with an empty response, and add it to `sent`; yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            lengths = [line.partition(":")[2] for line in head.splitlines() if line.startswith("content-length:")]
            size = min(int(lengths[0]) if lengths else 0, MAX_BODY)
            sent.append(json.loads(await reader.readexactly(size) or b"{}"))
            event = {"type": "response.completed", "response": _ANSWER}
            data = f"event: response.completed\ndata: {json.dumps(event)}\n\n".encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
