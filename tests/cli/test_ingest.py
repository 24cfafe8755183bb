"""`ktx ingest` on real databases and real repositories, beside a user at work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml

Run = Callable[..., Any]
Git = Callable[..., str]
KTX = str(Path(sys.executable).with_name("ktx"))
SHARD = "semantic-layer/warehouse/_schema/main.yaml"


def tables(project: Path) -> dict[str, Any]:
    document = yaml.load((project / SHARD).read_bytes(), where=SHARD)
    found: dict[str, Any] = document["tables"]
    return found


def add_table(project: Path, name: str = "extra") -> None:
    database = sqlite3.connect(project / "shop.sqlite")
    database.execute(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY)')
    database.commit()
    database.close()


def test_first_ingest(ktx: Run, project: Path, git: Git) -> None:
    answer = ktx("ingest", "--json")
    assert answer.code == 0
    report = answer.data
    assert report["status"] == "done"
    assert report["connections"][0]["changes"]["added"] == ['"Order Lines"', "customers", "orders"]
    assert git(project, "rev-parse", "HEAD").strip() == report["commit"]
    assert git(project, "status", "--porcelain", "--", ":!shop.sqlite") == ""
    assert set(tables(project)) == {"customers", "orders", "Order Lines"}
    assert {j["to"] for j in tables(project)["orders"]["joins"]} == {"customers", "Order Lines"}
    stored = json.loads((project / ".ktx" / "runs" / f"{report['run_id']}.json").read_text())
    assert stored["commit"] == report["commit"]


def test_nothing_changed_makes_no_commit_and_says_so(ktx: Run, ingested: Path, git: Git) -> None:
    tip = git(ingested, "rev-parse", "HEAD")
    answer = ktx("ingest")
    assert answer.code == 0
    assert "nothing changed" in answer.out
    assert git(ingested, "rev-parse", "HEAD") == tip


def test_state_is_disposable(ktx: Run, ingested: Path, git: Git) -> None:
    tip = git(ingested, "rev-parse", "HEAD")
    shutil.rmtree(ingested / ".ktx")
    assert ktx("ingest", "--json").data["status"] == "unchanged"
    assert git(ingested, "rev-parse", "HEAD") == tip
    assert (ingested / ".ktx" / "state.sqlite").exists()


def test_a_dropped_table_is_removed_and_reported(ktx: Run, ingested: Path) -> None:
    database = sqlite3.connect(ingested / "shop.sqlite")
    database.execute('DROP TABLE "Order Lines"')
    database.close()
    answer = ktx("ingest", "--json")
    assert answer.data["connections"][0]["changes"]["removed"] == ['"Order Lines"']
    assert "Order Lines" not in tables(ingested)


def test_dry_run_writes_nothing(ktx: Run, project: Path, git: Git) -> None:
    before = sorted(p.relative_to(project) for p in project.rglob("*"))
    answer = ktx("ingest", "--dry-run", "--json")
    assert answer.code == 0
    assert len(answer.data["connections"][0]["changes"]["added"]) == 3
    assert sorted(p.relative_to(project) for p in project.rglob("*")) == before


def test_dry_run_says_what_would_change_and_that_nothing_was_written(ktx: Run, project: Path) -> None:
    answer = ktx("ingest", "--dry-run", "warehouse")
    lines = answer.out.splitlines()
    found = "3 tables, 9 columns, 2 declared foreign keys, no further joins inferred; 3 added"
    assert f"warehouse\tplanned\t{found}" in lines
    assert [line for line in lines if "\tadd table\t" in line] == [
        f"warehouse\tadd table\t{name}" for name in ('"Order Lines"', "customers", "orders")
    ]
    assert "warehouse\twrite file\tsemantic-layer/warehouse/_schema/main.yaml" in lines
    assert lines[-2:] == ["would: write 6 files, remove 0", "written: nothing (dry run)"]
    assert "done" not in answer.out
    assert answer.err.splitlines()[-1] == "next: ktx ingest warehouse"


def test_dry_run_names_removed_tables_and_files(ktx: Run, ingested: Path) -> None:
    database = sqlite3.connect(ingested / "shop.sqlite")
    database.executescript('DROP TABLE "Order Lines"; ALTER TABLE customers ADD COLUMN vip INTEGER')
    database.close()
    written = set(ktx("ingest", "--dry-run", "--json").data["connections"][0]["files"]["written"])
    lines = ktx("ingest", "--dry-run").out.splitlines()
    assert 'warehouse\tremove table\t"Order Lines"' in lines
    assert "warehouse\tchange table\tcustomers" in lines
    assert sum("\tremove file\traw-sources/warehouse/live-database/tables/" in line for line in lines) == 1
    assert {line.split("\t")[2] for line in lines if "\twrite file\t" in line} == written


def test_dry_run_with_nothing_to_do(ktx: Run, ingested: Path) -> None:
    answer = ktx("ingest", "--dry-run")
    assert answer.out.splitlines()[-2:] == ["would: change nothing", "written: nothing (dry run)"]
    assert "next:" not in answer.err


def test_dry_run_caps_the_text_and_not_the_json(ktx: Run, project: Path) -> None:
    database = sqlite3.connect(project / "shop.sqlite")
    for number in range(30):
        database.execute(f"CREATE TABLE many_{number} (id INTEGER)")
    database.close()
    text = ktx("ingest", "--dry-run").out
    assert text.count("\tadd table\t") == 21
    assert "warehouse\tadd table\t... and 13 more; use --verbose to list all" in text
    assert ktx("ingest", "--dry-run", "--verbose").out.count("\tadd table\t") == 33
    (connection,) = ktx("ingest", "--dry-run", "--json").data["connections"]
    assert (len(connection["changes"]["added"]), len(connection["files"]["written"])) == (33, 36)


def test_the_users_work_survives(ktx: Run, ingested: Path, git: Git) -> None:
    git(ingested, "config", "commit.gpgsign", "true")
    git(ingested, "config", "gpg.program", "false")
    for hook in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        path = ingested / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\necho {hook} >> {ingested}/hooks-ran\nexit 1\n")
        path.chmod(0o755)
    (ingested / "staged.txt").write_text("staged")
    (ingested / "mine.txt").write_text("committed")
    subprocess.run(["git", "-c", "core.hooksPath=/dev/null", "add", "staged.txt"], cwd=ingested, check=True)
    (ingested / "untracked.txt").write_text("untracked")
    index = subprocess.run(["git", "ls-files", "-s"], cwd=ingested, capture_output=True, check=True).stdout
    add_table(ingested)
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert not (ingested / "hooks-ran").exists()
    changed = git(ingested, "show", "--name-only", "--format=", "HEAD").split()
    assert changed
    assert all(path.startswith(("semantic-layer/", "raw-sources/")) for path in changed)
    after = subprocess.run(["git", "ls-files", "-s"], cwd=ingested, capture_output=True, check=True).stdout
    assert [line for line in index.splitlines() if b"staged.txt" in line] == [
        line for line in after.splitlines() if b"staged.txt" in line
    ]
    status = git(ingested, "-c", "core.hooksPath=/dev/null", "status", "--porcelain").splitlines()
    assert "A  staged.txt" in status
    assert "?? untracked.txt" in status
    assert not [line for line in status if "semantic-layer" in line or "raw-sources" in line]


def test_a_file_the_user_edits_is_left_alone_and_offered_again(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    edited = shard.read_text() + "# my note\n"
    shard.write_text(edited)
    add_table(ingested)
    answer = ktx("ingest", "--json")
    assert answer.code == 7
    assert answer.envelope["error"]["code"] == "partial"
    assert answer.data["held"] == [{"path": SHARD, "reason": "modified"}]
    assert shard.read_text() == edited
    assert "extra" not in git(ingested, "show", f"HEAD:{SHARD}")
    git(ingested, "checkout", "--", SHARD)
    again = ktx("ingest", "--json")
    assert again.code == 0
    assert "extra" in tables(ingested)


def test_what_people_wrote_into_a_shard_survives(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    document["tables"]["customers"]["descriptions"] = {"user": "People: who pay"}
    shard.write_text(yaml.dump(document))
    git(ingested, "commit", "-qam", "describe customers")
    add_table(ingested)
    assert ktx("ingest").code == 0
    assert tables(ingested)["customers"]["descriptions"] == {"user": "People: who pay"}
    assert "extra" in tables(ingested)


def test_ignored_paths_are_written_and_reported(ktx: Run, project: Path, git: Git) -> None:
    (project / ".gitignore").write_text("semantic-layer/\n")
    answer = ktx("ingest", "--json")
    assert answer.code == 0
    assert answer.data["ignored"] == [SHARD]
    assert [w["code"] for w in answer.envelope["warnings"]] == ["ignored_paths"]
    assert "customers" in tables(project)
    assert "semantic-layer" not in git(project, "ls-tree", "-r", "--name-only", "HEAD")
    add_table(project)
    assert ktx("ingest", "--json").code == 0
    assert "extra" in tables(project)


@pytest.mark.parametrize("state", ["detached", "merge"])
def test_a_repository_in_the_middle_of_something_is_refused(ktx: Run, ingested: Path, git: Git, state: str) -> None:
    if state == "detached":
        git(ingested, "checkout", "-q", "--detach")
    else:
        (ingested / ".git" / "MERGE_HEAD").write_text(git(ingested, "rev-parse", "HEAD"))
    tip = git(ingested, "rev-parse", "HEAD")
    add_table(ingested)
    answer = ktx("ingest", "--json")
    assert answer.code == 1
    assert answer.envelope["error"]["code"] == "git"
    assert answer.envelope["error"]["hint"]
    assert git(ingested, "rev-parse", "HEAD") == tip
    assert "extra" not in tables(ingested)


@pytest.mark.parametrize("layout", ["sha256", "linked-worktree", "subfolder", "unborn"])
def test_every_layout_of_a_repository(ktx: Run, shop: Path, git: Git, layout: str, tmp_path: Path) -> None:
    work = shop.parent
    project = work
    if layout == "sha256":
        git(work, "init", "-q", "--object-format=sha256")
    elif layout == "unborn":
        git(work, "init", "-q")
    elif layout == "subfolder":
        git(work, "init", "-q")
        project = work / "analytics" / "context"
        project.mkdir(parents=True)
        shutil.copy(shop, project)
    else:
        main = tmp_path / "main-repository"
        main.mkdir()
        git(main, "init", "-q")
        git(main, "commit", "-q", "--allow-empty", "-m", "first")
        project = tmp_path / "linked"
        git(main, "worktree", "add", "-q", str(project))
        shutil.copy(shop, project)
    here = ("--project-dir", str(project))
    assert ktx("setup", "--database", "sqlite", "--database-path", "shop.sqlite", *here).code == 0
    answer = ktx("ingest", "--json", *here)
    assert answer.code == 0, answer
    assert answer.data["created_repository"] is False
    names = git(project, "ls-tree", "-r", "--name-only", "--full-tree", "HEAD").split()
    prefix = "analytics/context/" if layout == "subfolder" else ""
    assert f"{prefix}{SHARD.removesuffix('.yaml')}/orders.yaml" in names
    assert all(n.startswith((f"{prefix}semantic-layer", f"{prefix}raw-sources", f"{prefix}ktx.yaml")) for n in names)
    assert git(project, "status", "--porcelain", "--", ".", ":!shop.sqlite") == ""
    git(project, "fsck", "--strict")


def test_without_git_reading_works_and_ingest_says_what_to_install(
    ktx: Run, ingested: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(ingested / "no-programs-here"))
    assert ktx("status", "--json").envelope["schema"] == "ktx/status/v1"
    assert ktx("connection", "list").code == 0
    assert ktx("config", "show").code == 0
    answer = ktx("ingest", "--json")
    assert answer.code == 1
    assert answer.envelope["error"]["code"] == "git_missing"
    assert "install" in answer.envelope["error"]["hint"]


def test_two_at_once(project: Path, ktx: Run, tmp_path: Path) -> None:
    """A run that is held up in its scan holds the run lock; after kill -9 of it the next run starts."""
    pipe = project / "shop.sqlite"
    pipe.unlink()
    database = sqlite3.connect(pipe)
    database.execute("PRAGMA journal_mode=DELETE")
    database.execute("CREATE TABLE t (id INTEGER)")
    database.commit()
    database.execute("BEGIN EXCLUSIVE")
    holder = subprocess.Popen([KTX, "ingest", "--progress", "jsonl"], cwd=project, stderr=subprocess.PIPE, text=True)
    assert holder.stderr is not None
    for line in holder.stderr:
        if '"run_started"' in line:
            break
    second = ktx("ingest", "--json")
    assert second.code == 6
    details = second.envelope["error"]["details"]
    assert details["pid"] == holder.pid
    assert details["host"]
    assert details["since"]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stderr.close()
    database.rollback()
    database.close()
    assert ktx("ingest", "--json").code == 0


def test_one_unreachable_database_does_not_stop_the_others(ktx: Run, project: Path) -> None:
    (project / "ktx.yaml").write_text(
        (project / "ktx.yaml").read_text() + "  broken:\n    driver: sqlite\n    path: missing.sqlite\n"
    )
    answer = ktx("ingest", "--json")
    assert answer.code == 7
    status = {c["connection"]: c["status"] for c in answer.data["connections"]}
    assert status == {"broken": "failed", "warehouse": "done"}
    alone = ktx("ingest", "broken", "--json")
    assert alone.code == 4
    assert alone.envelope["error"]["code"] == "connection"


def test_a_connection_that_lacks_a_setting_says_so(ktx: Run, project: Path) -> None:
    config = project / "ktx.yaml"
    config.write_text(config.read_text() + "  lake:\n    driver: snowflake\n    account: x\n")
    assert ktx("ingest", "lake", "--json").code == 2
    both = ktx("ingest", "--json")
    assert both.code == 7
    assert "connection `lake` does not set `database`" in both.envelope["error"]["message"]


@pytest.mark.parametrize(("backend", "code", "hint"), [("openai", 2, "llm.models"), ("anthropic", 2, "llm.models")])
def test_a_configured_backend_that_cannot_run_stops_before_anything_is_written(
    ktx: Run, project: Path, git: Git, backend: str, code: int, hint: str
) -> None:
    assert ktx("config", "set", "llm.provider.backend", backend).code == 0
    tip = git(project, "rev-parse", "HEAD")
    answer = ktx("ingest", "--json")
    assert answer.code == code
    assert hint in answer.envelope["error"]["hint"]
    assert git(project, "rev-parse", "HEAD") == tip
    assert not (project / "semantic-layer").exists()
    assert ktx("ingest", "--no-llm", "--json").data["llm"] == "none"


def test_unknown_connection(ktx: Run, project: Path) -> None:
    answer = ktx("ingest", "warehous", "--json")
    assert answer.code == 2
    assert "warehouse" in answer.envelope["error"]["hint"]


def test_sigterm_ends_in_order(project: Path) -> None:
    database = sqlite3.connect(project / "shop.sqlite")
    database.execute("PRAGMA journal_mode=DELETE")
    database.execute("BEGIN EXCLUSIVE")
    run = subprocess.Popen([KTX, "ingest", "--progress", "jsonl"], cwd=project, stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    for line in run.stderr:
        if '"run_started"' in line:
            break
    time.sleep(0.2)
    run.terminate()
    text = run.stderr.read()
    run.wait()
    run.stderr.close()
    database.rollback()
    database.close()
    assert run.returncode == 130, text
    assert "Traceback" not in text


def test_secrets_never_appear(ktx: Run, project: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = "canary-hunter2"
    monkeypatch.setenv("DATABASE_URL", f"postgresql://u:{canary}@127.0.0.1:1/x")
    config = project / "ktx.yaml"
    config.write_text(config.read_text() + "  pg:\n    driver: postgres\n    url: env:DATABASE_URL\n")
    for mode in ("--json", "--debug", "--verbose"):
        answer = ktx("ingest", mode)
        assert answer.code == 7
        assert canary not in answer.out + answer.err
    for path in (project / ".ktx").rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path
    assert canary not in git(project, "log", "-p")


def change(project: Path, *statements: str) -> None:
    database = sqlite3.connect(project / "shop.sqlite")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def test_what_a_held_shard_missed_comes_with_the_next_run(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    shard.write_text(shard.read_text() + "# note\n")
    change(
        ingested,
        "ALTER TABLE customers ADD COLUMN boss INTEGER REFERENCES customers(id)",
        "DROP TABLE orders",
        "CREATE TABLE orders (id TEXT PRIMARY KEY, customer_id INTEGER REFERENCES customers)",
    )
    held = ktx("ingest", "--json")
    assert held.code == 7
    git(ingested, "checkout", "--", SHARD)
    assert ktx("ingest", "--json").code == 0
    customers = tables(ingested)["customers"]
    assert "customers" in {join["to"] for join in customers["joins"]}
    assert tables(ingested)["orders"]["columns"][0]["type"] == "string"
    assert ktx("ingest", "--json").data["status"] == "unchanged"


def test_a_held_snapshot_file_holds_its_shard_back(ktx: Run, ingested: Path, git: Git) -> None:
    raw = ingested / "raw-sources/warehouse/live-database/tables/customers.json"
    raw.write_text(raw.read_text() + "\n")
    change(ingested, "ALTER TABLE customers ADD COLUMN age INTEGER")
    answer = ktx("ingest", "--json")
    assert answer.code == 7
    assert [h["path"] for h in answer.data["held"]] == [raw.relative_to(ingested).as_posix()]
    assert "age" not in (ingested / SHARD).read_text()
    git(ingested, "checkout", "--", "raw-sources")
    assert ktx("ingest").code == 0
    assert "age" in (ingested / SHARD).read_text()


def test_a_branch_switched_during_the_scan_is_not_taken_for_the_one_scanned(
    ktx: Run, ingested: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(ingested, "branch", "old")
    add_table(ingested)
    ktx("ingest")
    from ktx_cli.jobs.ingest import run

    scan = run.scan_databases

    def scan_then_switch(*args: Any) -> Any:
        found = scan(*args)
        git(ingested, "checkout", "-q", "old")
        return found

    monkeypatch.setattr(run, "scan_databases", scan_then_switch)
    assert ktx("ingest", "--json").data["status"] == "unchanged"
    monkeypatch.setattr(run, "scan_databases", scan)
    assert "extra" not in tables(ingested)
    again = ktx("ingest", "--json")
    assert again.data["status"] == "done"
    assert "extra" in tables(ingested)


def test_what_people_wrote_into_an_ignored_shard_survives(ktx: Run, project: Path) -> None:
    (project / ".gitignore").write_text("semantic-layer/\nraw-sources/\n")
    assert ktx("ingest").code == 0
    shard = project / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    document["tables"]["customers"]["descriptions"] = {"user": "mine"}
    document["tables"]["orders"]["joins"] = []
    shard.write_text(yaml.dump(document))
    add_table(project)
    assert ktx("ingest", "--json").code == 0
    assert tables(project)["customers"]["descriptions"] == {"user": "mine"}
    assert "joins" not in tables(project)["orders"]
    assert "extra" in tables(project)
    assert ktx("ingest", "--json").data["status"] == "unchanged"


def test_sources_of_peoples_own_over_the_same_table_stay(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    document["tables"]["a_vips"] = {"table": "customers", "columns": [{"name": "id", "type": "number"}]}
    document["tables"]["totals"] = {"sql": "SELECT 1", "columns": [{"name": "one", "type": "number"}]}
    shard.write_text(yaml.dump(document))
    git(ingested, "commit", "-qam", "two sources of ours")
    before = tables(ingested)
    add_table(ingested, "zz")
    assert ktx("ingest").code == 0
    after = tables(ingested)
    assert {name: after[name] for name in before} == before
    assert "zz" in after


def test_a_source_people_renamed_keeps_its_joins(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    document["tables"] = {("clients" if n == "customers" else n): e for n, e in document["tables"].items()}
    shard.write_text(yaml.dump(document))
    git(ingested, "commit", "-qam", "we say clients")
    add_table(ingested)
    assert ktx("ingest").code == 0
    joins = tables(ingested)["orders"]["joins"]
    assert {"to": "clients", "on": "customer_id = clients.id"} in [{"to": j["to"], "on": j["on"]} for j in joins]
    assert "customers" not in tables(ingested)
    assert ktx("ingest", "--json").data["status"] == "unchanged"


def test_a_manual_join_to_a_source_of_peoples_own_stays(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    manual = {"to": "revenue", "on": "id = revenue.order_id", "relationship": "one_to_one", "source": "manual"}
    document["tables"]["orders"]["joins"].append(manual)
    shard.write_text(yaml.dump(document))
    git(ingested, "commit", "-qam", "join")
    change(ingested, "ALTER TABLE orders ADD COLUMN note TEXT")
    assert ktx("ingest").code == 0
    assert manual in tables(ingested)["orders"]["joins"]


def test_a_failed_run_is_recorded_as_failed(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.jobs.ingest import run

    def explode(*args: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(run, "scan_databases", explode)
    answer = ktx("ingest", "--progress", "jsonl")
    assert answer.code == 1
    assert '"run_finished"' in answer.err
    monkeypatch.undo()
    monkeypatch.chdir(project)
    assert ktx("status", "--json").data["runs"][0]["status"] == "failed"


def test_a_bug_in_one_connection_does_not_stop_the_others(
    ktx: Run, project: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = project / "ktx.yaml"
    config.write_text(config.read_text() + "  again:\n    driver: sqlite\n    path: shop.sqlite\n")
    ktx("ingest")
    raw = project / "raw-sources/again/live-database/manifest.yaml"
    for broken in ("files: 5\n", "[]\n", "null\n", "files: [{path: x}]\n"):
        raw.write_text(broken)
        git(project, "commit", "-qam", "break it")
        answer = ktx("ingest", "--json")
        assert answer.code == 0, answer
        assert {c["connection"]: c["status"] for c in answer.data["connections"]}["warehouse"] == "unchanged"


def test_keys_that_are_no_text_survive_the_parsed_copy(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    document["tables"]["customers"]["columns"][2]["enum_values"] = {"user": {1: "open"}}
    shard.write_text(yaml.dump(document))
    git(ingested, "commit", "-qam", "enum")
    for name in ("one", "two", "three"):
        add_table(ingested, name)
        assert ktx("ingest").code == 0
    assert tables(ingested)["customers"]["columns"][2]["enum_values"] == {"user": {1: "open"}}


def test_a_removed_table_that_people_wrote_about_is_named(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    document["tables"]["customers"]["columns"][1]["descriptions"] = {"user": "as on the invoice"}
    shard.write_text(yaml.dump(document))
    git(ingested, "commit", "-qam", "describe")
    change(ingested, "DROP TABLE customers", 'DROP TABLE "Order Lines"')
    answer = ktx("ingest", "--json")
    (warning,) = [w for w in answer.envelope["warnings"] if w["code"] == "removed_text"]
    assert warning["tables"] == ["customers"]


def test_a_database_that_shows_nothing_any_more_is_not_taken_for_an_empty_one(ktx: Run, ingested: Path) -> None:
    before = (ingested / SHARD).read_bytes()
    (ingested / "shop.sqlite").write_bytes(b"")
    answer = ktx("ingest", "--json")
    assert answer.code == 4
    assert "has no visible tables" in answer.envelope["error"]["message"]
    assert (ingested / SHARD).read_bytes() == before


def test_a_shard_of_the_wrong_shape_is_an_error_with_its_line(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / SHARD
    shard.write_text("tables:\n  customers:\n    table: customers\n    columns: {id: mine}\n")
    git(ingested, "commit", "-qam", "wrong shape")
    answer = ktx("ingest", "--json")
    assert answer.code == 2
    assert f"{SHARD}:4" in answer.envelope["error"]["message"]
    assert "mine" in shard.read_text()
    assert ktx("doctor", "--json").code == 1


def test_files_of_the_users_in_our_folders_stay(ktx: Run, ingested: Path, git: Git) -> None:
    note = ingested / "raw-sources/warehouse/live-database/tables/notes.md"
    note.write_text("mine")
    git(ingested, "add", str(note))
    git(ingested, "commit", "-qm", "note")
    add_table(ingested)
    assert ktx("ingest").code == 0
    assert note.read_text() == "mine"


@pytest.mark.parametrize("name", ["state.sqlite", "runs", "cache", "memory", "launched", "logs", "agents", "."])
def test_symbolic_links_in_the_private_folder_are_refused(ktx: Run, ingested: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    private = ingested / ".ktx"
    shutil.move(private, elsewhere)
    target = elsewhere / name if name != "." else elsewhere
    target.mkdir(exist_ok=True) if name not in ("state.sqlite", ".") else None
    if name == ".":
        private.symlink_to(target)
    else:
        private.mkdir()
        (private / name).symlink_to(target)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    add_table(ingested)
    answer = ktx("ingest", "--json")
    assert answer.code == 1
    assert "symbolic link" in answer.envelope["error"]["message"]
    assert {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()} == before


def test_a_pipe_is_no_database_and_does_not_hang(ktx: Run, project: Path) -> None:
    (project / "shop.sqlite").unlink()
    os.mkfifo(project / "shop.sqlite")
    answer = ktx("ingest", "--json")
    assert answer.code == 4
    assert "is a special file, not a SQLite database" in answer.envelope["error"]["message"]
