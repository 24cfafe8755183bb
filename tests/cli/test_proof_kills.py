"""Killed at any moment, a proof is finished by the next one, which asks for no answer twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.worlds.forks import Forks

Run = Callable[..., Any]

AT_ONCE: Final = 2
"""Attempts under way at the same time, so most requests in flight."""
KILLS: Final = [1, pytest.param(20, marks=pytest.mark.slow)]
PROOF: Final = ("proof", "--runs", "2", "--ablate", "customers.people", "--json")
TURNS: Final = {"schema": 12, "context": 12, "without": 8}
"""Turns of the model in a whole proof: two questions with two runs each, and one that sees the measure without it."""

CONFIG = """\
connections:
  warehouse: {{driver: sqlite, path: shop.sqlite}}
llm:
  provider:
    backend: anthropic
    anthropic: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}
  models: {{default: claude-sonnet-5-5}}
ingest:
  workUnits: {{maxConcurrency: {at_once}}}
"""
SOURCE = """\
name: customers
table: customers
grain: [id]
columns: [{name: id, type: number}, {name: country, type: string}]
measures:
  - {name: people, expr: count(*), filter: "country = 'NO'"}
"""
EVALS = """\
cases:
  - {id: customers, question: How many customers do we have?, ask: true, expect: {value: 1}}
  - id: countries
    question: How many customers are there by country?
    sql: SELECT country, count(*) AS people FROM customers GROUP BY 1
"""


class Agent:
    """Plays every attempt by what a request holds alone; `asked`: how many turns it played."""

    def __init__(self, awaited: int | None = None) -> None:
        self.asked = 0
        self.reached = threading.Event()
        self._awaited, self._lock = awaited, threading.Lock()

    def __call__(self, request: ModelRequest) -> Reply:
        if not request.tool_names:
            return says("ok")
        with self._lock:
            self.asked += 1
            if self.asked == self._awaited:
                self.reached.set()
        said = json.dumps(request.body["messages"])
        turn = sum(message["role"] == "assistant" for message in request.body["messages"])
        by_country = "by country" in said
        if turn == 0 and "sl_query" in request.tool_names and not by_country:
            return calls(Call("sl_query", {"measures": ["customers.people"]}))
        if turn == 0 or (turn == 1 and "there is no measure" in said):
            sql = (
                "SELECT country, count(*) FROM customers GROUP BY 1" if by_country else "SELECT count(*) FROM customers"
            )
            return calls(Call("sql_execution", {"sql": sql}))
        return says("done") if "The answer is recorded" in said else calls(Call("answer", {"result": "r1"}))


@pytest.fixture
def template(tmp_path: Path, model_server: ModelServer) -> Path:
    """A project with a measure, and a question that the schema alone answers wrongly."""
    folder = tmp_path / "template"
    (folder / "evals").mkdir(parents=True)
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, country TEXT)")
        database.execute("INSERT INTO customers VALUES (1, 'NO'), (2, 'SE')")
    database.close()
    (folder / "ktx.yaml").write_text(CONFIG.format(url=model_server.url, at_once=AT_ONCE))
    (folder / "evals" / "shop.yaml").write_text(EVALS)
    (folder / "semantic-layer" / "warehouse").mkdir(parents=True)
    (folder / "semantic-layer" / "warehouse" / "customers.yaml").write_text(SOURCE)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", KILLS)
def test_killed_at_any_moment_the_next_proof_completes_and_asks_nothing_twice(
    ktx: Run, template: Path, tmp_path: Path, model_server: ModelServer, forks: Forks, kills: int
) -> None:
    environ = {**os.environ, "SCRIPTED_KEY": "made-up"}

    def prove(folder: Path, agent: Agent, kill_after: float | None = None) -> tuple[int, str]:
        model_server.play(agent)
        said = folder.with_suffix(".said")
        started = forks(PROOF, folder=folder, environ=environ, said=said)
        if kill_after is not None:
            agent.reached.wait(60)
            time.sleep(kill_after)
            with contextlib.suppress(ProcessLookupError):  # it was done before
                os.kill(started.pid, signal.SIGKILL)
        return started.wait(), said.read_text()

    undisturbed, whole = tmp_path / "undisturbed", Agent()
    shutil.copytree(template, undisturbed)
    code, said = prove(undisturbed, whole)
    assert (code, whole.asked) == (0, sum(TURNS.values())), said
    expected = _lasting(_data(said))
    dice, landed = random.Random(20), 0
    for number in range(kills):
        folder = tmp_path / f"kill-{number}"
        shutil.copytree(template, folder)
        first, second = Agent(1 + (2 * number + 1) * whole.asked // (2 * kills)), Agent()
        ended, said = prove(folder, first, dice.uniform(0, 0.05))
        where = f"kill {number}, after request {first.asked}"
        place = ("--project-dir", str(folder))
        (run,) = ktx("runs", "list", "--json", *place).data["runs"]
        assert run["status"] in ("killed", "done"), where
        partial = [ktx("proof", "--replay", run["run_id"], "--json", *place).out for _ in range(2)]
        assert partial[0] == partial[1], where
        done = _answers(folder, run["run_id"])
        if run["status"] == "done":  # before the kill: another proof would be a new one
            assert (ended, first.asked) in ((0, whole.asked), (-signal.SIGKILL, whole.asked)), where
            continue
        assert ended == -signal.SIGKILL, where
        landed += 1
        code, said = prove(folder, second)
        assert code == 0, f"{where}: {said}"
        data = _data(said)
        assert _lasting(data) == expected, where
        assert first.asked + second.asked <= whole.asked + AT_ONCE, f"{where}: more asked again than was in flight"
        again = _answers(folder, data["run_id"])
        assert all(each in again for each in done), f"{where}: kept with their rows and what they took"
        replayed = ktx("proof", "--replay", data["run_id"], "--json", *place)
        assert _data(replayed.out) == data, where
        shutil.rmtree(folder)
    assert landed > kills / 2


def _data(said: str) -> dict[str, Any]:
    document = json.loads(said.splitlines()[-1])
    assert document["error"] is None
    data = document["data"]
    assert isinstance(data, dict)
    return data


def _lasting(data: dict[str, Any]) -> dict[str, Any]:
    """Return the figures without what differs from run to run: its id and its seconds."""
    arms = [{**arm, "seconds": None} for arm in data["arms"]]
    return {**data, "run_id": None, "arms": arms}


def _answers(folder: Path, run: str) -> list[dict[str, Any]]:
    path = folder / ".ktx" / "runs" / run / "answers.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [{name: value for name, value in json.loads(line).items() if name != "at"} for line in lines]
