"""Lakes in an object store and behind a catalog: only their own files are requested, and no secret gets out."""

from __future__ import annotations

import json
import shutil
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from typer.testing import CliRunner

from ktx_cli.cli.app import app
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.warehouses.delta import connector as delta_connector
from ktx_cli.warehouses.port import Connector, Scope
from tests.warehouses.lake.stores import BUCKET, CREDENTIAL, SECRET, TOKEN, MappedIO, Server, serving
from tests.warehouses.lake.test_attacks import by_path, with_vector

Open = Callable[..., Connector]
ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "name": [f"name {each % 7}" for each in range(1000)]})


@pytest.fixture(autouse=True)
def no_credentials_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "bucket").mkdir()
    with serving(Server(tmp_path / "bucket")) as server:
        yield server


@pytest.fixture
def iceberg(store: Server, tmp_path: Path) -> SqlCatalog:
    """A catalog with the table `db.t` in the store."""
    own = {"py-io-impl": f"{MappedIO.__module__}.{MappedIO.__name__}", "folder": str(store.folder)}
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"{BUCKET}/wh", **own)
    catalog.create_namespace("db")
    catalog.create_table("db.t", ROWS.schema).append(ROWS)
    return catalog


@pytest.fixture
def rest(store: Server, iceberg: SqlCatalog) -> Iterator[Server]:
    server = Server(store.folder, iceberg)
    server.store = store
    with serving(server):
        yield server


def options_of(driver: str, store: Server, tmp_path: Path) -> dict[str, Any]:
    if driver == "delta":
        write_deltalake(store.folder / "wh" / "db" / "t", ROWS)
        return {"path": f"{BUCKET}/wh", "tables": ["db/t"], "storage_options": store.options,
                "storage_secrets": {"AWS_SECRET_ACCESS_KEY": SECRET}}  # fmt: skip
    own = store.properties
    secret = {"s3.secret-access-key": own.pop("s3.secret-access-key")}
    return {"catalog": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "catalog_name": "lake", "properties": own,
            "secrets": secret}  # fmt: skip


@pytest.mark.usefixtures("iceberg")
@pytest.mark.parametrize("driver", ["iceberg", "delta"])
def test_a_table_in_an_object_store(driver: str, store: Server, opened: Open, tmp_path: Path) -> None:
    connector = opened(driver, **options_of(driver, store, tmp_path))
    (table,) = connector.introspect(Scope()).tables
    assert (str(table.ref), table.row_estimate) == ("db.t", 1000)
    found = connector.query("SELECT name, count(*) FROM db.t WHERE id >= 990 GROUP BY 1 ORDER BY 1").rows
    assert found == (
        ("name 0", 1),
        ("name 1", 1),
        ("name 2", 1),
        ("name 3", 2),
        ("name 4", 2),
        ("name 5", 2),
        ("name 6", 1),
    )
    for statement in (
        "SELECT * FROM read_parquet('s3://lake/wh/db/t/data/x.parquet')",
        "SELECT * FROM read_parquet('ktxlake://other/0.parquet')",
        f"SELECT * FROM read_text('{tmp_path}/lake.db')",
        f"SELECT * FROM read_text('{store.url}/lake/x')",
    ):
        with pytest.raises(SourceError):
            connector.query(statement)
    assert connector.query("SELECT count(*) FROM db.t").rows == ((1000,),)


@pytest.mark.usefixtures("iceberg")
@pytest.mark.parametrize("driver", ["iceberg", "delta"])
def test_evidence_reads_no_data_file(driver: str, store: Server, opened: Open, tmp_path: Path) -> None:
    options = options_of(driver, store, tmp_path)
    store.requested.clear()
    evidence = [opened(driver, **options).evidence() for _ in range(2)]  # type: ignore[attr-defined]
    assert evidence[0] == evidence[1] is not None
    assert store.data_files() == []
    opened(driver, **options).query("SELECT * FROM db.t LIMIT 1")
    assert store.data_files() != []


@pytest.mark.usefixtures("iceberg")
@pytest.mark.parametrize("driver", ["iceberg", "delta"])
def test_a_refused_key_is_an_error_without_it(driver: str, store: Server, opened: Open, tmp_path: Path) -> None:
    options = options_of(driver, store, tmp_path)
    for block in ("properties", "storage_options"):
        for key in ("s3.access-key-id", "AWS_ACCESS_KEY_ID"):
            if key in options.get(block, {}):
                options[block] = {**options[block], key: "OTHER"}
    said = ""
    try:
        session = opened(driver, **options)
        said = "".join(each.message for each in session.introspect(Scope()).problems)
        session.query("SELECT * FROM db.t")
    except SourceError as error:
        said += "".join(traceback.format_exception(error))
    assert said
    assert SECRET not in said


def ktx(folder: Path, *words: str) -> Any:
    result = CliRunner().invoke(app, [*words, "--project-dir", str(folder), "--json"], prog_name="ktx")
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    return json.loads(result.stdout)["data"]


