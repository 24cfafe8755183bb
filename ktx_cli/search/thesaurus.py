"""Words of business that mean much the same, so that a question finds what is called otherwise.

`thesaurus.txt` lists them in groups, one on a line, in English and German. A word of a query also stands for the others
of its group, for less than itself; so does a phrase such as `called off`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

from ktx_cli.search.index import plain_words, stem

_LONGEST: Final = 3
"""Words of the longest phrase."""


@functools.cache
def _groups() -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the stems of each word or phrase -> the stems of the single words of its groups, without its own."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    text = files("ktx_cli.search").joinpath("thesaurus.txt").read_text("utf-8")
    for line in text.splitlines():
        entries = [tuple(map(stem, plain_words(each))) for each in line.partition("#")[0].split(",")]
        singles = [entry[0] for entry in entries if len(entry) == 1]
        for entry in filter(None, entries):
            found.setdefault(entry, {}).update(dict.fromkeys(each for each in singles if each not in entry))
    return {entry: tuple(others) for entry, others in found.items()}


def alternatives(word: str) -> tuple[str, ...]:
    """Return the stems of words that mean much the same as a word."""
    return _groups().get((stem(word),), ())


def phrases(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield for every phrase of a query, given by all its words, the stems of words that mean the same."""
    stems = [stem(word) for word in words]
    for start in range(len(stems)):
        for length in range(2, _LONGEST + 1):
            others = _groups().get(tuple(stems[start : start + length]), ())
            if others and start + length <= len(stems):
                yield others
