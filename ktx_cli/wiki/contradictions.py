"""Contradictions between sources: the records of agents, and the file that keeps them until a person decides."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ktx_cli.core import ConfigError, Record, did_you_mean, one_line, yaml
from ktx_cli.project import CONTRADICTIONS_NAME, Edit, Tree, append_value, apply, delete_value, set_value

DATA: Final = "data"
"""The source of a statement that comes from the rows of a database."""

_HEADER: Final = """\
# Sources that contradict each other, as recorded by ktx's agents. ktx adds to this file, and prefers no source.
# To decide, run `ktx wiki contradictions --review`, or correct the source and delete the entry.
"""
_ENTRIES: Final = "contradictions"

_ENGLISH: Final = "a an and about are at by definition for in is of on or the to what when which vs versus"
_GERMAN: Final = "das dem den der des die ein eine für im in ist mit oder und von was zu zum zur"
_FILLERS: Final = frozenset(f"{_ENGLISH} {_GERMAN}".split())
"""Words that do not distinguish topics."""


@dataclass(frozen=True, slots=True)
class Statement(Record):
    """One side of a contradiction."""

    text: str
    """What the source says, in its own words."""
    source: str
    """`SOURCE/path` of a raw file, `wiki:key`, `sl:connection/source[.member]`, `data`, or `text` of a capture."""
    effect: str
    """What would change if this statement held."""
    date: str | None = None
    """The date in the source, as written there."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Statement:
        """Return a statement from its plain values; raises `TypeError` or `KeyError` if they are invalid."""
        date = stored.get("date")
        return cls(
            str(stored["text"]), str(stored["source"]), str(stored["effect"]), None if date is None else str(date)
        )

    @property
    def label(self) -> str:
        """The source and the words of the statement, as one line."""
        dated = f", {self.date}" if self.date else ""
        return f"{self.source}{dated}: {self.text}"


@dataclass(frozen=True, slots=True)
class Contradiction(Record):
    """Two or more statements that cannot all hold."""

    topic: str
    statements: tuple[Statement, ...]
    evidence: str | None = None
    """Evidence that the statements cannot all be true, such as a query and its result."""
    decision: str | None = None
    """The decision that a person made, in a sentence; None if there is none yet."""
    holds: tuple[str, ...] = ()
    """The sources whose statements hold according to the decision, if it names any."""
    reason: str | None = None
    decided_by: str | None = None
    decided_on: str | None = None
    """The date of the decision, as YYYY-MM-DD."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Contradiction:
        """Return a contradiction from its plain values; raises `TypeError` or `KeyError` if they are invalid."""
        statements = tuple(Statement.from_json(each) for each in stored["statements"])
        holds = stored.get("holds") or ()
        texts = {name: str(stored[name]) for name in _TEXTS if stored.get(name) is not None}
        sources = (holds,) if isinstance(holds, str) else tuple(map(str, holds))
        return cls(str(stored["topic"]), statements, holds=sources, **texts)

    @property
    def is_decided(self) -> bool:
        """Whether a person has decided the contradiction."""
        return self.decision is not None

    def same_as(self, other: Contradiction) -> bool:
        """Return whether two records are about the same contradiction.

        They are if their topics have the same words and they share a source, or if they share two statements.
        """
        if len({*self._texts()} & {*other._texts()}) > 1:
            return True
        return _topic_words(self.topic) == _topic_words(other.topic) and bool({*self.sources} & {*other.sources})

    def settles(self, other: Contradiction) -> bool:
        """Return whether this decision also applies to another record: the same contradiction, without further
        sources.
        """
        return self.is_decided and self.same_as(other) and {*other.sources} <= {*self.sources}

    def _texts(self) -> list[tuple[str, str]]:
        return [(each.source, each.text) for each in self.statements]

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the statements, each once, in order."""
        return tuple(dict.fromkeys(each.source for each in self.statements))

    @property
    def summary(self) -> str:
        """All statements as one line."""
        return "; ".join(each.label for each in self.statements)

    def joined(self, other: Contradiction) -> Contradiction:
        """Return the contradiction with the additional statements from another record of it."""
        texts = {*self._texts()}
        new = (each for each in other.statements if (each.source, each.text) not in texts)
        return replace(self, statements=(*self.statements, *new), evidence=self.evidence or other.evidence)

    @property
    def decision_summary(self) -> str:
        """The decision, reason, person and date as one line; empty if there is no decision."""
        if self.decision is None:
            return ""
        who, day = self.decided_by, self.decided_on
        by = " ".join(filter(None, (who and f"by {who}", day and f"on {day}")))
        reason = f" because {self.reason}" if self.reason else ""
        return f"{self.decision.rstrip('.')}{reason.rstrip('.')}" + (f" ({by})" if by else "")

    def stored(self) -> dict[str, Any]:
        """Return the contradiction as plain values, omitting unknown ones."""
        statements = [_known(asdict(each)) for each in self.statements]
        return _known({**asdict(self), "statements": statements, "holds": list(self.holds)})


