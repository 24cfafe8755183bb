"""Amazon Bedrock's `InvokeModel` as a scripted model speaks it: the Messages API in frames of an AWS event stream.

A frame has a prelude with its length and that of its headers, a checksum of the prelude, the headers, the payload, and
a checksum of everything before it. The frames are written here, and read by botocore in the client.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from ktx_cli.testing.model_script import Failure, ModelRequest, stream_events

Body = dict[str, Any]

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
_PATH: Final = re.compile(r"/model/([^/]+)/(invoke(?:-with-response-stream)?)$")
_TEXT: Final = 7
"""The type of a header whose value is text."""


class BedrockWire:
    """The Messages API on the runtime endpoint of Bedrock. The model is part of the path, and so is streaming."""

    def serves(self, path: str) -> bool:
        """See `Wire`."""
        return _PATH.search(path) is not None

    def body(self, path: str, sent: Body) -> Body:
        """See `Wire`."""
        found = _PATH.search(path)
        assert found is not None
        return {**sent, "model": unquote(found[1]), "stream": found[2] != "invoke"}

    def answer(self, message: Body, request: ModelRequest) -> tuple[str, bytes]:
        """See `Wire`."""
        if not request.body["stream"]:
            return "application/json", json.dumps(message).encode()
        return EVENT_STREAM, b"".join(chunk_frame(event) for _, event in stream_events(message))

    def failure(self, failure: Failure) -> tuple[int, Body]:
        """See `Wire`. The type of an error is a header (`x-amzn-errortype`), which a script can add."""
        status, message = failure.status, failure.message
        if "credit" in message:
            status = 403
            message = (
                "Model access is denied due to INVALID_PAYMENT_INSTRUMENT: a valid payment instrument is required."
            )
        elif "too long" in message:
            message = "Input is too long for requested model."
        elif failure.kind == "authentication_error":
            status, message = 403, "The security token included in the request is invalid."
        elif failure.kind == "not_found_error" and message.startswith("model"):
            status, message = 400, "The provided model identifier is invalid."
        elif failure.kind == "rate_limit_error":
            message = "Too many tokens, please wait before trying again."
        elif failure.kind == "overloaded_error":
            status, message = 503, "Bedrock is unable to process your request."
        return status, {"message": message}


def chunk_frame(event: Mapping[str, Any]) -> bytes:
    """Return the frame of one event of the Messages API."""
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, payload)


def exception_frame(kind: str, message: str) -> bytes:
    """Return the frame of an error in the middle of a stream; `kind`: such as `throttlingException`."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a message of an event stream."""
    head = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    begun = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return begun + struct.pack("!I", zlib.crc32(begun))


def _header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return struct.pack("!B", len(key)) + key + struct.pack("!BH", _TEXT, len(text)) + text
