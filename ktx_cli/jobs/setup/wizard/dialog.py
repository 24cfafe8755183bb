"""The questions of one step: what was answered is not asked again, and going back takes the last answer back.

A step is a function that asks its questions in order. Going back runs it again with one answer less, and a wizard that
was stopped runs it again with all it had: both are the same replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ktx_cli.jobs.setup.answers import Step
from ktx_cli.jobs.setup.wizard.asking import Check, Choice, Prompter
from ktx_cli.jobs.setup.wizard.draft import Draft
from ktx_cli.project.secrets import is_reference, variable_named


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
            said = f"{question} (typed unseen, or env:NAME, file:PATH{empty})"
            typed = self.prompter.secret(said, _secret_check(wanted)).strip()
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
