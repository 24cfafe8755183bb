"""Tests the MCP server with public tools and writes `docs/measured/mcp-conformance.md`.

`python -m docs.conformance` installs the public conformance suite and the MCP Inspector with npm into a temporary
folder (including Node.js 22), serves a demo, and stores their output in `docs/measured/mcp-conformance/`.
`--tools DIR` uses a folder in which they are already installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "measured" / "mcp-conformance"
PAGE: Final = Path(__file__).parent / "measured" / "mcp-conformance.md"
PACKAGES: Final = ("node@22", "@modelcontextprotocol/inspector", "@modelcontextprotocol/conformance")
QUESTION: Final = '["orders.order_count"]'

FIXTURE: Final = "needs a tool, resource or prompt of the suite's own example server, which ktx does not have"
DEPRECATED: Final = "logging is deprecated in the protocol of 2026-07-28; the server's log is a file (`ktx mcp logs`)"
NOT_ASKED: Final = "the server sends no requests to its client: no sampling, no elicitation"
NO_SUBSCRIPTION: Final = "clients read resources when they need them; the server does not announce changes"

EXPECTED: Final = {
    "logging-set-level": DEPRECATED,
    "tools-call-image": FIXTURE,
    "tools-call-audio": FIXTURE,
    "tools-call-embedded-resource": FIXTURE,
    "tools-call-mixed-content": FIXTURE,
    "tools-call-with-logging": DEPRECATED,
    "tools-call-with-progress": FIXTURE,
    "tools-call-sampling": NOT_ASKED,
    "tools-call-elicitation": NOT_ASKED,
    "json-schema-2020-12": FIXTURE,
    "elicitation-sep1034-defaults": NOT_ASKED,
    "elicitation-sep1330-enums": NOT_ASKED,
    "server-sse-polling": FIXTURE,
    "resources-read-text": FIXTURE,
    "resources-read-binary": FIXTURE,
    "resources-templates-read": FIXTURE,
    "resources-subscribe": NO_SUBSCRIPTION,
    "resources-unsubscribe": NO_SUBSCRIPTION,
    "prompts-get-simple": FIXTURE,
    "prompts-get-with-args": FIXTURE,
    "prompts-get-embedded-resource": FIXTURE,
    "prompts-get-with-image": FIXTURE,
    "completion-complete": "the server does not complete arguments",
}
"""Scenarios of the suite that are expected to fail, and why."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run: how the page shows it, its output and its exit code."""

    name: str
    words: str
    output: str
    status: int


