"""Questions in a terminal: menus with arrow keys, or numbered lines where the terminal is a dumb one."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.cli import streams
from ktx_cli.cli.settings import use_colour
from ktx_cli.jobs.setup.wizard.asking import BackAsked, Check, Choice, Kind, Prompter

if TYPE_CHECKING:
    from prompt_toolkit.output import Output

    from ktx_cli.cli.contract import Session

_COLOURS: Final[dict[Kind, str]] = {"title": "1", "good": "32", "bad": "31", "hint": "33", "fact": "0"}
_MARKS: Final[dict[Kind, str]] = {"title": "", "good": "  ok ", "bad": "  !! ", "hint": "  -> ", "fact": "  "}


def open_prompter(session: Session) -> Prompter:
    """Return what asks in this terminal."""
    if os.environ.get("TERM", "dumb") == "dumb":
        from ktx_cli.cli.prompting_plain import PlainPrompter

        return PlainPrompter()
    return TerminalPrompter()


def told(text: str, kind: Kind) -> str:
    """Return something told, wrapped to the terminal's width; a hint is one line, so that it can be copied.

    Characters that do not show are blanked: a server, or a file's name, may say anything.
    """
    text = "".join(character if character.isprintable() else " " for character in text)
    width = max(shutil.get_terminal_size().columns - 1, 40)
    mark = _MARKS[kind]
    if kind == "hint":
        return mark + text
    return textwrap.fill(
        text,
        width,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


class TerminalPrompter:
    """Asks with questionary, on stderr: stdout is for the answer of the command."""

    back = "Esc"

    def __init__(self) -> None:
        self._output: Output | None = None

    def say(self, text: str, kind: Kind = "fact") -> None:
        """Tell something."""
        said = told(text, kind)
        if use_colour(sys.stderr) and kind != "fact":
            said = f"\x1b[{_COLOURS[kind]}m{said}\x1b[0m"
        streams.write_err(("\n" if kind == "title" else "") + said + "\n")

    def select(self, question: str, choices: Sequence[Choice], default: str | None) -> str:
        """Let one choice be made."""
        import questionary

        made = [questionary.Choice(self._fitted(choice), value=choice.value) for choice in choices]
        first = next((each for each in made if each.value == default), None)
        return str(self._ask(questionary.select, question, choices=made, default=first, instruction=" "))

    def several(self, question: str, choices: Sequence[Choice], chosen: Sequence[str]) -> list[str]:
        """Let any number of choices be made."""
        import questionary

        made = [
            questionary.Choice(self._fitted(choice), value=choice.value, checked=choice.value in chosen)
            for choice in choices
        ]
        said = "(Space marks, Enter takes them)"
        return list(self._ask(questionary.checkbox, question, choices=made, instruction=said))

    def text(self, question: str, default: str, check: Check) -> str:
        """Let a text be typed."""
        import questionary

        return str(self._ask(questionary.text, question, default=default, validate=_validated(check)))

    def secret(self, question: str, check: Check) -> str:
        """Let a secret be typed unseen."""
        import questionary

        return str(self._ask(questionary.password, question, validate=_validated(check)))

    def confirm(self, question: str, default: bool) -> bool:
        """Let a question be answered by yes or no."""
        import questionary

        return bool(self._ask(questionary.confirm, question, default=default))

    def _fitted(self, choice: Choice) -> str:
        """Return a choice in one line of the terminal; of a long one the label is cut, not the note."""
        note = f" ({choice.note})" if choice.note else ""
        room = shutil.get_terminal_size().columns - 6 - len(note)
        label = choice.label if len(choice.label) <= room else choice.label[: max(room - 3, 10)] + "..."
        return label + note

    def _ask(self, kind: Any, question: str, **options: Any) -> Any:
        """Ask with one of questionary's questions; Esc goes back."""
        from prompt_toolkit.output import create_output

        if self._output is None:
            self._output = create_output(stdout=sys.stderr)
        asked = kind(_wrapped(question), qmark="?", output=self._output, **options)
        _bind_escape(asked.application)
        answer = asked.unsafe_ask()
        if answer is _BACK:
            raise BackAsked
        return answer


def _wrapped(question: str) -> str:
    """Return a question in lines of the terminal's width, broken between words."""
    width = max(shutil.get_terminal_size().columns - 1, 40)
    return textwrap.fill(
        question, width, initial_indent="? ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )[2:]


_BACK: Final = object()


def _bind_escape(application: Any) -> None:
    """Let Esc end a question without an answer."""
    from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings
    from prompt_toolkit.keys import Keys

    bindings = KeyBindings()

    @bindings.add(Keys.Escape)
    def back(event: Any) -> None:
        event.app.exit(result=_BACK)

    application.key_bindings = merge_key_bindings([application.key_bindings or KeyBindings(), bindings])
    application.ttimeoutlen = 0.1
    application.timeoutlen = 0.2


def _validated(check: Check) -> Any:
    def validate(text: str) -> bool | str:
        return check(text) or True

    return validate
