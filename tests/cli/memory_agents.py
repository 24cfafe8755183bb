"""A scripted model that captures texts, and what a test asks of the project afterwards."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, Turn, calls, says
from tests.cli.agents import Agents

MANIFEST = "raw-sources/_memory/memory/manifest.yaml"
TEXT = "Refunds come off revenue on the day they are paid. A paid order is one whose column paid is 1."
LOOK = Call("entity_details", {"connection": "shop", "targets": ["orders"]})
RESULTS = "The results of your calls, in order:"
"""What stands in front of the results of each step where the whole conversation is one text (`claude-cli`)."""
_HELD_SECONDS = 60
OVERLAY = "name: orders\nsegments:\n  - name: paid_orders\n    expr: paid = 1\n"


def page(key: str = "refunds", **fields: Any) -> Call:
    values = {"key": key, "summary": f"About {key}.", "content": f"# {key}\n\nRefunds come off on the day."}
    return Call("wiki_write", {**values, **fields})


def segment(text: str = OVERLAY) -> Call:
    return Call("sl_write_source", {"connection": "shop", "source": "orders", "yaml": text})


def usual() -> list[Turn]:
    """Return the turns of a capture that looks around and writes a page and a segment."""
    return [
        calls(Call("load_skill", {"name": "memory_capture"}), Call("discover_data", {"query": "refunds"})),
        calls(LOOK),
        calls(page(), segment(), text="Written."),
        says("A page on refunds and the segment of paid orders are written."),
    ]


def conflict(artifact: str = "wiki:refunds", accepted: str = "Refunds come off on the day.") -> Call:
    captured = {"source": "text", "text": "Refunds come off a month later.", "effect": "Refunds of a month."}
    statements = [{"source": artifact, "text": accepted, "effect": "Refunds of a day."}, captured]
    evidence = "They cannot come off on two days."
    return Call("record_contradiction", {"topic": "refunds", "statements": statements, "evidence": evidence})


class Memory(Agents):
    """Plays the turns of one capture after another; without any the usual ones."""

    def __init__(self, *turns: Sequence[Reply], **others: Sequence[Reply]) -> None:
        super().__init__(memory=[turn for each in turns or [usual()] for turn in each], **others)

    def topic(self, text: str) -> str | None:
        if "The final checks of this run" in text and "Task: memory capture" not in text:
            return "repair"
        return "memory" if "Task: memory capture" in text else super().topic(text)


class Held(Memory):
    """Answers by how far a capture is, and holds a step back until it is let go."""

    def __init__(self, held: int) -> None:
        super().__init__()
        self.held = held
        self.reached, self.let_go = threading.Event(), threading.Event()
        self.steps: Counter[int] = Counter()

    def __call__(self, request: ModelRequest) -> Reply:
        said = json.dumps(request.body["messages"])
        if "Task: memory capture" not in said:
            return super().__call__(request)
        step = sum(message["role"] == "assistant" for message in request.body["messages"])
        step += said.count(RESULTS)
        self.steps[step] += 1
        if step == self.held and not self.let_go.is_set():
            self.reached.set()
            assert self.let_go.wait(_HELD_SECONDS)
        return usual()[step]


def records(project: Path) -> list[dict[str, Any]]:
    """Return the records of all captures, the oldest first."""
    found = [json.loads(path.read_text("utf-8")) for path in (project / ".ktx/memory").glob("*.json")]
    return sorted(found, key=lambda each: (each["created"], each["run_id"]))


def manifest(project: Path) -> dict[str, Any]:
    """Return what the committed manifest says of each text."""
    document = yaml.load((project / MANIFEST).read_bytes(), where=MANIFEST)
    return dict(document["files"])
