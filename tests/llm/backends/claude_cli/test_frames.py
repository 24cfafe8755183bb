"""The frames `claude --print --verbose` answers with: the whole answer's text, and what the process started with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktx_cli.llm.backends.claude.binary import CliAnswer
from ktx_cli.llm.backends.claude_cli import read_envelope

INIT = {"type": "system", "subtype": "init", "tools": []}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "last"}


def assistant(message_id: str, text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": message_id, "content": [{"type": "text", "text": text}]}}


def user(block: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": [block]}, **facts}


NOTE = user({"type": "text", "text": "Go on."})
ANSWERED = user({"type": "tool_result", "tool_use_id": "t", "content": "no"})
REFUSED = user({"type": "text", "text": "Stopped."}, refused_message_id="m1")


@pytest.mark.requirement("R63", "G14")
@pytest.mark.table(
    ("frames", "text"),
    [
        ([assistant("m1", "one, "), assistant("m1", "two")], "one, two"),
        ([assistant("m1", "one, "), NOTE, assistant("m2", "two")], "one, two"),
        ([assistant("m1", "No."), REFUSED, assistant("m2", "Well.")], "Well."),
        ([assistant("m1", "Trying."), ANSWERED, assistant("m2", "Done.")], "Done."),
        ([{"type": "user", "message": {"content": "plain"}}, {"type": "assistant"}, {"type": "odd"}], "last"),
        ([], "last"),
    ],
)
def test_the_text_is_that_of_the_whole_answer(frames: list[dict[str, Any]], text: str) -> None:
    answer = CliAnswer(0, json.dumps([INIT, *frames, RESULT]), "")
    envelope = read_envelope(answer, model="sonnet", role="default")
    assert envelope["result"] == text
    assert envelope["init"] == INIT


def test_the_words_of_a_failure_stay_as_they_are() -> None:
    failed = {**RESULT, "is_error": True, "result": "Not logged in"}
    answer = CliAnswer(1, json.dumps([INIT, assistant("m1", "half"), failed]), "")
    assert read_envelope(answer, model="sonnet", role="default")["result"] == "Not logged in"
