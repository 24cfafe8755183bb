"""What sources declare and people decide about joins: a dbt project of 13 models, and audit columns."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core import KtxError, yaml
from tests import dbt_warehouse
from tests.cli.conftest import done, git

Run = Callable[..., Any]

CONFIG = """\
connections:
  warehouse: {driver: duckdb, path: warehouse.duckdb}
  dbt: {driver: dbt, source_dir: dbt}
"""
LAYERS = ("raw", "staging", "marts", "snapshots")


def build_warehouse(folder: Path) -> None:
    dbt_warehouse.write(folder)
    (folder / "ktx.yaml").write_text(CONFIG)
    git(folder, "init", "-q", "-b", "main")
    done("ingest", "--no-input")


@pytest.fixture
def warehouse(work: Path, copies: Callable[..., Path]) -> Path:
    return copies(build_warehouse, work)


def joins(ktx: Run) -> dict[str, dict[str, Any]]:
    rows = ktx("scan", "relationships", "--status", "all", "--json").data["relationships"]
    return {row["edge"]: row for row in rows}


def layer(table: dict[str, Any]) -> str:
    return str(table["table"]).split(".")[0]


def test_no_join_between_layers_is_accepted(ktx: Run, warehouse: Path) -> None:
    found = joins(ktx)
    accepted = {name for name, row in found.items() if row["status"] in ("accepted", "manual")}
    assert {layer(found[name]["from"]) for name in accepted} >= {"raw", "staging", "marts"}
    assert [name for name in accepted if layer(found[name]["from"]) != layer(found[name]["to"])] == []
    across = {name: row["reason"] for name, row in found.items() if layer(row["from"]) != layer(row["to"])}
    declared = "The join to `marts.stores.store_id` is declared by a dbt test."
    assert across["orders.store_id->raw_stores.id"] == declared
    assert across["stg_orders.store_id->raw_stores.id"] == "`raw_stores` is in another layer of the dbt project (raw)."
    assert across["stores.store_id->raw_stores.id"] == "`stores` is built from `raw_stores`."


def test_every_test_of_dbt_is_respected(ktx: Run, warehouse: Path) -> None:
    found = joins(ktx)
    for child, column, parent in dbt_warehouse.REFERENCES:
        row = found[f"{child}.{column}->{parent}.{column}"]
        assert row["status"] in ("accepted", "manual"), row
        assert "declared by a dbt test" in row["reason"]
    shards = [
        yaml.load(path.read_bytes(), where=path.name)["tables"]
        for path in warehouse.glob("semantic-layer/warehouse/_schema/*.yaml")
    ]
    tables = {name: entry for shard in shards for name, entry in shard.items()}
    keys = {name: [column["name"] for column in entry["columns"] if column.get("pk")] for name, entry in tables.items()}
    assert {name: keys[name] for name in dbt_warehouse.KEYS} == {k: [v] for k, v in dbt_warehouse.KEYS.items()}
    assert keys["orders_snapshot"] == ["dbt_scd_id"]


def test_the_join_in_effect_is_explained_before_the_other_keys_of_its_column(ktx: Run, warehouse: Path) -> None:
    out = ktx("scan", "relationships", "--explain", "stg_orders.customer_id").out
    edges = [line for line in out.splitlines() if line.startswith("stg_orders.customer_id->")]
    assert edges == [
        f"stg_orders.customer_id->{key}"
        for key in ("stg_customers.customer_id", "customers.customer_id", "raw_customers.id")
    ]


def test_joins_declared_for_marts_count_in_the_layers_below(ktx: Run, warehouse: Path) -> None:
    row = joins(ktx)["raw_orders.customer->raw_customers.id"]
    assert (row["status"], row["sources"]) == ("accepted", ["lineage", "names", "values"])
    assert row["reason"].endswith("; declared for tables built from these.")


@pytest.mark.parametrize("command", [("ingest",), ("scan",), ("ingest", "warehouse")])
def test_the_next_run_changes_nothing(ktx: Run, warehouse: Path, command: tuple[str, ...]) -> None:
    again = ktx(*command, "--no-input", "--json")
    assert (again.code, again.data["status"], again.data["commit"]) == (0, "unchanged", None)


def test_scan_and_ingest_agree_if_git_ignores_the_declarations(ktx: Run, work: Path) -> None:
    dbt_warehouse.write(work)
    (work / "ktx.yaml").write_text(CONFIG)
    git(work, "init", "-q", "-b", "main")
    (work / ".gitignore").write_text("declarations.json\n")
    assert ktx("ingest", "--no-input").code == 0
    before = joins(ktx)
    for command in ("scan", "ingest"):
        again = ktx(command, "--no-input", "--json")
        assert (again.code, again.data["status"], joins(ktx)) == (0, "unchanged", before)


def without_tests_of(folder: Path, model: str) -> None:
    path = folder / "dbt/models/schema.yml"
    path.write_text(path.read_text().replace(f"ref('{model}')", "ref('no_such_model')"))


@pytest.mark.parametrize("edit", ["modified", "deleted"])
def test_scan_and_ingest_agree_while_an_edit_holds_the_declarations(ktx: Run, warehouse: Path, edit: str) -> None:
    before = {name: row["sources"] for name, row in joins(ktx).items()}
    path = warehouse / "raw-sources/dbt/dbt/declarations.json"
    if edit == "modified":
        path.write_text(path.read_text() + " ")
    else:
        path.unlink()
    without_tests_of(warehouse, "stores")
    seen = []
    for command in ("ingest", "scan", "ingest"):
        again = ktx(command, "--no-input", "--json")
        held = [each["path"] for each in again.data["held"]]
        assert held == ([str(path.relative_to(warehouse))] if command == "ingest" else [])
        seen.append(joins(ktx))
    assert {name: row["sources"] for name, row in seen[0].items()} == before
    assert seen == [seen[0]] * 3
    git(warehouse, "checkout", "--", str(path))
    assert ktx("ingest", "--no-input").code == 0
    after = joins(ktx)
    assert "dbt" not in after["orders.store_id->stores.store_id"]["sources"]
    again = ktx("scan", "--no-input", "--json")
    assert (again.data["status"], joins(ktx)) == ("unchanged", after)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("schema.yml", "version: 2\nmodels:\n  - name: [\n", "models/schema.yml:4: not valid YAML: "),
        ("schema.yml", "- name: orders\n", "models/schema.yml:1: not a mapping. "),
        ("packages.yml", "packages: [\n", None),
    ],
)
def test_a_file_that_cannot_be_read_takes_its_declarations_along_and_says_so(
    ktx: Run, warehouse: Path, name: str, text: str, why: str | None
) -> None:
    path = warehouse / "dbt" / (f"models/{name}" if why else name)
    path.write_text(text)
    answer = ktx("ingest", "--no-input", "--json")
    found = [each for each in answer.envelope["warnings"] if each["code"] == "definitions_unreadable"]
    assert [each["message"].startswith(why) for each in found] == ([True] if why else [])
    for each in found:
        assert each["message"].endswith("The descriptions, keys and joins in this file do not count in this run")
        assert each["message"].count(f"models/{name}") == 1
        assert each["hint"] == "correct the file, then run `ktx ingest` again"


def test_a_run_without_a_scan_names_the_database_that_needs_one(ktx: Run, warehouse: Path) -> None:
    with sqlite3.connect(warehouse / "other.sqlite") as database:
        database.execute("CREATE TABLE employees (id INTEGER PRIMARY KEY, name TEXT)")
    database.close()
    with (warehouse / "ktx.yaml").open("a") as config:
        config.write("  staff: {driver: sqlite, path: other.sqlite}\n")
    assert ktx("scan", "staff", "--no-input").code == 0
    path = warehouse / "dbt/models/schema.yml"
    path.write_text(path.read_text().replace("version: 2", "version: 2  # Still the same declarations."))
    assert ktx("ingest", "dbt", "--no-input", "--json").data["to_scan"] == []
    without_tests_of(warehouse, "stores")
    answer = ktx("ingest", "dbt", "--no-input")
    assert "declared keys and joins: changed; they take effect in the next scan of `warehouse`\n" in answer.out
    assert "next: ktx scan warehouse\n" in answer.err
    assert ktx("ingest", "dbt", "--no-input", "--json").data["to_scan"] == []
    assert ktx("scan", "warehouse", "--no-input").code == 0
    assert "dbt" not in joins(ktx)["orders.store_id->stores.store_id"]["sources"]


def test_declarations_that_were_only_written_count(ktx: Run, warehouse: Path) -> None:
    without_tests_of(warehouse, "stores")
    assert ktx("ingest", "--no-input", "--no-commit").code == 0
    after = joins(ktx)
    assert "dbt" not in after["orders.store_id->stores.store_id"]["sources"]
    assert ktx("ingest", "--no-input").code == 0
    for command in ("scan", "ingest"):
        assert (ktx(command, "--no-input", "--json").data["status"], joins(ktx)) == ("unchanged", after)


def test_scan_and_ingest_agree_if_the_projection_of_a_source_fails(
    ktx: Run, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        raise KtxError("no projection today")

    monkeypatch.setattr("ktx_cli.sources.dbt.projection.projected", fails)
    without_tests_of(warehouse, "stores")
    assert ktx("ingest", "--no-input").code == 7
    after = joins(ktx)
    assert "dbt" not in after["orders.store_id->stores.store_id"]["sources"]
    again = ktx("scan", "--no-input", "--json")
    assert (again.code, again.data["status"], joins(ktx)) == (0, "unchanged", after)
    assert ktx("ingest", "--no-input", "--json").data["commit"] is None
    assert joins(ktx) == after


def test_a_join_that_a_person_chose_is_the_only_one(ktx: Run, work: Path) -> None:
    with sqlite3.connect(work / "shop.sqlite") as database:
        for table in ("person", "office"):
            database.execute(f"CREATE TABLE {table} (id INTEGER, {table}_name TEXT)")
            database.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(n, f"{table} {n}") for n in range(1, 41)])
        database.execute("CREATE TABLE ticket (ticket_id INTEGER, person INTEGER, text TEXT)")
        rows = [(n + 500, 1 + n * 7 % 40, f"text {n}") for n in range(200)]
        database.executemany("INSERT INTO ticket VALUES (?, ?, ?)", rows)
    database.close()
    (work / "ktx.yaml").write_text("connections: {shop: {driver: sqlite, path: shop.sqlite}}\n")
    git(work, "init", "-q", "-b", "main")
    assert ktx("scan", "--no-input").code == 0
    assert joins(ktx)["ticket.person->person.id"]["status"] == "accepted"
    assert ktx("scan", "relationships", "--reject", "ticket.person->person.id").code == 0
    assert ktx("scan", "--no-input").code == 0
    assert joins(ktx)["ticket.person->person.id"]["status"] == "disabled"
    assert ktx("scan", "--no-input", "--json").data["status"] == "unchanged"
    assert ktx("scan", "relationships", "--accept", "ticket.person->person.id").code == 0
    assert ktx("scan", "--no-input").code == 0
    found = {name: row["status"] for name, row in joins(ktx).items() if name.startswith("ticket.person->")}
    assert found.pop("ticket.person->person.id") in ("accepted", "manual")
    assert set(found.values()) <= {"rejected"}


def test_a_test_that_dbt_no_longer_has_no_longer_counts(ktx: Run, warehouse: Path) -> None:
    path = warehouse / "dbt/models/schema.yml"
    path.write_text(path.read_text().replace("ref('stores')", "ref('no_such_model')"))
    assert ktx("ingest", "--no-input").code == 0
    row = joins(ktx)["orders.store_id->stores.store_id"]
    assert "dbt" not in row["sources"]


def test_a_declared_key_with_repeated_values_is_reported_and_not_used(ktx: Run, warehouse: Path) -> None:
    with duckdb.connect(str(warehouse / "warehouse.duckdb")) as database:
        database.execute("INSERT INTO marts.stores SELECT 1, 'Store 99', opened_at FROM marts.stores LIMIT 1")
    for _ in range(2):
        answer = ktx("scan", "--no-input", "--json")
        found = [each["message"] for each in answer.envelope["warnings"] if each["code"] == "declared_key_repeats"]
        assert found == [
            "connection `warehouse`: a context source declares marts.stores.store_id unique, but values repeat, "
            "so it is not used as a key"
        ]
    shard = yaml.load((warehouse / "semantic-layer/warehouse/_schema/marts.yaml").read_bytes(), where="marts")
    assert [each["name"] for each in shard["tables"]["stores"]["columns"] if each.get("pk")] != ["store_id"]


def test_a_join_that_only_dbt_supports_is_not_a_persons(ktx: Run, warehouse: Path) -> None:
    with duckdb.connect(str(warehouse / "warehouse.duckdb")) as database:
        database.execute("UPDATE marts.orders SET store_id = 90 + store_id WHERE order_id % 3 = 0")
    assert ktx("ingest", "--no-input").code == 0
    name = "orders.store_id->stores.store_id"
    row = joins(ktx)[name]
    assert (row["status"], row["found"]) == ("manual", "review")
    assert row["reason"].startswith(
        "declared in `dbt`; evidence of the scan: Column name matches the key; 66.7% of rows"
    )
    for manifest in warehouse.rglob("raw-sources/dbt/dbt/manifest.yaml"):
        manifest.unlink()
    assert joins(ktx)[name]["reason"].startswith("accepted by a person; ")


def test_a_damaged_file_of_declarations_is_reported_and_written_again(ktx: Run, warehouse: Path) -> None:
    path = warehouse / "raw-sources/dbt/dbt/declarations.json"
    good = path.read_bytes()
    path.write_bytes(good[:200])
    git(warehouse, "commit", "-qam", "damage")
    answer = ktx("scan", "--no-input", "--json")
    assert any("declarations.json is damaged" in str(each) for each in answer.envelope["warnings"]), answer.envelope
    assert ktx("ingest", "--no-input").code == 0
    assert path.read_bytes() == good


TABLES = re.findall(
    r"\w+",
    "alert batch claim cohort concept drug exam form lab note plan"
    " recipe report result shift site task unit visit ward",
)
DECIDED = TABLES[:3]


THRESHOLDS = "scan: {relationships: {reviewThreshold: 0.1, acceptThreshold: 0.5}}\n"


def build_clinic(folder: Path) -> None:
    """Build two projects over the same 20 tables, whose column `opr` is a user, which no name says."""
    with sqlite3.connect(folder / "clinic.sqlite") as database:
        database.execute("CREATE TABLE users (user_id INTEGER, username TEXT)")
        database.executemany("INSERT INTO users VALUES (?, ?)", [(n, f"user{n}") for n in range(1, 13)])
        for number, table in enumerate(TABLES):
            database.execute(f"CREATE TABLE {table} ({table}_id INTEGER, name TEXT, opr INTEGER)")
            rows = [(n, f"{table} {n}", 77 if n == 3 else (n * 7 + number) % 12 + 1) for n in range(1, 20 + number)]
            database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    database.close()
    for name in ("one", "other"):
        project = folder / name
        project.mkdir()
        text = f"connections: {{clinic: {{driver: sqlite, path: ../clinic.sqlite}}}}\n{THRESHOLDS}"
        (project / "ktx.yaml").write_text(text)
        git(project, "init", "-q", "-b", "main")
        done("scan", "--no-input", "--depth", "profile", "--project-dir", str(project))


def test_three_accepted_audit_columns_raise_the_other_seventeen(ktx: Run, work: Path) -> None:
    build_clinic(work)

    def seen(project: str) -> dict[str, dict[str, Any]]:
        rows = ktx("scan", "relationships", "--status", "all", "--json", "--project-dir", project).data["relationships"]
        return {row["edge"].split(".")[0]: row for row in rows}

    before = seen("one")
    accept = [word for table in DECIDED for word in ("--accept", f"{table}.opr->users.user_id")]
    assert ktx("scan", "relationships", *accept, "--project-dir", "one").code == 0
    assert ktx("scan", "--no-input", "--project-dir", "one").code == 0
    after = seen("one")
    others = [table for table in TABLES if table not in DECIDED]
    assert {before[table]["status"] for table in others} <= {"review", "rejected"}
    for table in others:
        assert after[table]["score"] > before[table]["score"] + 0.2
        assert after[table]["reason"].endswith("; 3 similar joins were accepted.")
        assert after[table]["status"] == "accepted"
    again = ktx("scan", "--no-input", "--json", "--project-dir", "one")
    assert again.data["status"] == "unchanged"
    assert ktx("scan", "--no-input", "--project-dir", "other").code == 0
    assert seen("other") == before


def test_joins_in_queries_count_in_the_same_run(ktx: Run, work: Path) -> None:
    """The column `opr` says nothing by its name; the queries of people join it to the users."""
    build_clinic(work)
    queries = "".join(f"SELECT count(*) FROM {t} AS t JOIN users AS u ON t.opr = u.user_id;\n" for t in TABLES[:5])
    (work / "queries.sql").write_text(queries)
    history = "{queryHistory: {enabled: true, file: queries.sql, minExecutions: 1}}"
    config = f"{{driver: sqlite, path: clinic.sqlite, context: {history}}}"
    (work / "ktx.yaml").write_text(f"connections:\n  clinic: {config}\n{THRESHOLDS}")
    answer = ktx("ingest", "--no-input", "--json")
    assert answer.code == 0, answer
    found = joins(ktx)
    for table in TABLES[:5]:
        row = found[f"{table}.opr->users.user_id"]
        assert (row["status"], "history" in row["sources"]) == ("accepted", True), row
        assert row["reason"].endswith("; joined in queries.")
    assert "history" not in found["ward.opr->users.user_id"]["sources"]
    again = ktx("ingest", "--no-input", "--json")
    assert (again.code, again.data["status"], again.data["commit"]) == (0, "unchanged", None)
