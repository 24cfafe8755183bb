"""What was answered so far: kept after every answer, so that a wizard that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any, Final

from ktx_cli.jobs.setup.answers import Step
from ktx_cli.project.files import read_bytes, write_atomic
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import prepare_private_folder


class Draft:
    """The answers by `step/question`, and the steps that are settled; no secret is in it, only references.

    It is kept in `.ktx/setup.json` as soon as there is a project; what cannot be read counts as nothing. So does a
    draft that came from elsewhere: a repository or an archive could bring answers along that nobody here gave.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        found = _loaded(layout)
        self.answers: dict[str, Any] = found.get("answers", {})
        self.before: dict[str, Any] = found.get("before", {})
        self.settled: list[str] = found.get("settled", [])
        self.secrets: list[str] = found.get("secrets", [])

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

    def note_secret(self, reference: str) -> None:
        """Note that the wizard is about to write the file of a secret."""
        if reference not in self.secrets:
            self.secrets.append(reference)
            self._save()

    def settle(self, step: Step) -> None:
        """Note that a step is done, or was left out."""
        if step not in self.settled:
            self.settled.append(step)
        self.secrets = []
        self.forget(step, propose=False)

    def reopen(self, step: Step) -> None:
        """Note that a step is to be gone through again."""
        self.settled = [each for each in self.settled if each != step]
        self._save()

    def _save(self) -> None:
        if not self._layout.config.exists():
            return
        prepare_private_folder(self._layout)
        kept = {
            "place": _place(self._layout),
            "answers": self.answers,
            "before": self.before,
            "settled": self.settled,
            "secrets": self.secrets,
        }
        write_atomic(self._layout.setup_draft, json.dumps(kept, indent=1).encode() + b"\n", mode=0o600)


_OF_SECRET: Final = re.compile(r"file:\.ktx/secrets/[A-Za-z0-9_-]+")


def _loaded(layout: Layout) -> dict[str, Any]:
    if not _is_own(layout.setup_draft):
        return {}
    try:
        found = json.loads(read_bytes(layout.setup_draft) or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or found.get("place") != _place(layout):
        return {}
    settled, secrets = found.get("settled"), found.get("secrets")
    return {
        "answers": _answered(found.get("answers")),
        "before": _answered(found.get("before")),
        "settled": [step for step in Step if step in settled] if isinstance(settled, list) else [],
        "secrets": [x for x in secrets if _OF_SECRET.fullmatch(str(x))] if isinstance(secrets, list) else [],
    }


def _place(layout: Layout) -> int:
    """Return what tells this `.ktx/` from every other: a file that was brought along cannot know it."""
    return layout.private.stat().st_ino


def _is_own(path: Path) -> bool:
    """Say whether a regular file is there, of this user, that nobody else can write."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _answered(found: Any) -> dict[str, Any]:
    """Return what can be answers to questions: texts, yes or no, lists of texts."""

    def is_answer(value: Any) -> bool:
        return isinstance(value, str | bool) or (isinstance(value, list) and all(isinstance(x, str) for x in value))

    return {key: value for key, value in found.items() if is_answer(value)} if isinstance(found, dict) else {}
