"""Hints as they work where they are typed: on the project of this command line, by the `ktx` that runs."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, Hint, one_line_typed

ELSEWHERE: Final = frozenset({"demo", "completion"})
"""Commands that work on no project, or on one they are given as an argument."""

ANYWHERE: Final = frozenset({"-C", "config", "ls-remote"})
"""First words of a git command that works in every folder."""


def with_program(hint: str, argv: Sequence[str], environ: Mapping[str, str]) -> Hint:
    """Return commands that run as they stand: `ktx` becomes the path of the running one where PATH has no such `ktx`.

    `argv`: the words that started this process. A `ktx` that was not started as a program of that name stays `ktx`.
    """
    from ktx_cli.jobs.clients.targets import NAME, found_program

    running = Path(argv[0]) if argv else Path()
    if running.name != NAME or not running.is_file():
        return Hint(hint)
    found = found_program(environ)
    if found is not None and found.samefile(running):
        return Hint(hint)
    program = os.path.abspath(running)  # noqa: PTH100 - resolve() would follow links

    def by_path(part: str) -> str:
        is_ktx = isinstance(part, Command) and part.program == NAME
        return Command(*part.words, program=program) if is_ktx else part  # type: ignore[attr-defined]

    return Hint(hint).rewrite(by_path)


def runnable(hint: str) -> str:
    """Return a hint or a next step on one line, with the path of this `ktx` where PATH does not have it."""
    return one_line_typed(with_program(hint, sys.argv, os.environ))


_tree: list[Callable[[], Any]] = []


def know_commands(tree: Callable[[], Any]) -> None:
    """Take the function that returns the app with all commands; whoever builds the app hands it over."""
    _tree.append(tree)


def _naming(words: Sequence[str]) -> int:
    """Return how many of the words name a command; 0 for one that takes no project."""
    if not words or words[0] in ELSEWHERE:
        return 0
    group, count = _commands(), 0
    for word in words:
        known = getattr(group, "commands", {})
        if word not in known:
            break
        group, count = known[word], count + 1
    return count


@functools.cache
def _commands() -> Any:
    """Return the tree of all commands, as click has it; a command line has no need of it but for a hint."""
    import typer.main

    return typer.main.get_command(_tree[-1]())


@dataclass(frozen=True, slots=True)
class Place:
    """The project of a command line: as it was typed (None: not at all), and where git has to run (None: here)."""

    typed: str | None
    folder: Path | None

    def command(self, hint: str) -> Hint:
        """Return a hint or a next step whose commands work on this project, typed in the same folder."""
        return Hint(hint).rewrite(self._placed)

    def _placed(self, part: str) -> str:
        if not isinstance(part, Command):
            return part
        if part.program == "git" and self.folder is not None and part.words[0] not in ANYWHERE:
            return part.with_words("-C", self.typed or self.folder, after=0)
        if part.program == "ktx" and self.typed is not None and "--project-dir" not in part.words:
            count = _naming(part.words)
            return part.with_words("--project-dir", self.typed, after=count) if count else part
        return part

    def data(self, value: Any) -> Any:
        """Return an answer whose hints and next steps are changed likewise; other texts are not."""
        if isinstance(value, Hint):
            return self.command(value)
        if isinstance(value, Mapping):
            return {key: self.data(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return [self.data(item) for item in value]
        return value
