"""Helpers for text that people read: suggestions, plurals, safe one-liners."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_PLAIN_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")
_DEVICE_NAME = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to `word`, or None if none is close.

    Among similar words, the first one of which `word` is a prefix (`claude` of `claude-code`) wins, then the one with
    the fewest edits, then the most similar one.
    """
    import difflib

    folded = word.casefold()
    by_folded = {candidate.casefold(): candidate for candidate in known}
    alike = difflib.get_close_matches(folded, by_folded, n=max(len(by_folded), 1), cutoff=0.6)
    begun = [candidate for candidate in by_folded if candidate in alike and candidate.startswith(f"{folded}-")]
    near = begun[0] if begun else min(alike, key=lambda candidate: count_edits(folded, candidate), default=None)
    return None if near is None else by_folded[near]


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a name such as `orders.totl`, or None if none or several are.

    If known names begin with `orders.`, only what follows is compared, and the same name in one other source wins.
    """
    names = list(known)
    last, own, same = _within_source(name, names)
    if not own:
        return did_you_mean(name, names)
    if same:
        return same[0] if len(same) == 1 else None
    near = did_you_mean(last, own)
    return None if near is None else own[near]


def _within_source(name: str, known: Iterable[str]) -> tuple[str, dict[str, str], list[str]]:
    """Return the last part of a name, the known names of its source by their last part, and the same name elsewhere.

    There are none without a source, or if no known name begins with it.
    """
    source, _, last = name.rpartition(".")
    own, same = dict[str, str](), list[str]()
    for each in known if source else ():
        other, _, part = each.rpartition(".")
        if other.casefold() == source.casefold():
            own[part] = each
        elif part.casefold() == last.casefold():
            same.append(each)
    return last, own, same if own else []


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are similar to a name, closest first.

    Names with few different letters come first, then those that contain the name or share a word with it
    (`customer_orders` for `orders_by_customer`), with the rarest shared words first. Words of many names do not count.
    Names of a source are compared as by `nearest_name`.
    """
    import difflib

    known = list(known)
    last, of_source, same = _within_source(name, known)
    if of_source:
        return [*same, *(of_source[each] for each in similar_names(last, of_source))]
    folded, own = name.casefold(), _name_words(name)
    by_folded = {candidate.casefold(): candidate for candidate in known}
    near = did_you_mean(name, by_folded.values())
    alike = difflib.get_close_matches(folded, by_folded, n=max(len(by_folded), 1), cutoff=0.6)
    spelled = sorted(alike, key=lambda each: (by_folded[each] != near, count_edits(folded, each), each))
    shared = {each: own & _name_words(candidate) for each, candidate in by_folded.items()}
    counts = Counter(word for words in shared.values() for word in words)
    common = {word for word, count in counts.items() if count > max(_FEW_SHARE, len(by_folded) // 10)}
    scores = {each: sum(1 / counts[word] for word in words - common) for each, words in shared.items()}
    scores |= {each: 1 + scores[each] for each in by_folded if len(folded) > 2 and folded in each}
    others = sorted((each for each in by_folded if scores[each]), key=lambda each: (-scores[each], len(each), each))
    return [by_folded[each] for each in dict.fromkeys((*spelled, *others))]


_FEW_SHARE: Final = 3
"""A word in at most this many names always distinguishes them."""


def _name_words(name: str) -> set[str]:
    """Return the words of a name, without the ending of a plural."""
    words = re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).casefold())
    return {word.removesuffix("s") for word in words if len(word) > 3}


FEW_NAMES: Final = 12
"""The hint for an unknown name lists all known names if there are at most this many."""


def suggestion(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the hint for an unknown name: the name that was probably meant, similar ones, or all if there are few.

    `prefix` is the text before the name, such as `orders.`, so that the suggested name can replace the whole.
    """
    names = sorted(set(known))
    none = f"none of the {len(names):,} available names is similar" if names else "none are defined"
    return suggested_names(name, names, prefix) or none


def suggested_names(name: str, known: Iterable[str], prefix: str = "") -> str | None:
    """Return the hint as `suggestion` does, or None if it would suggest no name."""
    names = sorted(set(known))
    similar = similar_names(name, names)
    near = similar[0] if len(similar) == 1 else nearest_name(name, names)
    if near:
        return f"did you mean `{prefix}{near}`?"
    if similar:
        return f"similar names: {listing(similar, FEW_NAMES)}"
    listed = sorted(_within_source(name, names)[1].values()) or names
    return f"available: {listing(listed, FEW_NAMES)}" if 0 < len(listed) <= FEW_NAMES else None


def nearest_values(text: str, known: Iterable[str]) -> list[str]:
    """Return up to three known values that `text` may have meant, closest first.

    Values that differ only in case, blanks, accents or punctuation exclude all others. Then come those with the fewest
    edits, at most one in three characters, then those that contain `text` as whole words.
    """
    wanted = _plain_form(text)
    forms = [(value, _plain_form(value)) for value in dict.fromkeys(known) if value != text]
    same = [value for value, form in forms if form == wanted and wanted]
    if same:
        return sorted(same, key=lambda value: (value.casefold().strip() != text.casefold().strip(), value))[:3]
    allowed = max(1, len(wanted) // 3)
    alike = [(value, form) for value, form in forms if abs(len(form) - len(wanted)) <= allowed]
    ranked = [(edits, value) for value, form in alike if (edits := count_edits(wanted, form)) <= allowed < len(form)]
    found = [value for _, value in sorted(ranked)]
    words = re.compile(rf"\b{re.escape(wanted)}\b") if len(wanted) > 2 else None
    found += [value for value, form in sorted(forms) if words is not None and words.search(form) and value not in found]
    return found[:3]


def _plain_form(text: str) -> str:
    """Return a text in lower case, without accents, punctuation or extra spaces."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[\W_]+", " ", bare).strip() or bare.strip()


