"""What servers say of single tables: another text after any change of rows, and none where that is not known."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyiceberg.types import StringType

from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses import base
from ktx_cli.warehouses.port import ConnectionSpec, Scope, TableEvident, reader_of, table_evidence
from ktx_cli.warehouses.registry import connect
from tests.warehouses.lake.tables import IcebergLake

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["x", "y", "z"]})


def evidence(driver: str, **options: str) -> dict[str, str]:
    """Return the names of tables with what is known of them."""
    with connect(ConnectionSpec("shop", driver, dict(options))) as connector:
        assert isinstance(connector, TableEvident)
        tables = connector.introspect(Scope()).tables
        own = {each.ref for each in tables}  # a server knows the tables of other databases too
        return {ref.name: text for ref, text in connector.table_evidence(tables).items() if ref in own}


MADE = (
    "CREATE TABLE a (id integer, x integer)",
    "CREATE TABLE b (id integer)",
    "INSERT INTO a SELECT i, i FROM generate_series(1, 9) AS s(i)",
    "CREATE TABLE parted (id integer) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE base (id integer)",
    "CREATE TABLE derived () INHERITS (base)",
    "CREATE MATERIALIZED VIEW seen AS SELECT * FROM a",
    "CREATE VIEW v AS SELECT * FROM a",
    "CREATE UNLOGGED TABLE quick (id integer)",
)


class Postgres:
    """A database whose changes are made by sessions that end, and so report them."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.url = server.create_database(f"evidence_{random.randrange(10**9)}", *MADE)

    def change(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as session:
            for each in statements:
                session.execute(each.encode())

    def evidence(self) -> dict[str, str]:
        return evidence("postgres", url=self.url)


@pytest.fixture
def shop(postgres_server: PostgresServer) -> Postgres:
    return Postgres(postgres_server)


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def test_all_tables_of_a_server_but_its_views(shop: Postgres) -> None:
    assert set(shop.evidence()) == {"a", "b", "parted", "base", "derived", "seen", "quick"}
    assert shop.evidence() == shop.evidence()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("INSERT INTO b VALUES (1)", {"b"}),
        ("UPDATE a SET x = x + 1 WHERE id = 3", {"a"}),
        ("DELETE FROM a WHERE id = 3", {"a"}),
        ("TRUNCATE a", {"a"}),
        ("VACUUM FULL a", {"a"}),
        ("INSERT INTO parted VALUES (7)", {"parted"}),
        ("CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (100) TO (200)", {"parted"}),
        ("INSERT INTO derived VALUES (7)", {"base", "derived"}),
        ("REFRESH MATERIALIZED VIEW seen", {"seen"}),
        ("ALTER TABLE a ADD COLUMN y integer DEFAULT random() * 9", {"a"}),
        ("DROP TABLE b; CREATE TABLE b (id integer)", {"b"}),
        ("INSERT INTO quick VALUES (1)", {"quick"}),
        ("ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b", {"a", "b"}),
        ("SELECT count(*) FROM a", set()),
        ("CREATE INDEX on_a ON a (id)", set()),
        ("ANALYZE", set()),
    ],
)
def test_a_change_is_seen_and_nothing_else(statement: str, named: set[str], shop: Postgres) -> None:
    before = shop.evidence()
    shop.change(*statement.split("; "))
    assert changed(before, shop.evidence()) == named


def test_another_column_of_the_same_name_is_a_change(shop: Postgres) -> None:
    shop.change("ALTER TABLE b ADD COLUMN x integer DEFAULT 1")
    before = shop.evidence()
    shop.change("ALTER TABLE b DROP COLUMN x", "ALTER TABLE b ADD COLUMN x integer DEFAULT 2")
    assert changed(before, shop.evidence()) == {"b"}, "no row was written, and the file is the same"


@pytest.mark.parametrize(
    ("statements", "unknown"),
    [
        (["CREATE POLICY p ON a USING (EXISTS (SELECT FROM b WHERE b.id = a.id))"], {"a"}),
        (["CREATE POLICY p ON a USING (x > extract(hour FROM now()))"], {"a"}),
        (["CREATE POLICY p ON a USING (x IN (SELECT id FROM b))"], {"a"}),
        (["CREATE POLICY p ON a USING (current_date > '2024-01-01')"], {"a"}),
        (
            ["CREATE POLICY p ON a USING (true)", "CREATE POLICY q ON a USING (current_setting('x.y', true) = 'z')"],
            {"a"},
        ),
        (
            ["CREATE SCHEMA _timescaledb_internal", "CREATE TABLE _timescaledb_internal.chunk () INHERITS (base)"],
            {"base"},
        ),
    ],
)
def test_rows_that_depend_on_more_than_the_table_are_unknown(
    statements: list[str], unknown: set[str], shop: Postgres
) -> None:
    before = shop.evidence()
    shop.change("ALTER TABLE a ENABLE ROW LEVEL SECURITY", *statements)
    assert before.keys() - shop.evidence().keys() == unknown


def test_other_row_policies_are_a_change(shop: Postgres) -> None:
    """Those that look at nothing but the row; others show other rows without any change of the table."""
    known = shop.evidence()
    for statement in (
        "ALTER TABLE a ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON a USING (x > 3 AND (id = 7 OR NOT (x = 8)))",
        "ALTER POLICY p ON a USING (x > 4)",
        "CREATE POLICY q ON a AS RESTRICTIVE FOR SELECT USING (x < 9)",
        "ALTER TABLE a FORCE ROW LEVEL SECURITY",
        "DROP POLICY p ON a",
        "ALTER TABLE a NO FORCE ROW LEVEL SECURITY",
    ):
        shop.change(statement)
        before, known = known, shop.evidence()
        assert "a" in known and changed(before, known) == {"a"}, statement
    shop.change("ALTER TABLE parted_1 ENABLE ROW LEVEL SECURITY")
    assert changed(known, shop.evidence()) == {"parted"}


def test_a_user_in_another_group_is_another_reader(shop: Postgres) -> None:
    user, group = (f"{name}_{random.randrange(10**9)}" for name in ("analyst", "group"))
    shop.change(f"CREATE ROLE {user} LOGIN PASSWORD 'x'", f"CREATE ROLE {group}")
    found = []
    for statement in ("SELECT 1", f"GRANT {group} TO {user}", f"ALTER ROLE {user} BYPASSRLS"):
        shop.change(statement)
        url = shop.server.url(shop.url.rpartition("/")[2], user=user, password="x")
        with connect(ConnectionSpec("shop", "postgres", {"url": url})) as connector:
            found.append(reader_of(connector))
    assert len(set(found)) == 3
    shop.change(f"DROP ROLE {user}", f"DROP ROLE {group}")