_TEXTS: Final = ("evidence", "decision", "reason", "decided_by", "decided_on")
_DECISION: Final = ("decision", "holds", "reason", "decided_by", "decided_on")
"""The keys of an entry that a decision writes."""


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [])}


def _topic_words(topic: str) -> frozenset[str]:
    """Return the words that distinguish a topic from others."""
    words = frozenset(re.findall(r"\w+", topic.casefold()))
    return words - _FILLERS or words


def merged(found: Iterable[Contradiction]) -> list[Contradiction]:
    """Return contradictions without duplicates, in the order in which they were first recorded."""
    once: list[Contradiction] = []
    for each in found:
        number = next((number for number, known in enumerate(once) if known.same_as(each)), None)
        if number is None:
            once.append(each)
        else:
            once[number] = once[number].joined(each)
    return once


def settled(kept: Iterable[Contradiction], found: Contradiction) -> Contradiction | None:
    """Return the stored contradiction whose decision also applies to a recorded one, or None if there is none."""
    return next((each for each in kept if each.settles(found)), None)


def load_contradictions(tree: Tree) -> list[Contradiction]:
    """Return the contradictions in a tree; raises `ConfigError` for an unreadable file."""
    content = tree.read(CONTRADICTIONS_NAME)
    return [] if content is None else contradictions_in(content)


def contradictions_in(content: bytes) -> list[Contradiction]:
    """Return the contradictions in the text of the file; raises `ConfigError` for invalid text."""
    return [_entry(each, content, number) for number, each in enumerate(_entries(content))]


def with_contradictions(content: bytes | None, found: Sequence[Contradiction], gone: Collection[str]) -> bytes | None:
    """Return the file's text with the contradictions from a run added, or None if there is nothing to store.

    `gone`: the deleted raw files of the run, as `SOURCE/path`: their statements are dropped, and with them entries with
    fewer than two statements left. An entry that is recorded again gets the new words, unless a person has decided it.
    Raises `ConfigError` for a file that cannot be read or edited.
    """
    new = merged(found)
    if content is None:
        text = yaml.dump({_ENTRIES: [each.stored() for each in new]})
        return f"{_HEADER}{text}".encode() if new else None
    entries = contradictions_in(content)
    again: dict[int, list[Contradiction]] = {}
    unknown = []
    for each in new:
        number = next((number for number, entry in enumerate(entries) if _is_known(entry, each)), None)
        if number is None:
            unknown.append(each)
        else:
            again.setdefault(number, []).append(each)
    for number in reversed(range(len(entries))):
        content = _updated(content, number, entries[number], again.get(number, ()), gone)
    for each in unknown:
        content = append_value(content, (_ENTRIES,), each.stored(), where=CONTRADICTIONS_NAME)
    return content if _entries(content) else None


def _is_known(entry: Contradiction, found: Contradiction) -> bool:
    return entry.settles(found) if entry.is_decided else entry.same_as(found)


def _updated(
    content: bytes, number: int, entry: Contradiction, again: Sequence[Contradiction], gone: Collection[str]
) -> bytes:
    """Return the file's text with a re-recorded entry (`again`) updated, and statements from deleted files removed."""
    left = [each for each in entry.statements if each.source not in gone]
    if not again and len(left) < min(2, len(entry.statements)):
        return delete_value(content, (_ENTRIES, number), where=CONTRADICTIONS_NAME)
    new = () if entry.is_decided else tuple(each for found in again for each in found.statements)
    renewed = {each.source for each in new}
    wanted = (*(each for each in entry.statements if each.source not in renewed), *new)
    kept = tuple(each for each in wanted if each.source not in gone)
    if kept == entry.statements:
        return content
    statements = [_known(asdict(each)) for each in kept]
    return set_value(content, (_ENTRIES, number, "statements"), statements, where=CONTRADICTIONS_NAME)


@dataclass(frozen=True, slots=True)
class ContradictionDecision:
    """A person's decision about a contradiction."""

    holds: tuple[int, ...]
    """The statements that hold, counted from 1; empty if none holds."""
    decided_by: str
    decided_on: str
    reason: str | None = None

    def sentence(self, of: Contradiction) -> str:
        """Return the decision as a sentence: the only statement that holds, or the number of statements that hold."""
        if len(self.holds) == 1:
            return of.statements[self.holds[0] - 1].text
        if not self.holds:
            return "None of the statements holds."
        if len(self.holds) < len(of.statements):
            return f"{len(self.holds)} of {len(of.statements)} statements hold."
        return "Both statements hold." if len(of.statements) == 2 else f"All {len(of.statements)} statements hold."