def main() -> int:
    """Run everything and write the page; return 1 if a command ended differently than expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=Path, help="a folder in which npm has installed the tools")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ktx-conformance-") as scratch:
        tools = chosen.tools or _installed(Path(scratch) / "tools")
        with _served(Path(scratch) / "demo") as (url, project):
            runs = [_suite(tools, url, Path(scratch)), *_inspected(tools, url, project)]
        _write(runs, tools)
    return 0 if all(run.status == 0 for run in runs) else 1


def _installed(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["npm", "init", "-y"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["npm", "install", *PACKAGES], cwd=folder, check=True, capture_output=True)
    return folder


@contextmanager
def _served(project: Path) -> Iterator[tuple[str, Path]]:
    """Build a demo and serve it on a free port."""
    _ktx("demo", str(project))
    started = json.loads(_ktx("--project-dir", str(project), "mcp", "start", "--port", "0", "--json"))
    try:
        yield started["data"]["url"], project
    finally:
        _ktx("--project-dir", str(project), "mcp", "stop")


def _ktx(*words: str) -> str:
    nobody = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}  # commits do not name who runs this
    done = subprocess.run([_program(), *words], check=True, capture_output=True, text=True, env=nobody)
    return done.stdout


def _program() -> str:
    return str(Path(sys.executable).with_name("ktx"))


def _suite(tools: Path, url: str, scratch: Path) -> Ran:
    expected = FOLDER / "expected-failures.yml"
    FOLDER.mkdir(exist_ok=True)
    lines = [f"  - {name}  # {why}" for name, why in EXPECTED.items()]
    expected.write_text("\n".join(["server:", *lines, ""]), "utf-8")
    words = ["conformance", "server", "--suite", "all", "--expected-failures", str(expected)]
    words += ["--output-dir", str(scratch / "results"), "--url", url]
    return _run(tools, "conformance", words, "conformance server --suite all --expected-failures expected-failures.yml")


def _inspected(tools: Path, url: str, project: Path) -> list[Ran]:
    stdio = [_program(), "--project-dir", str(project), "mcp", "stdio"]
    over = {"http": [url, "--transport", "http"], "stdio": stdio}
    asks = {
        "tools-list": ["--method", "tools/list"],
        "resources-list": ["--method", "resources/list"],
        "prompts-list": ["--method", "prompts/list"],
        "sl-query": ["--method", "tools/call", "--tool-name", "sl_query", "--tool-arg", f"measures={QUESTION}"],
    }
    return [
        _run(
            tools,
            f"inspector-{transport}-{name}",
            ["mcp-inspector", "--cli", *where, *ask],
            f"mcp-inspector --cli ({transport}) {' '.join(ask)}",
        )
        for transport, where in over.items()
        for name, ask in asks.items()
    ]


def _run(tools: Path, name: str, words: Sequence[str], shown: str) -> Ran:
    programs = tools / "node_modules" / ".bin"
    environ = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        [str(programs / words[0]), *words[1:]], capture_output=True, text=True, env=environ, cwd=tools, check=False
    )
    return Ran(name, shown, done.stdout + done.stderr, done.returncode)


def _write(runs: Sequence[Ran], tools: Path) -> None:
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for run in runs:
        (FOLDER / f"{run.name}.txt").write_text(_plain(run.output, tools), "utf-8")
    PAGE.write_text(_page(runs, tools), "utf-8")


def _page(runs: Sequence[Ran], tools: Path) -> str:
    rows = [f"| `{run.words}` | {run.status} | [{run.name}](mcp-conformance/{run.name}.txt) |" for run in runs]
    fails = [f"| `{name}` | {why} |" for name, why in EXPECTED.items()]
    suite = runs[0].output
    passed = len(re.findall(r"^✓ ", suite, re.MULTILINE))
    return "\n".join(
        [
            "# MCP conformance",
            "",
            "Written by `python -m docs.conformance`, which runs public tools against the MCP server. The raw output is"
            " next to this page.",
            "",
            f"Node.js {_version(tools, 'node')}, conformance {_version(tools, '@modelcontextprotocol/conformance')}, "
            f"inspector {_version(tools, '@modelcontextprotocol/inspector')}.",
            "",
            "| command | exit code | output |",
            "|---|---|---|",
            *rows,
            "",
            "## Expected failures",
            "",
            f"{passed} scenarios of the suite pass. The suite is written for an example server that has its own tools."
            " This table lists every scenario that is expected to fail, with its reason. Any other failure"
            " fails the run.",
            "",
            "| scenario | why it fails |",
            "|---|---|",
            *fails,
            "",
        ]
    )


def _version(tools: Path, package: str) -> str:
    return str(json.loads((tools / "node_modules" / package / "package.json").read_text("utf-8"))["version"])


def _plain(text: str, tools: Path) -> str:
    """Return an output without the parts that differ between runs: paths, ports, times, commits, colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = text.replace(str(tools.resolve()), "TOOLS").replace(str(tools), "TOOLS")
    text = re.sub(r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT", text)
    text = re.sub(r"\S*ktx-conformance-\w+", "SCRATCH", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \([0-9a-f]{10}\)", "DATE (COMMIT)", text)
    text = re.sub(r'(\\?"(?:load|compile|probe|execute)\\?": ?)[\d.]+', r"\g<1>0", text)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d[-.]\d+Z", "TIME", text)


if __name__ == "__main__":
    if shutil.which("npm") is None:
        raise SystemExit("npm is needed, for the tools alone")
    raise SystemExit(main())
