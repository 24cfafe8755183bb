from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

Run = Callable[..., Any]


def same(value: Any) -> str:
    return str(value)


def test_demo_builds_and_answers(ktx: Run, work: Path) -> None:
    answers = {}
    for seed in ("7", "8"):
        answer = ktx("demo", f"company-{seed}", "--seed", seed, "--json")
        assert answer.code == 0, answer
        data = answer.data
        folder = work / f"company-{seed}"
        with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as warehouse:
            rows = warehouse.execute(data["sql"]).fetchall()
        assert [[same(cell) for cell in row] for row in rows] == [
            [same(cell) for cell in row] for row in data["answer"]
        ]
        assert data["receipt"]["verified"]["mismatches"] == [] and data["receipt"]["verified"]["rows"] == 12
        assert data["ingest"]["status"] == "done"
        assert data["ingest"]["connections"][0]["tables"] >= 12
        assert len(data["joins"]) == 3 and all(join["reason"] for join in data["joins"])
        done = subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=True)
        assert done.stdout == ""
        answers[seed] = data["answer"]
    assert answers["7"] != answers["8"]
    assert ktx("status", "--project-dir", "company-7").code == 0
    assert ktx("ingest", "--project-dir", "company-7", "--json").data["status"] == "unchanged"


def test_demo_shows_joins_that_no_key_declares_with_their_evidence(ktx: Run, work: Path) -> None:
    answer = ktx("demo", "company")
    shown = {line.split("\t")[0]: line for line in answer.out.splitlines() if "->" in line and "\t" in line}
    assert len(shown) == 3 and all("is found" in line or "are found" in line for line in shown.values())
    listed = ktx("scan", "relationships", "--project-dir", "company", "--json").data
    assert shown.keys() <= {row["edge"] for row in listed["relationships"] if row["status"] == "accepted"}
    assert listed["declared"] == 0


def test_demo_never_writes_into_a_folder_that_holds_something(ktx: Run, work: Path) -> None:
    (work / "mine").mkdir()
    (work / "mine" / "file").write_text("x")
    answer = ktx("demo", "mine", "--json")
    assert answer.code == 2
    assert [p.name for p in (work / "mine").iterdir()] == ["file"]


def test_demo_inside_a_repository_has_a_repository_of_its_own(ktx: Run, work: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    assert ktx("demo", "--seed", "1").code == 0
    assert (work / "ktx-demo" / ".git").is_dir()
    done = subprocess.run(["git", "rev-list", "--all"], cwd=work, capture_output=True, text=True, check=True)
    assert done.stdout == ""
