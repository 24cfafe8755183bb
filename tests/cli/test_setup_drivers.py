"""Every driver by flags and by a file of answers: tried where it can run here, the same bytes, and only once."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.jobs.setup.answers import DATABASE_WORDS, SOURCE_WORDS, questions_of
from ktx_cli.jobs.setup.plan import key_of
from ktx_cli.project.config.connections import drivers
from ktx_cli.project.plugins import WAREHOUSES
from tests.cli.source_row import World
from tests.cli.source_rows import ROW_TYPES, TOKEN
from tests.sources.looker.scripted import SECRET
from tests.sources.metabase.scripted import KEY
from tests.sources.scripted_google import service_key
from tests.sources.scripted_sigma import SECRET as SIGMA
from tests.sources.scripted_tableau import SECRET as TABLEAU
from tests.sources.web_site import serve_site
from tests.warehouses.mongo_server import MongoEmulator, emulator
from tests.warehouses.test_clickhouse import CANARY, ChServer

Run = Callable[..., Any]
Fields = dict[str, Any]
PEM = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LWtleQ==\n-----END PRIVATE KEY-----\n"
SECRETS = {
    "METABASE_KEY": KEY,
    "LOOKER_SECRET": SECRET,
    "NOTION_TOKEN": TOKEN,
    "CONFLUENCE_TOKEN": TOKEN,
    "JIRA_TOKEN": TOKEN,
    "GOOGLE_KEY": service_key(),
    "TABLEAU_SECRET": TABLEAU,
    "SIGMA_SECRET": SIGMA,
}
"""The variables that the rows of sources name, and what is in them: given in clear here."""


@pytest.fixture
def place(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder beside the projects, in which what they read is."""
    for name in ("flags", "answers"):
        (work / name).mkdir()
    monkeypatch.chdir(work / "flags")
    return work


def _sqlite(place: Path) -> Fields:
    with sqlite3.connect(place / "shop.sqlite") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL)")
    database.close()
    return {"driver": "sqlite", "path": "../shop.sqlite", "include": ["o*"], "exclude": ["*_tmp", "#old"]}


