"""Contradictions between sources: what agents record of them, and the file that keeps them until a person decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ktx_cli.core import ConfigError, Record, yaml
from ktx_cli.project import CONTRADICTIONS_NAME, Tree, append_value, delete_value, set_value

DATA: Final = "data"
"""The source of a statement that the rows of a database make."""

_HEADER: Final = """\
# Sources that contradict each other, as the agents of ktx recorded them. ktx adds to this file, and prefers no source.
# To decide, write `decision: ...` into an entry, or correct the source and delete the entry.
"""
_ENTRIES: Final = "contradictions"


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
    """The date that the source states, as it states it."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Statement:
        """Return a statement from its plain values; raises `TypeError` or `KeyError` where they are not one."""
        date = stored.get("date")
        return cls(
            str(stored["text"]), str(stored["source"]), str(stored["effect"]), None if date is None else str(date)
        )

    @property
    def label(self) -> str:
        """The source and the words of the statement, for one line."""
        dated = f", {self.date}" if self.date else ""
        return f"{self.source}{dated}: {self.text}"


@dataclass(frozen=True, slots=True)
class Contradiction(Record):
    """Two or more statements of which not all can hold."""

    topic: str
    statements: tuple[Statement, ...]
    evidence: str | None = None
    """What shows that both cannot be right, such as a query and its result."""
    decision: str | None = None
    """What a person decided; None while nobody has."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Contradiction:
        """Return a contradiction from its plain values; raises `TypeError` or `KeyError` where they are not one."""
        statements = tuple(Statement.from_json(each) for each in stored["statements"])
        optional = (stored.get("evidence"), stored.get("decision"))
        return cls(str(stored["topic"]), statements, *(None if each is None else str(each) for each in optional))

    @property
    def identity(self) -> tuple[str, frozenset[str]]:
        """What two records of the same contradiction share: the topic and the sources."""
        return " ".join(self.topic.casefold().split()), frozenset(self.sources)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the statements, each once, in their order."""
        return tuple(dict.fromkeys(each.source for each in self.statements))

    @property
    def summary(self) -> str:
        """All statements in one line."""
        return "; ".join(each.label for each in self.statements)

    def joined(self, other: Contradiction) -> Contradiction:
        """Return the contradiction with the statements that another record of it adds."""
        texts = {(each.source, each.text) for each in self.statements}
        new = (each for each in other.statements if (each.source, each.text) not in texts)
        return replace(self, statements=(*self.statements, *new), evidence=self.evidence or other.evidence)

    def stored(self) -> dict[str, Any]:
        """Return it as plain values, without what is not known."""
        statements = [_known(asdict(each)) for each in self.statements]
        return _known({**asdict(self), "statements": statements})


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def merged(found: Iterable[Contradiction]) -> list[Contradiction]:
    """Return contradictions with each recorded once, in the order in which they were first recorded."""
    once: dict[tuple[str, frozenset[str]], Contradiction] = {}
    for each in found:
        known = once.get(each.identity)
        once[each.identity] = each if known is None else known.joined(each)
    return list(once.values())


def load_contradictions(tree: Tree) -> list[Contradiction]:
    """Return the contradictions that a tree keeps; raises `ConfigError` for a file that cannot be read."""
    content = tree.read(CONTRADICTIONS_NAME)
    return [] if content is None else [_entry(each) for each in _entries(content)]


def with_contradictions(content: bytes | None, found: Sequence[Contradiction], gone: Collection[str]) -> bytes | None:
    """Return the text of the file with what a run found; None where there is nothing to keep.

    `gone`: the deleted raw files of the run, as `SOURCE/path`: their statements are dropped, and with them entries
    that have fewer than two left. An entry that is recorded again takes the new words, unless a person has decided it.
    Raises `ConfigError` for a file that cannot be read or edited.
    """
    new = merged(found)
    if content is None:
        text = yaml.dump({_ENTRIES: [each.stored() for each in new]})
        return f"{_HEADER}{text}".encode() if new else None
    entries = [_entry(each) for each in _entries(content)]
    known = {each.identity: number for number, each in enumerate(entries)}
    for number in reversed(range(len(entries))):
        content = _updated(content, number, entries[number], new, gone)
    for each in new:
        if each.identity not in known:
            content = append_value(content, (_ENTRIES,), each.stored(), where=CONTRADICTIONS_NAME)
    return content if _entries(content) else None


def _updated(
    content: bytes, number: int, entry: Contradiction, new: Iterable[Contradiction], gone: Collection[str]
) -> bytes:
    again = next((each for each in new if each.identity == entry.identity), None)
    left = [each for each in entry.statements if each.source not in gone]
    if again is None and len(left) < min(2, len(entry.statements)):
        return delete_value(content, (_ENTRIES, number), where=CONTRADICTIONS_NAME)
    wanted = entry if again is None or entry.decision is not None else again
    kept = tuple(each for each in wanted.statements if each.source not in gone)
    if kept == entry.statements:
        return content
    statements = [_known(asdict(each)) for each in kept]
    return set_value(content, (_ENTRIES, number, "statements"), statements, where=CONTRADICTIONS_NAME)


def _entries(content: bytes) -> list[Any]:
    document = yaml.load(content, where=CONTRADICTIONS_NAME)
    found = (document or {}).get(_ENTRIES) if isinstance(document or {}, dict) else None
    if document and not isinstance(found, list | None):
        raise _unreadable()
    return list(found or ())


def _entry(stored: Any) -> Contradiction:
    try:
        return Contradiction.from_json(stored)
    except (AttributeError, KeyError, TypeError) as error:
        raise _unreadable() from error


def _unreadable() -> ConfigError:
    message = f"{CONTRADICTIONS_NAME} has an entry that is not a contradiction"
    return ConfigError(message, hint=f"correct the entry, or restore {CONTRADICTIONS_NAME} from an earlier commit")
