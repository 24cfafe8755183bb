"""Find the tables that a question needs, first by their words and then by joins to matching tables.

There are two stages. Sources are ranked by the words in their name, descriptions, measures and columns, and by their
best column, measure, value and page. Then the score of each source is raised by its best joined source, twice, because
a question often needs tables next to the ones it mentions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.search.corpus import VALUE, Scope
from ktx_cli.search.ranking import AskedWord, Scorer, asked_terms, own_pages
from ktx_cli.search.stems import GENERIC_WORDS, STOP_WORDS, is_generic, is_stop_word, stem
from ktx_cli.search.store import IndexStore, Row

_CANDIDATES: Final = 300
"""Maximum number of documents of each kind."""
_SHORTEST_PART: Final = 4
"""Minimum length of a word to match within other words."""
_PART: Final = 0.6
"""Weight of a word that starts or ends with a word of the question, such as `portbindings` for `port`."""
_MOST_PARTS: Final = 48
"""Maximum number of longer words that a word may match."""
_COVERED: Final = 1.0
"""Bonus for a name by the share of its words in the question."""
_WHOLE_NAME: Final = 2.0
"""Bonus for a name whose words are all in the question, even if they are frequent."""
_DESCRIBED: Final = 1.0
"""Weight of a description relative to a name."""
_MEANT: Final = 0.5
"""Weight of a word in a name that is only related to a word of the question or contains it."""
_FEW: Final = 8
"""Number of descriptions above which common words are ignored."""
_DOCUMENTS: Final = 3
"""Number of best pages and passages that add related words to a question."""
_MOST_GAINED: Final = 6
_MOST_TRIED: Final = 30
_FROM_TITLE: Final = 0.3
_FROM_BODY: Final = 0.2
_MOST_WEIGHT: Final = 0.3
"""Weight of a word in the best pages and passages relative to a word of the question, and the maximum."""
_MEMBER: Final = 0.5
"""Weight of the best column, measure or segment of a source."""
_VALUE_SHARE: Final = 0.5
"""Weight of the best value of a source."""
_PAGE_SHARE: Final = 0.3
"""Weight of a page for the sources that it mentions."""
_NEAR: Final = 0.5
"""Weight of the nearest document by vectors for its source, relative to the best source by words."""
_NEARNESS: Final = 10
"""Rank of the document that counts half as much as the nearest one."""
_LIFT: Final = 0.7
"""Weight of the best neighbor of a source."""
_ROUNDS: Final = 2
"""Number of joins over which scores are raised."""
_CROWD: Final = 60
"""Number of neighbors above which a source raises each of them less, because many tables join a calendar."""
_SEEDS: Final = 60
"""Number of sources that raise the scores of their neighbors."""
_ASKING: Final = """
many much count number average mean total sum provide information details detail about show list display give tell
find get return fetch retrieve report amount value zeige liste gib finde
"""
_REQUESTS: Final = frozenset(map(stem, _ASKING.split()))
"""Stems of words that phrase a question without naming its subject."""
_SILENT: Final = frozenset(map(stem, (*STOP_WORDS, *GENERIC_WORDS)))
"""Stems of words that do not describe the subject of a text."""
_REQUEST: Final = 0.2
"""Weight of a word that does not describe the subject of a text."""


@dataclass(slots=True)
class FoundTable:
    """A source that a question may need.

    `own` is the score of its own words, and `score` includes its neighbors. `members` are the scores of matching
    columns, measures and segments. `values` are conditions for matching values (`country = 'DE'`) with scores. `via` is
    the neighbor that raised its score most.
    """

    connection: str
    name: str
    own: float = 0.0
    score: float = 0.0
    members: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    via: str | None = None


Neighbors = Callable[[str, str], Iterable[str]]
"""Takes a connection and a source, and returns the sources joined to it in either direction."""


def find_tables(
    stores: Sequence[IndexStore],
    query: str,
    scope: Scope,
    neighbors: Neighbors,
    limit: int,
    meant: Sequence[Row] = (),
    *,
    among: Sequence[IndexStore] | None = None,
) -> list[FoundTable]:
    """Return the sources that a question may need, best first.

    The kinds of the `scope` only apply to columns, measures and values, by which sources are also found. `meant` are
    the nearest documents by vectors. `among` are the indexes of all compared projects, which determine word
    frequencies.
    """
    counted = stores if among is None else among
    asked = _asked(counted, query)
    scorer = Scorer(counted, asked, query)
    more = _from_documents(stores, asked, scorer, scope)
    if more:
        asked += more
        scorer = Scorer(counted, asked, query)
    found: dict[tuple[str, str], FoundTable] = {}

    def table(connection: str, name: str) -> FoundTable:
        return found.setdefault((connection, name), FoundTable(connection, name))

    sources = list(_candidates(stores, asked, replace(scope, kinds=("source",))))
    naming = _Naming(scorer, asked, [row for _, row in sources])
    for place, row in sources:
        one = table(row.connection, row.name)
        one.own += scorer.score(place, row).score + naming.worth(row) * row.worth
    _add_members(stores, asked, scorer, scope, table)
    _add_pages(stores, asked, scorer, scope, found)
    for one in found.values():
        one.own += _MEMBER * max(one.members.values(), default=0.0)
        one.own += _VALUE_SHARE * max(one.values.values(), default=0.0)
    _add_meant(meant, found, table)
    for one in found.values():
        one.score = one.own
    _lift(found, neighbors)
    return sorted(found.values(), key=lambda each: (-round(each.score, 6), each.connection, each.name))[:limit]


def _asked(stores: Sequence[IndexStore], query: str) -> list[AskedWord]:
    """Return the words of a query that the search for tables uses.

    A word also matches words that start or end with it. Words with digits count as values, and question words do not
    match names.
    """
    asked = []
    for word in asked_terms(stores, query)[0]:
        text = word.text
        if text is None:
            asked.append(word)
            continue
        if is_stop_word(text) or any(character.isdigit() for character in text):
            continue
        terms = dict(word.terms)
        if len(text) >= _SHORTEST_PART:
            for longer in _longer(stores, text):
                terms.setdefault(longer, _PART)
        weight = _REQUEST if stem(text) in _REQUESTS else min(word.weight, 0.5 if is_generic(text) else 1.0)
        asked.append(replace(word, terms=terms, weight=weight))
    return asked


def _from_documents(
    stores: Sequence[IndexStore], asked: Sequence[AskedWord], scorer: Scorer, scope: Scope
) -> list[AskedWord]:
    """Return related words from the best documents, because people often use other words than tables do."""
    rows = _candidates(stores, asked, replace(scope, kinds=("passage", "page"), connection=None))
    telling = (
        (place, row) for place, row in rows if not (row.kind == "page" and row.connection)
    )  # without pages that list documents
    ranked = sorted(((scorer.score(place, row).score, row.number, row) for place, row in telling), reverse=True)
    if not ranked or ranked[0][0] <= 0:
        return []
    known = {term for word in asked for term in word.terms} | _SILENT
    gained: dict[str, float] = defaultdict(float)
    for score, _, row in ranked[:_DOCUMENTS]:
        for text, weight in ((row.title_text, _FROM_TITLE), (row.description_text, _FROM_BODY)):
            for term, count in Counter(text.split()).items():
                if term not in known and not term.isdigit():
                    gained[term] += weight * score / ranked[0][0] * count / (count + 1)
    best = sorted(gained, key=lambda term: (-gained[term] * scorer.worth_of(term), term))
    sources = replace(scope, kinds=("source",))
    found = (term for term in best[:_MOST_TRIED] if any(store.best([term], sources, 1) for store in stores))
    return [AskedWord({term: 1.0}, min(gained[term], _MOST_WEIGHT)) for term in itertools.islice(found, _MOST_GAINED)]


def _longer(stores: Sequence[IndexStore], word: str) -> list[str]:
    """Return the stems of words that start or end with a word or its stem and are at least two letters longer."""
    parts = dict.fromkeys((stem(word), word))
    longer = (each for store in stores for part in parts for each in store.containing(part, _MOST_PARTS))
    return [each for each in dict.fromkeys(longer) if each != stem(word)]


def _candidates(stores: Sequence[IndexStore], asked: Sequence[AskedWord], scope: Scope) -> Iterable[tuple[int, Row]]:
    terms = list(dict.fromkeys(term for word in asked for term in word.terms))
    for place, store in enumerate(stores):
        for row in store.rows(store.best(terms, scope, _CANDIDATES)):
            yield place, row


class _Naming:
    """The bonus for source names and descriptions by the share of their words in the question.

    Words that many descriptions of these sources share (`One row for each of the ...`) do not count.
    """

    def __init__(self, scorer: Scorer, asked: Sequence[AskedWord], rows: Sequence[Row]) -> None:
        self._scorer = scorer
        self._shares: dict[str, float] = {}
        for word in asked:
            for term, share in word.terms.items():
                meant = share if share == 1.0 else share * _MEANT
                self._shares[term] = max(self._shares.get(term, 0.0), meant * word.weight)
        described = [set(row.description_text.split()) for row in rows if row.description_text.strip()]
        counts = Counter(word for words in described for word in words)
        self._common = {word: count / len(described) for word, count in counts.items()} if len(described) > _FEW else {}

    def worth(self, row: Row) -> float:
        """Return the score of the best matching name and of a source's description."""
        names = (row.name_text, *map(" ".join, row.other_names(self._shares.keys())))
        named, covered = max((self._covered(name, {}) for name in names), key=_worth_of_name)
        described, part = self._covered(row.description_text, self._common)
        return _worth_of_name((named, covered)) + _DESCRIBED * (described + _WHOLE_NAME * part * part)

    def _covered(self, text: str, common: Mapping[str, float]) -> tuple[float, float]:
        """Return the score of the question words in a text, weighted by their share, and the share itself."""
        words = {word: self._scorer.worth_of(word) * max(0.0, 1 - 3 * common.get(word, 0.0)) for word in text.split()}
        whole = sum(words.values())
        if whole <= 0:
            return 0.0, 0.0
        part = sum(worth * self._shares.get(word, 0.0) for word, worth in words.items())
        return part * part / whole, part / whole


