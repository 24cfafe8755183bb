"""The filter expressions of Looker (`>10`, `-"cancelled"`, `%east%`) as SQL conditions; dates are refused."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.context.semantic.interchange.lookml.sql import UnresolvedError

_NUMBER: Final = r"-?\d+(?:\.\d+)?"
_COMPARED: Final = re.compile(rf"(<=|>=|<>|!=|<|>|=)?\s*({_NUMBER})")
_BETWEEN: Final = re.compile(rf"({_NUMBER})\s+to\s+({_NUMBER})", re.IGNORECASE)
_INTERVAL: Final = re.compile(rf"([\[(])\s*({_NUMBER}|-inf)?\s*,\s*({_NUMBER}|inf)?\s*([\])])", re.IGNORECASE)


def condition(column: str, kind: str, text: str) -> str:
    """Return the condition a filter expression means for a column of a ktx type.

    Raises `UnresolvedError` for an expression that has no SQL form here, such as a relative date.
    """
    stripped = text.strip()
    if not stripped:
        raise UnresolvedError("its filter is empty, which means any value", hint="remove the filter")
    if kind == "boolean":
        return _boolean(column, stripped)
    if kind == "number":
        return _numbers(column, stripped)
    if kind == "time":
        raise UnresolvedError(f"the date filter `{stripped}` has no SQL form here", hint="write SQL in its place")
    return _texts(column, stripped)


def _boolean(column: str, text: str) -> str:
    word = text.lower()
    if word in ("yes", "true"):
        return column
    if word in ("no", "false"):
        return f"NOT coalesce({column}, FALSE)"
    raise UnresolvedError(f"`{text}` is neither yes nor no", hint='write "yes" or "no"')


def _numbers(column: str, text: str) -> str:
    parts = re.split(r",(?![^\[(]*[\])])|\s+OR\s+", text, flags=re.IGNORECASE)
    several = [each for part in parts if (each := part.strip())]
    wanted = [_number(column, each) for each in several if not _is_negative(each)]
    refused = [_number(column, _inner(each)) for each in several if _is_negative(each)]
    return _combined(column, wanted, refused)


def _is_negative(text: str) -> bool:
    return text.lower().startswith("not ") and text.lower() != "not null"


def _inner(text: str) -> str:
    return text[4:].strip()


def _number(column: str, text: str) -> str:
    if text.lower() in ("null", "not null"):
        return f"{column} IS {text.upper()}"
    if (found := _COMPARED.fullmatch(text)) is not None:
        return f"{column} {(found[1] or '=').replace('!=', '<>')} {found[2]}"
    if (found := _BETWEEN.fullmatch(text)) is not None:
        return f"{column} BETWEEN {found[1]} AND {found[2]}"
    if (found := _INTERVAL.fullmatch(text)) is not None:
        return _interval(column, found)
    both = re.split(r"\s+AND\s+", text, flags=re.IGNORECASE)
    if len(both) > 1:
        return " AND ".join(_number(column, each.strip()) for each in both)
    raise UnresolvedError(f"the number filter `{text}` is not known", hint='write ">10", "1 to 5" or "[1, 5)"')


def _interval(column: str, found: re.Match[str]) -> str:
    ends = []
    if found[2] and found[2].lower() != "-inf":
        ends.append(f"{column} {'>=' if found[1] == '[' else '>'} {found[2]}")
    if found[3] and found[3].lower() != "inf":
        ends.append(f"{column} {'<=' if found[4] == ']' else '<'} {found[3]}")
    return " AND ".join(ends) or f"{column} IS NOT NULL"


def _texts(column: str, text: str) -> str:
    several = [each.strip() for each in re.findall(r'\s*((?:"[^"]*"|\^.|[^,])+)', text)]
    wanted = [each for each in several if each and not each.startswith("-")]
    refused = [each[1:] for each in several if each.startswith("-") and each != "-"]
    return _combined(column, _texts_are(column, wanted), _texts_are(column, refused))


def _texts_are(column: str, values: list[str]) -> list[str]:
    plain = [_literal(_unescaped(each)) for each in values if "%" not in each.replace("^%", "") and not _is_word(each)]
    patterns = [each for each in values if "%" in each.replace("^%", "")]
    found = [f"{column} IN ({', '.join(plain)})" if len(plain) > 1 else f"{column} = {plain[0]}"] if plain else []
    found += [f"{column} LIKE {_literal(_unescaped(each))}" for each in patterns]
    return found + [_word(column, each) for each in values if _is_word(each)]


def _is_word(text: str) -> bool:
    return text.upper() in ("NULL", "EMPTY")


def _word(column: str, text: str) -> str:
    return f"{column} IS NULL" if text.upper() == "NULL" else f"({column} IS NULL OR {column} = '')"


def _unescaped(text: str) -> str:
    quoted = re.fullmatch(r'"([^"]*)"', text)
    return re.sub(r"\^(.)", r"\1", quoted[1] if quoted else text)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _combined(column: str, wanted: list[str], refused: list[str]) -> str:
    """Return: one of the wanted and none of the refused; a value that is not known is not refused, as in Looker."""
    found = [wanted[0] if len(wanted) == 1 else f"({' OR '.join(wanted)})"] if wanted else []
    for each in refused:
        unknown = "" if "IS NULL" in each or wanted else f" OR {column} IS NULL"
        found.append(f"(NOT ({each}){unknown})")
    if not found:
        raise UnresolvedError("its filter says nothing", hint="remove the filter")
    return " AND ".join(found)
