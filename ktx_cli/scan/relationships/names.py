"""The words in names of tables and columns: which of them mean a key, and how similar two words are."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Final


def listed(words: str) -> tuple[str, ...]:
    """Return the words of a text in order."""
    return tuple(words.split())


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


_SPLIT: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_LETTERS: Final = str.maketrans(
    {"ß": "ss", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "Ø": "O", "Ł": "L", "Đ": "D", "ı": "i"}
)
_VOWELS: Final = frozenset("aeiouy")
_BLANKS: Final = word_set("col column field attr attribute fld var val dat spalte campo champ")
_TRAILERS: Final = frozenset({"tbl", "table", "dim", "fact", "master", "mst", "lkp"})
_IRREGULAR: Final = {
    "people": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "indices": "index",
    "buses": "bus",
}
_LEADING_KEYS: Final = word_set("id fk pk cod cd code nr no num sk bk k ref kod codigo numero")
_STARS: Final = frozenset({"dim", "fact", "fct", "hub"})
_UMLAUTS: Final = re.compile(r"([aou])e(?=.)")
"""Umlauts as they are written without dots, in the plurals of German: `auftraege` of `auftrag`."""

_NO_AGENTS: Final = word_set("hobby lobby rugby derby nearby standby whereby shelby crosby")
_PLURALS: Final = listed("es en nen e n")
_ENDINGS: Final = ("", *listed("s e n a i y en er es ow os as us um nen eur ies"))


@functools.cache
def words(kind: str) -> frozenset[str]:
    """Return the words of a kind: `key`, `generic_key`, `layer`, `measure`, `flag`, `time`, `text` ..."""
    return frozenset(_vocabulary()[kind])


@functools.cache
def _vocabulary() -> Mapping[str, list[str]]:
    text = files("ktx_cli.scan.relationships").joinpath("words.json").read_text("utf-8")
    return dict(json.loads(text))


@functools.cache
def _concepts() -> Mapping[str, frozenset[str]]:
    """Return word -> the concepts it may mean (`rep` -> person)."""
    text = files("ktx_cli.scan.relationships").joinpath("concepts.json").read_text("utf-8")
    found: dict[str, set[str]] = {}
    for concept, listed in json.loads(text).items():
        for word in listed:
            found.setdefault(stem(word), set()).add(concept)
    return {word: frozenset(concepts) for word, concepts in found.items()}


def concept_words() -> Iterable[str]:
    """Return all words that mean a concept."""
    return _concepts()


@functools.lru_cache(maxsize=100_000)
def concepts(name: tuple[str, ...]) -> frozenset[str]:
    """Return the concepts of the last word of a name that has any.

    A name that ends in `by` (`approved by`) means a person, one that ends in `on` or `at` (`changed on`) a day.
    """
    if names_agent(name):
        return frozenset({"person"})
    if len(name) > 1 and name[-1] in words("moment"):
        return frozenset({"calendar"})
    if len(name) > 1 and name[-1] in ("to", "from") and (known := concepts(name[:-1])):
        return known  # Of `assigned`, not of the place `to`.
    for word in reversed(name):
        known = _concepts_of(word)
        if known:
            return known
    return frozenset()


def _concepts_of(word: str) -> frozenset[str]:
    """Return the concepts of a word or of its singular, which may not be English: `profesores`."""
    known = _concepts()
    return next((known[form] for form in _singulars(word) if form in known), frozenset())


def _singulars(word: str) -> tuple[str, ...]:
    """Return the words that a word may be the plural of, the English one first: `lieferant` for `lieferanten`."""
    ends = (end for end in _PLURALS if word.endswith(end) and len(word) >= len(end) + 5)
    return (stem(word), *(word[: -len(end)] for end in ends))


def is_doer(word: str, noun: str) -> bool:
    """Return whether a word is who does what a noun is: a `poster` writes a `post`."""
    thing = stem(noun)
    return len(thing) >= 4 and stem(word) in (f"{thing}er", f"{thing}or", f"{thing}r")


def names_actor(name: tuple[str, ...]) -> bool:
    """Return whether a name says who wrote or changed a row: `created by`, `author`."""
    return names_agent(name) or (bool(name) and name[-1] in words("actor"))


def names_agent(name: tuple[str, ...]) -> bool:
    """Return whether a name says who did something: `approved by`."""
    return (len(name) > 1 and name[-1] in words("agent")) or (bool(name) and _is_done_by(name[-1]))


def _is_done_by(word: str) -> bool:
    """Return whether a word is an action followed by `by` without a separator: `crtby`."""
    return len(word) >= 5 and word.endswith("by") and word not in _NO_AGENTS


@functools.lru_cache(maxsize=100_000)
def tokens(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case without accents: `CustomerID2` -> customer, id, 2."""
    plain = unicodedata.normalize("NFKD", name.translate(_LETTERS))
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    # IDs and URLs are one word, not an `I` before `Ds`.
    letters = re.sub(r"(?<![A-Z])(ID|URL|PK|FK|NO|NR)s(?![a-z])", lambda found: found.group(1).title() + "s", letters)
    return tuple(found.lower() for found in _SPLIT.findall(letters)) or (name.lower(),)


@functools.lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the approximate singular of an English noun; other words are unchanged."""
    if len(word) < 3 or not word.isascii():
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("uses") and len(word) > 5:
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@functools.lru_cache(maxsize=400_000)
def alike(one: str, other: str) -> float:
    """Return how likely two words mean the same, from 0 to 1: equal, inflected, abbreviated."""
    if one == other or stem(one) == stem(other):
        return 1.0
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    if short.isdigit() or long.isdigit() or len(short) < 2 or short[0] != long[0]:
        return 0.0
    if _UMLAUTS.search(short) or _UMLAUTS.search(long):
        plain, other_plain = (_UMLAUTS.sub(r"\1", word) for word in (short, long))
        if min(len(plain), len(other_plain)) >= 5 and _are_inflected(plain, other_plain):
            return 0.95
    shared = _shared_prefix(short, long) if short[:3] == long[:3] else 0
    if shared and _are_inflected(short, long):
        return 0.95
    if shared == len(short) and shared >= 3:
        return 0.85 if shared >= 4 else 0.8
    consonants = skeleton(long)
    if short == consonants[: len(short)] and len(short) >= 3:
        return 0.8
    if short == consonants[:2] or short == consonants:
        return 0.7
    if 3 <= len(short) <= 0.75 * len(long) and _is_subsequence(short, long):
        return 0.65 if not _VOWELS & set(short[1:]) else 0.5
    if len(short) == 2 and long.startswith(short):
        return 0.5
    return 0.0


def _are_inflected(one: str, other: str) -> bool:
    """Return whether two words are one but for their endings."""
    shared = _shared_prefix(one, other)
    return shared >= 4 and one[shared:] in _ENDINGS and other[shared:] in _ENDINGS


SAME_LETTERS: Final = 3
"""The number of first letters that the words of `alike_words` have in common."""

_LONGEST_ENDING: Final = 4
"""The maximum number of last letters in which words differ that `alike` takes for forms of one word."""

Lettered = tuple[str, frozenset[str] | None]
"""A word with its letters; None if it may be written without umlauts, so that its letters say little."""


def lettered(word: str) -> Lettered:
    """Return a word as `alike_words` needs it."""
    return word, None if _UMLAUTS.search(word) else frozenset(word)


def alike_words(name: str, others: Iterable[Lettered]) -> list[str]:
    """Return the words that are `alike` to a name, of those that begin with the same `SAME_LETTERS` letters.

    Words can only be alike if one has no letter that the other lacks, or if only their endings differ. Most of the
    thousands of names in a large database are neither, which is found out faster than how alike they are.
    """
    letters, size = lettered(name)[1], len(name)
    near = (
        other
        for other, own in others
        if letters is None
        or own is None
        or own <= letters
        or letters <= own
        or name.startswith(other[: max(size, len(other)) - _LONGEST_ENDING])
    )
    return [other for other in near if alike(name, other) > 0]


def phrase_alike(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    """Return how similar two phrases are: word by word, without spaces, or one as the other's initials.

    Phrases with different first letters are never alike.
    """
    if not one or not other or one[0][:1] != other[0][:1]:
        return 0.0
    return _phrase_alike(one, other)


@functools.lru_cache(maxsize=400_000)
def _phrase_alike(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    joined, joined_other = "".join(one), "".join(other)
    if joined == joined_other or (stem(joined) == stem(joined_other)):
        return 1.0
    if len(one) == len(other):
        scores = [alike(a, b) for a, b in zip(one, other, strict=True)]
        if len(scores) == 1:
            return scores[0]
        return min(scores) * (sum(scores) / len(scores)) ** 0.5 if min(scores) else 0.0
    short, long = (one, other) if len(one) < len(other) else (other, one)
    if len(short) == 1:
        (word,) = short
        if len(word) == len(long) >= 2 and word == "".join(each[0] for each in long):
            return 0.75
        return max(alike(word, "".join(long)) * 0.95, _run_together(word, long))
    return 0.0


def _run_together(word: str, parts: tuple[str, ...]) -> float:
    """Return how well a word consists of the beginnings of words: `custord` of customer, order."""
    rest, score = word, 1.0
    for part in parts:
        length = _shared_prefix(rest, part)
        if length < 2:
            return 0.0
        score *= 1.0 if length == len(part) else 0.9
        rest = rest[length:]
    return score * 0.85 if not rest else 0.0


def table_words(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return name -> its words without layers (`dim_`, `tbl_`) and without prefixes that most tables share."""
    split = {name: tokens(name) for name in names}
    split = _without_run_together(split)
    common = _common_prefixes(split.values())
    layers = words("layer") - {stem(parts[-1]) for parts in split.values() if set(parts[:-1]) <= common}
    cores = {name: _core(parts, common, layers) for name, parts in split.items()}
    counts = Counter(cores.values())
    for name, core in cores.items():
        if core[:1] == core[1:2] and core == split[name][-len(core) :] and core[1:] not in counts:
            cores[name] = core[1:]  # A module and a table of it: `uom_uom`, `sales_sales_person`.
    counts = Counter(cores.values())
    return {
        name: core if counts[core] == 1 else _core(split[name], common, layers, numbered=True)
        for name, core in cores.items()
    }


