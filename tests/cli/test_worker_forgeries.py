"""Outcomes, steps and files that no worker has stored: the run refuses them, and writes nothing outside its paths."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.engine import WorkerIdentity
from tests.worlds.shared_company import TOPICS, Model, SharedCompany

Run = Callable[..., Any]
Git = Callable[..., str]

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

KEPT: Final[dict[str, Any]] = {"session": {"actions": []}, "steps": 1, "tool_calls": 1, "budget_used": False}
DONE: Final[dict[str, Any]] = {
    "status": "done",
    "reason": "",
    "steps": 1,
    "tool_calls": 1,
    "budget_used": False,
    "session": {},
    "replayed": False,
    "error": None,
}
EVIL: Final = base64.b64encode(b"evil\n").decode()
ACTION: Final = {"kind": "created", "raw_paths": 5}


def changing(path: str, base: bytes | None = None) -> dict[str, Any]:
    before = None if base is None else base64.b64encode(base).decode()
    return {**KEPT, "changes": {path: [before, EVIL]}}


def forged(settings: bytes) -> list[tuple[str, str, str]]:
    """Return what each case stores as the outcome and the result of a unit, and what the run says about it."""
    outcomes = {
        "../../ktx-evil.md": changing("../../ktx-evil.md"),
        "/tmp/ktx-evil.md": changing("/tmp/ktx-evil.md"),
        ".git/hooks/post-commit": changing(".git/hooks/post-commit"),
        "wiki/global/../../evil.md": changing("wiki/global/../../evil.md"),
        "ktx.yaml": changing("ktx.yaml", settings),
        "src/evil.py": changing("src/evil.py"),
        "semantic-layer/shop/_schema/evil.yaml": changing("semantic-layer/shop/_schema/evil.yaml"),
        ".ktx/evil": changing(".ktx/evil"),
    }
    done = json.dumps(DONE)
    cases = [
        (json.dumps(each), done, f"changes '{path}', which a unit cannot write") for path, each in outcomes.items()
    ]
    incomplete: list[tuple[Any, str]] = [
        ({**KEPT, "changes": {"wiki/global/evil.md": [None, "not base64!"]}}, done),
        ({"changes": {}}, done),
        ([], done),
        ({**KEPT, "changes": {}, "session": {"actions": [ACTION]}}, done),
        ({**KEPT, "changes": {}, "session": {"records": {"contradictions": [{}]}}}, done),
        ({**KEPT, "changes": {}}, "no JSON"),
        ({**KEPT, "changes": {}}, "[]"),
        ({**KEPT, "changes": {}}, json.dumps({"status": "perfect"})),
    ]
    cases += [(json.dumps(kept), result, "it is incomplete") for kept, result in incomplete]
    return [*cases, ("no JSON", done, "it is incomplete")]


def store(shared: SharedCompany, job: Mapping[str, str], kept: str, result: str | None) -> None:
    """Store an outcome and a result for a unit, claimed by nobody if the result is not one either."""
    worker = str(WorkerIdentity()) if result == json.dumps(DONE) else "me"
    key = f"'{job['key']}'"
    shared.rows(f"DELETE FROM unit_outcomes WHERE key = {key}")
    row = f"{key}, 'docs', 'files', '{job['unit']}', $evil${kept}$evil$, '2026-01-01T00:00:00Z'"
    columns = "key, connection, kind, unit, outcome, stored"
    shared.rows(f"INSERT INTO unit_outcomes ({columns}) VALUES ({row})")
    if result is not None:
        row = f"'{job['run_id']}', {key}, '{worker}', $evil${result}$evil$"
        shared.rows(f"INSERT INTO unit_results (run_id, key, worker, result) VALUES ({row})")


def evil_in(company: Path) -> list[Path]:
    found = [path for path in (*company.rglob("*evil*"), *company.parent.glob("*evil*")) if path.is_file()]
    places = (*found, company / ".git/hooks/post-commit", Path("/tmp/ktx-evil.md"))
    return [path for path in places if path.exists()]


SIZE: Final = len(TOPICS)
NUMBER: Final = len(forged(b""))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "start", [pytest.param(each, marks=[pytest.mark.slow] if each else []) for each in range(0, NUMBER, SIZE)]
)
def test_a_forged_outcome_is_refused(
    company: Path, configure: Run, shared: SharedCompany, model: Model, git: Git, start: int
) -> None:
    configure(*TOPICS)
    shared.configure()
    cases = forged((company / "ktx.yaml").read_bytes())[start : start + SIZE]
    ingest = shared.start("ingest", "--json")
    jobs = [args for (args,) in shared.wait_for(WAITING)]
    for job, (kept, result, _) in zip(jobs, cases, strict=False):
        store(shared, job, kept, result)
    shared.start("worker")
    assert ingest.wait() == 7, shared.said(ingest)
    said = shared.said(ingest)
    envelope = json.loads(said.splitlines()[-1])
    assert "Traceback" not in said and "unexpectedly" not in said
    (source,) = [each for each in envelope["data"]["sources"] if each["connection"] == "docs"]
    reasons = {each["unit"]: each["reason"] for each in source["units"] if each["status"] == "failed"}
    assert set(reasons) == {job["unit"] for job, _ in zip(jobs, cases, strict=False)}
    for job, (_, _, message) in zip(jobs, cases, strict=False):
        assert message in reasons[job["unit"]].replace('"', "'"), reasons
    assert evil_in(company) == [] and b"evil" not in (company / "ktx.yaml").read_bytes()
    for job, (kept, _, _) in zip(jobs, cases, strict=False):  # found before the run: it is replayed, or processed again
        store(shared, job, kept, None)
    again = shared.start("ingest", "--json")
    assert again.wait() == 0, shared.said(again)
    assert evil_in(company) == [] and b"evil" not in (company / "ktx.yaml").read_bytes()
    assert "evil" not in git(company, "ls-files")


WAITING: Final = f"""
    SELECT args FROM QUEUE.procrastinate_jobs WHERE (SELECT count(*) FROM QUEUE.procrastinate_jobs) = {SIZE}
