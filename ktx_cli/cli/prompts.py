"""Questions in a terminal: menus with arrow keys, or numbered lines in a dumb terminal."""

from __future__ import annotations

import getpass
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.cli import streams
from ktx_cli.cli.settings import use_colour
from ktx_cli.core import Hint, one_line
from ktx_cli.jobs.setup.wizard.dialog import BackAsked, Check, Kind, MenuItem, Prompter

if TYPE_CHECKING:
    from prompt_toolkit.output import Output

    from ktx_cli.cli.contract import Session
    from ktx_cli.jobs.contradictions import Answer, RecordedContradiction
    from ktx_cli.jobs.decide.decide import Choice
    from ktx_cli.jobs.review import TypedDecision
    from ktx_cli.scan import ReviewedRelationship
    from ktx_cli.semantic import DecisionPoint, Decisions


_COLOURS: Final[dict[Kind, str]] = {"title": "1", "good": "32", "bad": "31", "hint": "33", "fact": "0"}
_MARKS: Final[dict[Kind, str]] = {"title": "", "good": "  ok ", "bad": "  !! ", "hint": "  -> ", "fact": "  "}


def open_prompter(session: Session) -> Prompter:
    """Return the prompter for this terminal."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return PlainPrompter()
    return TerminalPrompter()


def toned(text: str, kind: Kind) -> str:
    """Return a message wrapped to the terminal's width; a command stays on one line, so that it can be copied.

    Unprintable characters are blanked, because messages may quote servers and file names.
    """
    is_copied = isinstance(text, Hint) and bool(text.commands)
    text = "".join(character if character.isprintable() else " " for character in text)
    mark = _MARKS[kind]
    if is_copied:
        return mark + text
    return _filled(text, mark, " " * len(mark))


def _filled(text: str, first: str, below: str) -> str:
    width = max(shutil.get_terminal_size().columns - 1, 40)
    filler = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )
    return filler.fill(text)


class TerminalPrompter:
    """Asks with questionary on stderr; stdout is for the result of the command."""

    back = "Esc"

    def __init__(self) -> None:
        self._output: Output | None = None

    def say(self, text: str, kind: Kind = "fact") -> None:
        """Print a message."""
        text_shown = toned(text, kind)
        if use_colour(sys.stderr) and kind != "fact":
            text_shown = f"\x1b[{_COLOURS[kind]}m{text_shown}\x1b[0m"
        streams.write_err(("\n" if kind == "title" else "") + text_shown + "\n")

    def select(self, question: str, choices: Sequence[MenuItem], default: str | None) -> str:
        """Ask for one of the choices."""
        import questionary

        made = [questionary.Choice(self._fitted(choice), value=choice.value) for choice in choices]
        first = next((each for each in made if each.value == default), None)
        return str(self._ask("select", question, choices=made, default=first, instruction=" "))

    def several(self, question: str, choices: Sequence[MenuItem], chosen: Sequence[str]) -> list[str]:
        """Ask for any number of the choices."""
        import questionary

        made = [
            questionary.Choice(self._fitted(choice), value=choice.value, checked=choice.value in chosen)
            for choice in choices
        ]
        text_shown = "(Space selects, Enter confirms)"
        return list(self._ask("checkbox", question, choices=made, instruction=text_shown))

    def text(self, question: str, default: str, check: Check) -> str:
        """Ask for a text."""
        return str(self._ask("text", question, default=default, validate=_validated(check)))

    def secret(self, question: str, check: Check) -> str:
        """Ask for a secret without showing it."""
        return str(self._ask("password", question, validate=_validated(check)))

    def confirm(self, question: str, default: bool) -> bool:
        """Ask a yes-or-no question."""
        return bool(self._ask("confirm", question, default=default))

    def _fitted(self, choice: MenuItem) -> str:
        """Return a choice as one line of the terminal; if it is long, the label is cut, not the note."""
        note = f" ({choice.note})" if choice.note else ""
        room = shutil.get_terminal_size().columns - 6 - len(note)
        label = choice.label if len(choice.label) <= room else choice.label[: max(room - 3, 10)] + "..."
        return label + note

    def _ask(self, kind: str, question: str, **options: Any) -> Any:
        """Ask with one of questionary's questions; Esc goes back."""
        import questionary
        from prompt_toolkit.output import create_output

        if self._output is None:
            self._output = create_output(stdout=sys.stderr)
        asked = getattr(questionary, kind)(_wrapped(question), qmark="?", output=self._output, **options)
        _bind_escape(asked.application)
        answer = asked.unsafe_ask()
        if answer is _BACK:
            raise BackAsked
        return answer


