"""Puts a recording of a session into the README: `ktx setup` in a terminal where there is one, else the demo."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = Path(__file__).resolve().parent / "recordings"
BEGIN, END = "<!-- recording: written by `make docs` -->\n", "<!-- end of recording -->"
SETUP = "setup.txt"
"""What a terminal showed; its own test compares it. The demo's is a block of commands, run as every other one."""


def readme() -> str:
    """Return the README with the recording as it should be."""
    before, _, rest = (ROOT / "README.md").read_text("utf-8").partition(BEGIN)
    return before + BEGIN + _block() + END + rest.partition(END)[2]


def _block() -> str:
    terminal = RECORDINGS / SETUP
    if terminal.exists():
        reason = "<!-- not run: a recording of a terminal, which a test of its own compares -->\n"
        return f"{reason}```text\n{terminal.read_text('utf-8').rstrip()}\n```\n"
    demo = (RECORDINGS / "demo.txt").read_text("utf-8").rstrip()
    return f"```console\n{demo}\n```\n"
