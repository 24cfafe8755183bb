"""`ktx ingest` with agents: a scripted model works through a folder of documents, through the real clients."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.model_script import OVERLOADED, UNAUTHORIZED, Call, ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import LONG, Agents, backends, entered, git, history, measure, page, states, units, usual
from tests.worlds.forks import Forks

Run = Callable[..., Any]
STEPS = ("work_unit_step", "reconcile_step")


def test_agents_write_pages_in_one_commit(ktx: Run, company: Path, configure: Run, model_server: ModelServer) -> None:
    configure("refunds", "stock")
    model = Agents()
    model_server.play(model)
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert (company / "wiki/global/refunds.md").read_text().startswith("---\nsummary: About refunds\n")
    assert states(company) == {"refunds.md": "done", "stock.md": "done"}
    assert git(company, "log", "--format=%s").splitlines() == ["ktx ingest: shop, docs"]
    assert {name: (each["status"], each["steps"]) for name, each in units(answer).items()} == {
        "refunds.md": ("done", 4),
        "stock.md": ("done", 4),
    }
    assert model.of("reconcile") == 1


def test_a_second_run_asks_no_unit_and_one_changed_file_asks_its_own(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    first = git(company, "rev-parse", "HEAD")
    again = Agents()
    model_server.play(again)
    assert ktx("ingest").code == 0
    assert (again.asked, git(company, "rev-parse", "HEAD")) == ([], first)
    (company / "docs/stock.md").write_text(f"# stock\n\nNew. {LONG}")
    model_server.play(again)
    answer = ktx("ingest", "--json")
    assert answer.code == 0
    assert again.of("stock") == 4
    assert again.of("refunds") == 0
    changes = answer.data["sources"][0]["changes"]
    assert {name: count for name, count in changes.items() if count} == {"modified": 1, "unchanged": 1}


@pytest.mark.requirement("R56")
@pytest.mark.parametrize("backend", backends("anthropic"))
def test_a_budget_of_n_steps_sends_n_steps(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    configure("refunds", backend=backend, steps=3)
    monkeypatch.setattr("ktx_cli.engine.reconciliation.STEPS", 2)
    forever = [calls(Call("wiki_list_tags"))] * 9
    model_server.play(Agents(refunds=[calls(page("refunds")), *forever], reconcile=forever))
    with entered(backend, model_server, monkeypatch):
        answer = ktx("ingest", "--json", "--progress", "jsonl")
    assert answer.code == 0, answer
    events = [json.loads(line) for line in answer.err.splitlines() if line.startswith("{")]
    told = [(e["event"], e["step"], e["budget"], e["tool_calls"]) for e in events if e["event"] in STEPS]
    assert told == [*(("work_unit_step", n, 3, n) for n in (1, 2, 3)), *(("reconcile_step", n, 2, n) for n in (1, 2))]
    assert units(answer)["refunds.md"]["budget_used"] and answer.data["reconciled"]["budget_used"]


def test_a_failed_unit_leaves_the_others(ktx: Run, company: Path, configure: Run, model_server: ModelServer) -> None:
    configure("refunds", "stock")
    wrong = [calls(Call("wiki_write", {"key": "not a key!", "summary": "x", "content": "y"})), says("done")]
    model_server.play(Agents(refunds=wrong))
    answer = ktx("ingest", "--json")
    assert answer.code == 7
    assert answer.envelope["error"]["code"] == "partial"
    assert states(company) == {"refunds.md": "failed", "stock.md": "done"}
    assert not (company / "wiki/global/refunds.md").exists()
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    assert states(company) == {"refunds.md": "done", "stock.md": "done"}


def test_a_unit_may_write_nothing_of_a_file_it_read_and_fails_for_one_it_did_not(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock", "terms")
    nothing = says("Nothing in it is worth keeping.")
    model_server.play(
        Agents(
            refunds=[calls(Call("read_raw_file", {"path": "./refunds.md"})), nothing],
            stock=[calls(Call("wiki_list_tags")), nothing],
            terms=[calls(Call("read_raw_file", {"path": "stock.md"})), nothing],
        )
    )
    answer = ktx("ingest", "--json")
    assert answer.code == 7, answer
    assert {name: (each["status"], each["reason"]) for name, each in units(answer).items()} == {
        "refunds.md": ("done", ""),
        "stock.md": ("failed", "the model ended without reading stock.md"),
        "terms.md": ("failed", "the model ended without reading terms.md"),
    }
    assert states(company) == {"refunds.md": "done", "stock.md": "failed", "terms.md": "failed"}

    (company / "docs/new.md").write_text("Something new.")
    (company / "docs/logo.png").write_bytes(b"png")
    model_server.play(Agents())
    again = ktx("ingest")
    assert again.code == 0, again
    assert "docs (files)\tdone\t4 files; 1 added, 2 retried; units: 3 done\n" in again.out
    assert "docs (files)\tnot read\t1 file (logo.png): ktx has no reader for .png\n" in again.out


def test_a_failure_made_good_is_none(ktx: Run, company: Path, configure: Run, model_server: ModelServer) -> None:
    configure("refunds")
    turns = [
        calls(page("refunds", summary="")),
        calls(page("refunds", colour="red")),
        calls(page("refunds")),
        says("x"),
    ]
    model_server.play(Agents(refunds=turns))
    assert ktx("ingest").code == 0
    assert states(company) == {"refunds.md": "done"}


def test_an_invented_column_is_refused_until_it_is_looked_up(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    look = Call("entity_details", {"targets": ["orders"]})
    turns = [calls(measure("x", "sum(refunded)")), calls(look), calls(measure("x", "sum(refunded)")), says("x")]
    model_server.play(Agents(refunds=turns))
    assert ktx("ingest").code == 7
    assert not list((company / "semantic-layer/shop").glob("*.yaml"))
    model_server.play(Agents(refunds=[calls(look), calls(measure("paid", "sum(paid)")), says("x")]))
    assert ktx("ingest").code == 0
    (overlay,) = (company / "semantic-layer/shop").glob("*.yaml")
    assert "sum(paid)" in overlay.read_text()


def test_what_the_database_speaks_against_is_refused_and_its_repair_lands(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    with contextlib.closing(sqlite3.connect(company / "shop.sqlite")) as database, database:
        database.executemany("INSERT INTO orders VALUES (?, 1, 1.0, 1)", [(number,) for number in range(100, 160)])
    look = Call("entity_details", {"targets": ["orders", "customers"]})

    def write(text: str) -> Reply:
        return calls(Call("sl_write_source", {"connection": "shop", "source": "orders", "yaml": text}))

    wrong = "name: orders\ngrain: [customer_id]\njoins:\n  - {to: customers, on: id = customers.id, alias: buyer, "
    wrong += "relationship: many_to_one}\nmeasures:\n  - {name: total, expr: sum(substr(amount))}\n"
    right = "name: orders\nmeasures:\n  - {name: total, expr: sum(amount)}\n"
    model_server.play(Agents(refunds=[calls(look), write(wrong), write(right), says("x")]))
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    refused = json.dumps([request.body["messages"] for request in model_server.requests])
    assert "Nothing was saved, because the database check found these errors:" in refused
    assert "measure `total` of `orders`: wrong number of arguments" in refused
    assert "the grain of `orders` is customer_id, but 1 value occurs more than once, in 61 rows" in refused
    assert "60 of 62 rows of `orders` (96.8%) have a key that does not exist in `customers`" in refused
    (overlay,) = (company / "semantic-layer/shop").glob("*.yaml")
    assert overlay.read_text() == right


def test_an_abort_commits_nothing_and_keeps_what_is_finished(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock", "tax", failure="abort")
    model_server.play(Agents(stock=[calls(Call("wiki_remove", {"key": "none"})), says("x")]))
    assert ktx("ingest").code == 1
    assert history(company) == ""
    again = Agents()
    model_server.play(again)
    assert ktx("ingest").code == 0
    assert again.of("refunds") == 0, "it was finished"
    assert (again.of("stock"), again.of("tax")) == (4, 4)


def test_authentication_lost_on_the_way_lands_what_is_finished(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock", "tax")
    model_server.play(Agents(stock=[*usual("stock")[:1], UNAUTHORIZED]))
    answer = ktx("ingest", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (7, "auth")
    assert states(company) == {"refunds.md": "done", "stock.md": "failed", "tax.md": "failed"}
    again = Agents()
    model_server.play(again)
    assert ktx("ingest").code == 0
    assert (again.of("refunds"), again.of("stock"), again.of("tax")) == (0, 4, 4)


@pytest.mark.parametrize("flag", [("--max-tokens", "500"), ("--max-usd", "0.002"), ("--max-tokens", "1")])
def test_a_budget_of_the_run_ends_it(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, flag: tuple[str, str]
) -> None:
    configure("refunds", "stock")
    model_server.play(Agents())
    answer = ktx("ingest", "--json", *flag)
    assert (answer.code, answer.envelope["error"]["code"]) == (5, "budget")
    assert set(states(company).values()) <= {"done", "failed"}
    assert "failed" in states(company).values()
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    assert set(states(company).values()) == {"done"}


def test_two_units_that_add_to_one_source_both_land(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    look = Call("entity_details", {"targets": ["orders"]})
    turns = {
        topic: [calls(look), calls(measure(name, expr)), says("x")]
        for topic, name, expr in (("refunds", "paid", "sum(paid)"), ("stock", "total", "sum(amount)"))
    }
    model_server.play(Agents(**turns))
    assert ktx("ingest").code == 0
    (overlay,) = (company / "semantic-layer/shop").glob("*.yaml")
    assert sorted(re.findall(r"name: (\w+)", overlay.read_text())) == ["orders", "paid", "total"]


def test_two_units_that_contradict_each_other_are_repaired_or_one_waits(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    look = Call("entity_details", {"targets": ["orders"]})
    turns = {
        topic: [calls(look), calls(measure("total", expr)), says("x")]
        for topic, expr in (("refunds", "sum(paid)"), ("stock", "sum(amount)"))
    }
    model_server.play(Agents(**turns))
    answer = ktx("ingest", "--json")
    assert answer.code == 7
    assert {name: each["status"] for name, each in units(answer).items()} == {
        "refunds.md": "done",
        "stock.md": "quarantined",
    }
    assert states(company) == {"refunds.md": "done", "stock.md": "failed"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_begins_nothing_new_and_commits_nothing(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, times: int, forks: Forks
) -> None:
    configure("refunds", "stock", "tax")
    begun, let_go = threading.Event(), threading.Event()

    class Slow(Agents):
        def __call__(self, request: ModelRequest) -> Reply:
            reply = super().__call__(request)
            if self.of("stock") == 1:
                begun.set()
                assert let_go.wait(60)
            return reply

    model = Slow()
    model_server.play(model)
    said = company.parent / "said"
    process = forks(("ingest",), folder=company, environ=os.environ, said=said)
    assert begun.wait(30)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.4)  # for the signal to arrive
    if times == 1:
        let_go.set()
    else:
        os.kill(process.pid, signal.SIGINT)
    ended = process.wait()
    let_go.set()
    assert ended == 130, said.read_text("utf-8")
    assert history(company) == ""
    assert model.of("tax") == 0
    again = Agents()
    model_server.play(again)
    done = ktx("ingest")
    assert done.code == 0, done
    assert again.of("refunds") == 0
    assert (again.of("stock") == 0) == (times == 1), "a unit under way ends at the first interrupt, not at the second"
    assert states(company) == {"refunds.md": "done", "stock.md": "done", "tax.md": "done"}


def test_an_overload_fails_one_unit(ktx: Run, company: Path, configure: Run, model_server: ModelServer) -> None:
    configure("refunds", "stock")
    model_server.play(Agents(refunds=[*usual("refunds")[:1], OVERLOADED]))
    answer = ktx("ingest", "--json")
    assert answer.code == 7
    assert states(company) == {"refunds.md": "failed", "stock.md": "done"}


@pytest.mark.parametrize("privacy", ["local", "off"])
def test_values_of_columns_are_shown_where_the_project_lets_them(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, privacy: str
) -> None:
    configure("refunds")
    settings = (company / "ktx.yaml").read_text()
    (company / "ktx.yaml").write_text(settings.replace("scan:\n", f"scan:\n  privacy: '{privacy}'\n"))
    with contextlib.closing(sqlite3.connect(company / "shop.sqlite")) as database:
        database.execute("CREATE TABLE parcels (id INTEGER PRIMARY KEY, state TEXT)")
        database.executemany("INSERT INTO parcels (state) VALUES (?)", [("sent",)] * 6 + [("lost",)] * 4)
        database.commit()
    look = Call("entity_details", {"targets": ["parcels"]})
    read = Call("read_raw_file", {"path": "refunds.md"})
    model_server.play(Agents(refunds=[calls(read, look), says("x")]))
    assert ktx("ingest").code == 0
    told = json.dumps([each.body["messages"] for each in model_server.model_calls])
    assert "tool_result" in told
    assert ("values: sent, lost" in told) is (privacy == "off"), told[-2000:]


def test_what_ends_the_questions_about_tables_ends_the_units_too(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    settings = (company / "ktx.yaml").read_text()
    (company / "ktx.yaml").write_text(settings.replace("mode: none", "mode: llm"))
    agents = Agents()
    model_server.play(lambda request: UNAUTHORIZED if "database tables" in str(request.body) else agents(request))
    answer = ktx("ingest", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (7, "auth"), answer
    assert agents.asked == []
    assert states(company) == {"refunds.md": "failed"}


def test_pages_of_a_file_are_known_until_it_is_decided_what_becomes_of_them(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    (company / "docs/refunds.md").write_text(f"# refunds\n\nNew. {LONG}")
    (left,) = ktx("ingest", "--no-llm", "--json").data["sources"]
    assert left["left_for_a_model"] == ["1 document could be turned into wiki pages"]
    model_server.play(Agents(refunds=[calls(Call("read_raw_file", {"path": "refunds.md"})), says("nothing is new")]))
    assert ktx("ingest").code == 0
    (company / "docs/refunds.md").unlink()
    model_server.play(Agents())
    answer = ktx("ingest", "--json")
    assert (answer.code, [each["code"] for each in answer.envelope["warnings"]]) == (0, ["undecided"])
    gone = {
        "raw_path": "docs/refunds.md",
        "artifact": "wiki:refunds",
        "action": "removed",
        "reason": "its file is gone",
    }
    removes = [calls(Call("wiki_remove", {"key": "refunds"})), calls(Call("emit_eviction_decision", gone)), says("x")]
    model_server.play(Agents(reconcile=removes))
    answer = ktx("ingest", "--json")
    assert (answer.code, answer.envelope["warnings"]) == (0, [])
    assert not (company / "wiki/global/refunds.md").exists()
    assert states(company) == {"stock.md": "done"}