def _worth_of_name(covered: tuple[float, float]) -> float:
    words, share = covered
    return _COVERED * words + _WHOLE_NAME * share * share


def _add_members(
    stores: Sequence[IndexStore],
    asked: Sequence[AskedWord],
    scorer: Scorer,
    scope: Scope,
    table: Callable[[str, str], FoundTable],
) -> None:
    for kinds in (("column",), ("measure", "segment"), (VALUE,)):
        if scope.kinds and not set(kinds) <= set(scope.kinds):
            continue
        for place, row in _candidates(stores, asked, replace(scope, kinds=kinds)):
            score = scorer.score(place, row).score
            if row.kind == VALUE:
                column = row.name.partition(" = ")[0]
                one = table(row.connection, column.rpartition(".")[0])
                one.values[row.name] = max(score, one.values.get(row.name, 0.0))
                continue
            source, _, member = row.name.rpartition(".")
            one = table(row.connection, source)
            one.members[member] = max(score, one.members.get(member, 0.0))


def _add_pages(
    stores: Sequence[IndexStore],
    asked: Sequence[AskedWord],
    scorer: Scorer,
    scope: Scope,
    found: Mapping[tuple[str, str], FoundTable],
) -> None:
    """Add the score of the best page that mentions a source."""
    hidden = own_pages(stores, scope)
    by_name: dict[str, list[FoundTable]] = defaultdict(list)
    for (connection, name), one in found.items():
        by_name[name.casefold()].append(one)
        by_name[f"{connection}/{name}".casefold()].append(one)
    best: dict[int, float] = {}
    for place, row in _candidates(stores, asked, replace(scope, kinds=("page",))):
        if row.name in hidden and not row.owner:
            continue
        score = scorer.score(place, row).score
        for name in stores[place].named_by(row.number):
            for one in by_name.get(name.partition(".")[0], ()):
                best[id(one)] = max(score, best.get(id(one), 0.0))
    for one in found.values():
        one.own += _PAGE_SHARE * best.get(id(one), 0.0)


def _add_meant(
    meant: Sequence[Row], found: Mapping[tuple[str, str], FoundTable], table: Callable[[str, str], FoundTable]
) -> None:
    """Add the scores of the nearest documents by vectors, including sources that no word matches."""
    best = max((one.own for one in found.values()), default=0.0) or 1.0
    nearest: dict[tuple[str, str], float] = {}
    for place, row in enumerate(meant):
        if row.kind in ("source", "column", "measure", "segment"):
            name = row.name if row.kind == "source" else row.name.rpartition(".")[0]
            nearest.setdefault((row.connection, name), _NEAR * best * _NEARNESS / (_NEARNESS + place))
    for (connection, name), worth in nearest.items():
        table(connection, name).own += worth


def _lift(found: dict[tuple[str, str], FoundTable], neighbors: Neighbors) -> None:
    """Raise scores by neighbors, including sources that no word matches."""
    beside = functools.cache(lambda connection, name: tuple(neighbors(connection, name)))
    for _ in range(_ROUNDS):
        before = {key: one.score for key, one in found.items()}
        seeds = sorted(before, key=lambda key: (-before[key], key))[:_SEEDS]
        lifts: dict[tuple[str, str], tuple[float, str]] = {}
        for connection, name in seeds:
            others = beside(connection, name)
            crowd = 1.0 if len(others) <= _CROWD else math.sqrt(_CROWD / len(others))
            lift = _LIFT * crowd * before[connection, name]
            for other in others:
                if other != name and lift > lifts.get((connection, other), (0.0, ""))[0]:
                    lifts[connection, other] = (lift, name)
        for (connection, name), (lift, via) in lifts.items():
            one = found.setdefault((connection, name), FoundTable(connection, name))
            one.score, one.via = one.own + lift, via
