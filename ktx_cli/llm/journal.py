"""What a loop did, step by step, kept so that an interrupted one goes on after its last stored tool result.

Backends whose history ktx itself holds keep one (`anthropic`, `vertex`, `gateway`, `claude-cli`). Sessions of Claude
Code are not kept: such a loop begins again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ktx_cli.llm.types import Cost, ToolInvocation, Usage

if TYPE_CHECKING:
    from ktx_cli.llm.backend import CallSpec
    from ktx_cli.llm.own_loop import Entry

StoredStep = Mapping[str, Any]
"""A finished step as JSON: the turns of the model in it, and the results of its tools."""


class LoopJournal(Protocol):
    """Keeps the steps of one loop. `key` says which loop they are of: its model, prompts and tools."""

    def load(self, key: str) -> Sequence[StoredStep]:
        """Return the stored steps, oldest first; none for a loop of another key."""
        ...

    async def append(self, key: str, step: StoredStep) -> None:
        """Return when the step would survive a killed process."""
        ...


def key_of(spec: CallSpec) -> str:
    """Return what tells a loop from every other: a stored step of another one must not be gone on from."""
    tools = {name: (tool.description, tool.input_schema()) for name, tool in sorted(spec.tools.items())}
    said = [spec.backend, spec.model, spec.system, spec.prompt, tools]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def step_to_json(entries: Iterable[Entry]) -> StoredStep:
    """Return a step as JSON. What a tool returned beside its text stays in the process and is not kept."""
    return {"entries": [_entry_to_json(entry) for entry in entries]}


def entries_of(step: StoredStep) -> list[Entry]:
    """Return what a stored step added to the history."""
    from ktx_cli.llm.own_loop import Entry

    return [
        Entry(
            entry["kind"],
            entry["text"],
            None if entry["turn"] is None else _turn(entry["turn"]),
            tuple(ToolInvocation(**result) for result in entry["results"]),
        )
        for entry in step["entries"]
    ]


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    names = ("call_id", "name", "arguments", "text", "is_error")
    return {
        "kind": entry.kind,
        "text": entry.text,
        "turn": None if entry.turn is None else dataclasses.asdict(entry.turn),
        "results": [{name: getattr(result, name) for name in names} for result in entry.results],
    }


def _turn(stored: Mapping[str, Any]) -> Any:
    from ktx_cli.llm.own_loop import ModelTurn, ToolCall

    kept = {
        **stored,
        "calls": tuple(ToolCall(**call) for call in stored["calls"]),
        "usage": Usage(**stored["usage"]),
        "cost": Cost(**stored["cost"]),
    }
    return ModelTurn(**kept)
