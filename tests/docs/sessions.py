"""What a block of commands says: each command, its exit code, and the output that is shown below it."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

PROMPT = "$ "
EXIT = re.compile(r"\s+#\s*exit (\d+)$")
SHELL = {"|", "||", ">", ">>", "<", "<<", ";", "&", "(", ")", "|&", "2>"}
"""What only a shell understands."""


@dataclass(frozen=True)
class Typed:
    """A command as it is typed, the exit code it ends with, the lines below it (None: none are shown)."""

    command: str
    exit_code: int
    shown: tuple[str, ...] | None

    def parts(self) -> list[list[str]] | None:
        """Return the words of each command between `&&`; None where a shell is needed."""
        lexer = shlex.shlex(self.command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
        if SHELL & set(words) or "$(" in self.command or re.search(r"\$[A-Z{?]", self.command):
            return None
        parts: list[list[str]] = [[]]
        for word in words:
            if word == "&&":
                parts.append([])
            else:
                parts[-1].append(word)
        return parts


def typed_in(kind: str, text: str) -> list[Typed]:
    """Return the commands of a block of kind `console` (with a prompt and output) or `sh` (without)."""
    return list(_console(text) if kind == "console" else _script(text))


def _console(text: str) -> Iterator[Typed]:
    lines = text.replace("\\\n", " ").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(PROMPT)]
    if not starts or starts[0] != 0:
        raise AssertionError("a console block begins with `$ COMMAND`")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield _typed(lines[start].removeprefix(PROMPT), tuple(lines[start + 1 : end]))


def _script(text: str) -> Iterator[Typed]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield _typed(line, None)


def _typed(line: str, shown: tuple[str, ...] | None) -> Typed:
    code = EXIT.search(line)
    command = re.sub(r"\s{2,}#\s.*$|\s#\s*exit \d+$", "", line).strip()
    return Typed(command, int(code[1]) if code else 0, shown)


def difference(shown: tuple[str, ...], printed: str) -> str | None:
    """Return where what is shown differs from what was printed; None where it does not.

    Runs of blanks are alike: on a terminal tables are drawn, elsewhere they have tabs. `...` stands for anything in a
    line, and alone in a line for any number of lines.
    """
    wanted, found = [_plain(line) for line in shown], [_plain(line) for line in printed.splitlines()]
    while found and not found[-1]:
        found.pop()
    while wanted and not wanted[-1]:
        wanted.pop()
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", r"[^\n]*?") + r"\n"
        for line in wanted
    )
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in found)):
        return None
    return "\n".join(difflib.unified_diff(wanted, found, "shown", "printed", lineterm="", n=1))


def _plain(line: str) -> str:
    return " ".join(line.split())
