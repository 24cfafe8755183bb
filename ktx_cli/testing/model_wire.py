"""The protocols that a scripted model speaks: each maps its requests and answers to those of the Messages API.

A script, `ModelRequest` and `render` know the Messages API alone. A `Wire` reads the request of another API as a body
of it, and writes a message of it, or a failure, as that API would. To add a protocol, write a module with its wire and
add it to `WIRES`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from ktx_cli.testing.model_script import Failure, ModelRequest, stream_events
from ktx_cli.testing.wire_bedrock import BedrockWire
from ktx_cli.testing.wire_chat import ChatWire
from ktx_cli.testing.wire_gemini import GeminiWire
from ktx_cli.testing.wire_responses import ResponsesWire

Body = dict[str, Any]


class Wire(Protocol):
    """A protocol between a client and a model."""

    def serves(self, path: str) -> bool:
        """Return whether a POST to this path, without its query, asks a model for a turn."""
        ...

    def body(self, path: str, sent: Body) -> Body:
        """Return a request as the body of a request to the Messages API.

        The system prompt, the messages with their text, tool calls and tool results, the tools, the model, `stream` and
        the effort (`output_config.effort`) must be in it; a schema for the answer needs to be there only as a tool.
        """
        ...

    def answer(self, message: Body, request: ModelRequest) -> tuple[str, bytes]:
        """Return the content type and the bytes that send a message: a stream if the request asks for one."""
        ...

    def failure(self, failure: Failure) -> tuple[int, Body]:
        """Return the HTTP status and the JSON of a failure, with the words and codes that the API would use for it."""
        ...


class MessagesWire:
    """The Messages API, direct or on Vertex."""

    def serves(self, path: str) -> bool:
        """See `Wire`."""
        last = path.rpartition("/")[2].lower()
        return last == "messages" or "rawpredict" in last

    def body(self, path: str, sent: Body) -> Body:
        """See `Wire`. On Vertex, the model is part of the path."""
        model = re.search(r"/models/([^/:]+):", path)
        return {**sent, "model": model[1]} if model and "model" not in sent else sent

    def answer(self, message: Body, request: ModelRequest) -> tuple[str, bytes]:
        """See `Wire`."""
        if not (request.body.get("stream") or "stream" in request.path):
            return "application/json", json.dumps(message).encode()
        return "text/event-stream", server_sent(stream_events(message))

    def failure(self, failure: Failure) -> tuple[int, Body]:
        """See `Wire`."""
        return failure.status, {"type": "error", "error": {"type": failure.kind, "message": failure.message}}


def server_sent(events: list[tuple[str, dict[str, Any]]], *, named: bool = True) -> bytes:
    """Return events as server-sent events. `named`: with a line for the name of each."""
    lines = [(f"event: {name}\n" if named else "") + f"data: {json.dumps(data)}\n\n" for name, data in events]
    return "".join(lines).encode()


WIRES: tuple[Wire, ...] = (MessagesWire(), ResponsesWire(), ChatWire(), BedrockWire(), GeminiWire())
"""The protocols of a `ModelServer`; the first that serves a path reads and answers its requests."""


def wire_of(path: str) -> Wire | None:
    """Return the protocol of a path, None if no protocol serves it."""
    return next((wire for wire in WIRES if wire.serves(path)), None)
