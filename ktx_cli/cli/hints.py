"""Commands in hints, made to work where they are typed: they name the project that this command line named."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.core import one_line_typed, shell_words

_KTX = re.compile(r"(?:^|(?<=`)|(?<=[:;,(&] )|(?<=\bor )|(?<=\bthen ))ktx (?=[a-z])")
_GIT = re.compile(
    r"(?<![\w./-])git (?=(?:add|commit|diff|ls-files|restore|rm|status|switch|update-index"
    r"|(?:bisect|cherry-pick|merge|rebase|revert) (?:--|reset))\b)"
)
_WORD = re.compile(r"[a-z][a-z-]*")
ELSEWHERE = frozenset({"demo", "completion"})
"""Commands that work on no project, or on one they are given as an argument."""


def with_program(text: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return commands that run as they stand: `ktx` becomes the path of the running one where PATH has no such `ktx`.

    `argv`: the words that started this process. A `ktx` that was not started as a program of that name stays `ktx`.
    """
    from ktx_cli.jobs.clients.targets import NAME, found_program

    running = Path(argv[0]) if argv else Path()
    if running.name != NAME or not running.is_file():
        return text
    found = found_program(environ)
    if found is not None and found.samefile(running):
        return text
    program = shell_words(Path(os.path.abspath(running)))  # noqa: PTH100 - resolve() would follow links
    return _KTX.sub(lambda _: f"{program} ", text)


def runnable(text: str) -> str:
    """Return a hint or a next step on one line, with the path of this `ktx` where PATH does not have it."""
    return one_line_typed(with_program(text, sys.argv, os.environ))


@dataclass(frozen=True, slots=True)
class Place:
    """The project of a command line: as it was typed (None: not at all), and where git has to run (None: here).

    `commands`: the tree of commands, as click has it.
    """

    typed: str | None
    folder: Path | None
    commands: Any

    def command(self, text: str) -> str:
        """Return a hint or a next step whose commands work on this project, typed in the same folder."""
        if self.folder is not None:
            text = _GIT.sub(lambda found: f"git -C {shell_words(self.typed or self.folder)} ", text)
        if self.typed is None or "--project-dir" in text:
            return text
        for found in reversed(list(_KTX.finditer(text))):
            end = self._end(text, found.end())
            if end is not None:
                text = f"{text[:end]} --project-dir {shell_words(self.typed)}{text[end:]}"
        return text

    def _end(self, text: str, start: int) -> int | None:
        """Return where the words that name a command end, None where none begins at `start`."""
        end, group = None, self.commands
        while known := getattr(group, "commands", None):
            word = _WORD.match(text, start)
            if word is None or word[0] not in known or (end is None and word[0] in ELSEWHERE):
                break
            end, group, start = word.end(), known[word[0]], word.end() + 1
        return end

    def data(self, value: Any) -> Any:
        """Return an answer whose findings, errors and next step are changed likewise; what a model said is not."""
        if isinstance(value, Mapping):
            ours = {"next", "hint"} if "message" in value else {"next"}
            return {
                key: self.command(item)
                if key in ours and isinstance(item, str)
                else item
                if key in ("answer", "value")
                else self.data(item)
                for key, item in value.items()
            }
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return [self.data(item) for item in value]
        return value
