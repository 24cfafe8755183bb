"""The view that moves: drawn over by rich at the foot of the terminal, lines that stay above it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import IO, Final

from rich.console import Console, ConsoleRenderable, Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from ktx_cli.cli.progress import Clock
from ktx_cli.cli.progress_view import RunView
from ktx_cli.core.events import Event

WIDEST: Final = 100
"""Cells of a line at most, so that a window made narrower does not break it in two."""

MOST_LINES: Final = 20
PER_SECOND: Final = 8

_Draw = Callable[[], list[Text]]


class LiveDrawing:
    """Draws a `RunView`; what others write to stderr meanwhile stands above it."""

    is_live = True

    def __init__(self, stream: IO[str], clock: Clock, *, colour: bool) -> None:
        self._view = RunView()
        self._clock = clock
        self._console = Console(
            file=stream, force_terminal=True, no_color=not colour, color_system="auto" if colour else None,
            highlight=False, markup=False, emoji=False, legacy_windows=False,
        )  # fmt: skip
        self._region: _Region | None = None
        self._known = threading.Lock()  # over the view; rich draws it under locks of its own, so nothing waits inside
        self._drawing = threading.RLock()  # over the region

    def emit(self, event: Event) -> None:
        """Take in an event; the view is redrawn by itself."""
        with self._known:
            line = self._view.take(event, self._clock())
            is_active = self._view.is_active
        with self._drawing, contextlib.suppress(OSError, ValueError):  # a stderr nobody reads must not stop the work
            if line is not None:
                self._console.print(Text(line), soft_wrap=True)
            if is_active and self._region is None:
                self._region = _Region(self._console, self._drawn)
                self._region.start()
            elif not is_active:
                self.close()
            elif line is not None and self._region is not None:
                self._region.refresh()

    def close(self) -> None:
        """Take the view away; the cursor is shown again."""
        with self._drawing, contextlib.suppress(OSError, ValueError):
            region, self._region = self._region, None
            if region is not None:
                region.stop()

    def _drawn(self) -> list[Text]:
        size = self._console.size
        with self._known:
            lines = self._view.lines(self._clock(), max(3, min(MOST_LINES, size.height - 1)))
        texts = [Text(line.text, line.style, no_wrap=True) for line in lines]
        for text in texts:
            text.truncate(max(1, min(WIDEST, size.width - 1)), overflow="ellipsis")
        return texts


class _Region(Live):
    """The lines that are drawn over. A terminal made narrower breaks lines in two: those are taken away too."""

    def __init__(self, console: Console, draw: _Draw) -> None:
        self._draw = draw
        self._cells: list[int] = []
        super().__init__(
            console=console, get_renderable=self._render, refresh_per_second=PER_SECOND, transient=True,
            redirect_stdout=False, redirect_stderr=True,
        )  # fmt: skip

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """See `rich.console.RenderHook`: what is written, with the steps to and over the old lines before it."""
        return [self._broken_lines(), *super().process_renderables(renderables)]

    def _broken_lines(self) -> Control:
        width = max(1, self.console.width)
        more = sum(max(0, cells - 1) // width for cells in self._cells)
        return Control(*((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)) * more)

    def _render(self) -> Group:
        texts = self._draw()
        self._cells = [text.cell_len for text in texts]
        return Group(*texts)