def with_decision(content: bytes, number: int, made: ContradictionDecision | None) -> bytes:
    """Return the file's text with a decision on the entry `number` (from 0); a decision of None reopens the entry.

    Nothing else in the file changes. Raises `ConfigError` for a file that cannot be read or edited.
    """
    entry = contradictions_in(content)[number]
    values: dict[str, Any] = dict.fromkeys(_DECISION)
    if made is not None:
        chosen = dict.fromkeys(entry.statements[each - 1].source for each in made.holds)
        known = (made.reason, made.decided_by, made.decided_on)
        values = dict(zip(_DECISION, (made.sentence(entry), list(chosen) or None, *known), strict=True))
    edits = [
        Edit("delete", (_ENTRIES, number, name)) if value is None else Edit("set", (_ENTRIES, number, name), value)
        for name, value in values.items()
    ]
    return apply(content, edits, where=CONTRADICTIONS_NAME)


def entry_line(content: bytes, number: int) -> int:
    """Return the line on which the entry `number` (from 0) begins."""
    place = yaml.locate(content, (_ENTRIES, number, "topic")) or yaml.locate(content, (_ENTRIES, number))
    return place[0] if place else 1


def _entries(content: bytes) -> list[Any]:
    document = yaml.load(content, where=CONTRADICTIONS_NAME)
    if document is None:
        return []
    if not isinstance(document, dict):
        raise _unreadable(content, (), f"the file is not a mapping with the key `{_ENTRIES}`")
    for key in document:  # other keys are notes of people, next to the list
        if key != _ENTRIES and (_ENTRIES not in document or did_you_mean(str(key), [_ENTRIES])):
            raise _unreadable(content, (key,), f"there is no key `{one_line(str(key), 80)}`", f"use `{_ENTRIES}`")
    found = document.get(_ENTRIES)
    if not isinstance(found, list | None):
        raise _unreadable(content, (_ENTRIES,), f"the value of `{_ENTRIES}` is not a list")
    return list(found or ())


def _entry(stored: Any, content: bytes, number: int) -> Contradiction:
    path = (_ENTRIES, number)
    if not isinstance(stored, dict) or not stored.get("topic") or not isinstance(stored.get("statements"), list):
        topic = stored.get("topic") if isinstance(stored, dict) else stored
        raise _unreadable(content, path, f"the entry `{one_line(str(topic), 80)}` is not a topic with statements")
    _check_keys(stored, _KEYS, content, path)
    for place, statement in enumerate(stored["statements"]):
        below = (*path, "statements", place)
        if not isinstance(statement, dict):
            raise _unreadable(content, below, f"statement {place + 1} of `{stored['topic']}` is not a mapping")
        _check_keys(statement, _STATEMENT_KEYS, content, below)
        for name in _NEEDED:
            if statement.get(name) in (None, ""):
                what = f"statement {place + 1} of `{one_line(str(stored['topic']), 80)}` has no `{name}`"
                raise _unreadable(content, below, what, f"add `{name}`: {_NEEDED[name]}")
    try:
        return Contradiction.from_json(stored)
    except (AttributeError, KeyError, TypeError) as error:
        what = f"the entry `{one_line(str(stored['topic']), 80)}` is not a topic with statements"
        raise _unreadable(content, path, what) from error


_KEYS: Final = ("topic", "statements", *_TEXTS, "holds")
_STATEMENT_KEYS: Final = ("text", "source", "effect", "date")
_NEEDED: Final = {
    "text": "what the source says",
    "source": "where it says so",
    "effect": "what would change if this statement held",
}
"""Key of a statement -> its meaning."""


def _check_keys(stored: Mapping[str, Any], known: Sequence[str], content: bytes, path: tuple[str | int, ...]) -> None:
    """Raise `ConfigError` for a key that looks misspelled; other keys are notes by people."""
    for key in stored:
        near = None if key in known else did_you_mean(str(key), [each for each in known if each not in stored])
        if near:
            raise _unreadable(content, (*path, key), f"there is no key `{one_line(str(key), 80)}`", f"use `{near}`")


def _unreadable(content: bytes, path: tuple[str | int, ...], message: str, hint: str = "") -> ConfigError:
    line = (yaml.locate(content, path) or (1, 1))[0]
    hint = hint or "correct the entry"
    return ConfigError(
        f"{CONTRADICTIONS_NAME}:{line}: {message}",
        hint=f"{hint}, or restore {CONTRADICTIONS_NAME} from an earlier commit",
        details={"path": CONTRADICTIONS_NAME, "line": line, "problem": message},
    )
