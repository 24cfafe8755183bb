"""The layouts of the manifest, as people meet them: files of a commit, merges in git, questions and findings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.cli.conftest import SQLITE, Run

Git = Callable[..., str]
FOLDER = "semantic-layer/warehouse/_schema"
TABLES = ("customers", "order_lines-d02b9b46", "orders")
QUESTION = ("sl", "query", "-m", "count(orders.id)", "-d", "customers.country", "--json")


def files_of(git: Git, folder: Path, commit: str = "HEAD") -> list[str]:
    return git(folder, "show", "--name-only", "--no-renames", "--format=", commit).splitlines()


def describe(path: Path, text: str) -> None:
    """Describe the table of a file, as a person does in an editor."""
    key = "    columns:"
    path.write_text(path.read_text().replace(key, f"    descriptions:\n      user: {text}\n{key}", 1))


@pytest.fixture
def fresh(ktx: Run, shop: Path) -> Path:
    """A new project over the shop after its first ingest."""
    assert ktx("setup", *SQLITE).code == 0
    with sqlite3.connect(shop) as database:
        database.execute("INSERT INTO orders VALUES (1, 1, '2026-01-01'), (2, 1, '2026-01-02'), (3, 2, '2026-01-03')")
    database.close()
    answer = ktx("ingest")
    assert answer.code == 0, answer
    return shop.parent


def asked(ktx: Run) -> Any:
    """Return what people and agents see of the layer."""
    question, orders, customers = (
        ktx(*QUESTION),
        *(ktx("sl", "read", each, "--json") for each in ("orders", "customers")),
    )
    assert question.code == 0, question
    shown = [(each.data["name"], sorted(map(repr, each.data["joins"]))) for each in (orders, customers)]
    return question.data["rows"], shown


def test_a_new_project_has_a_file_for_each_table_and_marks_its_raw_files(ktx: Run, fresh: Path, git: Git) -> None:
    names = files_of(git, fresh)
    assert [each for each in names if not each.startswith("raw-sources/")] == [
        f"{FOLDER}/main/{t}.yaml" for t in TABLES
    ]
    marked = git(fresh, "check-attr", "linguist-generated", *names).splitlines()
    generated = {line.split(": ")[0] for line in marked if line.endswith(": true")}
    assert generated == {each for each in names if each.startswith("raw-sources/")}
    assert (fresh / FOLDER / "main" / "orders.yaml").read_text().count("to: customers") == 1
    assert "to: orders" not in (fresh / FOLDER / "main" / "customers.yaml").read_text()
    assert git(fresh, "status", "--porcelain", "--", ".", ":!shop.sqlite") == ""


def test_the_attributes_of_raw_files_are_written_once(ktx: Run, fresh: Path, git: Git) -> None:
    (fresh / "raw-sources" / ".gitattributes").write_text("# ours\n")
    git(fresh, "commit", "-qam", "ours")
    with sqlite3.connect(fresh / "shop.sqlite") as database:
        database.execute("CREATE TABLE stores (id INTEGER PRIMARY KEY)")
    database.close()
    assert ktx("ingest").code == 0
    assert (fresh / "raw-sources" / ".gitattributes").read_text() == "# ours\n"


def test_the_setting_moves_the_layer_in_one_commit_and_every_answer_stays(ktx: Run, fresh: Path, git: Git) -> None:
    overlay = fresh / "semantic-layer" / "warehouse" / "orders.yaml"
    overlay.write_text("name: orders\nmeasures: [{name: order_count, expr: count(*)}]\n")
    orders = fresh / FOLDER / "main" / "orders.yaml"
    orders.write_text(
        orders.read_text().replace("    columns:", "    descriptions:\n      user: What was sold\n    columns:", 1)
    )
    git(fresh, "add", "-A", "--", "semantic-layer")
    git(fresh, "commit", "-qm", "a description")
    before, findings = asked(ktx), ktx("lint", "--json").data
    commits = int(git(fresh, "rev-list", "--count", "HEAD"))
    assert ktx("config", "set", "semantic.layout", "per-schema").code == 0
    assert ktx("scan").code == 0
    shard = fresh / FOLDER / "main.yaml"
    assert sorted(path.name for path in shard.parent.rglob("*.yaml")) == ["main.yaml"]
    assert not (fresh / FOLDER / "main").exists()
    assert "What was sold" in shard.read_text() and shard.read_text().count("to: customers") == 1
    assert asked(ktx) == before
    assert ktx("config", "set", "semantic.layout", "per-table").code == 0
    assert ktx("scan").code == 0
    assert sorted(path.stem for path in (fresh / FOLDER).rglob("*.yaml")) == sorted(TABLES)
    assert "What was sold" in orders.read_text()
    assert asked(ktx) == before
    assert int(git(fresh, "rev-list", "--count", "HEAD")) == commits + 2
    again = ktx("lint", "--json").data
    assert [each["code"] for each in again["findings"]] == [each["code"] for each in findings["findings"]]
    assert ktx("sl", "validate").code == 0
    assert ktx("index").code == 0 and asked(ktx) == before


def test_a_project_without_the_setting_keeps_its_files(ktx: Run, ingested: Path) -> None:
    assert "layout" not in (ingested / "ktx.yaml").read_text()
    with sqlite3.connect(ingested / "shop.sqlite") as database:
        database.execute("CREATE TABLE stores (id INTEGER PRIMARY KEY)")
    database.close()
    assert ktx("ingest").code == 0
    assert [path.name for path in (ingested / FOLDER).rglob("*")] == ["main.yaml"]
    assert not (ingested / "raw-sources" / ".gitattributes").exists()


def test_a_file_with_uncommitted_edits_stays_where_it_is(ktx: Run, ingested: Path, git: Git) -> None:
    shard = ingested / FOLDER / "main.yaml"
    shard.write_text(shard.read_text() + "# being edited\n")
    edited = shard.read_bytes()
    assert ktx("config", "set", "semantic.layout", "per-table").code == 0
    answer = ktx("scan", "--json")
    assert answer.code == 7
    assert f"{FOLDER}/main.yaml" in answer.out
    assert shard.read_bytes() == edited and list((ingested / FOLDER).iterdir()) == [shard]
    git(ingested, "commit", "-qam", "edited")
    answer = ktx("scan", "--json")
    assert answer.code == 0
    assert "removed_comments" in [each["code"] for each in answer.envelope["warnings"]]
    assert sorted(path.stem for path in (ingested / FOLDER).rglob("*.yaml")) == sorted(TABLES)


def test_two_people_who_describe_two_tables_do_not_conflict(ktx: Run, fresh: Path, git: Git) -> None:
    branch = git(fresh, "branch", "--show-current").strip()
    for person, name in (("ada", "customers"), ("bob", "orders")):
        git(fresh, "checkout", "-q", "-b", person, branch)
        path = fresh / FOLDER / "main" / f"{name}.yaml"
        text = path.read_text().replace(
            "    columns:", f"    descriptions:\n      user: {person} knows\n    columns:", 1
        )
        path.write_text(text.replace("name: id\n", "name: id\n        descriptions:\n          user: The key\n", 1))
        git(fresh, "commit", "-qam", f"{person} describes {name}")
    git(fresh, "merge", "-q", "--no-edit", "ada")
    assert git(fresh, "status", "--porcelain", "--", ".", ":!shop.sqlite") == ""
    assert ktx("ingest").code == 0
    for person, name in (("ada", "customers"), ("bob", "orders")):
        assert f"{person} knows" in ktx("sl", "read", name, "--json").out


def test_300_tables_are_300_short_files_in_the_first_commit(ktx: Run, work: Path, git: Git) -> None:
    with sqlite3.connect(work / "shop.sqlite") as database:
        for number in range(300):
            columns = ", ".join(f"column_{index} {'TEXT' if index % 2 else 'INTEGER'} NOT NULL" for index in range(40))
            parent = f", parent_id INTEGER REFERENCES table_{number // 2}(id)" if number else ""
            hub = ", hub_id INTEGER REFERENCES table_0(id)" if number else ""
            database.execute(f"CREATE TABLE table_{number} (id INTEGER PRIMARY KEY, {columns}{parent}{hub})")
    database.close()
    assert ktx("setup", *SQLITE).code == 0
    answer = ktx("ingest")
    assert answer.code == 0, answer
    reviewable = [each for each in files_of(git, work) if not each.startswith("raw-sources/")]
    assert reviewable == sorted(f"{FOLDER}/main/table_{number}.yaml" for number in range(300))
    assert max(len((work / each).read_text().splitlines()) for each in reviewable) <= 400
    joins = ktx("sl", "read", "table_0", "--json").data["joins"]
    assert len({each["to"] for each in joins}) == 299


def test_two_schemas_of_duckdb(ktx: Run, work: Path) -> None:
    with duckdb.connect(str(work / "two.duckdb")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        database.execute("CREATE SCHEMA sales")
        database.execute('CREATE TABLE sales."Orders" (number INTEGER, order_id INTEGER)')
        database.execute("INSERT INTO orders VALUES (1), (2)")
    assert ktx("setup", "--no-input", "--database", "duckdb", "--database-path", "two.duckdb").code == 0
    assert ktx("ingest").code == 0
    names = sorted(path.relative_to(work / FOLDER).as_posix() for path in (work / FOLDER).rglob("*.yaml"))
    assert names == ["main/orders.yaml", "sales/orders-b7e8acdd.yaml"]
    assert ktx("sl", "query", "-m", "count(orders.id)", "--json").code == 0
    with duckdb.connect(str(work / "two.duckdb")) as database:
        database.execute('DROP TABLE sales."Orders"')
    assert ktx("ingest").code == 0
    assert [path.name for path in (work / FOLDER).rglob("*")] == ["main", "orders.yaml"]
