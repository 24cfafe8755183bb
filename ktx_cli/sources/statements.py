"""Sources' statements about decision points, and the sentences in documents that make them, with their locations.

Every projection reads the statements again from the whole source, and replaces the previous ones. Superseded documents
and drafts do not count; neither do sentences with secrets or personal data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ktx_cli.core import KtxError, StorageError, one_line
from ktx_cli.documents import (
    FISCAL_YEAR_START,
    UnreadableDocumentError,
    outside_fences,
    read_document,
    stated_conventions,
    stated_standing,
)
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.scan import FoundPoint, PointKey, decisions_path, name_words, points_bytes, read_record, same_thing, stem
from ktx_cli.semantic import DecisionKind, Statement
from ktx_cli.wiki import hidden_characters, instructions

if TYPE_CHECKING:
    from ktx_cli.documents import RawFile, Snapshot
    from ktx_cli.project import Workspace

MOST: Final = 2
"""The maximum number of statements per point that are kept from one source."""

LONGEST: Final = 240
"""The maximum length of a kept statement."""
_MOST_CHARACTERS: Final = 400_000
_SENTENCE: Final = re.compile(r"[^.!?;]+(?:\.(?=\w)[^.!?;]+)*[.!?;]?")
_MARKUP: Final = re.compile(r"[*`_#>|]+")
_WORD: Final = re.compile(r"[^\W\d_]+")

Find = Callable[[FoundPoint], Iterable[Statement]]
"""Finds the statements about a point, starting with the best."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COUNTS: Final = re.compile(
    r"(?<!\w)(?:counts?|counted|counting|exclud\w+|includ\w+|ignor\w+|omit\w*|drop(?:ped|s)?|filter\w*|only|never|skip\w*"
    r"|left out|leave out|not part|part of|belongs?|considered|treated|in no figure|disregard\w*|without|reported"
    r"|zählen|zählt|gezählt|ausgeschlossen|einbezogen|cuentan|comptent)(?!\w)",
    re.IGNORECASE,
)
"""Words in sentences that define what counts."""

_ABOUT: Final[Mapping[DecisionKind, frozenset[str]]] = {
    DecisionKind.INTERNAL: _words(
        "internal test tests demo demos sandbox dummy staff sample samples monitoring complimentary bot bots inside"
        " trial trials free intern interne interner testkonten"
    ),
    DecisionKind.DELETED: _words(
        "deleted deletion archived removed retired withdrawn discontinued purged taken gelöscht gelöschte"
    ),
    DecisionKind.MERGED: _words("merged merge merging duplicate duplicates canonical zusammengeführt"),
    DecisionKind.DUPLICATES: _words(
        "duplicate duplicates duplicated twice repeated repeat once again doppelt deduplicated"
    ),
    DecisionKind.STAFF: _words("staff employees employee colleagues domain mitarbeiter company"),
    DecisionKind.STATUS: _words("status statuses state stage contractors interns temporary"),
    DecisionKind.ENTITY: _words(
        "own group groups parent parents variant variants household households holding hierarchy"
    ),
    DecisionKind.AMOUNT: _words(
        "gross net tax taxes vat discount discounts discounted fee fees brutto netto steuer rabatt"
    ),
    DecisionKind.UNIT: _words("cents cent pence minor millionths micros euros dollars pounds units"),
    DecisionKind.CURRENCY: _words("currency currencies converted conversion convert exchange rates"),
    DecisionKind.DATE: _words("belong belongs dated recognized recognised assigned attributed count counts counted"),
    DecisionKind.NULLS: _words("without missing empty blank unknown unrated no"),
}
"""Kind -> words, at least one of which a sentence about such a point must contain."""

_OF_AVERAGES: Final = _words("average averages mean value values rating ratings rate source origin channel")
_NEED_NO_VERB: Final = frozenset(
    {DecisionKind.AMOUNT, DecisionKind.UNIT, DecisionKind.CURRENCY, DecisionKind.DATE, DecisionKind.ENTITY}
)
_SECOND_WORD: Final[Mapping[DecisionKind, frozenset[str]]] = {
    DecisionKind.AMOUNT: _words("with without before after including excluding include exclude plus less minus"),
    DecisionKind.UNIT: _words("kept stored in held recorded given"),
    DecisionKind.CURRENCY: _words("converted added convert in only sum"),
    DecisionKind.DATE: _words(
        "belong belongs period month by counted counts recognized recognised assigned attributed"
    ),
    DecisionKind.ENTITY: _words("one each single"),
}
"""Kind -> further words, at least one of which its sentences must also contain."""


def record_statements(
    workspace: Workspace, source: str, databases: Iterable[str], find: Callable[[str, tuple[FoundPoint, ...]], Find]
) -> None:
    """Write a source's statements about decision points of databases. `source`: its connection.

    `find` takes a connection and its points, and returns a finder for the statements about a point.
    """
    for connection in databases:
        try:
            points = read_record(workspace, connection)
        except KtxError:  # The scan of the connection warns about a broken record and does not change it.
            continue
        if not points:
            continue
        look, prefix = find(connection, points), f"{source}/"
        written = tuple(
            replace(
                point,
                statements=(
                    *(each for each in point.statements if not each.path.startswith(prefix)),
                    *(replace(each, path=f"{prefix}{each.path}") for each in _first(look(point))),
                ),
            )
            for point in points
        )
        if written != points:
            workspace.write(decisions_path(connection), points_bytes(written))


