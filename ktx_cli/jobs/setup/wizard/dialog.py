"""The wizard's dialog: one question at a time, a draft of the answers, and saving parts of them."""

from __future__ import annotations

import functools
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, Protocol, TypeVar

from ktx_cli.core import CancelledError, Command, Hint, KtxError, SettingPath
from ktx_cli.jobs.setup.answers import DATABASE_WORDS, SOURCE_WORDS, Answers, Keeping, SetupStep
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest
from ktx_cli.jobs.setup.setup import keep_secret, reference_to, setup, usable_keyring
from ktx_cli.project import (
    KtxConfig,
    Layout,
    is_reference,
    load_config,
    prepare_private_folder,
    read_bytes,
    variable_named,
    write_atomic,
)

Kind = Literal["title", "fact", "good", "bad", "hint"]
Check = Callable[[str], str | None]
"""Returns the error in a text, or None if it is valid."""


class BackAsked(Exception):
    """The person wants to go back to the previous question."""


@dataclass(frozen=True, slots=True)
class MenuItem:
    """One line of a menu. `note`: what is important before choosing it."""

    value: str
    label: str
    note: str = ""

    @property
    def line(self) -> str:
        """The line for display."""
        return f"{self.label} ({self.note})" if self.note else self.label


class Prompter(Protocol):
    """Asks one question at a time; raises `BackAsked`, and `KeyboardInterrupt` if a person stops.

    `back`: what a person types to go back.
    """

    back: str

    def say(self, text: str, kind: Kind = "fact") -> None:
        """Print a message."""
        ...

    def select(self, question: str, choices: Sequence[MenuItem], default: str | None) -> str:
        """Ask for one choice; returns its value."""
        ...

    def several(self, question: str, choices: Sequence[MenuItem], chosen: Sequence[str]) -> list[str]:
        """Ask for any number of choices; returns their values."""
        ...

    def text(self, question: str, default: str, check: Check) -> str:
        """Ask for a text that `check` accepts."""
        ...

    def secret(self, question: str, check: Check) -> str:
        """Ask for a secret, typed unseen."""
        ...

    def confirm(self, question: str, default: bool) -> bool:
        """Ask a yes-or-no question."""
        ...


def capital(label: str) -> str:
    """Return a label with an initial capital."""
    return label[:1].upper() + label[1:]


def anything(text: str) -> str | None:
    """Accept any text."""
    return None


def something(text: str) -> str | None:
    """Accept any text that is not empty."""
    return None if text.strip() else "an answer is required; Esc goes back"


def _secret_check(check: Check) -> Check:
    def checked(text: str) -> str | None:
        name = variable_named(text)
        return f"to read it from the variable each time, enter env:{name}" if name else check(text)

    return checked


