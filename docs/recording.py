"""Puts recordings of sessions where they are shown: into the README and the guides.

`docs/recordings/setup.txt` takes the place of the demo in the README where it exists.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = Path(__file__).resolve().parent / "recordings"
FIRST_RUN = ROOT / "tests" / "cli" / "recordings" / "first-run-80.txt"
"""What a terminal showed; `tests/cli/test_setup_terminal.py` compares it."""
DECISIONS = RECORDINGS / "decide.txt"
"""Three decisions in a terminal; `tests/cli/test_decide_terminal.py` compares it."""
REASON = "<!-- not run: a recording of a terminal, which tests/cli/{} compares -->\n"


def pages() -> dict[str, str]:
    """Return path -> text of every page with a recording, as it should be."""
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
