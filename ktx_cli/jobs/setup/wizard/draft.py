"""What was answered so far: kept after every answer, so that a wizard that was stopped goes on where it was."""

from __future__ import annotations

import json
from typing import Any

from ktx_cli.jobs.setup.answers import Step
from ktx_cli.project.files import read_bytes, write_atomic
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import prepare_private_folder


class Draft:
    """The answers by `step/question`, and the steps that are settled; no secret is in it, only references.

    It is kept in `.ktx/setup.json` as soon as there is a project; what cannot be read counts as nothing.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        found = _loaded(layout)
        self.answers: dict[str, Any] = found.get("answers", {})
        self.before: dict[str, Any] = found.get("before", {})
        self.settled: list[str] = found.get("settled", [])

    def put(self, key: str, value: Any) -> None:
        """Keep an answer."""
        self.answers[key] = value
        self._save()

    def drop(self, key: str) -> None:
        """Take an answer back; it is proposed when the question comes again."""
        self.before[key] = self.answers.pop(key, None)
        self._save()

    def forget(self, step: Step, *, propose: bool) -> None:
        """Take all answers of a step back, to be proposed again or not at all."""
        for key in [key for key in self.answers if key.startswith(f"{step}/")]:
            value = self.answers.pop(key)
            if propose:
                self.before[key] = value
        if not propose:
            self.before = {key: value for key, value in self.before.items() if not key.startswith(f"{step}/")}
        self._save()

    def settle(self, step: Step) -> None:
        """Note that a step is done, or was left out."""
        if step not in self.settled:
            self.settled.append(step)
        self.forget(step, propose=False)

    def reopen(self, step: Step) -> None:
        """Note that a step is to be gone through again."""
        self.settled = [each for each in self.settled if each != step]
        self._save()

    def _save(self) -> None:
        if not self._layout.config.exists():
            return
        prepare_private_folder(self._layout)
        kept = {"answers": self.answers, "before": self.before, "settled": self.settled}
        write_atomic(self._layout.setup_draft, json.dumps(kept, indent=1).encode() + b"\n", mode=0o600)


def _loaded(layout: Layout) -> dict[str, Any]:
    text = read_bytes(layout.setup_draft)
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    shaped = isinstance(found, dict) and all(
        isinstance(found.get(key, kind()), kind)
        for key, kind in (("answers", dict), ("before", dict), ("settled", list))
    )
    return found if shaped else {}
