"""A project of documents to ingest, and runs of the installed `ktx` in it with what they took."""

from __future__ import annotations

import copy
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.ingest_model import Facts, Model
from tests.worlds.kills import installed_ktx

LONG = "Orders count when they are paid. " * 370
"""So long that a document is a unit of its own."""

CONFIG = """\
llm:
  provider:
    backend: {backend}
    claude: {{reuse_processes: {reuse}}}
    anthropic: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}
  models: {{default: claude-sonnet-5-5}}
ingest:
  workUnits: {{maxConcurrency: {at_once}, stepBudget: 40}}
scan: {{enrichment: {{mode: none}}}}
connections:
  shop:
    driver: sqlite
    path: shop.sqlite
{shop}
"""

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, country TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, amount REAL, paid INTEGER);
INSERT INTO customers VALUES (1, 'a', 'NL'), (2, 'b', 'BE');
INSERT INTO orders VALUES (1, 1, 10.0, 1), (2, 2, 5.0, 0);
"""


@dataclass(frozen=True)
class Run:
    """What a run took: seconds, CPU seconds of it and its children, git processes, what the model was asked.

    `peak`: the most memory that its process had, in MB.
    """

    wall: float
    cpu: float
    peak: float
    gits: int
    asked: Facts | None
    report: Mapping[str, Any]

    @property
    def commit(self) -> str | None:
        """The commit it made."""
        found: str | None = self.report.get("commit")
        return found


class Project:
    """A folder with a project; `model` None: no model works in it."""

    def __init__(
        self, folder: Path, model: Model | None, backend: str = "none", *, at_once: int = 8, reuse: bool = False
    ) -> None:
        self.folder, self._model, self._backend = folder, model, backend
        self._at_once, self._reuse = at_once, reuse
        folder.mkdir()
        database = sqlite3.connect(folder / "shop.sqlite")
        database.executescript(SHOP)
        database.close()
        self.configure()

    def configure(self, *sources: str, shop: str = "") -> None:
        """Write `ktx.yaml`: `sources` are ids of connections whose files are in folders of their names.

        An id that begins with `dbt` is a dbt project, any other a folder of documents.
        """
        url = "http://127.0.0.1:9" if self._model is None else self._model.url
        reuse = str(self._reuse).lower()
        text = CONFIG.format(backend=self._backend, url=url, at_once=self._at_once, shop=shop, reuse=reuse)
        for each in sources:
            place = f"dbt, source_dir: {each}" if each.startswith("dbt") else f"documents, path: {each}"
            text += f"  {each}: {{driver: {place}}}\n"
        (self.folder / "ktx.yaml").write_text(text)

    def write_models(self, source: str, names: list[str]) -> None:
        """Write a dbt project with a text about each model: more than one agent works through as a whole."""
        models = self.folder / source / "models"
        models.mkdir(parents=True)
        (self.folder / source / "dbt_project.yml").write_text("name: shop\nversion: 1.0.0\n")
        for name in names:
            (models / f"{name}.md").write_text(f"{{% docs {name} %}}\n{LONG}\n{{% enddocs %}}\n")

    def write(self, source: str, names: list[str], text: str = LONG) -> None:
        """Write documents, a hundred in a folder."""
        for number, name in enumerate(names):
            path = self.folder / source / f"part{number // 100:03}" / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {name}\n\n{text}")

    def run(self) -> Run:
        """Ingest; raises where a run does not end well."""
        log = self.folder.with_suffix(".gits")
        log.write_text("")
        environ = {**self._environ(), "PATH": f"{_shim(self.folder)}:{os.environ['PATH']}", "GIT_CALLS": str(log)}
        if self._model is not None:
            self._model.facts()
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [installed_ktx(), "ingest", "--json"]
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, cwd=self.folder, env=environ, stdout=output, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
            said, problems = (_content(each) for each in (output, errors))
        if process.returncode:
            raise SystemExit(f"ktx ingest ended with {process.returncode}: {said[-2000:]}{problems[-2000:]}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        gits = len(log.read_text().splitlines())
        asked = None if self._model is None else self._model.facts()
        return Run(wall, cpu, usage.ru_maxrss / 1024, gits, asked, json.loads(said)["data"])

    def clone(self, folder: Path) -> Project:
        """Commit what is not committed, and return the project in a fresh clone."""
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-qm", "the rest")
        git(self.folder.parent, "clone", "-q", str(self.folder), str(folder))
        other = copy.copy(self)
        other.folder = folder
        return other

    def forget_state(self) -> None:
        """Delete everything that is not committed and not the user's."""
        shutil.rmtree(self.folder / ".ktx")

    def _environ(self) -> dict[str, str]:
        claude = self._model is not None and self._backend.startswith("claude")
        base = self._model.environ if claude and self._model is not None else {**os.environ}
        return {**base, "SCRIPTED_KEY": "made-up", "COLUMNS": "100"}


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def git(folder: Path, *arguments: str) -> str:
    """Run git as a made-up user and return what it says."""
    user = ["-c", "user.name=u", "-c", "user.email=u@example.com"]
    return subprocess.run(["git", *user, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def _shim(folder: Path) -> Path:
    """Return a folder with a `git` that notes each call and is git."""
    place = folder.with_suffix(".bin")
    place.mkdir(exist_ok=True)
    script = place / "git"
    script.write_text(f'#!/bin/sh\necho >> "$GIT_CALLS"\nexec {shutil.which("git")} "$@"\n')
    script.chmod(0o755)
    return place