def _first(statements: Iterable[Statement]) -> list[Statement]:
    return list(dict.fromkeys(statements))[:MOST]


@dataclass(frozen=True)
class _Sentence:
    """A sentence in a document. `line`: counts from 1. `heading`: the heading above it."""

    text: str
    path: str
    line: int
    heading: str = ""

    @cached_property
    def words(self) -> frozenset[str]:
        """The sentence's words in lower case."""
        return frozenset(each.casefold() for each in _WORD.findall(self.text))

    @cached_property
    def stems(self) -> frozenset[str]:
        """The words in the sentence and its heading, in the singular."""
        return frozenset(map(stem, self.words))

    @property
    def is_fit(self) -> bool:
        """Whether the sentence may be shown."""
        return not any((*secrets(self.text), *personal_data(self.text), *hidden_characters(self.text),
                        *instructions(self.text)))  # fmt: skip

    def statement(self) -> Statement:
        """Return the sentence as a statement."""
        return Statement(one_line(self.text, LONGEST), self.path, self.line)


def statements_of_documents(snapshot: Snapshot) -> Callable[[tuple[FoundPoint, ...]], Find]:
    """Return a function that takes a database's points and returns a finder for sentences about them.

    A sentence belongs to the points whose things it names best: `orders` means points about orders, not about purchase
    orders.
    """
    read: list[_Sentence] = []

    def of_points(points: tuple[FoundPoint, ...]) -> Find:
        if not read:  # Documents are read only if there is a point.
            read.extend(each for file in snapshot.files.values() for each in _sentences(file))
        scores = [{point.key: _score(each, point) for point in points} for each in read]
        best = [_best(each) for each in scores]

        def find(point: FoundPoint) -> Iterator[Statement]:
            ranked = sorted(
                (-scores[place][point.key], place)
                for place in range(len(read))
                if 0 < scores[place][point.key] >= best[place].get(point.kind, 0.0) - _CLOSE
            )
            for _, place in ranked[: 2 * MOST]:
                if read[place].is_fit:
                    yield read[place].statement()

        return find

    return of_points


_CLOSE: Final = 0.05
"""The difference below which two scores count as equal."""


def _best(scores: Mapping[PointKey, float]) -> dict[DecisionKind, float]:
    best: dict[DecisionKind, float] = {}
    for (_, kind, _), score in scores.items():
        best[kind] = max(best.get(kind, 0.0), score)
    return best


def _sentences(file: RawFile) -> Iterator[_Sentence]:
    try:
        document = read_document(file)
        if stated_standing(file, document) is not None:
            return
    except (StorageError, UnreadableDocumentError):  # The catalog and the units of the source report it.
        return
    heading, lines = "", list[tuple[int, str]]()
    for number, line in (*outside_fences(document.markdown[:_MOST_CHARACTERS]), (-1, "")):
        plain = line.strip()
        is_item = plain.startswith(("- ", "* ", "+ ", "|")) or plain[:1].isdigit()
        if (not plain or plain.startswith("#") or is_item) and lines:
            yield from _of_paragraph(lines, file.path, heading)
            lines = []
        if plain.startswith("#"):
            heading = plain.strip("# ")
        elif plain:
            lines.append((number, plain))


def _of_paragraph(lines: list[tuple[int, str]], path: str, heading: str) -> Iterator[_Sentence]:
    text, starts = "", list[tuple[int, int]]()
    for number, line in lines:
        starts.append((len(text), number))
        text += f"{line} "
    for found in _SENTENCE.finditer(text):
        plain = " ".join(_MARKUP.sub(" ", found[0]).split()).lstrip("-+ ")
        if len(plain) > 12:
            begin = found.start() + len(found[0]) - len(found[0].lstrip())
            at = max(number for start, number in starts if start <= begin)
            yield _Sentence(plain, path, at + 1, heading)


def _score(sentence: _Sentence, point: FoundPoint) -> float:
    """Return how certain it is that a sentence is about a point, or 0 if it is not."""
    kind = point.kind
    if kind is DecisionKind.FISCAL_START:
        return float(any(each.setting == FISCAL_YEAR_START for each in stated_conventions(sentence.text)))
    about = _ABOUT[kind] & sentence.words
    named = {stem(word) for column in point.columns for word in name_words(column)} & sentence.stems
    values = _values(point) & sentence.words
    if kind in (DecisionKind.STATUS, DecisionKind.INTERNAL):
        about = about | values
    if not about or (kind not in _NEED_NO_VERB and not _COUNTS.search(sentence.text)):
        return 0.0
    second = _SECOND_WORD.get(kind)
    if second is not None and not second & (sentence.words - about if len(about) == 1 else sentence.words):
        return 0.0
    if kind is DecisionKind.NULLS and not (named or sentence.words & _OF_AVERAGES):
        return 0.0
    thing = same_thing(point.table.name, sentence.stems)
    if not thing:
        return 0.0
    return thing + 0.2 * len(named) + 0.3 * len(values)


def _values(point: FoundPoint) -> frozenset[str]:
    """Return the words in the values that a point's conditions name."""
    quoted = (found for each in point.alternatives for found in re.findall(r"'([^'%]+)'", each.filter or ""))
    return frozenset(word.casefold() for text in quoted for word in _WORD.findall(text) if len(word) > 2)
