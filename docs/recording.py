"""Puts recordings of sessions where they are shown: into the README, and the first run of `ktx setup` into its guide.

`docs/recordings/setup.txt` takes the place of the demo in the README where it exists.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = Path(__file__).resolve().parent / "recordings"
FIRST_RUN = ROOT / "tests" / "cli" / "recordings" / "first-run-80.txt"
"""What a terminal showed; `tests/cli/test_setup_terminal.py` compares it."""
REASON = "<!-- not run: a recording of a terminal, which tests/cli/test_setup_terminal.py compares -->\n"


def pages() -> dict[str, str]:
    """Return path -> text of every page with a recording, as it should be."""
    chosen = RECORDINGS / "setup.txt"
    readme = _terminal(chosen) if chosen.exists() else _console(RECORDINGS / "demo.txt")
    return {
        "README.md": _filled("README.md", "recording", readme),
        "docs/guides/setup.md": _filled("docs/guides/setup.md", "terminal", _terminal(FIRST_RUN)),
    }


def _filled(page: str, name: str, block: str) -> str:
    begin, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- end of {name} -->"
    before, _, rest = (ROOT / page).read_text("utf-8").partition(begin)
    return before + begin + block + end + rest.partition(end)[2]


def _terminal(path: Path) -> str:
    return f"{REASON}```text\n{path.read_text('utf-8').rstrip()}\n```\n"


def _console(path: Path) -> str:
    return f"```console\n{path.read_text('utf-8').rstrip()}\n```\n"
