"""The questions of one step: what was answered is not asked again, and going back takes the last answer back.

A step is a function that asks its questions in order. Going back runs it again with one answer less, and a wizard that
was stopped runs it again with all it had: both are the same replay.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ktx_cli.jobs.setup.answers import Step
from ktx_cli.jobs.setup.wizard.prompter import Check, Choice, Prompter
from ktx_cli.project import Layout, is_reference, prepare_private_folder, read_bytes, variable_named, write_atomic


def anything(text: str) -> str | None:
    """Have nothing against any text."""
    return None


def something(text: str) -> str | None:
    """Want a text that is not empty."""
    return None if text.strip() else "an answer is needed here; Esc goes back"


def _secret_check(check: Check) -> Check:
    def checked(text: str) -> str | None:
        name = variable_named(text)
        return f"to read it from the variable each time, write env:{name}" if name else check(text)

    return checked


class Dialog:
    """Asks the questions of a step through a prompter, and keeps the answers in a draft."""

    def __init__(self, prompter: Prompter, draft: Draft) -> None:
        self.prompter = prompter
        self.draft = draft
        self.step = Step.PROJECT
        self._asked: list[str] = []
        self._shown: set[str] = set()
        self.questions = 0

    def begin(self, step: Step) -> None:
        """Begin a step, or begin it again."""
        self.step = step
        self._asked = []

    def step_back(self) -> bool:
        """Take the last answer of the step back; False where there is none."""
        if not self._asked:
            return False
        last = self._asked.pop()
        self.draft.drop(last)
        self._shown.discard(last)
        return True

    def select(self, key: str, question: str, choices: Sequence[Choice], default: str | None = None) -> str:
        """Ask for one of the choices."""
        values = {choice.value: choice.line for choice in choices}
        before = self._proposed(key, default)
        proposed = before if isinstance(before, str) and before in values else default
        ask = lambda: self.prompter.select(question, choices, proposed)  # noqa: E731
        known = lambda value: values.get(value) if isinstance(value, str) else None  # noqa: E731
        return str(self._answer(key, question, ask, known, known))

    def several(self, key: str, question: str, choices: Sequence[Choice], chosen: Sequence[str] = ()) -> list[str]:
        """Ask for any of the choices."""
        values = {choice.value for choice in choices}
        before = self._proposed(key, list(chosen))
        proposed = [each for each in before if each in values] if isinstance(before, list) else list(chosen)
        return list(
            self._answer(
                key,
                question,
                lambda: self.prompter.several(question, choices, proposed),
                lambda value: value if isinstance(value, list) and set(value) <= values else None,
                lambda value: ", ".join(value) or "none",
            )
        )

    def text(self, key: str, question: str, default: str = "", check: Check = something) -> str:
        """Ask for a text."""
        proposed = str(self._proposed(key, default))
        return str(self._answer(key, question, lambda: self.prompter.text(question, proposed, check).strip()))

    def confirm(self, key: str, question: str, default: bool) -> bool:
        """Ask for yes or no."""
        proposed = bool(self._proposed(key, default))
        return bool(
            self._answer(
                key,
                question,
                lambda: self.prompter.confirm(question, proposed),
                shown=lambda value: "yes" if value else "no",
            )
        )

    def secret(self, key: str, question: str, keep: Callable[[str], str], check: Check = something) -> str:
        """Ask for a secret and return the reference to it; what is typed in clear is kept at once, and nowhere else."""
        before = self.draft.before.get(self._full(key))

        def ask() -> str:
            wanted = anything if before else check
            empty = "; empty: as before" if before else "; may be empty" if check is anything else ""
            label = f"{question} (typed unseen, or env:NAME, file:PATH{empty})"
            typed = self.prompter.secret(label, _secret_check(wanted)).strip()
            if not typed:
                return str(before or "")
            return typed if is_reference(typed) else keep(typed)

        return str(self._answer(key, question, ask))

    def mark(self, key: str) -> None:
        """Note something of the step beside the answers."""
        self.draft.put(self._full(key), True)

    def begun(self) -> bool:
        """Say whether anything of the step was answered or noted."""
        return any(key.startswith(f"{self.step}/") for key in self.draft.answers)

    def _full(self, key: str) -> str:
        return f"{self.step}/{key}"

    def _proposed(self, key: str, default: Any) -> Any:
        before = self.draft.before.get(self._full(key))
        return default if before is None else before

    def _answer(
        self,
        key: str,
        question: str,
        ask: Callable[[], Any],
        usable: Callable[[Any], Any] = lambda value: True,
        shown: Callable[[Any], Any] = str,
    ) -> Any:
        full = self._full(key)
        if full in self.draft.answers and usable(self.draft.answers[full]) is None:
            self.draft.drop(full)
        if full not in self.draft.answers:
            self.questions += 1
            self.draft.put(full, ask())
            self._shown.add(full)
        value = self.draft.answers[full]
        if full not in self._shown:
            self.prompter.say(f"{question} {shown(value)} (answered before)")
            self._shown.add(full)
        self._asked.append(full)
        return value


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
