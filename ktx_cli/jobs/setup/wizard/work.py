"""What the steps of the wizard share: the project as it is now, and saving one slice of answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn, TypeVar

from ktx_cli.core import CancelledError, Command, KtxError, SettingPath
from ktx_cli.jobs.setup.answers import Answers, Keeping
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest
from ktx_cli.jobs.setup.secrets import keep_secret, reference_to, usable_keyring
from ktx_cli.jobs.setup.setup import setup
from ktx_cli.jobs.setup.wizard.dialog import Dialog
from ktx_cli.jobs.setup.wizard.prompter import Choice, Prompter
from ktx_cli.project import KtxConfig, Layout, load_config, read_bytes

Found = TypeVar("Found")


class AgainError(Exception):
    """The step is to be gone through again."""


class LeftOutError(Exception):
    """The person leaves the step out."""


def _is_answer(part: str) -> bool:
    """Whether a part of a hint names or changes a setting of a connection, which is not in `ktx.yaml` yet."""
    setting = part.sets[0] if isinstance(part, Command) and part.sets else part
    return isinstance(setting, SettingPath) and setting.startswith("connections.")


@dataclass(slots=True)
class Work:
    """One wizard. `report` adds up what was done. `revisited`: the step is gone through though it is settled."""

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
        """The project's folder."""
        return self.request.project_dir

    @property
    def prompter(self) -> Prompter:
        """What tells and asks."""
        return self.dialog.prompter

    @property
    def config(self) -> KtxConfig:
        """What `ktx.yaml` says now."""
        return load_config(self.layout.config).config

    def say_once(self, text: str) -> None:
        """Tell something that need not be told again when the step is gone through again."""
        if text not in self._looked:
            self._looked[text] = True
            self.prompter.say(text)

    def looked(self, what: str, look: Callable[[], Found]) -> Found:
        """Return what was found when this was looked at first; `look_again` has it looked at anew."""
        if what not in self._looked:
            self._looked[what] = look()
        return self._looked[what]  # type: ignore[return-value]

    def look_again(self, what: str) -> None:
        """Forget what was found."""
        self._looked.pop(what, None)

    def keeper(self, name: str) -> Callable[[str], str]:
        """Return what keeps a secret under a name, in a file of the project, in place of one that was refused."""

        def keep(secret: str) -> str:
            self.discard_secrets(name)
            keeping = self._keeping()
            reference = reference_to(self.layout, name, secret, keeping)
            if keeping is Keeping.FILE and not self._secret_path(reference).exists():
                self.dialog.draft.note_secret(reference)
            return keep_secret(self.layout, name, secret, keeping)

        return keep

    def _keeping(self) -> Keeping:
        """Return where secrets go; where there is a keyring the person is asked, once."""
        if self.request.answers.keeping is Keeping.KEYRING or not usable_keyring():
            return self.request.answers.keeping
        choices = [
            Choice(Keeping.FILE, "A file of this project that git ignores and only you can read"),
            Choice(Keeping.KEYRING, "The keyring of this system"),
        ]
        question = "Where are secrets kept?"
        return Keeping(self.looked("keeping", lambda: self.prompter.select(question, choices, Keeping.FILE)))

    def discard_secrets(self, name: str = "") -> None:
        """Take away the secrets that the wizard wrote under a name (or any) and that `ktx.yaml` does not name.

        One that was there before, or that the person named by its path, is theirs.
        """
        used = read_bytes(self.layout.config) or b""
        for reference in list(self.dialog.draft.secrets):
            path = self._secret_path(reference)
            if path.name.startswith(name) and reference.encode() not in used:
                path.unlink(missing_ok=True)

    def _secret_path(self, reference: str) -> Path:
        return self.root / reference.removeprefix("file:")

    def changes(self, what: str) -> bool:
        """Say whether what is set up is to be changed: only somebody who came back to the step is asked."""
        return self.revisited and self.dialog.confirm("change", f"Change {what}?", False)

    def attempt(self, do: Callable[[], Found]) -> Found:
        """Do something that may fail; where it does, say why and let the person decide.

        Raises `AgainError` where they want to answer again, `LeftOutError` where they leave it out.
        """
        while True:
            try:
                return do()
            except KtxError as error:
                self.decide(error)

    def save(self, answers: Answers) -> SetupReport:
        """Try and save some answers; raises as `attempt`."""
        answers = replace(answers, keeping=self.request.answers.keeping)
        done = self.attempt(lambda: setup(replace(self.request, answers=answers)))
        self._add(done)
        return done

    def decide(self, error: KtxError) -> None:
        """Tell an error and return where the person wants the same again; raises as `save`."""
        if isinstance(error, CancelledError):
            raise KeyboardInterrupt
        self.prompter.say(error.message, "bad")
        hint = error.hint
        if hint and not _is_answer(hint.parts[0]):
            self.prompter.say(hint.rewrite(lambda part: "the answers" if _is_answer(part) else part), "hint")
        choices = [
            Choice("change", "Change the answers"),
            Choice("again", "Try again with the same answers"),
            Choice("leave", "Leave this out for now"),
        ]
        chosen = self.prompter.select("What now?", choices, "change")
        if chosen == "change":
            self.begin_again(propose=True)
        if chosen == "leave":
            raise LeftOutError

    def begin_again(self, *, propose: bool) -> NoReturn:
        """Ask the questions of the step anew, noting that somebody is amid it: it is not settled by what it has."""
        self.dialog.draft.forget(self.dialog.step, propose=propose)
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