class Dialog:
    """Asks the questions in a step through a prompter, and stores the answers in a draft."""

    def __init__(self, prompter: Prompter, draft: WizardDraft) -> None:
        self.prompter = prompter
        self.draft = draft
        self.step = SetupStep.PROJECT
        self._asked: list[str] = []
        self._shown: set[str] = set()
        self.questions = 0

    def begin(self, step: SetupStep) -> None:
        """Begin a step, or begin it again."""
        self.step = step
        self._asked = []

    def step_back(self) -> bool:
        """Remove the last answer in the step; return False if there is none."""
        if not self._asked:
            return False
        last = self._asked.pop()
        self.draft.drop(last)
        self._shown.discard(last)
        return True

    def select(self, key: str, question: str, choices: Sequence[MenuItem], default: str | None = None) -> str:
        """Ask for one of the choices."""
        values = {choice.value: choice.line for choice in choices}
        before = self._proposed(key, default)
        proposed = before if isinstance(before, str) and before in values else default
        ask = lambda: self.prompter.select(question, choices, proposed)  # noqa: E731
        known = lambda value: values.get(value) if isinstance(value, str) else None  # noqa: E731
        return str(self._answer(key, question, ask, known, known))

    def several(self, key: str, question: str, choices: Sequence[MenuItem], chosen: Sequence[str] = ()) -> list[str]:
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
        confirm = functools.partial(self.prompter.confirm, question, proposed)
        return bool(self._answer(key, question, confirm, shown=lambda value: "yes" if value else "no"))

    def secret(self, key: str, question: str, keep: Callable[[str], str], check: Check = something) -> str:
        """Ask for a secret and return the reference to it; plaintext is stored at once, and nowhere else."""
        before = self.draft.before.get(self._full(key))

        def ask() -> str:
            wanted = anything if before else check
            empty = "; empty: unchanged" if before else "; may be empty" if check is anything else ""
            label = f"{question} (typed unseen, or env:NAME, file:PATH{empty})"
            typed = self.prompter.secret(label, _secret_check(wanted)).strip()
            if not typed:
                return str(before or "")
            return typed if is_reference(typed) else keep(typed)

        return str(self._answer(key, question, ask))

    def mark(self, key: str) -> None:
        """Record something about the step besides the answers."""
        self.draft.put(self._full(key), True)

    def begun(self) -> bool:
        """Return whether anything in the step was answered or recorded."""
        return any(key.startswith(f"{self.step}/") for key in self.draft.answers)

    def before(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the keys of the answers given before the first of some questions; empty if none was asked."""
        wrong = (place for place, key in enumerate(self._asked) if key.rpartition("/")[2] in names)
        return tuple(self._asked[: next(wrong, 0)])

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


class WizardDraft:
    """The answers by `step/question`, and the settled steps; without secrets, only with references.

    It is stored in `.ktx/setup.json` as soon as there is a project; an unreadable file counts as empty. So does a draft
    from elsewhere: a repository or an archive could contain answers that nobody here gave.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        found = _loaded(layout)
        self.answers: dict[str, Any] = found.get("answers", {})
        self.before: dict[str, Any] = found.get("before", {})
        self.settled: list[str] = found.get("settled", [])
        self.secrets: list[str] = found.get("secrets", [])

    def put(self, key: str, value: Any) -> None:
        """Store an answer."""
        self.answers[key] = value
        self._save()

    def drop(self, key: str) -> None:
        """Remove an answer; it is suggested when the question is asked again."""
        self.before[key] = self.answers.pop(key, None)
        self._save()

    def forget(self, step: SetupStep, *, propose: bool, keep: Collection[str] = ()) -> None:
        """Remove the answers in a step except those to keep; they are suggested again or not at all."""
        for key in [key for key in self.answers if key.startswith(f"{step}/") and key not in keep]:
            value = self.answers.pop(key)
            if propose:
                self.before[key] = value
        if not propose:
            self.before = {key: value for key, value in self.before.items() if not key.startswith(f"{step}/")}
        self._save()

    def note_secret(self, reference: str) -> None:
        """Record that the wizard is about to write a secret file."""
        if reference not in self.secrets:
            self.secrets.append(reference)
            self._save()

    def settle(self, step: SetupStep) -> None:
        """Record that a step is done, or was skipped."""
        if step not in self.settled:
            self.settled.append(step)
        self.secrets = []
        self.forget(step, propose=False)

    def reopen(self, step: SetupStep) -> None:
        """Record that a step is to be repeated."""
        self.settled = [each for each in self.settled if each != step]
        self._save()

    def _save(self) -> None:
        if not self._layout.config.exists():
            return
        prepare_private_folder(self._layout)
        kept = {key: getattr(self, key) for key in ("answers", "before", "settled", "secrets")}
        kept = {"place": _place(self._layout), **kept}
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
    settled, secrets = (found[key] if isinstance(found.get(key), list) else [] for key in ("settled", "secrets"))
    return {
        "answers": _answered(found.get("answers")),
        "before": _answered(found.get("before")),
        "settled": [step for step in SetupStep if step in settled],
        "secrets": [each for each in secrets if _OF_SECRET.fullmatch(str(each))],
    }


def _place(layout: Layout) -> int:
    """Return the identity of this `.ktx/`, which a file from elsewhere cannot know."""
    return layout.private.stat().st_ino


def _is_own(path: Path) -> bool:
    """Return whether the file is a regular file of this user that nobody else can write."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _answered(found: Any) -> dict[str, Any]:
    """Return the values that can be answers to questions: texts, yes or no, lists of texts."""

    def is_answer(value: Any) -> bool:
        return isinstance(value, str | bool) or (isinstance(value, list) and all(isinstance(x, str) for x in value))

    return {key: value for key, value in found.items() if is_answer(value)} if isinstance(found, dict) else {}


Found = TypeVar("Found")


class AgainError(Exception):
    """The step is to be repeated."""


class LeftOutError(Exception):
    """The person skips the step."""


def _is_answer(part: str) -> bool:
    """Return whether a part of a hint names or changes a setting of a connection that is not in `ktx.yaml` yet."""
    setting = part.sets[0] if isinstance(part, Command) and part.sets else part
    return isinstance(setting, SettingPath) and setting.startswith("connections.")


def _setting_of(part: str) -> str:
    """Return the setting name in a part of a hint: `host` of `connections.shop.host`."""
    setting = part.sets[0] if isinstance(part, Command) and part.sets else part
    return setting.rpartition(".")[2] if setting.count(".") > 1 else ""


def _question_of(part: str, is_quoted: bool) -> str:
    """Return the words by which a sentence refers to the question for a setting, without article in backticks."""
    name = _setting_of(part).replace("_", " ") or "answers"
    return name if is_quoted else f"the {name}"


def _wrong_questions(hint: Hint | None) -> set[str]:
    """Return the names of the questions whose answers a hint recommends checking."""
    settings = {_setting_of(part) for part in (hint.parts if hint else ()) if _is_answer(part)} - {""}
    return settings | {word.name for word in (*DATABASE_WORDS, *SOURCE_WORDS) if not settings.isdisjoint(word.keys)}


@dataclass(slots=True)
class WizardRun:
    """One wizard. `report` sums up what was done. `revisited`: the step is repeated although it is settled."""

    request: SetupRequest
    dialog: Dialog
    report: SetupReport
    revisited: bool = False
    _looked: dict[str, object] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """The paths of the project."""
        return Layout(self.request.project_dir)

    @property
    def root(self) -> Path:
        """The project folder."""
        return self.request.project_dir

    @property
    def prompter(self) -> Prompter:
        """The terminal prompter."""
        return self.dialog.prompter

    @property
    def config(self) -> KtxConfig:
        """The settings in `ktx.yaml` now."""
        return load_config(self.layout.config).config

    def say_once(self, text: str) -> None:
        """Print a message that need not be repeated if the step is."""
        if text not in self._looked:
            self._looked[text] = True
            self.prompter.say(text)

    def looked(self, what: str, look: Callable[[], Found]) -> Found:
        """Return the cached result of a detection; `wait_for` repeats the detection."""
        if what not in self._looked:
            self._looked[what] = look()
        return self._looked[what]  # type: ignore[return-value]

    def keeper(self, name: str) -> Callable[[str], str]:
        """Return a function that stores a secret under a name in a project file, replacing a rejected one."""

        def keep(secret: str) -> str:
            self.discard_secrets(name)
            keeping = self._keeping()
            reference = reference_to(self.layout, name, secret, keeping)
            if keeping is Keeping.FILE and not self._secret_path(reference).exists():
                self.dialog.draft.note_secret(reference)
            return keep_secret(self.layout, name, secret, keeping)

        return keep

    def _keeping(self) -> Keeping:
        """Return where to store secrets; asks once if there is a keyring."""
        if self.request.answers.keeping is Keeping.KEYRING or not usable_keyring():
            return self.request.answers.keeping
        choices = [
            MenuItem(Keeping.FILE, "A file of this project that git ignores and only you can read"),
            MenuItem(Keeping.KEYRING, "The keyring of this system"),
        ]
        question = "Where do you want to store secrets?"
        return Keeping(self.looked("keeping", lambda: self.prompter.select(question, choices, Keeping.FILE)))

    def discard_secrets(self, name: str = "") -> None:
        """Remove the secrets under a name (or any) that the wizard wrote and `ktx.yaml` does not use.

        Earlier secrets, and those that the person named by path, are theirs.
        """
        used = read_bytes(self.layout.config) or b""
        for reference in list(self.dialog.draft.secrets):
            path = self._secret_path(reference)
            if path.name.startswith(name) and reference.encode() not in used:
                path.unlink(missing_ok=True)

    def _secret_path(self, reference: str) -> Path:
        return self.root / reference.removeprefix("file:")

    def changes(self, what: str) -> bool:
        """Ask whether to change what is set up, but only if the person came back to the step."""
        return self.revisited and self.dialog.confirm("change", f"Change {what}?", False)

    def attempt(self, do: Callable[[], Found]) -> Found:
        """Do something that may fail; if it fails, report why and let the person decide.

        Raises `AgainError` if they want to answer again, `LeftOutError` if they skip it.
        """
        while True:
            try:
                return do()
            except KtxError as error:
                self.decide(error)

    def save(self, answers: Answers) -> SetupReport:
        """Test and save some answers; raises the errors of `attempt`."""
        answers = replace(answers, keeping=self.request.answers.keeping)
        done = self.attempt(lambda: setup(replace(self.request, answers=answers, amends=self.report.commit)))
        self._add(done)
        return done

    def decide(self, error: KtxError) -> None:
        """Report an error, and return if the person wants to retry unchanged; raises the errors of `save`."""
        if isinstance(error, CancelledError):
            raise KeyboardInterrupt
        self.prompter.say(error.message, "bad")
        hint = error.hint
        if hint and not _is_answer(hint.parts[0]):
            shown = hint.rewrite_quoted(lambda part, quoted: _question_of(part, quoted) if _is_answer(part) else part)
            self.prompter.say(shown, "hint")
        kept = self.dialog.before(_wrong_questions(hint))
        choices = [
            MenuItem("change", "Change the answers"),
            *([MenuItem("over", "Start this step over")] if kept else []),
            MenuItem("again", "Try again with the same answers"),
            MenuItem("leave", "Skip this for now"),
        ]
        chosen = self.prompter.select("What do you want to do?", choices, "change")
        if chosen in ("change", "over"):
            self.begin_again(propose=True, keep=kept if chosen == "change" else ())
        if chosen == "leave":
            raise LeftOutError

    def wait_for(self, problem: str, hint: str | None, other: str, leave: str) -> NoReturn:
        """Report what is missing; raises to check again when the person has fixed it, to choose again,
        or to skip it.
        """
        self.prompter.say(problem, "bad")
        if hint:
            self.prompter.say(hint, "hint")
        choices = [MenuItem("again", "Done: check again"), MenuItem("other", other), MenuItem("leave", leave)]
        chosen = self.prompter.select("What do you want to do?", choices, "again")
        if chosen == "leave":
            raise LeftOutError
        self._looked.pop(str(self.dialog.step), None)
        if chosen == "other":
            self.begin_again(propose=False)
        raise AgainError

    def begin_again(self, *, propose: bool, keep: Collection[str] = ()) -> NoReturn:
        """Ask the questions of the step again, except answers to keep, and record that the step is not settled."""
        self.dialog.draft.forget(self.dialog.step, propose=propose, keep=keep)
        self.dialog.mark("more")
        raise AgainError

    def _add(self, done: SetupReport) -> None:
        mine = self.report
        mine.created_project |= done.created_project
        mine.created_repository |= done.created_repository
        mine.changed |= done.changed
        mine.has_connections |= done.has_connections
        mine.commit = done.commit or mine.commit
        mine.tests |= done.tests
        mine.probes = done.probes if done.probes.results else mine.probes
        mine.embeddings = done.embeddings or mine.embeddings
        mine.build, mine.agents = done.build or mine.build, done.agents or mine.agents
        mine.question = done.question or mine.question
        mine.warnings = list(done.warnings)