FEWEST_WITH_LETTERS = 8
"""Fewer tables do not show that the letters with which they begin are those of an application."""


def _without_run_together(split: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the words with a layer split off from the word that it is written together with: `dimcustomer`."""
    flat = [parts[0] for parts in split.values() if len(parts) == 1]
    layers = [
        layer
        for layer in words("layer")
        if len(layer) >= 2 and sum(word.startswith(layer) and len(word) >= len(layer) + 3 for word in flat) >= 2
    ]
    shares = {layer: sum(word.startswith(layer) for word in flat) / max(1, len(flat)) for layer in layers}
    cut = sorted((layer for layer in layers if shares[layer] >= 0.2), key=len, reverse=True)
    cut += [letters for letters in [_common_letters(flat)] if letters and letters not in cut]

    def without(parts: tuple[str, ...]) -> tuple[str, ...]:
        if len(parts) == 1:
            for layer in cut:
                if parts[0].startswith(layer) and len(parts[0]) >= len(layer) + 3:
                    return (layer, parts[0][len(layer) :])
        return parts

    return {name: without(parts) for name, parts in split.items()}


def _common_letters(flat: Sequence[str]) -> str:
    """Return the two to four letters of an application with which nearly all names of one word begin (`wbarticle`)."""
    if len(flat) < FEWEST_WITH_LETTERS:
        return ""
    for length in (4, 3, 2):
        letters, count = Counter(word[:length] for word in flat).most_common(1)[0]
        if letters.isalpha() and count >= 0.9 * len(flat):
            return letters
    return ""


def own_prefix(names: Iterable[str]) -> tuple[str, ...]:
    """Return the word with which nearly all column names of a table begin (`cst_name`, `cst_city`): an owner prefix."""
    split = [tokens(name) for name in names]
    firsts = Counter(parts[0] for parts in split if len(parts) > 1)
    if not firsts:
        return ()
    word, count = firsts.most_common(1)[0]
    numbers = Counter(parts[1] for parts in split if len(parts) > 2 and parts[0] == word and parts[1].isdigit())
    number, numbered = numbers.most_common(1)[0] if numbers else ("", 0)
    if numbered == len(split) > 1:
        return (word, number)
    if len(split) < 3 or count < 0.75 * len(split) or word in words("key"):
        return ()
    short = [parts[1] for parts in split if len(parts) == 2 and parts[0] == word]
    seconds = {parts[1] for parts in split if len(parts) > 2 and parts[0] == word}
    if len(seconds) == 1 and count - len(short) >= 2 and short and words("key").issuperset(short):
        return (word, *seconds)  # `order_id` next to `order_item_id` and `order_item_name` is not the table's own `id`.
    return (word, number) if numbered >= 0.75 * len(split) else (word,)


def local_key_words(first_columns: Iterable[tuple[str, ...]]) -> frozenset[str]:
    """Return the words that mean a key only in this database: they end, or are, the names of most first columns.

    Such a word is the `id` of another language.
    """
    firsts = list(first_columns)
    lists = [parts for parts in firsts if len(parts) > 1]
    alone = Counter(parts[0] for parts in firsts if len(parts) == 1)
    found = {word for word, count in alone.items() if count >= max(4, 0.5 * len(firsts))}
    if len(lists) >= 4:
        word, count = Counter(parts[-1] for parts in lists).most_common(1)[0]
        stems = {parts[:-1] for parts in lists if parts[-1] == word}
        found |= {word} if count >= 0.5 * len(lists) and len(stems) >= 3 else set()
    other = words("key") | words("flag") | words("time")
    return frozenset(word for word in found if word not in other and not word.isdigit())


def local_key_phrases(
    first_columns: Iterable[tuple[str, ...]], tables: Iterable[tuple[str, ...]]
) -> frozenset[tuple[str, ...]]:
    """Return the names of several words that most tables give their own number: `rec_id`. They name no table."""
    firsts = list(first_columns)
    names = {stem("".join(name[start:])) for name in tables for start in range(len(name))}
    counts = Counter(parts for parts in firsts if len(parts) > 1)
    return frozenset(
        parts
        for parts, count in counts.items()
        if count >= max(4, 0.5 * len(firsts))
        and not words("key").isdisjoint(parts)
        and stem("".join(part for part in parts if part not in words("key"))) not in names
    )


def _common_prefixes(split: Iterable[tuple[str, ...]]) -> frozenset[str]:
    lists = [parts for parts in split if len(parts) > 1]
    firsts = Counter(parts[0] for parts in lists)
    return frozenset(word for word, count in firsts.items() if count >= 4 and count > 0.6 * len(lists))


def _core(
    parts: tuple[str, ...], common: frozenset[str], layers: frozenset[str], *, numbered: bool = False
) -> tuple[str, ...]:
    """Return the words without layers, common prefixes and trailing numbers. `numbered`: the same with numbers.

    `layers`: without those that are tables themselves: `link_type` is the type of a `link`.
    """
    rest = parts
    if len(rest) > 2 and len(rest[0]) == 1 and rest[0].isalpha() and rest[1].isdigit():
        rest = rest[2:]  # The number of a module: `a27_allele`.
    while len(rest) > 1 and (rest[0] in layers or rest[0] in common):
        rest = rest[1:]
        rest = rest[1:] if len(rest) > 1 and rest[0].isdigit() else rest
    while len(rest) > 1 and (rest[-1] in _TRAILERS or (rest[-1].isdigit() and not numbered)):
        rest = rest[:-1]
    return rest


@functools.lru_cache(maxsize=100_000)
def key_base(
    parts: tuple[str, ...], local: frozenset[str] = frozenset(), phrases: frozenset[tuple[str, ...]] = frozenset()
) -> tuple[tuple[str, ...], bool]:
    """Return a column's words without those that mean a key, and whether there was one: cust, no -> (cust,), True.

    `local`, `phrases`: words, and several together, that mean a key only in this database. Names without a meaning
    (`c1`, `col_07`) have no words.
    """
    for phrase in phrases:
        if parts[-len(phrase) :] == phrase:
            return parts[: -len(phrase)], True
    if all(len(part) == 1 or part.isdigit() or part in _BLANKS for part in parts):
        return (), False
    if len(parts) == 1 and parts[0] in local:
        return (), True
    rest = list(parts)
    found = False
    if len(rest) > 2 and rest[0] in _STARS:
        rest.pop(0)
    while len(rest) > 1 and rest[-1] in local:
        rest.pop()
        found = True
    if rest[0][:2] in ("fk", "pk") and len(rest[0]) >= 5:
        rest[0] = rest[0][2:]
        found = True
    if len(rest) > 2 and rest[-1].isdigit() and rest[-2] in words("key"):
        rest.pop()  # The second of several: `contact_id_2`.
    while len(rest) > 1 and rest[-1] in words("key"):
        rest.pop()
        found = True
    while len(rest) > 1 and rest[0] in _LEADING_KEYS:
        rest.pop(0)
        found = True
    if len(rest) == 1 and rest[0] in words("generic_key"):
        return (), True
    if not found or len(rest) == 1:
        for ending in ("id", "key", "code", "nr", "no", "uuid", "guid"):
            if (
                rest[-1] not in words("flag")
                and rest[-1].endswith(ending)
                and len(rest[-1]) >= len(ending) + 3
                and len(rest) == len(parts)
            ):
                return (*rest[:-1], rest[-1][: -len(ending)]), ending in ("id", "key", "uuid", "guid")
    return tuple(rest), found


def _shared_prefix(one: str, other: str) -> int:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length


@functools.lru_cache(maxsize=100_000)
def skeleton(word: str) -> str:
    """Return the word without the vowels after its first letter and without doubled consonants."""
    kept = [word[0]]
    for letter in word[1:]:
        if letter not in _VOWELS and letter != kept[-1]:
            kept.append(letter)
    return "".join(kept)


def _is_subsequence(short: str, long: str) -> bool:
    letters = iter(long)
    return all(letter in letters for letter in short)


SHORTEST_SPLIT = 6
"""Shorter words, in letters, are not split."""

SHORTEST_TAIL = 5
"""Shorter nouns, in letters, are ends of words by chance."""

SHORTEST_HEAD = 3
"""The minimum number of letters before the noun of a compound."""

LONGEST_WORD = 20
"""The maximum length of a word that others are split into."""

_PREPOSITIONS = frozenset({"by", "to", "of", "in", "at", "on", "de", "von", "por", "par", "da"})
_SHORT_KEYS = frozenset({"id", "no", "nr", "cd", "sk", "pk", "fk", "key", "code", "num", "ref", "uid", "wid"})
_KINDS = ("key", "layer", "measure", "flag", "time", "text", "discriminator", "self", "boss", "agent")


class Splitter:
    """Splits names without separators into words of the database and of the built-in vocabulary.

    `tails`: the nouns of tables, with which a compound may end: `hauptlieferant` next to `lieferanten`.
    """

    def __init__(self, names: Iterable[str], tails: Iterable[str] = ()) -> None:
        own = {part for name in names for part in tokens(name)}
        own |= {stem(word) for word in own}
        self._known = _vocabulary_words() | {word for word in own if 4 <= len(word) <= LONGEST_WORD and word.isalpha()}
        self._whole = _vocabulary_words()
        forms = (form for word in tails if word.isalpha() for form in (word, *_singulars(word)))
        self._tails = {form for form in forms if len(form) >= SHORTEST_TAIL}

    def split(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words, splitting each that consists of several known words."""
        found: list[str] = []
        for part in parts:
            found += self._split_word(part)
        return tuple(found)

    def _split_word(self, word: str) -> tuple[str, ...]:
        if len(word) < SHORTEST_SPLIT or not word.isalpha() or word in self._whole:
            return (word,)
        pieces = self._pieces(word)
        if pieces is not None and len(pieces) > 1:
            return pieces
        starts = range(SHORTEST_HEAD, len(word) - SHORTEST_TAIL + 1)
        start = None if word in self._tails else next((each for each in starts if word[each:] in self._tails), None)
        return (word,) if start is None else (word[:start], word[start:])

    def _pieces(self, word: str) -> tuple[str, ...] | None:
        """Return the fewest known words that make up a word; short words only if they are keys or prepositions."""
        best: list[tuple[str, ...] | None] = [()] + [None] * len(word)
        for end in range(2, len(word) + 1):
            for start in range(max(0, end - LONGEST_WORD), end - 1):
                before, piece = best[start], word[start:end]
                if before is None or piece == word or not self._fits(piece, start, end == len(word)):
                    continue
                if best[end] is None or len(before) + 1 < len(best[end] or ()):
                    best[end] = (*before, piece)
        return best[-1]

    def _fits(self, piece: str, start: int, last: bool) -> bool:
        if len(piece) <= 3:
            return (piece in _SHORT_KEYS and (start == 0 or last)) or (piece in _PREPOSITIONS and start > 0)
        return piece in self._known


def string_prefix(names: Sequence[str]) -> str:
    """Return the two to four letters with which nearly all one-word names of a table begin (`prdid`, `prdname`)."""
    split = [tokens(name) for name in names]
    flat = [parts[0] for parts in split if len(parts) == 1]
    if len(flat) < 4 or len(flat) < 0.9 * len(split):
        return ""
    for length in (4, 3, 2):
        counts = Counter(word[:length] for word in flat if len(word) >= length + 2)
        prefix, count = max(counts.items(), key=lambda each: each[1], default=("", 0))
        if count >= 0.9 * len(flat):
            return prefix
    return ""


@functools.cache
def _vocabulary_words() -> frozenset[str]:
    found = {word for kind in _KINDS for word in words(kind)} | set(concept_words())
    return frozenset(word for word in found if len(word) >= 4)


def without_prefix(parts: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """Return the words of a one-word name without its table's letters."""
    if prefix and len(parts) == 1 and parts[0].startswith(prefix) and len(parts[0]) > len(prefix) + 1:
        return (parts[0][len(prefix) :],)
    return parts
