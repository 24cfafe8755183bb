"""`ktx runs`: what runs leave while they happen, and how it is shown afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.runs.records import RUNS_KEPT, prune_runs
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import Agents, backends, entered, page
from tests.worlds.forks import Forks

Run = Callable[..., Any]


def events(project: Path, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Layout(project).run_events(run_id).read_text().splitlines()]


def without_times(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [{name: value for name, value in each.items() if name != "at"} for each in found]


def everything_in(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


FLAGGED = {
    "kind": "near_duplicate",
    "artifact": "wiki:refunds",
    "detail": "two pages disagree",
    "flagged_for_human": True,
}
UNMAPPED = {"raw_path": "stock.md", "reason": "missing_target_table", "fallback": "flagged", "table_ref": "shelves"}


def test_a_run_is_listed_shown_and_drawn_again_and_reading_changes_nothing(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    written = page("stock")
    model_server.play(
        Agents(
            stock=[
                calls(Call("read_raw_file", {"path": "stock.md"})),
                calls(Call("emit_unmapped_fallback", UNMAPPED)),
                calls(written),
                says("done"),
            ],
            reconcile=[calls(Call("emit_conflict_resolution", FLAGGED)), says("done")],
        )
    )
    live = ktx("ingest", "--progress", "jsonl")
    assert live.code == 0, live
    for said in (
        "conflict to review\treconcile\twiki:refunds\tnear_duplicate: two pages disagree",
        "not mapped\tdocs:stock.md\tstock.md shelves\tthis connection does not have the table it names (flagged)",
        "role\tcalls\tfresh\tcache writes\tcache reads\toutput\tcost\n"
        "candidateExtraction\t1\t100\t0\t0\t20\t$0.0004\nprobe\t1\t100\t0\t0\t20\t$0.0004\n",
        "writer\t8\t800\t0\t0\t160\t$0.0032\n",
        "\nmodel usage: 1,680 tokens (1,400 fresh, 0 cache writes, 0 cache reads, 280 output), $0.0056 at list prices",
    ):
        assert said in live.out, live.out
    before = everything_in(company)

    (run,) = ktx("runs", "list", "--json").data["runs"]
    run_id = run["run_id"]
    assert (run["status"], run["units"], run["tokens"], run["cost_usd"]) == ("done", {"done": 2}, 1_680, 0.0056)
    row = ktx("runs", "list").out.splitlines()[1].split("\t")
    assert (row[0], row[1], row[2], row[5:8]) == (run_id, "ktx ingest", "done", ["2 done", "1,680", "$0.0056"])

    shown = ktx("runs", "show", "latest", "--json").data
    assert {each["unit"]: (each["status"], each["steps"]) for each in shown["units"]} == {
        "refunds.md": ("done", 4),
        "stock.md": ("done", 4),
    }
    listed = {"wiki/global/documents-docs.md": ["docs: refunds.md", "docs: stock.md"]}
    assert shown["artifacts"] == {**listed, "wiki:refunds": ["docs: refunds.md"], "wiki:stock": ["docs: stock.md"]}
    assert [(each["record"], each["by"]) for each in shown["records"]] == [
        ("fallbacks", "docs:stock.md"),
        ("conflicts", "reconcile"),
    ]
    assert {each["role"]: each["calls"] for each in shown["usage"]} == {
        "writer": 8,
        "candidateExtraction": 1,
        "reconcile": 2,
        "triage": 2,
        "probe": 1,
    }
    text = ktx("runs", "show", run_id[:-2]).out
    assert "docs:stock.md\tdone\t4\t3\t\n" in text
    assert "wiki:stock\tdocs: stock.md\n" in text

    again = ktx("runs", "replay", "latest", "--progress", "jsonl", "--speed", "0")
    assert without_times(again.err) == without_times(live.err)
    assert [each["at"] for each in events(company, run_id)] == [
        json.loads(line)["at"] for line in again.err.splitlines()
    ]
    assert ktx("runs", "replay", "latest").err.splitlines()[-1].startswith("commit: ")
    assert ktx("runs", "replay", "latest", "--json").data["events"] == events(company, run_id)
    assert run_id in [row["run"] for row in ktx("usage", "--by", "run", "--json").data["rows"]]
    assert [row["total_tokens"] for row in ktx("usage", "--by", "role", "--run", "latest", "--json").data["rows"]] == [
        120,
        120,
        240,
        240,
        960,
    ]
    assert everything_in(company) == before
    assert all(not path.stat().st_mode & 0o077 for path in (company / ".ktx/runs").rglob("*"))


@pytest.mark.parametrize("backend", backends("anthropic"))
def test_the_transcript_of_a_unit_is_the_same_on_every_backend(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    configure("refunds", backend=backend)
    model_server.play(Agents(refunds=[calls(page("refunds"), text="Looking."), says("done")]))
    with entered(backend, model_server, monkeypatch):
        assert ktx("ingest").code == 0
    (kept,) = ktx("runs", "show", "latest", "--transcript", "refunds.md", "--json").data["transcripts"]
    told = [(line["event"], line.get("name")) for line in kept["lines"]]
    assert [each for each in told if each[0] not in ("usage_reported", "rate_limit_wait")] == [
        ("loop_started", None),
        ("text", None),
        ("tool_started", "wiki_write"),
        ("tool_finished", "wiki_write"),
        ("step_finished", None),
        ("text", None),
        ("step_finished", None),
        ("final", None),
    ]
    texts = [line["text"] for line in kept["lines"] if line["event"] == "text"]
    assert (kept["label"], texts) == ("docs:refunds.md", ["Looking.", "done"])
    text = ktx("runs", "show", "latest", "--transcript", "docs:refunds.md").out
    assert "-- call wiki_write {" in text
    assert "-- wiki_write returned\ncreated: wiki/global/refunds.md\n" in text
    assert "-- system" not in text
    assert "-- system\n" in ktx("runs", "show", "latest", "--transcript", "refunds.md", "--verbose").out


def test_a_killed_run_says_so_and_leaves_what_it_did(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, forks: Forks
) -> None:
    configure("refunds")
    agents, killed = Agents(), threading.Event()

    def play(request: ModelRequest) -> Reply:
        if agents.of("refunds") == 2:
            killed.wait(60)
        return agents(request)

    model_server.play(play)
    process = forks(("ingest",), folder=company, environ=os.environ, said=company.parent / "said")
    try:
        _until(lambda: any(e["event"] == "work_unit_step" and e["step"] == 2 for e in _events_so_far(company)))
        assert [run["status"] for run in ktx("runs", "list", "--json").data["runs"]] == ["running"]
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed.set()
    (run,) = ktx("runs", "list", "--json").data["runs"]
    assert (run["status"], run["finished"], run["tokens"]) == ("killed", None, 480)
    assert run["seconds"] > 0
    shown = ktx("runs", "show", "latest", "--json").data
    assert shown["report"] is None
    assert [(u["unit"], u["status"], u["steps"], u["tool_calls"]) for u in shown["units"]] == [
        ("refunds.md", "cut off", 2, 2)
    ]
    assert "-- finished step 2 of" in ktx("runs", "show", "latest", "--transcript", "refunds.md").out
    with Layout(company).run_events(run["run_id"]).open("a") as stream:
        stream.write('{"at": "2026-01-31T09:30:00.250Z", "event": "noti')
    assert ktx("runs", "replay", "latest").code == 0
    assert [each["status"] for each in ktx("status", "--json").data["runs"]] == ["killed"]
    (company / ".ktx/state.sqlite").unlink()
    assert [each["status"] for each in ktx("runs", "list", "--json").data["runs"]] == ["killed"]

    model_server.play(Agents())
    assert ktx("ingest").code == 0
    assert [each["status"] for each in ktx("runs", "list", "--json").data["runs"]] == ["done", "killed"]


def test_units_that_an_earlier_run_did_are_shown_as_such_and_what_the_others_take(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, forks: Forks
) -> None:
    configure("refunds", "stock")
    agents, killed = Agents(), threading.Event()

    def play(request: ModelRequest) -> Reply:
        if agents.of("stock") == 2:
            killed.wait(60)
        return agents(request)

    model_server.play(play)
    process = forks(("ingest",), folder=company, environ=os.environ, said=company.parent / "said")
    try:
        _until(lambda: any(e.get("unit") == "stock.md" and e.get("step") == 2 for e in _events_so_far(company)))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed.set()

    model_server.play(Agents(stock=[calls(page("stock")), says("done")]))
    answer = ktx("ingest", "--progress", "jsonl")
    assert answer.code == 0, answer
    assert "units: 2 done; 1 unit from an earlier run\n" in answer.out
    lines = without_times(answer.err)
    told = [each for each in lines if each["event"].startswith("work_unit_")]
    assert told[0] == {
        "event": "work_unit_finished",
        "connection": "docs",
        "unit": "refunds.md",
        "status": "done",
        "reason": "",
        "replayed": True,
    }
    assert [each["event"].removeprefix("work_unit_") for each in told[1:]] == [
        "started", "resumed", "usage", "step", "usage", "step", "finished",
    ]  # fmt: skip
    assert {each["unit"] for each in told[1:]} == {"stock.md"}
    assert (told[2]["steps"], told[2]["tool_calls"]) == (2, 2)
    assert [(each["tokens"], each["usd"]) for each in told if "usd" in each] == [(120, 0.0004), (240, 0.0008)]

    (run, _) = ktx("runs", "list", "--json").data["runs"]
    text = ktx("runs", "show", "latest").out
    assert "docs:refunds.md\tdone\t4\t3\treused from an earlier run\n" in text
    (company / ".ktx/runs" / f"{run['run_id']}.json").unlink()
    shown = ktx("runs", "show", "latest")
    assert "docs:refunds.md\tdone\t0\t0\treused from an earlier run\n" in shown.out
    assert "docs:stock.md\tdone\t4\t3\tresumed from an earlier run\n" in shown.out


def _events_so_far(project: Path) -> list[dict[str, Any]]:
    # a run makes its folder before the file in it
    begun = [path.parent.name for path in (project / ".ktx/runs").glob("*/events.jsonl")]
    return [each for run_id in begun for each in events(project, run_id)]


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def test_no_secret_is_kept(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = 'sk-"made\nup"-8714'
    monkeypatch.setenv("SCRIPTED_KEY", secret.replace("\n", "").replace('"', ""))
    configure("refunds")
    (company / "docs/refunds.md").write_text("The key is sk-madeup-8714. " * 200)
    model_server.play(Agents(refunds=[calls(Call("read_raw_file", {"path": "refunds.md"})), says("sk-madeup-8714")]))
    assert ktx("ingest").code == 0
    kept = [path for path in (company / ".ktx/runs").rglob("*") if path.is_file()]
    assert len(kept) >= 3
    assert all(b"sk-madeup-8714" not in path.read_bytes() for path in kept)
    text = ktx("runs", "show", "latest", "--transcript", "refunds.md").out
    assert "The key is ***." in text
    assert "-- text\n***\n" in text


def test_a_dry_run_keeps_nothing(ktx: Run, project: Path) -> None:
    assert ktx("ingest", "--dry-run").code == 0
    assert not (project / ".ktx/runs").exists()
    answer = ktx("runs", "show", "latest", "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (2, "ktx ingest")
    assert ktx("runs", "list", "--json").data == {"runs": []}


def test_a_dry_run_says_what_agents_would_have_to_do_and_what_that_cost_before(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock", steps=10)
    plan = ktx("ingest", "--dry-run", "--json").data
    assert (plan["status"], plan["sources"][0]["planned_units"]) == ("planned", 2)
    unknown = {"tokens": None, "usage": None, "cost_usd": None, "by_units": 0, "roles": []}
    documents = {"documents": 2, "tables": 0, "table_calls": 0, "sections": 12, "section_calls": 1}
    unknown |= {"sources": 0, "source_calls": 0}
    assert plan["forecast"] == {"units": 2, "most_steps": 20, **documents, **unknown}
    assert "raw-sources/docs/files/manifest.yaml" in plan["files"]["written"]
    text = ktx("ingest", "--dry-run").out
    assert "docs (files)\trun agents on\t2 work units\n" in text
    bound = "2 units at most, 20 steps at most; questions for 12 sections of documents in 1 call"
    assert f"agent work: {bound}; the cost is unknown" in text

    model_server.play(Agents())
    answer = ktx("ingest")
    assert answer.code == 0
    assert f"work for agents: {bound}; the cost is unknown" in answer.err
    assert ktx("ingest", "--dry-run", "--json").data["forecast"] is None
    (company / "docs/new.md").write_text("Something new.")
    ahead = ktx("ingest", "--dry-run", "--json").data["forecast"]
    assert (ahead["units"], ahead["most_steps"], ahead["by_units"]) == (1, 10, 2)
    roles = {each["role"]: (each["work"], each["total_tokens"], each["cost_usd"]) for each in ahead["roles"]}
    assert roles == {
        "candidateExtraction": ("1 call", 120, 0.0004),
        "reconcile": ("the whole run", 120, 0.0004),
        "triage": ("1 document", 120, 0.0004),
        "writer": ("1 unit", 480, 0.0016),
    }
    assert (ahead["tokens"], ahead["cost_usd"]) == (840, 0.0028)
    assert (ahead["usage"]["input_tokens"], ahead["usage"]["output_tokens"]) == (700, 140)
    text = ktx("ingest", "--dry-run").out
    assert "writer\t1 unit\t400\t0\t0\t80\t$0.0016\n" in text
    assert "about 840 tokens (700 fresh, 0 cache writes, 0 cache reads, 140 output) and $0.00 at list prices" in text
    assert "based on the average of 2 earlier units" in text
    assert ktx("ingest", "--dry-run", "--no-llm", "--json").data["forecast"] is None


def test_the_report_says_what_stopped_agents_and_what_they_were_allowed_to_take(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    model_server.play(Agents())
    answer = ktx("ingest", "--max-tokens", "500")
    assert answer.code == 5, answer
    took = "600 tokens (500 fresh, 0 cache writes, 0 cache reads, 100 output)"
    assert f"model usage: {took}, $0.0020 at list prices (limit: 500 tokens)\n" in answer.out
    assert "agents stopped: the budget for this run is used up: 600 of 500 tokens\n" in answer.out
    assert "agents stopped by: the budget for this run is used up" in ktx("runs", "show", "latest").out


def test_what_names_no_run_or_no_unit_is_refused_with_what_there_is(ktx: Run, project: Path) -> None:
    assert ktx("scan").code == 0
    assert ktx("scan").code == 0
    new, old = (run["run_id"] for run in ktx("runs", "list", "--json").data["runs"])
    assert ktx("runs", "show", old, "--json").data["run"]["run_id"] == old
    assert [run["run_id"] for run in ktx("runs", "list", "--limit", "1", "--json").data["runs"]] == [new]
    for words, said in (
        ((old[:4],), "several runs begin with"),
        ((new + "x",), "there is no run"),
        ((new, "--transcript", "orders"), "no agent worked in it"),
    ):
        answer = ktx("runs", "show", *words)
        assert (answer.code, said in answer.err) == (2, True), answer
    shutil.rmtree(project / ".ktx/runs" / new)
    assert ktx("runs", "replay", new).code == 1


def test_old_runs_go_and_reports_stay(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    ids = [f"20260131T0{number // 600}{number // 10 % 60:02d}{number % 10:02d}-00000a" for number in range(60)]
    for run_id in ids:
        layout.run_transcripts(run_id).mkdir(parents=True)
        layout.run_report(run_id).write_text("{}")
    (layout.runs / "mine").mkdir()
    for run_id in ids[:55]:
        os.utime(layout.run_folder(run_id), (0, time.time() - (100 if run_id < ids[20] else 1) * 86_400))
    prune_runs(layout, keep=ids[0])
    left = sorted(path.name for path in layout.runs.iterdir() if path.is_dir())
    assert left == [ids[0], *ids[20:], "mine"]
    assert len(left) < RUNS_KEPT
    assert len(list(layout.runs.glob("*.json"))) == 60


def test_a_disk_that_takes_no_events_does_not_stop_the_run(
    ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".ktx").mkdir(exist_ok=True)
    (project / ".ktx/runs").mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setattr("ktx_cli.runs.events.LineFile.write", _full)
    answer = ktx("scan", "--json")
    assert answer.code == 0
    assert [each["code"] for each in answer.envelope["warnings"]] == ["events_not_written"]


def _full(*_: object, **__: object) -> int:
    raise OSError(28, "No space left on device")
