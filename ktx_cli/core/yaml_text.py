"""Helpers for reading YAML text: decoding, resolving plain scalars, and errors with their position."""

from __future__ import annotations

import re
from typing import Any, Final

from ktx_cli.core.errors import ConfigError

MAX_DEPTH: Final = 200
"""Maximum nesting depth of a document."""

TAG_PREFIX: Final = "tag:yaml.org,2002:"

TAB_HINT: Final = "indent with spaces instead of tabs"

_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
_MISREAD = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that are text in YAML 1.2, but line breaks or errors for libyaml, which is a YAML 1.1 parser."""
_BREAK = re.compile(r"\r\n?|\n")
_LITERAL_WITH_TAB = re.compile(r"\|[^\r\n]*(?:[\r\n] *)+(?<= )\t")
_COLON_OF_TEXT = re.compile(r":(?=[^ \t\r\n,\[\]{}])")
_COLONS_OF_TEXTS = re.compile(r"(?<=[\[{,:])([ \t\r\n]*):(?=[^ \t\r\n,\[\]{}])")
"""Colons that begin a plain text, or that can be read as a letter without changing the result."""
_INT = re.compile(r"[-+]?[0-9]+")
_BASED_INT = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_STARTS: Final = frozenset("+-.0123456789")


def line_hint(line: int, where: str) -> str:
    """Return the default hint for text that cannot be parsed."""
    return f"correct line {line} of {where}"


class YamlText:
    """Decoded text to parse, with its name for errors.

    `text` has no byte order mark. `text_for_parser` has the same length and positions; characters that the 1.1 parser
    would misread are replaced by private ones, which `original` turns back.
    """

    __slots__ = ("_back", "hidden_tab", "text", "text_for_parser", "where")

    def __init__(self, text: str | bytes, where: str) -> None:
        self.where = where
        self.text = (self._decode(text) if isinstance(text, bytes) else text).removeprefix("\ufeff")
        forbidden = _FORBIDDEN.search(self.text)
        if forbidden is not None:
            message = f"the character U+{ord(forbidden.group()):04X} is not allowed in YAML"
            raise self.error_at(forbidden.start(), message, "remove it, or write it as an escape in double quotes")
        self._back: dict[int, int] = {}
        self.hidden_tab: str | None = None
        self.text_for_parser = self.text
        if _MISREAD.search(self.text):
            self._hide_misread()

    def original(self, value: str) -> str:
        """Return a scalar from the parser as written in the document."""
        return value.translate(self._back) if self._back else value

    def error(self, mark: Any, what: str, hint: str | None = None) -> ConfigError:
        """Return the error at a parser's mark."""
        return self._error(mark.line + 1, mark.column + 1, what, hint)

    def error_at(self, index: int, what: str, hint: str | None = None) -> ConfigError:
        """Return the error at a character index in `text`."""
        line, column = position(self.text, index)
        return self._error(line, column, what, hint)

    def tag_error(self, event: Any) -> ConfigError:
        """Return the error for a tag that is unknown or does not fit its value."""
        tag = self.original(event.tag)
        shown = "!!" + tag.removeprefix(TAG_PREFIX) if tag.startswith(TAG_PREFIX) else tag
        message = f"the tag {shown} is unknown or does not match its value"
        return self.error(event.start_mark, message, f"remove {shown}, or quote the value if the '!' belongs to it")

    def syntax_error(self, error: Any) -> ConfigError:
        """Return the error for text that the parser could not read."""
        mark = error.problem_mark or error.context_mark
        what = self.original(error.problem or error.context or "not valid YAML")
        if error.context and error.context != what and error.context_mark is not None:
            begun = error.context_mark.line + 1
            what += f" ({self.original(error.context)} that begins on line {begun})"
        if mark is None:
            return self._error(1, 1, what, None)
        return self.error(mark, what, self._syntax_hint(what, mark.index))

    def _syntax_hint(self, what: str, index: int) -> str | None:
        character = self.text[index : index + 1]
        if character == "\t":
            return TAB_HINT
        if "cannot start any token" in what:
            return f'put the value in double quotes: no plain value can begin with "{character}"'
        if "mapping values are not allowed" in what:
            return "check the indentation, or put a value that contains ': ' in double quotes"
        if "could not find expected ':'" in what:
            return "add a colon and a space after the key; indent or quote text that spans several lines"
        return None

    def _error(self, line: int, column: int, what: str, hint: str | None) -> ConfigError:
        place, details = f"{self.where}:{line}:{column}", {"path": self.where, "line": line, "column": column}
        return ConfigError(what, where=place, hint=hint or line_hint(line, self.where), details=details)

    def _decode(self, data: bytes) -> str:
        encoding = _encoding(data)
        try:
            return data.decode(encoding)
        except UnicodeDecodeError as error:
            before = data[: error.start].decode(encoding, "replace").removeprefix("\ufeff")
            line, column = position(before, len(before))
            message = f"the text is not {encoding.upper()}"
            raise self._error(line, column, message, f"save {self.where} as UTF-8") from error

    def _hide_misread(self) -> None:
        away = {ord(character): self._free_code() for character in sorted(set(_MISREAD.findall(self.text)))}
        self.text_for_parser = self.text.translate(away)
        self._back = {hidden: code for code, hidden in away.items()}

    def hide_tab(self, error: Any) -> bool:
        """Hide the tab at the start of a literal block if it caused the parser's error; return whether it did.

        YAML 1.2 has such blocks (`|`, spaces, then a tab of the text), but libyaml rejects them.
        """
        if error.context_mark is None or error.problem_mark is None or "tab character" not in (error.problem or ""):
            return False
        header, tab = error.context_mark.index, error.problem_mark.index
        if _LITERAL_WITH_TAB.fullmatch(self.text_for_parser, header, tab + 1) is None:
            return False
        if self.hidden_tab is None:
            self.hidden_tab = chr(self._free_code())
        self.text_for_parser = self.text_for_parser[:tab] + self.hidden_tab + self.text_for_parser[tab + 1 :]
        return True

    def hide_colons(self, error: Any) -> bool:
        """Hide the colons at the start of texts if one in brackets caused the parser's error; return whether it did.

        YAML 1.2 has such texts in brackets (`[:0]`), but libyaml reads each of these colons as one after a key.
        """
        mark, text = error.problem_mark, self.text_for_parser
        if mark is None or "node content" not in (error.problem or ""):
            return False
        if _COLON_OF_TEXT.match(text, mark.index) is None:
            return False
        code = self._free_code()
        self._back[code] = ord(":")
        text = text[: mark.index] + chr(code) + text[mark.index + 1 :]
        self.text_for_parser = _COLONS_OF_TEXTS.sub(rf"\1{chr(code)}", text)
        return True

    def _free_code(self) -> int:
        """Return a private-use character that the text contains neither literally nor as an escape."""
        folded = self.text.casefold()
        free = (code for code in range(0xF0000, 0xFFFFD) if code not in self._back)
        code = next(code for code in free if chr(code) not in folded and f"{code:x}" not in folded)
        self._back[code] = ord("\t")
        return code