def _wrapped(question: str) -> str:
    """Return a question wrapped to the terminal's width."""
    return _filled(question, "? ", "  ")[2:]


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


_BACK_WORDS: Final = ("<", "\x1b")
"""Words that go back when typed alone; the second is the character that Esc sends."""


class PlainPrompter:
    """Asks line by line on stderr and reads the answers from stdin."""

    back = "<"

    def say(self, text: str, kind: Kind = "fact") -> None:
        """Print a message."""

        streams.write_err(("\n" if kind == "title" else "") + toned(text, kind) + "\n")

    def select(self, question: str, choices: Sequence[MenuItem], default: str | None) -> str:
        """Ask for the number of one of the choices."""
        self._list(question, choices)
        values = [choice.value for choice in choices]
        proposed = str(values.index(default) + 1) if default in values else ""
        return values[int(self._typed("Number", proposed, _number_of(values))) - 1]

    def several(self, question: str, choices: Sequence[MenuItem], chosen: Sequence[str]) -> list[str]:
        """Ask for the numbers of any of the choices."""
        self._list(question, choices)
        values = [choice.value for choice in choices]
        one = _number_of(values)

        def check(text: str) -> str | None:
            return next((text_shown for part in _parts(text) if (text_shown := one(part))), None)

        proposed = " ".join(str(values.index(each) + 1) for each in chosen)
        return [values[int(part) - 1] for part in _parts(self._typed("Numbers, or Enter for none", proposed, check))]

    def text(self, question: str, default: str, check: Check) -> str:
        """Ask for a text."""
        return self._typed(question, default, check)

    def secret(self, question: str, check: Check) -> str:
        """Ask for a secret without showing it."""
        return self._typed(question, "", check, read=lambda text_shown: getpass.getpass(text_shown, stream=sys.stderr))

    def confirm(self, question: str, default: bool) -> bool:
        """Ask a yes-or-no question."""

        def check(text: str) -> str | None:
            return None if text.lower() in ("y", "yes", "n", "no") else "type y or n"

        return self._typed(f"{question} y/n", "y" if default else "n", check).lower().startswith("y")

    def _list(self, question: str, choices: Sequence[MenuItem]) -> None:
        self.say(question)
        for number, choice in enumerate(choices, 1):
            self.say(f"{number}) {choice.line}")

    def _typed(self, question: str, default: str, check: Check, read: Callable[[str], str] | None = None) -> str:
        proposed = f" [{default}]" if default else ""
        while True:
            typed = (read or _line)(f"? {question}{proposed}: ")
            if typed.strip() in _BACK_WORDS:
                raise BackAsked
            answer = typed.strip() or default
            wrong = check(answer)
            if wrong is None:
                return answer
            self.say(wrong, "bad")


