"""Runs the blocks of one page in a folder of its own, one after another, as a reader would."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import chdir, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ktx_cli.core import yaml
from ktx_cli.project.config.file import load_config
from tests.docs.blocks import ROOT, Block, wrong_form
from tests.docs.sessions import Typed, difference, typed_in

DEMO = "ktx-demo"
TYPESCRIPT = ROOT / "tests" / "cli" / "fixtures" / "typescript_project"
WAREHOUSE = "warehouse"


class Page:
    """A page in the making: the folder it works in, and the folder it is in now."""

    def __init__(self, folder: Path, demo: Path, demo_output: str, entered: Callable[[str, Path], None]) -> None:
        self.folder = folder
        self.here = folder
        self._demo, self._demo_output, self._entered = demo, demo_output, entered
        self._started = False
        self._begins = DEMO

    def run(self, block: Block) -> Iterator[str]:
        """Run a block; yield each thing that is wrong with it."""
        self._begins = block.start or self._begins
        wrong = wrong_form(block)
        if wrong:
            yield wrong
        elif block.file:
            return
        elif block.reason:
            yield from self._unknown_commands(block)
        else:
            self._start()
            if block.model:
                self._entered(block.model, self.here)
            with chdir(self.here):
                for command in block.first:
                    yield from self._typed(Typed(command, 0, None))
                yield from getattr(self, f"_{block.kind}")(block)

    def _start(self) -> None:
        if not self._started and self._begins == DEMO:
            self._copy_demo(self.folder / DEMO)
            self.here = self.folder / DEMO
        elif not self._started and self._begins == "typescript":
            shutil.copytree(TYPESCRIPT, self.folder, dirs_exist_ok=True)
            with closing(sqlite3.connect(self.folder / "ferries.db")) as database:
                database.executescript((self.folder / "ferries.sql").read_text("utf-8"))
        self._started = True

    def _copy_demo(self, folder: Path) -> None:
        shutil.copytree(self._demo, folder)
        subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=folder, check=False)

    def _console(self, block: Block) -> Iterator[str]:
        for each in typed_in(block.kind, block.text):
            yield from self._typed(each)

    _sh = _console

    def _typed(self, typed: Typed) -> Iterator[str]:
        code, printed = self._do(typed)
        if code != typed.exit_code:
            yield f"`{typed.command}` ended with {code}, not {typed.exit_code}:\n{printed}"
        wrong = difference(typed.shown, printed) if typed.shown else None
        if wrong:
            yield f"`{typed.command}` prints something else:\n{wrong}"

    def _do(self, typed: Typed) -> tuple[int, str]:
        parts = typed.parts()
        if parts is None:
            return _program(["bash", "-c", typed.command], self.here)
        printed = ""
        for words in parts:
            code, out = self._one(words)
            printed += out
            if code:
                return code, printed
        return 0, printed

    def _one(self, words: list[str]) -> tuple[int, str]:
        match words:
            case ["cd", folder]:
                self.here = (self.here / folder).resolve()
                os.chdir(self.here)
                return 0, ""
            case ["ktx", "demo"]:  # the very output of the command that built what is copied, see `demo_output`
                self._copy_demo(self.here / DEMO)
                return 0, self._demo_output
            case ["ktx", *rest]:
                return ktx(*rest)
        return _program(words, self.here)

    def _yaml(self, block: Block) -> Iterator[str]:
        assert block.title is not None
        if block.title == "ktx.yaml":
            issues = load_config(Path(block.title), data=block.text.encode()).issues
            yield from (f"{issue.setting}: {issue.message}" for issue in issues)
            return
        document = yaml.load(block.text, where=block.place)
        if block.title.startswith(".github/"):
            for command in _steps(document):
                yield from self._unknown_commands(replace(block, kind="sh", text=command))
            return
        self._write(block)
        if block.title.startswith("semantic-layer/"):
            connection = block.title.split("/")[1]
            code, printed = ktx("sl", "validate", "-c", connection, "--data" if block.wrong else "--no-data")
            if bool(code) is not bool(block.wrong) or (block.wrong or "") not in printed:
                yield f"{block.title} should be {'wrong: ' + block.wrong if block.wrong else 'valid'}:\n{printed}"

    def _markdown(self, block: Block) -> Iterator[str]:
        self._write(block)
        yield from ()

    def _json(self, block: Block) -> Iterator[str]:
        json.loads(block.text)
        if block.title:
            self._write(block)
        yield from ()

    def _write(self, block: Block) -> None:
        path = self.here / str(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")

    def _sql(self, block: Block) -> Iterator[str]:
        code, printed = ktx("sql", "-c", WAREHOUSE, block.text)
        if code:
            yield f"the statement failed:\n{printed}"

    def _python(self, block: Block) -> Iterator[str]:
        exec(compile(block.text, block.place, "exec"), {"__name__": "__docs__"})
        yield from ()

    def _unknown_commands(self, block: Block) -> Iterator[str]:
        """Yield the commands of a block that is not run which the command line would not take."""
        for typed in typed_in(block.kind, block.text) if block.kind in ("console", "sh") else ():
            for words in typed.parts() or ():
                if words[:1] == ["ktx"] and ktx(*words[1:], "--help")[0]:
                    yield f"there is no such command: `{typed.command}`"


def ktx(*words: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code and all it printed, in order."""
    from ktx_cli.cli.app import app

    done = CliRunner().invoke(app, list(words), prog_name="ktx")
    broken: Any = done.exception
    assert broken is None or isinstance(broken, SystemExit), broken
    return done.exit_code, done.output


def _steps(workflow: Any) -> Iterator[str]:
    """Yield the commands of a workflow of GitHub Actions."""
    for job in workflow["jobs"].values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


def _program(command: list[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout
