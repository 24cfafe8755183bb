"""The contract of a warehouse, run on every one that there is a real server or engine for."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator

import duckdb
import pytest
from deltalake import write_deltalake

from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.testing.spark_server import SparkServer
from ktx_cli.testing.warehouse_contract import TABLES, PreparedDatabase, WarehouseContract, statements
from tests.warehouses.lake.tables import IcebergLake, arrow_table
from tests.warehouses.mongo_server import READING, as_document, emulator
from tests.warehouses.test_athena import AthenaServer
from tests.warehouses.test_clickhouse import CANARY, ChServer


class TestSqlite(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, tmp_path_factory: pytest.TempPathFactory) -> PreparedDatabase:
        path = tmp_path_factory.mktemp("sqlite") / "shop %?#.sqlite"
        with sqlite3.connect(path) as session:
            session.executescript(";\n".join(statements()))
        session.close()
        return PreparedDatabase(
            "sqlite",
            {"path": str(path)},
            refused=(
                "ATTACH 'beside.sqlite' AS b",
                "PRAGMA query_only = 0",
                "PRAGMA writable_schema = 1",
                "PRAGMA journal_mode = WAL",
                "VACUUM",
                "VACUUM INTO 'beside.sqlite'",
                "REINDEX",
                "ANALYZE",
                "SAVEPOINT s",
                "SELECT load_extension('x')",
                "REPLACE INTO customers VALUES (3, 'x', 'DE')",
            ),
            endless="WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
            missing={"path": str(path.with_name("missing.sqlite"))},
        )


OUT_OF_DUCKDB = (
    "ATTACH 'beside.duckdb' AS b",
    "COPY customers TO 'beside.csv'",
    "EXPORT DATABASE 'beside'",
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM glob('*')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "SET VARIABLE a = 1",
    "USE memory",
    "CHECKPOINT",
    "CREATE TEMP MACRO m() AS 1",
    "CALL pragma_version()",
    "PREPARE p AS SELECT 1",
    "EXPLAIN ANALYZE COPY customers TO 'beside.csv'",
    "CREATE SECRET s (TYPE s3)",
)
ENDLESS_DUCKDB = "SELECT count(*) FROM range(100000000) a, range(100000000) b"


class TestDuckDb(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, tmp_path_factory: pytest.TempPathFactory) -> PreparedDatabase:
        path = tmp_path_factory.mktemp("duckdb") / "shop %#.duckdb"
        with duckdb.connect(str(path)) as session:
            for statement in statements():
                session.execute(statement)
        return PreparedDatabase(
            "duckdb",
            {"path": str(path)},
            schema="main",
            refused=OUT_OF_DUCKDB,
            endless=ENDLESS_DUCKDB,
            missing={"path": str(path.with_name("missing.duckdb"))},
        )


class TestFiles(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, tmp_path_factory: pytest.TempPathFactory) -> PreparedDatabase:
        folder = tmp_path_factory.mktemp("files")
        with duckdb.connect() as session:
            for statement in statements(keys=False):
                session.execute(statement)
            for table in TABLES:
                session.execute(f"COPY \"{table.name}\" TO '{folder / table.name}.parquet'")
        return PreparedDatabase(
            "files",
            {"path": str(folder)},
            keys=False,
            views=False,
            refused=OUT_OF_DUCKDB,
            endless=ENDLESS_DUCKDB,
            missing={"path": str(folder / "missing")},
        )


class TestIceberg(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, tmp_path_factory: pytest.TempPathFactory) -> PreparedDatabase:
        lake = IcebergLake(tmp_path_factory.mktemp("iceberg") / "shop")
        for table in TABLES:
            lake.append(f"mart.{table.name}", arrow_table(table))
        folder = lake.folder.rename(lake.folder.with_name("shop %#"))  # pyiceberg cannot write to such a folder.
        return PreparedDatabase(
            "iceberg",
            {"path": str(folder)},
            schema="mart",
            keys=False,
            views=False,
            refused=(*OUT_OF_DUCKDB, f"SELECT * FROM read_text('{folder}/mart/customers/metadata/*.json')"),
            endless=ENDLESS_DUCKDB,
            missing={"path": str(folder / "missing")},
        )


class TestDelta(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, tmp_path_factory: pytest.TempPathFactory) -> PreparedDatabase:
        folder = tmp_path_factory.mktemp("delta") / "shop %#"
        for table in TABLES:
            write_deltalake(folder / "mart" / table.name, arrow_table(table))
        return PreparedDatabase(
            "delta",
            {"path": str(folder)},
            schema="mart",
            keys=False,
            views=False,
            refused=(*OUT_OF_DUCKDB, f"SELECT * FROM read_text('{folder}/mart/customers/_delta_log/*.json')"),
            endless=ENDLESS_DUCKDB,
            missing={"path": str(folder / "missing")},
        )


class TestMongo(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls) -> Iterator[PreparedDatabase]:
        with emulator() as server:
            for table in TABLES:
                rows = [as_document(list(table.columns), row) for row in table.rows]
                server.client["shop"][table.name].insert_many(rows)
            yield PreparedDatabase(
                "mongodb",
                server.settings("shop"),
                schema="shop",
                keys=False,
                views=False,
                refused=OUT_OF_DUCKDB,
                endless=ENDLESS_DUCKDB,
                missing={"host": "127.0.0.1", "port": 9, "database": "shop"},
                added=("_id",),
            )
            assert server.sent() <= READING, "ktx sent another command"


@pytest.mark.postgres
class TestPostgres(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, postgres_server: PostgresServer) -> PreparedDatabase:
        url = postgres_server.create_database("contract", *statements(), "CREATE SEQUENCE s")
        return PreparedDatabase(
            "postgres",
            {"url": url},
            schema="public",
            refused=(
                "COPY public.customers TO PROGRAM 'touch beside'",
                "COPY public.customers FROM PROGRAM 'echo 3'",
                "DO $$ BEGIN DELETE FROM public.customers; END $$",
                "SET default_transaction_read_only = off",
                "SET TRANSACTION READ WRITE",
                "SELECT set_config('transaction_read_only', 'off', false)",
                "SELECT 1; COMMIT; DELETE FROM public.customers",
                "SELECT id INTO public.u FROM public.customers",
                "SELECT nextval('public.s')",
                "CALL p()",
                "LOCK TABLE public.customers",
                "LISTEN x",
                "VACUUM",
                "SELECT id FROM public.customers FOR UPDATE",
                "/* /* */ SELECT */ DELETE FROM public.customers",
                "-- note\rDELETE FROM public.customers",
            ),
            endless="SELECT pg_sleep(60)",
            missing={"url": url.rpartition("/")[0] + "/missing"},
        )


@pytest.mark.postgres
class TestHologres(WarehouseContract):
    """What Hologres shares with Postgres, on Postgres and without its transactions."""

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, postgres_server: PostgresServer) -> PreparedDatabase:
        engine = ("CREATE SCHEMA hologres", "CREATE TABLE hologres.hg_query_log (query text)")
        url = postgres_server.create_database("hologres_contract", *statements(), *engine)
        return PreparedDatabase(
            "hologres",
            {"url": url},
            schema="public",
            refused=(
                "COPY public.customers TO PROGRAM 'touch beside'",
                "DO $$ BEGIN DELETE FROM public.customers; END $$",
                "SET default_transaction_read_only = off",
                "SELECT 1; DELETE FROM public.customers",
                "SELECT id INTO public.u FROM public.customers",
                "WITH gone AS (DELETE FROM public.customers RETURNING id) SELECT id FROM gone",
                "EXPLAIN ANALYZE DELETE FROM public.customers",
                "/* /* */ SELECT */ DELETE FROM public.customers",
            ),
            endless="SELECT pg_sleep(60)",
            missing={"url": url.rpartition("/")[0] + "/missing"},
        )


@pytest.mark.mysql
class TestMysql(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, mariadb_server: MariaDBServer) -> PreparedDatabase:
        url = mariadb_server.create_database("contract", *statements(quote=_backticks))
        return PreparedDatabase(
            "mysql",
            {"url": url},
            schema="contract",
            loose_types=frozenset({"flag"}),
            refused=(
                "SELECT 1 INTO OUTFILE 'beside'",
                "SELECT 1 INTO/**/DUMPFILE 'beside'",
                "/*! DELETE FROM customers */",
                "/*!50000 DELETE FROM customers */",
                "/*M! DELETE FROM customers */",
                "# note\nDELETE FROM customers",
                "-- x\rSELECT\nDELETE FROM customers",
                "SET SESSION TRANSACTION READ WRITE",
                "LOAD DATA INFILE 'x' INTO TABLE customers",
                "DO sleep(0)",
                "HANDLER customers OPEN",
                "SELECT id FROM customers FOR UPDATE",
                "LOCK TABLES customers WRITE",
                "ANALYZE TABLE customers",
            ),
            endless="SELECT count(*) FROM seq_1_to_100000000 a, seq_1_to_100000000 b",
            missing={"url": url.rpartition("/")[0] + "/missing"},
        )


def _backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.spark
class TestSpark(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, spark_server: SparkServer) -> PreparedDatabase:
        names = {"Order Details": "order_details"}  # Spark's own catalog allows letters, digits and `_`.
        types = {"ratio": "DOUBLE", "moment": "TIMESTAMP_NTZ"}
        spark_server.create_database("contract", *statements(quote=_backticks, types=types, keys=False, names=names))
        return PreparedDatabase(
            "spark",
            {"url": spark_server.url, "schemas": ["contract"]},
            schema="contract",
            keys=False,
            names=names,
            refused=(
                "SET spark.sql.variable.substitute = true",
                "SET TIME ZONE 'Asia/Tokyo'",
                "RESET",
                "USE contract",
                "ADD JAR '/tmp/a.jar'",
                "ADD FILE '/etc/hostname'",
                "LIST FILES",
                "CACHE TABLE contract.orders",
                "UNCACHE TABLE contract.orders",
                "CLEAR CACHE",
                "REFRESH TABLE contract.orders",
                "REFRESH '/tmp'",
                "MSCK REPAIR TABLE contract.orders",
                "ANALYZE TABLE contract.orders COMPUTE STATISTICS",
                "LOAD DATA LOCAL INPATH '/etc/hostname' INTO TABLE contract.orders",
                "INSERT OVERWRITE DIRECTORY '/tmp/beside' USING csv SELECT 1",
                "FROM contract.customers INSERT INTO contract.customers SELECT 9, 'x', 'DE'",
                "WITH x AS (SELECT 1) INSERT INTO contract.customers SELECT 9, 'x', 'DE'",
                "WITH x AS (SELECT 1) FROM x INSERT INTO contract.customers SELECT 9, 'x', 'DE'",
                "SELECT 1) LIMIT 1; DROP TABLE contract.customers; SELECT * FROM (SELECT 1",
                "SELECT TRANSFORM(id) USING 'touch /tmp/beside' AS (a) FROM contract.customers",
                "FROM contract.customers MAP id USING 'cat' AS a",
                "SELECT reflect('java.lang.System', 'getenv', 'PATH')",
                "SELECT `java_method`('java.util.UUID', 'randomUUID')",
                "SELECT * FROM csv.`/etc/hostname`",
                "SELECT * FROM parquet.`/tmp`",
                "CREATE TEMPORARY FUNCTION f AS 'x'",
                "CREATE FUNCTION f(x INT) RETURNS INT RETURN x",
                "DECLARE VARIABLE v INT",
                "EXECUTE IMMEDIATE 'DROP TABLE contract.customers'",
                "BEGIN DROP TABLE contract.customers; END",
                "CALL p()",
            ),
            endless="SELECT count(*) FROM range(100000000000000)",
            missing={"url": "sc://127.0.0.1:9"},
        )


@pytest.mark.client("pyathena")
class TestAthena(WarehouseContract):
    """On a server of ours, with DuckDB behind it."""

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls) -> Iterator[PreparedDatabase]:
        names = {"Order Details": "order_details"}  # Athena allows letters, digits and `_`.
        with AthenaServer() as server:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            server.session.execute("CREATE SCHEMA contract; SET schema = 'contract'")
            for statement in statements(keys=False, names=names):
                server.session.execute(statement)
            yield PreparedDatabase(
                "athena",
                server.options(databases=["contract"]),
                schema="contract",
                keys=False,
                names=names,
                refused=(
                    "UNLOAD (SELECT 1 AS a) TO 's3://b/p/' WITH (format = 'PARQUET')",
                    "MSCK REPAIR TABLE contract.orders",
                    "CREATE TABLE contract.u AS SELECT 1 AS a",
                ),
                endless="SELECT * FROM endless",
                missing={**server.options(), "endpoint_url": "http://127.0.0.1:9"},
            )
            server.shutdown()


class TestClickHouse(WarehouseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PreparedDatabase]:
        with ChServer(tmp_path_factory.mktemp("clickhouse")) as server:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            server.run("CREATE DATABASE shop", {})
            for statement in statements(quote=_escaped, types=CLICKHOUSE_TYPES, keys=False):
                made = statement.startswith("CREATE TABLE")
                server.run(f"{statement} ENGINE = MergeTree ORDER BY tuple()" if made else statement, {}, "shop")
            address = {"host": "127.0.0.1", "port": server.server_port, "username": "reader", "password": CANARY}
            yield PreparedDatabase(
                "clickhouse",
                {**address, "database": "shop", "ssl": False},
                schema="shop",
                keys=False,
                refused=(
                    "SELECT 1 INTO OUTFILE 'beside'",
                    "SYSTEM FLUSH LOGS",
                    "SET max_threads = 1",
                    "OPTIMIZE TABLE customers",
                ),
                missing={"host": "127.0.0.1", "port": 9, "username": "reader", "password": CANARY, "ssl": False},
            )
            server.shutdown()


CLICKHOUSE_TYPES = {
    "id": "Int32",
    "text": "Nullable(String)",
    "amount": "Decimal(10, 2)",
    "ratio": "Float64",
    "date": "Date",
    "moment": "DateTime64(0, 'UTC')",
    "flag": "Nullable(Bool)",
}


def _escaped(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
