"""Contradictions between sources: those that are recorded, and the decision of a person about one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, ConfigError, Hint, UsageError, did_you_mean, isoformat, listing, now, one_line, plural
from ktx_cli.privacy import secrets
from ktx_cli.project import CONTRADICTIONS_NAME, Layout, Repository, read_bytes, write_atomic
from ktx_cli.wiki import ContradictionDecision, contradictions_in, entry_line, with_decision

if TYPE_CHECKING:
    from ktx_cli.wiki import Contradiction

COMMAND: Final = Command("wiki", "contradictions")


@dataclass(frozen=True, slots=True)
class RecordedContradiction:
    """An entry of `contradictions.yaml`. `number`: its place in the file, from 1."""

    number: int
    line: int
    contradiction: Contradiction

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in an envelope."""
        found = self.contradiction
        return {
            "number": self.number,
            "path": CONTRADICTIONS_NAME,
            "line": self.line,
            "status": "decided" if found.is_decided else "open",
            **found.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person says of a contradiction."""

    holds: tuple[int, ...] = ()
    """The statements that hold, from 1; none: neither holds."""
    reason: str | None = None
    by: str | None = None
    """Who decides; None: the author of git commits."""


def list_contradictions(layout: Layout) -> list[RecordedContradiction]:
    """Return all that are recorded, in the order of the file; `ConfigError` for a file that cannot be read."""
    content = read_bytes(layout.root / CONTRADICTIONS_NAME)
    if content is None:
        return []
    found = contradictions_in(content)
    return [
        RecordedContradiction(number, entry_line(content, number - 1), each) for number, each in enumerate(found, 1)
    ]


def find_contradiction(recorded: Sequence[RecordedContradiction], word: str) -> RecordedContradiction:
    """Return the entry of a topic or a number; `UsageError` for none (with the nearest) or several (with all)."""
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(recorded):
        return recorded[int(word) - 1]
    wanted = " ".join(word.casefold().split())
    found = [each for each in recorded if " ".join(each.contradiction.topic.casefold().split()) == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = listing(str(each.number) for each in found)
        message = f"{len(found)} contradictions have the topic `{one_line(word, 120)}`: {numbers}"
        raise UsageError(message, hint=Hint("name one by its number: {}", COMMAND.with_words(str(found[0].number))))
    near = did_you_mean(word, [each.contradiction.topic for each in recorded])
    hint = COMMAND.with_words("--all") if near is None else COMMAND.with_words(near)
    raise UsageError(f"no contradiction has the topic or the number `{one_line(word, 120)}`", hint=hint)


def decide(layout: Layout, chosen: RecordedContradiction, answer: Answer) -> RecordedContradiction:
    """Write a decision into `contradictions.yaml` and return the entry as it is then; nothing is committed.

    Raises `UsageError` for an answer that does not fit, `ConfigError` for a file that cannot be edited.
    """
    return _rewritten(layout, chosen, _decision(layout, chosen.contradiction, answer))


def reopen(layout: Layout, chosen: RecordedContradiction) -> RecordedContradiction:
    """Take the decision out of an entry and return the entry as it is then. Errors as in `decide`."""
    return _rewritten(layout, chosen, None)


def _decision(layout: Layout, found: Contradiction, answer: Answer) -> ContradictionDecision:
    count = len(found.statements)
    wrong = [each for each in answer.holds if not 1 <= each <= count]
    if wrong:
        raise UsageError(
            f"--holds takes the number of a statement, 1 to {count}, not {wrong[0]}",
            hint=COMMAND.with_words(found.topic),
        )
    holds = tuple(sorted(set(answer.holds)))
    reason = " ".join((answer.reason or "").split()) or None
    if reason is None and len(holds) != 1:
        held = plural(len(holds), "statement") if holds else "none of the statements"
        message = f"a decision for {held} needs a reason"
        raise UsageError(message, hint="add --because TEXT, for example --because 'they are about different periods'")
    signed = sign_decision(layout, reason, answer.by)
    return ContradictionDecision(holds, signed.by, signed.on, reason)


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """Who decides, on which day (YYYY-MM-DD), and why."""

    by: str
    on: str
    reason: str | None = None


def sign_decision(layout: Layout, reason: str | None, by: str | None = None) -> SignedDecision:
    """Return who decides and when; without `by` the author of git commits.

    Raises `UsageError` where nobody is named, and for a text that contains a secret.
    """
    reason = " ".join((reason or "").split()) or None
    name = " ".join((by or _author(layout) or "").split())
    if not name:
        raise UsageError("git has no author name for the decision", hint="add --by NAME")
    spots = [spot.message for text in (reason or "", name) for spot in secrets(text)]
    if spots:
        raise UsageError(f"the decision contains {spots[0]}", hint="leave it out")
    return SignedDecision(name, isoformat(now())[:10], reason)


def _author(layout: Layout) -> str | None:
    repository = Repository.discover(layout.root)
    return None if repository is None else repository.author_name()


def _rewritten(
    layout: Layout, chosen: RecordedContradiction, made: ContradictionDecision | None
) -> RecordedContradiction:
    path = layout.root / CONTRADICTIONS_NAME
    content = read_bytes(path) or b""
    entries = contradictions_in(content)
    if chosen.number > len(entries) or entries[chosen.number - 1] != chosen.contradiction:
        raise ConfigError(f"{CONTRADICTIONS_NAME} has changed in the meantime; nothing was written", hint=COMMAND)
    after = with_decision(content, chosen.number - 1, made)
    if after != content:
        write_atomic(path, after)
    number = chosen.number
    return RecordedContradiction(number, entry_line(after, number - 1), contradictions_in(after)[number - 1])
