"""What a person reads on an emulated terminal: the lines it shows and those that have left it, in order."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pyte
from pyte.screens import Char
from wcwidth import wcwidth

_PASTE_MODE = 2004 << 5  # pyte keeps private modes shifted
_DIM, _BLINK, _NORMAL, _NO_BLINK = 2, 5, 22, 25
_CLEARS = (2, 3)  # `ED 2` and `ED 3`: the whole screen; redraws use `ED 0`, from the cursor on


class Screen(pyte.Screen):
    """A terminal in memory. `answer` gets what it replies to a program's queries, such as where the cursor is."""

    def __init__(self, columns: int, rows: int, answer: Callable[[str], object]) -> None:
        self._gone: list[list[Char]] = []
        self._answer = answer
        super().__init__(columns, rows)

    @property
    def marks_pastes(self) -> bool:
        """Whether the program wants pasted text marked as such."""
        return _PASTE_MODE in self.mode

    def shown(self) -> list[str]:
        """Return the visible lines without trailing blanks, down to the last one with text."""
        return _trimmed([self._row(number) for number in range(self.lines)])

    def read(self) -> list[str]:
        """Return what has left the screen and what it shows."""
        return _trimmed([_text(row) for row in self.rows()])

    def rows(self) -> list[list[Char]]:
        """Return the characters of what has left the screen and of what it shows, with their styles."""
        shown = [self._characters(number) for number in range(self.lines)]
        while shown and not _text(shown[-1]):
            shown.pop()
        return [*self._gone, *shown]

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        """Set the style of what follows. pyte has no dim text: blinking, which ktx never uses, marks it."""
        known = [
            each for given in attrs for each in {_DIM: (_BLINK,), _NORMAL: (_NORMAL, _NO_BLINK)}.get(given, (given,))
        ]
        super().select_graphic_rendition(*known, **kwargs)

    def index(self) -> None:
        """Scroll as a terminal does, and keep the line that leaves at the top."""
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            self._gone.append(self._characters(0))
        super().index()

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Erase; what a clearing of the whole screen takes away has been read."""
        if how in _CLEARS:
            self._gone += self.rows()[len(self._gone) :]
        super().erase_in_display(how, *args, **kwargs)

    def draw(self, data: str) -> None:
        """Draw all of the text: pyte drops what follows a character without width that combines with nothing."""
        super().draw("".join(char for char in data if wcwidth(char) > 0 or unicodedata.combining(char)))

    def write_process_input(self, data: str) -> None:
        """Answer a query of the program."""
        self._answer(data)

    def _row(self, number: int) -> str:
        return _text(self._characters(number))

    def _characters(self, number: int) -> list[Char]:
        row = self.buffer[number]
        return [row[column] for column in range(self.columns)]


def _text(row: list[Char]) -> str:
    return "".join(character.data for character in row).rstrip()


def _trimmed(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]
