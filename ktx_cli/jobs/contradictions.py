"""List recorded contradictions between sources, and record a person's decision about one."""

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
    """An entry of `contradictions.yaml`. `number` is its position in the file, from 1."""

    number: int
    line: int
    contradiction: Contradiction

    def to_json(self) -> dict[str, Any]:
        """Return the entry for the envelope."""
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
    """A person's decision about a contradiction."""

    holds: tuple[int, ...] = ()
    """The numbers of the correct statements, starting at 1. Empty if none holds."""
    reason: str | None = None
    by: str | None = None
    """The person's name. The default is the git author."""


def list_contradictions(layout: Layout) -> list[RecordedContradiction]:
    """Return all entries in file order. Raises `ConfigError` for an invalid file."""
    content = read_bytes(layout.root / CONTRADICTIONS_NAME)
    if content is None:
        return []
    found = contradictions_in(content)
    return [
        RecordedContradiction(number, entry_line(content, number - 1), each) for number, each in enumerate(found, 1)
    ]


def find_contradiction(recorded: Sequence[RecordedContradiction], word: str) -> RecordedContradiction:
    """Return the entry with a topic or number. Raises `UsageError` if no or several entries match."""
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(recorded):
        return recorded[int(word) - 1]
    wanted = " ".join(word.casefold().split())
    found = [each for each in recorded if " ".join(each.contradiction.topic.casefold().split()) == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = listing(str(each.number) for each in found)
        message = f"{len(found)} contradictions have the topic `{one_line(word, 120)}`: {numbers}"
        raise UsageError(message, hint=Hint("choose one by its number: {}", COMMAND.with_words(str(found[0].number))))
    near = did_you_mean(word, [each.contradiction.topic for each in recorded])
    hint = COMMAND.with_words("--all") if near is None else COMMAND.with_words(near)
    raise UsageError(f"no contradiction has the topic or number `{one_line(word, 120)}`", hint=hint)


def decide(layout: Layout, chosen: RecordedContradiction, answer: Answer) -> RecordedContradiction:
    """Write a decision into `contradictions.yaml` without committing it, and return the new entry.

    Raises `UsageError` for an invalid answer, and `ConfigError` for a file that cannot be edited.
    """
    return _rewritten(layout, chosen, _decision(layout, chosen.contradiction, answer))


def reopen(layout: Layout, chosen: RecordedContradiction) -> RecordedContradiction:
    """Remove the decision from an entry, and return the new entry. Raises the same errors as `decide`."""
    return _rewritten(layout, chosen, None)


def _decision(layout: Layout, found: Contradiction, answer: Answer) -> ContradictionDecision:
    count = len(found.statements)
    wrong = [each for each in answer.holds if not 1 <= each <= count]
    if wrong:
        raise UsageError(
            f"--holds requires the number of a statement from 1 to {count}, not {wrong[0]}",
            hint=COMMAND.with_words(found.topic),
        )
    holds = tuple(sorted(set(answer.holds)))
    reason = " ".join((answer.reason or "").split()) or None
    if reason is None and len(holds) != 1:
        held = plural(len(holds), "statement") if holds else "none of the statements"
        message = f"a decision for {held} requires a reason"
        raise UsageError(message, hint="add --because TEXT, for example --because 'they are about different periods'")
    signed = sign_decision(layout, reason, answer.by)
    return ContradictionDecision(holds, signed.by, signed.on, reason)


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """The author, the day (YYYY-MM-DD) and the reason of a decision."""

    by: str
    on: str
    reason: str | None = None


def sign_decision(layout: Layout, reason: str | None, by: str | None = None) -> SignedDecision:
    """Return the signature of a decision. Without `by`, the git author signs it.

    Raises `UsageError` without an author, and for a text that contains a secret.
    """
    reason = " ".join((reason or "").split()) or None
    name = " ".join((by or _author(layout) or "").split())
    if not name:
        raise UsageError("the decision needs a name, and git has no author name", hint="add --by NAME")
    spots = [spot.message for text in (reason or "", name) for spot in secrets(text)]
    if spots:
        raise UsageError(f"the decision contains {spots[0]}", hint="remove it")
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
        raise ConfigError(f"{CONTRADICTIONS_NAME} changed in the meantime; ktx wrote nothing", hint=COMMAND)
    after = with_decision(content, chosen.number - 1, made)
    if after != content:
        write_atomic(path, after)
    number = chosen.number
    return RecordedContradiction(number, entry_line(after, number - 1), contradictions_in(after)[number - 1])