@pytest.mark.usefixtures("iceberg")
@pytest.mark.parametrize("driver", ["iceberg", "delta"])
def test_a_scan_of_an_unchanged_table_reads_no_data_file(
    driver: str, store: Server, tmp_path: Path, iceberg: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_SECRET", SECRET)
    project = tmp_path / "project"
    project.mkdir()
    options = options_of(driver, store, tmp_path)
    key = "storage_secrets" if driver == "delta" else "secrets"
    options[key] = dict.fromkeys(options[key], "env:STORE_SECRET")
    settings = {
        "connections": {"lake": {"driver": driver, **options}},
        "storage": {"git": {"author": "ktx <ktx@example.com>"}},
    }
    (project / "ktx.yaml").write_text(yaml.dump(settings), encoding="utf-8")
    store.requested.clear()
    ktx(project, "scan", "lake", "--depth", "profile")
    assert store.data_files() != []
    ktx(project, "scan", "lake", "--depth", "profile")
    assert store.data_files() == []
    overlay = project / "semantic-layer" / "lake" / "t.yaml"
    overlay.write_text("name: t\nmeasures:\n  - {name: total, expr: sum(id)}\n", encoding="utf-8")
    answer = ktx(project, "sl", "query", "-m", "t.total", "-d", "t.name")
    assert sum(row[1] for row in answer["rows"]) == 999 * 500
    if driver == "delta":
        write_deltalake(store.folder / "wh" / "db" / "t", ROWS, mode="append")
    else:
        iceberg.load_table("db.t").append(ROWS)
    store.requested.clear()
    ktx(project, "scan", "lake", "--depth", "profile")
    assert store.data_files() != []


def test_a_catalog_over_rest(rest: Server, store: Server, opened: Open) -> None:
    connector = opened("iceberg", catalog="rest", uri=rest.url, credential=CREDENTIAL)
    assert [str(each.ref) for each in connector.introspect(Scope()).tables] == ["db.t"]
    assert connector.query("SELECT max(id) FROM db.t").rows == ((999,),)
    by_token = opened("iceberg", catalog="rest", uri=rest.url, token=TOKEN)
    assert by_token.test(Scope()).tables == 1
    assert store.requested


def test_a_namespace_that_cannot_be_listed_costs_only_itself(rest: Server, iceberg: SqlCatalog, opened: Open) -> None:
    for name in ("closed", "flat"):
        iceberg.create_namespace(name)
    schema = opened("iceberg", catalog="rest", uri=rest.url, token=TOKEN).introspect(Scope())
    assert [str(each.ref) for each in schema.tables] == ["db.t"]
    (problem,) = schema.problems
    assert problem.message.startswith("cannot list the tables of the namespace closed")
    found = opened("iceberg", catalog="rest", uri=rest.url, token=TOKEN, schemas=["db"]).introspect(Scope())
    assert found.problems == ()


@pytest.mark.parametrize("own", [{"credential": "client:canary-wrong"}, {"token": "canary-wrong"}])
def test_a_refused_credential_is_an_error_without_it(own: dict[str, str], rest: Server, opened: Open) -> None:
    with pytest.raises(SourceError, match="cannot list the tables of the catalog") as caught:
        opened("iceberg", catalog="rest", uri=rest.url, **own)
    assert caught.value.exit_code == 4
    assert "canary-wrong" not in "".join(traceback.format_exception(caught.value)) + str(caught.value.to_json())


def test_a_catalog_that_is_not_there(opened: Open) -> None:
    with pytest.raises(SourceError, match="cannot list the tables of the catalog"):
        opened("iceberg", catalog="rest", uri="http://127.0.0.1:9", token=TOKEN)


def test_an_object_store_needs_another_package(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_connector, "is_installed", lambda name: False)
    with pytest.raises(ConfigError, match="needs the package fsspec") as caught:
        opened("delta", path="s3://lake/t")
    assert caught.value.hint == "pip install fsspec"


def test_a_catalog_that_does_not_answer(opened: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SourceError, match="did not answer within") as caught:
            opened("iceberg", catalog="rest", uri=uri, token=TOKEN, query_timeout_ms=200)
    assert caught.value.exit_code == 4


def test_a_store_that_cannot_be_reached(opened: Open, capfd: pytest.CaptureFixture[str]) -> None:
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "eu-central-1",
               "AWS_ACCESS_KEY_ID": "x", "max_retries": "0", "connect_timeout": "1s"}  # fmt: skip
    connector = opened(
        "delta", path="s3://bucket/lake", storage_options=options, storage_secrets={"AWS_SECRET_ACCESS_KEY": SECRET}
    )
    for action in (connector.test, connector.introspect):
        with pytest.raises(SourceError, match="cannot open the Delta table s3://bucket/lake") as caught:
            action(Scope())
        assert caught.value.exit_code == 4
        assert "\x1b" not in caught.value.message
        assert "[31m" not in caught.value.message
    assert capfd.readouterr().err == ""


def test_deletion_vectors_in_a_store_are_not_opened(store: Server, opened: Open, tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"secret")
    options = options_of("delta", store, tmp_path)
    good, table = store.folder / "wh" / "db" / "t", store.folder / "wh" / "db" / "v"
    shutil.rmtree(table, ignore_errors=True)
    with_vector(table, by_path(f"file://{outside}"))
    (problem,) = opened("delta", **options | {"tables": ["db/t", "db/v"]}).introspect(Scope()).problems
    assert good.exists()
    assert problem.message.startswith("has deletion vectors, which ktx does not read in an object store")