"""


@pytest.mark.timeout(120)
def test_an_outcome_is_not_written_through_a_link(
    company: Path, configure: Run, shared: SharedCompany, model: Model
) -> None:
    """A link to a file elsewhere may appear where a page will be, while the run waits for its units."""
    configure(TOPICS[0])
    shared.configure()
    outside = company.parent / "outside.md"
    outside.write_text("outside\n")
    page = "---\nsummary: Evil\n---\n\n# Evil\n\nWords.\n"
    ingest = shared.start("ingest", "--json")
    ((job,),) = shared.wait_for("SELECT args FROM QUEUE.procrastinate_jobs WHERE status = 'todo'")
    link = company / "wiki" / "global" / "link.md"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    content = base64.b64encode(page.encode()).decode()
    store(shared, job, json.dumps({**KEPT, "changes": {"wiki/global/link.md": [None, content]}}), json.dumps(DONE))
    assert ingest.wait() in (0, 7), shared.said(ingest)
    assert "Traceback" not in shared.said(ingest) and outside.read_text() == "outside\n"
    assert sorted(path.name for path in company.parent.glob("*.md")) == ["outside.md"]


@pytest.mark.timeout(120)
def test_forged_steps_are_refused(company: Path, configure: Run, shared: SharedCompany, model: Model) -> None:
    """A worker does not resume a session with files that no tool writes; the next run begins the unit again."""
    configure(TOPICS[0])
    shared.configure()
    first = shared.start("worker")
    killed: list[int] = []

    def forge(topic: str, step: int) -> None:
        if step == 2 and not killed:
            killed.append(step)
            os.kill(first.pid, signal.SIGKILL)
            forged = """'{"ktx.yaml": "evil", "src/evil.py": "evil"}'::jsonb"""
            path = "'{files}'"
            shared.rows(f"UPDATE unit_steps SET session = jsonb_set(session::jsonb, {path}, {forged})::text")
            shared.start("worker")

    model.on_request = forge
    ingest = shared.start("ingest", "--json")
    assert ingest.wait() == 7, shared.said(ingest)
    assert "the stored steps of a unit are damaged" in shared.said(ingest), shared.said(ingest)
    assert evil_in(company) == [] and b"evil" not in (company / "ktx.yaml").read_bytes()
    assert shared.start("ingest", "--json").wait() == 0
    assert model.asked[TOPICS[0], 3] == 1 and evil_in(company) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("column", ["files", "base"])
def test_a_file_with_another_content_than_its_name_says_is_stored_again(
    company: Path, configure: Run, shared: SharedCompany, model: Model, column: str
) -> None:
    configure(TOPICS[0])
    shared.configure()
    ingest = shared.start("ingest", "--json")
    ((text,),) = shared.wait_for("SELECT package FROM run_packages")
    shared.wait_for("SELECT id FROM QUEUE.procrastinate_jobs WHERE status = 'todo'")
    name = json.loads(text)[column]
    other = json.dumps({"wiki/global/evil.md": name, "ktx.yaml": name}).encode().hex()
    shared.rows(f"UPDATE shared_files SET content = '\\x{other}'::bytea WHERE sha256 = '{name}'")
    worker = shared.start("worker")
    assert worker.wait() == 1 and f"the shared state has no file {name[:12]}" in " ".join(shared.said(worker).split())
    assert model.asked.total() == 0 and evil_in(company) == []
    os.kill(ingest.pid, signal.SIGKILL)
    ingest.wait()
    again = shared.start("ingest", "--json")
    shared.wait_for(f"SELECT 1 FROM run_packages WHERE package <> $json${text}$json$")
    shared.start("worker")
    assert again.wait() == 0, shared.said(again)
    assert set(model.asked.values()) == {1} and evil_in(company) == []


@pytest.mark.timeout(120)
def test_a_forged_job_ends_no_worker(company: Path, configure: Run, shared: SharedCompany, model: Model) -> None:
    configure(TOPICS[0])
    shared.configure()
    ingest = shared.start("ingest", "--json")
    shared.wait_for("SELECT id FROM QUEUE.procrastinate_jobs WHERE status = 'todo'")
    for args in (
        "{}",
        "[]",
        '["evil"]',
        '"evil"',
        '{"self": "evil"}',
        '{"evil": 1}',
        '{"run_id": "../..", "connection": 1, "kind": [], "unit": {}, "key": "x"}',
    ):
        row = f"'units', 'ktx.unit', 10, '{args}'"
        shared.rows(f"INSERT INTO QUEUE.procrastinate_jobs (queue_name, task_name, priority, args) VALUES ({row})")
    worker = shared.start("worker")
    assert ingest.wait() == 0, shared.said(ingest) + shared.said(worker)
    os.kill(worker.pid, 0)
    assert "Traceback" not in shared.said(worker) + shared.said(ingest)
    assert set(model.asked.values()) == {1} and evil_in(company) == []
