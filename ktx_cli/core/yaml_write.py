"""Writes YAML that YAML 1.2 and YAML 1.1 readers read alike, in the layout of the TypeScript ktx.

Block style, sequences indented below their key, double quotes where quotes are needed, multi-line texts as literal
blocks, no aliases and no folded lines. The same value always gives the same text.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core.yaml_text import MAX_DEPTH

_LONGEST_SIMPLE_KEY: Final = 1000
"""Characters; parsers look for the colon of a key within 1,024."""

_NOT_PRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TO_ESCAPE = re.compile(r"[\x00-\x1f\x22\x5c\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_UNSAFE_PLAIN = re.compile(r"^[-?:,\[\]{}#&*!|>'\"%@`~=\s]|^\.\.\.|^<<$|:(?:\s|$)|\s#|\s$")
_UNSAFE_IN_FLOW = re.compile(r"[,\[\]{}:?#]")
_LIKE_NUMBER = re.compile(r"[-+.]?[0-9.][0-9a-fA-FxXoO_.,:+\-TtZz ]*|[-+]?\.(?:inf|nan)", re.IGNORECASE)
_WORDS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file is laid out.

    `step`: columns a mapping level (1 to 9). `offset`: columns from a key to the dashes below it. `literals`:
    multi-line texts become literal blocks where that is possible; else they are double-quoted.
    """

    step: int = 2
    offset: int = 2
    literals: bool = True


FILE_LAYOUT: Final = Layout()
"""The layout of files ktx writes."""


def dump(value: Any) -> str:
    """Return `value` as a YAML document that ends in a newline.

    Takes None, bool, int, float, str, list, tuple and dict (with scalar keys), nothing else (`TypeError`).
    `ValueError` for a value nested deeper than `MAX_DEPTH` (or inside itself) and for text with surrogates.
    """
    out: list[str] = []
    if isinstance(value, dict) and value:
        _mapping(out, value, 0, FILE_LAYOUT, 1)
    elif isinstance(value, list | tuple) and value:
        _sequence(out, value, 0, FILE_LAYOUT, 1)
    else:
        out.append(flow(value))
    out.append("\n")
    return "".join(out)


def flow(value: Any) -> str:
    """Return `value` on one line, as it may stand inside brackets; same errors as `dump`."""
    return _flow(value, 1)


def write_entry(key: Any, value: Any, column: int, layout: Layout) -> str:
    """Return the block entry `key: value` of a mapping whose keys stand at `column`.

    The first line comes without its indentation, the last one without a newline.
    """
    out: list[str] = []
    _mapping(out, {key: value}, column, layout, 1)
    return "".join(out)


def write_item(value: Any, column: int, layout: Layout) -> str:
    """Return the block item `- value` of a sequence whose dashes stand at `column`; lines as in `write_entry`."""
    out: list[str] = []
    _sequence(out, [value], column, layout, 1)
    return "".join(out)


def write_value(value: Any, column: int, layout: Layout) -> str:
    """Return what follows the colon of a key at `column`: ` value`, or a newline and indented lines."""
    out: list[str] = []
    _after_colon(out, value, column, layout, 1)
    return "".join(out)


def _mapping(out: list[str], value: dict[Any, Any], column: int, layout: Layout, depth: int) -> None:
    _check_depth(depth)
    margin = "\n" + " " * column
    first = True
    for key, item in value.items():
        if not first:
            out.append(margin)
        first = False
        name = _scalar(key)
        out.append(name if len(name) <= _LONGEST_SIMPLE_KEY else f"? {name}{margin}")
        out.append(":")
        _after_colon(out, item, column, layout, depth)


def _after_colon(out: list[str], value: Any, column: int, layout: Layout, depth: int) -> None:
    if isinstance(value, str):
        out.append(" " + _text(value, column, layout.step, layout))
    elif isinstance(value, dict) and value:
        out.append("\n" + " " * (column + layout.step))
        _mapping(out, value, column + layout.step, layout, depth + 1)
    elif isinstance(value, list | tuple) and value:
        out.append("\n" + " " * (column + layout.offset))
        _sequence(out, value, column + layout.offset, layout, depth + 1)
    else:
        out.append(" " + _flow(value, depth))


def _sequence(out: list[str], value: Any, column: int, layout: Layout, depth: int) -> None:
    _check_depth(depth)
    margin = "\n" + " " * column
    first = True
    for item in value:
        out.append("- " if first else margin + "- ")
        first = False
        if isinstance(item, str):
            out.append(_text(item, column, 2, layout))
        elif isinstance(item, dict) and item:
            _mapping(out, item, column + 2, layout, depth + 1)
        elif isinstance(item, list | tuple) and item:
            _sequence(out, item, column + 2, layout, depth + 1)
        else:
            out.append(_flow(item, depth))


def _flow(value: Any, depth: int) -> str:
    _check_depth(depth)
    if isinstance(value, dict):
        pairs = (f"{_scalar(key, True)}: {_flow(item, depth + 1)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item, depth + 1) for item in value) + "]"
    return _scalar(value, depth > 1)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"the value nests deeper than {MAX_DEPTH} levels, or refers to itself")


def _scalar(value: Any, in_flow: bool = False) -> str:
    if isinstance(value, str):
        return _quoted_if_needed(str(value), in_flow)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _float(value)
    raise TypeError(f"YAML has no form for a {type(value).__name__}")


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = float.__repr__(value)
    # `1e+16` is a number in YAML 1.2 and a text in YAML 1.1; `1.0e+16` is a number in both.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _text(value: str, column: int, inset: int, layout: Layout) -> str:
    """Return a text as a block's value: a literal block whose parent stands at `column` where that is possible."""
    if "\n" not in value or not layout.literals or not _can_be_literal(value):
        return _quoted_if_needed(str(value), False)
    body = value.removesuffix("\n")
    chomping = "-" if body == value else "+" if body.endswith("\n") else ""
    indicator = str(inset) if value[0] in " \t\n" else ""
    margin = " " * (column + inset)
    lines = [margin + line if line else "" for line in body.split("\n")]
    return "\n".join(["|" + indicator + chomping, *lines])


def _can_be_literal(value: str) -> bool:
    if value.isspace() or _NOT_PRINTABLE.search(value):
        return False
    return all(not line.isspace() for line in value.split("\n"))


@functools.lru_cache(maxsize=8192)
def _quoted_if_needed(value: str, in_flow: bool) -> str:
    if not value:
        return '""'
    if _SURROGATE.search(value):
        raise ValueError(f"the text {value!r} holds a surrogate, which no encoding of YAML has")
    if _NOT_PRINTABLE.search(value) or "\n" in value or "\t" in value:
        return _double_quoted(value)
    if not _needs_quotes(value, in_flow):
        return value
    if ('"' in value or "\\" in value) and "'" not in value:
        return f"'{value}'"
    return _double_quoted(value)


def _needs_quotes(value: str, in_flow: bool) -> bool:
    """Say whether some reader takes the plain text for syntax, a number, a time, a boolean or null."""
    if _UNSAFE_PLAIN.search(value) or (in_flow and _UNSAFE_IN_FLOW.search(value)):
        return True
    return value.casefold() in _WORDS or _LIKE_NUMBER.fullmatch(value) is not None


def _double_quoted(value: str) -> str:
    return '"' + _TO_ESCAPE.sub(_escape, value) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