def count_edits(one: str, other: str) -> int:
    """Return the number of letters to insert, delete, change or swap to turn one word into the other.

    The optimal string alignment distance.
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        now = [row]
        for column, wanted in enumerate(other, start=1):
            cost = min(last[column] + 1, now[-1] + 1, last[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            now.append(cost)
        before, last = last, now
    return last[-1]


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """Return `1 table`, `2 tables`, `1,204 tables`."""
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"


def counted(found: Mapping[str, int]) -> str:
    """Return the number of diagnostics for each severity, such as `3 errors, 1 warning, 4 info`; `none` if empty."""
    named = (plural(count, name, "info" if name == "info" else None) for name, count in found.items() if count)
    return ", ".join(named) or "none"


_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
"""The line below the header of a Markdown table."""


def without_tables(text: str) -> str:
    """Return Markdown with each table as one line, such as `placed: not yet shipped; returned: sent back`."""
    if "|" not in text:
        return text
    lines, found = text.splitlines(), list[str]()
    place = 0
    while place < len(lines):
        if place + 1 < len(lines) and "|" in lines[place] and _RULE.fullmatch(lines[place + 1]):
            end = place + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            found.append("; ".join(filter(None, map(_table_row, lines[place + 2 : end]))))
            place = end
        else:
            found.append(lines[place])
            place += 1
    return "\n".join(found)


def _table_row(line: str) -> str:
    """Return the cells of a row as `first: second, third`."""
    row = [each.strip().replace("\\|", "|") for each in re.split(r"(?<!\\)\|", line.strip().removeprefix("|"))]
    first, *others = row
    rest = ", ".join(filter(None, others))
    return f"{first}: {rest}" if first and rest else first or rest


def one_line(text: str, limit: int = 300) -> str:
    """Return `text` on one line, with control characters blanked, truncated to `limit` characters."""
    flat = re.sub(r"\s+", " ", _CONTROL.sub(" ", text)).strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def one_line_typed(text: str, limit: int = 2000) -> str:
    """Return `text` on one line for copying into a shell, like `one_line` but with all spaces kept."""
    flat = _CONTROL.sub(" ", text).strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def shell_words(*words: object) -> str:
    """Return arguments as typed in a shell, quoted where necessary.

    Characters that a terminal does not show are written in the syntax of bash and zsh: `$'\n'`.
    """
    return " ".join(map(_shell_word, words))


def _shell_word(word: object) -> str:
    text = str(word)
    return shlex.quote(text) if text.isprintable() else "$'" + "".join(map(_shell_character, text)) + "'"


def _shell_character(character: str) -> str:
    code = ord(character)
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    if code < 0x80 or 0xDC80 <= code <= 0xDCFF:  # a lone surrogate stands for a byte that is not UTF-8
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def is_device_name(name: str) -> bool:
    """Return whether Windows treats a file name, with or without an extension, as a device: `con`, `NUL`, `com1`."""
    return _DEVICE_NAME.fullmatch(name.lower()) is not None


def is_utf8(path: str) -> bool:
    """Return whether a path is valid UTF-8; if not, Python stores lone surrogates, which few formats allow."""
    return path.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in path)


def escaped(path: str) -> str:
    """Return a path for display, with bytes that are not UTF-8 as `\\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def listing(words: Iterable[str], limit: int = 5) -> str:
    """Return `a, b, c and 4 more`."""
    items = list(words)
    if len(items) <= limit:
        return ", ".join(items)
    return f"{', '.join(items[:limit])} and {len(items) - limit} more"


def file_stem(name: str) -> str:
    """Return a file name, without extension, for a name; it is the same in every program that writes projects.

    A plain lower-case name is unchanged; any other becomes `slug-<first 8 hex digits of its sha256>`.
    """
    if _PLAIN_FILE_NAME.fullmatch(name) and not _DEVICE_NAME.fullmatch(name):
        return name
    import hashlib  # OpenSSL, which most commands do not need

    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:48] or "x"
    return f"{slug}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Spot:
    """A suspicious passage at a position in a text. `length`: its characters, or 0 if only its start is known."""

    at: int
    code: str
    message: str
    hint: str
    length: int = 0


def line_start(text: str, line: int) -> int:
    """Return the offset, counted from 0, at which a line begins."""
    place = 0
    for _ in range(line):
        place = text.find("\n", place) + 1
    return place