def test_columns_that_may_no_longer_be_read_are_a_change(shop: Postgres) -> None:
    user = f"analyst_{random.randrange(10**9)}"
    shop.change(f"CREATE ROLE {user} LOGIN PASSWORD 'x'", f"GRANT SELECT ON a, b TO {user}")
    url, found = shop.server.url(shop.url.rpartition("/")[2], user=user, password="x"), []
    for statement in ("SELECT 1", f"REVOKE SELECT ON a FROM {user}; GRANT SELECT (id) ON a TO {user}"):
        shop.change(*statement.split("; "))
        found.append(evidence("postgres", url=url))
    assert changed(*found) == {"a"} and {"a", "b"} <= set(found[1])
    shop.change(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def test_counters_that_began_again_prove_nothing(shop: Postgres) -> None:
    before = shop.evidence()
    shop.change("SELECT pg_stat_reset()", "INSERT INTO a SELECT i, i FROM generate_series(1, 9) AS s(i)")
    assert changed(before, shop.evidence()) == set(before), "the counters of `a` are the same as before"
    before = shop.evidence()
    shop.change("SELECT pg_stat_reset_shared('bgwriter')")  # As after a crash.
    assert changed(before, shop.evidence()) == set(before)


def test_a_table_that_is_being_changed_is_unknown(shop: Postgres) -> None:
    with psycopg.connect(shop.url) as session:
        session.execute("UPDATE a SET x = 0")
        assert set(shop.evidence()) == {"b", "parted", "base", "derived", "seen", "quick"}


def test_a_server_that_does_not_count_knows_nothing(shop: Postgres) -> None:
    name = shop.url.rpartition("/")[2]
    shop.change(f"ALTER DATABASE {name} SET track_counts = off")
    assert shop.evidence() == {}


def test_mariadb_knows_the_time_of_the_last_change(mariadb_server: MariaDBServer) -> None:
    name = f"evidence_{random.randrange(10**9)}"
    made = [
        f"CREATE TABLE {each}" for each in ("p (id int) PARTITION BY HASH(id) PARTITIONS 3", "a (id int)", "b (id int)")
    ]
    url = mariadb_server.create_database(name, *made)
    mariadb_server.execute("INSERT INTO p VALUES (1), (2)", "INSERT INTO a VALUES (1)", database=name)
    before = _awaited(lambda: evidence("mysql", url=url), "")
    assert set(before) == {"a"}, "nothing has changed `b` since the server knows it; of `p`, it may forget a partition"
    mariadb_server.execute("UPDATE a SET id = 2", database=name)
    assert changed(before, _awaited(lambda: evidence("mysql", url=url), before["a"])) == {"a"}


def _awaited(read: Callable[[], dict[str, str]], old: str) -> dict[str, str]:
    """Return what is known as soon as something is: the time has whole seconds. The old time never comes back."""
    until = time.monotonic() + 60
    while not (found := read()) and time.monotonic() < until:
        time.sleep(0.2)
    assert found.get("a") != old
    return found


def test_each_file_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SETTLED_SECONDS", -60.0)
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("id\n1\n")
    before = evidence("files", path=str(tmp_path))
    assert set(before) == {"a", "b"}
    (tmp_path / "b.csv").write_text("id\n2\n")
    assert changed(before, evidence("files", path=str(tmp_path))) == {"b"}


class Iceberg:
    """Two Iceberg tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self.lake = IcebergLake(folder)
        self.options = {"path": str(folder)}
        for name in "ab":
            self.lake.append(f"db.{name}", ROWS)

    def append(self, name: str) -> None:
        self.lake.append(f"db.{name}", ROWS)

    def delete(self, name: str) -> None:
        self.lake.catalog.load_table(("db", name)).delete("id = 2")

    def add_column(self, name: str) -> None:
        with self.lake.catalog.load_table(("db", name)).update_schema() as update:
            update.add_column("note", StringType())

    def recreate(self, name: str) -> None:
        self.lake.catalog.drop_table(("db", name))
        shutil.rmtree(self.lake.folder / "db" / name)
        self.append(name)

    def restore(self, name: str) -> None:
        table = self.lake.catalog.load_table(("db", name))
        first = table.metadata.snapshots[0].snapshot_id
        self.append(name)
        table.refresh()
        table.manage_snapshots().rollback_to_snapshot(first).commit()

    def damage(self, name: str) -> None:
        for path in (self.lake.folder / "db" / name / "metadata").glob("*.json"):
            path.write_text("{")


class Delta:
    """Two Delta tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options = {"path": str(folder)}
        for name in "ab":
            self.append(name)

    def append(self, name: str) -> None:
        write_deltalake(self.folder / "db" / name, ROWS, mode="append")

    def delete(self, name: str) -> None:
        DeltaTable(self.folder / "db" / name).delete("id = 2")

    def add_column(self, name: str) -> None:
        note = Field("note", PrimitiveType("string"))
        DeltaTable(self.folder / "db" / name).alter.add_columns(note)

    def recreate(self, name: str) -> None:
        shutil.rmtree(self.folder / "db" / name)
        self.append(name)

    def restore(self, name: str) -> None:
        self.append(name)
        DeltaTable(self.folder / "db" / name).restore(0)

    def damage(self, name: str) -> None:
        for path in (self.folder / "db" / name / "_delta_log").glob("*.json"):
            path.write_text("{")


LAKES = {"iceberg": Iceberg, "delta": Delta}


@pytest.mark.parametrize("change", ["append", "delete", "add_column", "recreate", "restore"])
@pytest.mark.parametrize("driver", LAKES)
def test_a_snapshot_belongs_to_one_table(driver: str, change: str, tmp_path: Path) -> None:
    lake = LAKES[driver](tmp_path / "lake")
    before = evidence(driver, **lake.options)
    assert set(before) == {"a", "b"}
    assert evidence(driver, **lake.options) == before
    getattr(lake, change)("b")
    assert changed(before, evidence(driver, **lake.options)) == {"b"}


@pytest.mark.parametrize("driver", LAKES)
def test_a_damaged_table_of_a_lake_is_unknown(driver: str, tmp_path: Path) -> None:
    lake = LAKES[driver](tmp_path / "lake")
    with connect(ConnectionSpec("shop", driver, dict(lake.options))) as connector:
        tables = connector.introspect(Scope()).tables
    lake.damage("b")
    with connect(ConnectionSpec("shop", driver, dict(lake.options))) as connector:
        assert {ref.name for ref in table_evidence(connector, tables)} == {"a"}
