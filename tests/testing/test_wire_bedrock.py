"""The scripted Bedrock: frames that botocore reads, with their checksums, and the errors that Bedrock would send."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer

from ktx_cli.testing.model_script import (
    FORBIDDEN,
    NO_CREDIT,
    NO_SUCH_MODEL,
    OVERLOADED,
    TOO_LONG,
    UNAUTHORIZED,
    Failure,
    ModelRequest,
    calls,
    rate_limited,
    render,
)
from ktx_cli.testing.wire_bedrock import BedrockWire, chunk_frame, exception_frame, frame

WIRE = BedrockWire()
MODEL = "global.anthropic.claude-sonnet-4-6-v1:0"
STREAM = f"/model/{MODEL}/invoke-with-response-stream"


def request(path: str = STREAM) -> ModelRequest:
    return ModelRequest(7, "POST", path, {}, WIRE.body(path, {"messages": []}), 0.0, True, {})


def read(data: bytes) -> list[Any]:
    """Return the frames as botocore reads them."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return list(buffer)


@pytest.mark.table(
    ("path", "model", "stream"),
    [
        (STREAM, MODEL, True),
        (f"/model/{MODEL.replace(':', '%3A')}/invoke", MODEL, False),
        ("/model/arn%3Aaws%3Abedrock%3Ax%2Fy/invoke", "arn:aws:bedrock:x/y", False),
    ],
)
def test_the_model_is_part_of_the_path(path: str, model: str, stream: bool) -> None:
    assert WIRE.serves(path)
    body = WIRE.body(path, {"max_tokens": 1})
    assert body == {"max_tokens": 1, "model": model, "stream": stream}


@pytest.mark.table("path", ["/v1/messages", "/model/x/converse", "/model//invoke"])
def test_other_paths_are_not_served(path: str) -> None:
    assert not WIRE.serves(path)


def test_an_answer_is_a_stream_of_events() -> None:
    kind, data = WIRE.answer(render(calls(("look", {"q": "a"}), text="Überall."), request()), request())
    assert kind == "application/vnd.amazon.eventstream"
    frames = read(data)
    assert {one.headers[":event-type"] for one in frames} == {"chunk"}
    events = [json.loads(base64.b64decode(json.loads(one.payload)["bytes"])) for one in frames]
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    assert "Überall." in json.dumps(events, ensure_ascii=False)


def test_without_streaming_an_answer_is_json() -> None:
    asked = request(f"/model/{MODEL}/invoke")
    kind, data = WIRE.answer(render(calls(("look", {})), asked), asked)
    assert (kind, json.loads(data)["stop_reason"]) == ("application/json", "tool_use")


def test_an_exception_is_a_frame_of_its_own() -> None:
    first, second = read(chunk_frame({"type": "ping"}) + exception_frame("throttlingException", "later"))
    assert first.headers[":message-type"] == "event"
    assert (second.headers[":message-type"], second.headers[":exception-type"]) == ("exception", "throttlingException")
    assert json.loads(second.payload) == {"message": "later"}


@pytest.mark.parametrize("place", [0, 9, 14, -5], ids=["length", "prelude checksum", "header", "payload"])
def test_botocore_finds_a_changed_byte(place: int) -> None:
    data = bytearray(frame({":message-type": "event"}, b"{}" * 20))
    data[place] ^= 1
    with pytest.raises(ChecksumMismatch):
        read(bytes(data))


@pytest.mark.parametrize(
    ("failure", "status", "words"),
    [
        (UNAUTHORIZED, 403, "security token"),
        (FORBIDDEN, 403, "may not use"),
        (NO_CREDIT, 403, "INVALID_PAYMENT_INSTRUMENT"),
        (TOO_LONG, 400, "too long"),
        (NO_SUCH_MODEL, 400, "identifier is invalid"),
        (OVERLOADED, 503, "unable to process"),
        (rate_limited(2), 429, "please wait"),
        (Failure(500, "api_error", "oh"), 500, "oh"),
    ],
    ids=lambda value: str(getattr(value, "kind", value)),
)
def test_failures_are_those_of_bedrock(failure: Failure, status: int, words: str) -> None:
    found, body = WIRE.failure(failure)
    assert found == status and words in body["message"]
