"""Inserts recordings of terminal sessions into the README and the guides.

If `docs/recordings/setup.txt` exists, it replaces the demo in the README.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = Path(__file__).resolve().parent / "recordings"
FIRST_RUN = ROOT / "tests" / "cli" / "recordings" / "first-run-80.txt"
"""The recorded first run; `tests/cli/test_setup_terminal.py` compares it with the program."""
DECISIONS = RECORDINGS / "decide.txt"
"""The recording of three decisions; `tests/cli/test_decide_terminal.py` compares it with the program."""
REASON = "<!-- not run: a recording of a terminal, which tests/cli/{} compares -->\n"


def pages() -> dict[str, str]:
    """Return path -> up-to-date text of every page with a recording."""
    chosen = RECORDINGS / "setup.txt"
    readme = _terminal(chosen) if chosen.exists() else _console(RECORDINGS / "demo.txt")
    return {
        "README.md": _filled("README.md", "recording", readme),
        "docs/guides/setup.md": _filled("docs/guides/setup.md", "terminal", _terminal(FIRST_RUN)),
        "docs/guides/deciding.md": _filled(
            "docs/guides/deciding.md", "terminal", _terminal(DECISIONS, "test_decide_terminal.py")
        ),
    }


def _filled(page: str, name: str, block: str) -> str:
    begin, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- end of {name} -->"
    before, _, rest = (ROOT / page).read_text("utf-8").partition(begin)
    return before + begin + block + end + rest.partition(end)[2]


def _terminal(path: Path, test: str = "test_setup_terminal.py") -> str:
    return f"{REASON.format(test)}```text\n{path.read_text('utf-8').rstrip()}\n```\n"


def _console(path: Path) -> str:
    return f"```console\n{path.read_text('utf-8').rstrip()}\n```\n"