def _line(question: str) -> str:
    """Ask for a line; the end of stdin stops the wizard."""
    streams.write_err(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.rstrip("\n")


def _parts(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _number_of(values: Sequence[str]) -> Check:
    def check(text: str) -> str | None:
        right = text.isascii() and text.isdigit() and 1 <= int(text) <= len(values)
        return None if right else f"type a number from 1 to {len(values)}"

    return check


def ask(relationships: Sequence[ReviewedRelationship], choices: list[TypedDecision]) -> None:
    """Ask about each relationship until the person quits, and add the decisions to `choices`.

    Raises `EOFError` at the end of the input and `KeyboardInterrupt` on Ctrl-C; the added decisions stay.
    """
    from ktx_cli.jobs.review import TypedDecision
    from ktx_cli.scan import Decision

    decisions = {"a": Decision.ACCEPT, "r": Decision.REJECT}
    for number, each in enumerate(relationships, start=1):
        streams.write_err(_shown(each, f"{number} of {len(relationships)}"))
        answer = _answer(each.missing)
        if answer == "q":
            break
        if answer in decisions:
            choices.append(TypedDecision(each.name, decisions[answer], each.connection))


def _shown(reviewed: ReviewedRelationship, position: str) -> str:
    found = reviewed.relationship
    facts = f"{reviewed.status.value}, score {found.probability:g}, {found.cardinality.value}"
    details = f"{facts}, from {', '.join(found.sources)}" if found.sources else facts
    title = f"{position}: {reviewed.name} ({reviewed.connection})"
    return f"{one_line(title, 400)}\n  {one_line(details)}\n  {one_line(found.reason)}\n"


def _answer(missing: str | None) -> str:
    """Return a, r, s or q, but never a if something is `missing`; asks again after any other input.

    Raises `EOFError` when the input is at its end.
    """
    while True:
        word = _typed_line("[a]ccept  [r]eject  [s]kip  [q]uit: ").casefold()
        if word == "" or not any(full.startswith(word) for full in ("accept", "reject", "skip", "quit")):
            streams.write_err("type a, r, s or q and press Enter\n")
        elif word[0] == "a" and missing is not None:
            streams.write_err(f"this join cannot be accepted: {one_line(missing)}\n")
        else:
            return word[0]


def ask_contradiction(recorded: RecordedContradiction, position: str, reason: str | None) -> Answer | None:
    """Ask which statements of a contradiction hold, and for the reason unless it is given, or None if the person quits.

    An answer without statements and reason skips the contradiction. Raises as `ask`.
    """
    from ktx_cli.jobs.contradictions import Answer

    found = recorded.contradiction
    count = len(found.statements)
    allowed = {str(number) for number in range(1, count + 1)}
    lines = [f"{position}: {one_line(found.topic, 400)}"]
    lines += [
        f"  {number}) {one_line(each.label, 1_000)}\n     effect: {one_line(each.effect, 400)}"
        for number, each in enumerate(found.statements, 1)
    ]
    lines += [f"  evidence: {one_line(found.evidence, 1_000)}"] if found.evidence else []
    streams.write_err("\n".join(lines) + "\n")
    while True:
        word = _typed_line(
            f"Which statements hold? [1-{count}], for example 1 or 1 2  [n]either  [s]kip  [q]uit: "
        ).casefold()
        if word in ("q", "quit"):
            return None
        if word in ("s", "skip"):
            return Answer()
        neither = word in ("n", "neither")
        numbers = [] if neither else _parts(word)
        if neither or (numbers and allowed.issuperset(numbers)):
            break
        streams.write_err(f"type numbers from 1 to {count}, n, s or q and press Enter\n")
    holds = tuple(sorted({int(each) for each in numbers}))
    why = reason or ""
    while not why:
        optional = len(holds) == 1
        why = _typed_line("Reason (optional): " if optional else "Reason: ")
        if why or optional:
            break
    return Answer(holds, why or None)


def ask_decisions(points: Sequence[tuple[Decisions, DecisionPoint]], choices: list[Choice]) -> None:
    """Ask for the reading of each decision point until the person quits, and add the decisions to `choices`.

    Raises as `ask`; the added decisions stay.
    """
    from ktx_cli.jobs.decide.decide import Choice

    for number, (decisions, point) in enumerate(points, start=1):
        streams.write_err(_decision_text(decisions, point, f"{number} of {len(points)}"))
        count = len(point.alternatives)
        word = ""
        while not word:
            word = _typed_line(f"Which reading? [1-{count}]  [s]kip  [q]uit: ").casefold()
            if word not in ("s", "skip", "q", "quit", *map(str, range(1, count + 1))):
                streams.write_err(f"type a number from 1 to {count}, s or q and press Enter\n")
                word = ""
        if word in ("q", "quit"):
            break
        if word in ("s", "skip"):
            continue
        chosen = point.alternatives[int(word) - 1]
        reason = _typed_line("Reason (optional): ") or None
        choices.append(Choice(f"{decisions.connection}/{point.id}", chosen.id, reason))


def _decision_text(decisions: Decisions, point: DecisionPoint, position: str) -> str:
    """Return the text shown before a decision: the question, evidence, and the values under each reading."""
    from ktx_cli.semantic import short_number

    effects = decisions.effects_of(point)[:3]
    lines = [_filled(f"{position}: {one_line(point.question, 400)} ({point.id})", "", "  ")]
    lines += [_filled(one_line(each, 400), "  ", "  ") for each in point.evidence]
    stated = (f"stated: {one_line(each.text, 400)} ({each.path}:{each.line})" for each in point.statements)
    lines += [_filled(each, "  ", "  ") for each in stated]
    for number, each in enumerate(point.alternatives, 1):
        values = [
            f"{effect.measure}{f' {effect.period}' if effect.period else ''}: {short_number(effect.values[each.id])}"
            for effect in effects
            if each.id in effect.values
        ]
        shown = f" [{'; '.join(values)}]" if values else ""
        lines.append(_filled(f"{number}) {one_line(each.label, 200)}{shown}", "  ", "     "))
    return "\n".join(lines) + "\n"


def _typed_line(question: str) -> str:
    """Return a typed line without surrounding whitespace; raises `EOFError` at the end of the input."""
    streams.write_err(question)
    typed = sys.stdin.readline()
    if not typed:
        raise EOFError
    return typed.strip()