def _duckdb(place: Path) -> Fields:
    import duckdb

    with duckdb.connect(str(place / "shop.duckdb")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return {"driver": "duckdb", "path": "../shop.duckdb", "schemas": ["main"]}


def _files(place: Path) -> Fields:
    (place / "exports").mkdir()
    (place / "exports" / "orders.csv").write_text("id,amount\n1,2.5\n")
    return {"driver": "files", "path": "../exports"}


def _iceberg(place: Path) -> Fields:
    import pyarrow
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("default", uri=f"sqlite:///{place}/lake.db", warehouse=f"file://{place}/lake")
    catalog.create_namespace("mart")
    catalog.create_table("mart.orders", pyarrow.schema([("id", pyarrow.int64())]))
    own = {"catalog": "sql", "uri": f"sqlite:///{place}/lake.db", "warehouse": f"file://{place}/lake"}
    return {"driver": "iceberg", **own, "properties": {"s3": {"region": "eu-central-1"}}, "schemas": ["mart"]}


def _delta(place: Path) -> Fields:
    import pyarrow
    from deltalake import write_deltalake

    write_deltalake(place / "tables" / "orders", pyarrow.table({"id": [1], "amount": [2.5]}))
    return {"driver": "delta", "path": "../tables"}


def _postgres(server: Any) -> Fields:
    name = f"setup_{uuid.uuid4().hex[:8]}"
    server.create_database(name, "CREATE TABLE orders (id int PRIMARY KEY)")
    return {
        "driver": "postgres", "host": server.host, "port": server.port, "database": name, "username": server.user,
        "password": server.password, "schemas": ["public"], "context": {"queryHistory": {"enabled": False}},
    }  # fmt: skip


def _mysql(server: Any) -> Fields:
    url = server.create_database(f"setup_{uuid.uuid4().hex[:8]}", "CREATE TABLE orders (id int PRIMARY KEY)")
    return {"driver": "mysql", "url": url}


def _clickhouse(server: ChServer) -> Fields:
    return {
        "driver": "clickhouse", "host": "127.0.0.1", "port": server.server_port, "username": "reader",
        "password": CANARY, "database": "default",
    }  # fmt: skip


@pytest.fixture
def clickhouse(tmp_path: Path) -> Iterator[ChServer]:
    with ChServer(tmp_path / "clickhouse") as server:
        server.run("CREATE TABLE default.orders (id UInt8) ENGINE = MergeTree ORDER BY id", {})
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _mongodb(server: MongoEmulator) -> Fields:
    return {"driver": "mongodb", "host": "127.0.0.1", "port": server.port, "database": "shop"}


@pytest.fixture
def mongodb() -> Iterator[MongoEmulator]:
    with emulator() as server:
        server.client["shop"]["orders"].insert_one({"id": 1})
        yield server


ELSEWHERE: dict[str, Fields] = {
    "sqlserver": {"host": "db", "port": 1433, "database": "dwh", "username": "u", "password": "env:P", "encrypt": True},
    "redshift": {"host": "db", "port": 5439, "database": "dwh", "username": "u", "password": "canary-pw"},
    "hologres": {"host": "db", "port": 80, "database": "dwh", "username": "u", "password": "canary-pw"},
    "trino": {"host": "db", "port": 8080, "catalog": "hive", "user": "u", "schemas": ["a", "b"], "ssl": False},
    "databricks": {"host": "db", "http_path": "/sql/1.0/warehouses/a", "token": "canary-token", "catalog": "main"},
    "athena": {
        "region": "eu-central-1", "workgroup": "analysts", "s3_staging_dir": "s3://bucket/ktx/", "profile": "p",
        "databases": ["a"], "session_token": "canary-token",
    },
    "spark": {"host": "db", "port": 15002, "token": "canary-token", "catalog": "lake", "schemas": ["a"]},
    "snowflake": {
        "account": "org-account", "warehouse": "COMPUTE_WH", "database": "DWH", "username": "U", "role": "READER",
        "authMethod": "rsa", "privateKey": PEM, "passphrase": "canary: phrase", "schema_names": ["PUBLIC"],
    },
    "bigquery": {"project_id": "p", "dataset_ids": ["a", "b"], "location": "EU", "credentials_json": '{"k": "canary"}'},
}  # fmt: skip
"""Drivers of what cannot run here: saved with --no-test."""


def _in_clear(fields: Any) -> Any:
    if isinstance(fields, dict):
        return {key: _in_clear(value) for key, value in fields.items()}
    return SECRETS.get(fields[4:], fields) if isinstance(fields, str) and fields.startswith("env:") else fields


def flags_of(fields: Mapping[str, Any], *, name: str | None = None) -> list[str]:
    """Return the flags that say the same as the fields: a word's where there is one, --database-set for the rest."""
    driver = fields["driver"]
    prefix, words = ("database", DATABASE_WORDS) if driver in WAREHOUSES.built_in else ("source", SOURCE_WORDS)
    flags = {key_of(word, driver): f"--{prefix}-{word.name}" for word in reversed(words)}
    flags |= {"include": "--include", "exclude": "--exclude"}
    typed = [f"--{prefix}", driver, *([f"--{prefix}-connection-id", name] if name else [])]
    for key, value in _leaves(fields):
        if key == "context.queryHistory.enabled":
            typed.append("--query-history" if value else "--no-query-history")
        elif key in flags:
            for item in value if isinstance(value, list) else [value]:
                typed += [flags[key], item if isinstance(item, str) else yaml.flow(item)]
        elif key != "driver":
            typed += [f"--{prefix}-set", f"{key}={yaml.flow(value)}"]
    return typed


def _leaves(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return what is in a project but for git and the state database: contents and permissions by path."""
    files = (
        path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.relative_to(folder).parts
    )
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in files
        if not path.name.startswith("state.sqlite")
    }


@pytest.fixture
def same_both_ways(ktx: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Set a connection up by flags and by a file, each twice; return the answer of the first."""

    def run(fields: Fields, *others: str) -> dict[str, Any]:
        name = "warehouse" if fields["driver"] in WAREHOUSES.built_in else fields["driver"]
        block = "databases" if fields["driver"] in WAREHOUSES.built_in else "sources"
        (place / "answers.yaml").write_text(yaml.dump({block: {name: fields}}))
        ways = {"flags": flags_of(fields), "answers": ["--answers", "../answers.yaml"]}
        done = {}
        for way, typed in ways.items():
            monkeypatch.chdir(place / way)
            done[way] = ktx("setup", "--no-input", *typed, *others, "--json")
            assert done[way].code == 0, done[way]
        made = tree(place / "flags")
        assert made == tree(place / "answers")
        for typed in ways.values():
            again = ktx("setup", "--no-input", *typed, *others, "--json")
            assert (again.code, again.data["changed"], again.data["connection"]) == (0, False, name), again
        assert tree(place / "answers") == made
        assert yaml.load(made["ktx.yaml"][0], where="")["connections"].keys() == {name}
        return dict(done["flags"].data)

    return run


LOCAL = {"sqlite": _sqlite, "duckdb": _duckdb, "files": _files, "iceberg": _iceberg, "delta": _delta}
SERVED = {
    "postgres": (_postgres, "postgres_server"),
    "mysql": (_mysql, "mariadb_server"),
    "clickhouse": (_clickhouse, "clickhouse"),
    "mongodb": (_mongodb, "mongodb"),
}
CONNECTED = [each for each in ROW_TYPES if each.kind in drivers()]


@pytest.mark.parametrize("driver", LOCAL)
def test_a_file(driver: str, place: Path, same_both_ways: Run) -> None:
    assert same_both_ways(LOCAL[driver](place))["tables"] == 1


@pytest.mark.parametrize(
    "driver",
    [
        "clickhouse",
        "mongodb",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ],
)
def test_a_server(driver: str, request: pytest.FixtureRequest, place: Path, same_both_ways: Run) -> None:
    fields, server = SERVED[driver]
    assert same_both_ways(fields(request.getfixturevalue(server)))["tables"] == 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize("row", CONNECTED, ids=[each.name for each in CONNECTED])
def test_a_source(row: Any, place: Path, same_both_ways: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_site() as site, ExitStack() as stack:
        world = World(place / "flags", site, lambda: None, stack, monkeypatch.setenv)  # type: ignore[arg-type,return-value]
        fields = _in_clear(row(world).connections()["src"])
        _move_beside(place, fields)
        fields.pop("mappings", None)
        assert same_both_ways(fields)["connections"][0]["origin"]


def _move_beside(place: Path, fields: Fields) -> None:
    """Have the folder of a source beside both projects."""
    for key in ("path", "source_dir"):
        folder = place / "flags" / str(fields.get(key))
        if key in fields and folder.is_dir():
            folder.rename(place / fields[key])
            fields[key] = f"../{fields[key]}"


@pytest.mark.parametrize("driver", ELSEWHERE)
def test_what_cannot_run_here(driver: str, same_both_ways: Run, place: Path) -> None:
    same_both_ways({"driver": driver, **ELSEWHERE[driver]}, "--no-test")
    assert "canary" not in (place / "flags" / "ktx.yaml").read_text()


def _typed(driver: str, secret: str, *, needed: bool) -> list[str]:
    """Return flags for a driver with a secret in clear, with or without what else the driver needs."""
    prefix, words = ("database", DATABASE_WORDS) if driver in WAREHOUSES.built_in else ("source", SOURCE_WORDS)
    asked = {question.word for question in questions_of(driver) if question.required and needed}
    if needed and not asked:  # One of several settings is needed, of which a path fits every driver.
        asked.add("path")
    scheme = "sc" if driver == "spark" else driver
    value = f"{scheme}://u:canary-pw@h/d" if secret == "url" else "canary-in-clear"
    others = {
        word.name: "https://bi.example.com" if word.name == "url" else "x" for word in words if word.name in asked
    }
    typed = [f"--{prefix}", driver]
    for name, text in {**({} if secret == "url" else others), secret: value}.items():
        typed += [f"--{prefix}-{name}", text]
    return typed


SECRET_WORDS = [
    (driver, word.name)
    for driver in drivers()
    for word in (DATABASE_WORDS if driver in WAREHOUSES.built_in else SOURCE_WORDS)
    if word.secret and key_of(word, driver) is not None and (word.name != "url" or WAREHOUSES.find(driver).takes_url)
]


@pytest.mark.slow
def test_no_secret_of_any_driver_gets_out(ktx: Run, work: Path, git: Run) -> None:
    said, kept = "", 0
    for driver, word in SECRET_WORDS:
        for needed in (False, True):
            answer = ktx("setup", *_typed(driver, word, needed=needed), "--no-test", "--debug", "--json")
            said += answer.out + answer.err
            assert answer.code == 0 if needed else answer.code in (0, 2), answer
        plan = ktx("setup", *_typed(driver, word, needed=True), "--print-plan", "--debug")
        said, kept = said + plan.out + plan.err, kept + 1
    assert kept > 20 and "canary" not in said
    assert "canary" not in (work / "ktx.yaml").read_text()
    assert "canary" not in git(work, "log", "--all", "-p", "--format=%B")
    holding = [path for path in work.rglob("*") if path.is_file() and b"canary" in path.read_bytes()]
    assert {path.parent for path in holding} == {work / ".ktx" / "secrets"}


def test_every_driver_is_here() -> None:
    assert {*LOCAL, *SERVED, *ELSEWHERE} | {each.kind for each in CONNECTED} == set(drivers())