def position(text: str, index: int) -> tuple[int, int]:
    """Return (line, column) of a character index, counted from 1."""
    line, begin = 1, 0
    for found in _BREAK.finditer(text, 0, index):
        line, begin = line + 1, found.end()
    return line, index - begin + 1


def _encoding(data: bytes) -> str:
    if data.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32"
    return "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"


def scalar_value(event: Any, source: YamlText) -> Any:
    """Return the value of a scalar event, based on its tag, its quotes or its plain form."""
    if source.hidden_tab is not None and source.hidden_tab in event.value and event.style != "|":
        raise source.error(event.start_mark, "there is a tab where indentation is expected", TAB_HINT)
    text = source.original(event.value)
    if event.tag is None:
        return _plain_value(text, event, source) if event.implicit[0] else text
    if event.tag == "!" or event.tag == TAG_PREFIX + "str":
        return text
    return _tagged_value(text, event, source)


def _plain_value(text: str, event: Any, source: YamlText) -> Any:
    """Return the meaning of a plain scalar under the YAML 1.2 core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text) or _BASED_INT.fullmatch(text):
        return _integer(text, event, source)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL_FLOAT.fullmatch(text)
    if special is None:
        return text
    return float("nan") if special.group(1) is None else float(special.group(1) + "inf")


def _tagged_value(text: str, event: Any, source: YamlText) -> Any:
    """Return the value of a scalar with an explicit standard tag other than `!!str`."""
    kind = event.tag.removeprefix(TAG_PREFIX) if event.tag.startswith(TAG_PREFIX) else ""
    if kind == "float" and _FLOAT.fullmatch(text):
        return float(text)
    value = _plain_value(text, event, source)
    wanted = {"int": int, "float": float, "bool": bool, "null": type(None)}.get(kind)
    if wanted is None or type(value) is not wanted:
        raise source.tag_error(event)
    return value


def _integer(text: str, event: Any, source: YamlText) -> int:
    try:
        return int(text, {"o": 8, "x": 16}.get(text[1:2], 10))
    except ValueError as error:
        message = f"an integer with {len(text):,} digits"
        raise source.error(event.start_mark, message, "put it in double quotes if it is a string") from error
