"""Kinds of connections that installed packages add: found by name, and never in the way of the built-in ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.jobs.health.machine_checks import check_extras
from ktx_cli.jobs.health.model import Level
from ktx_cli.jobs.setup.answers import DATABASE_WORDS, Word, words_of
from ktx_cli.jobs.setup.plan import fields_of, ordered
from ktx_cli.project.config.connections import DisabledConnection, drivers, model_of
from ktx_cli.project.config.file import LoadedConfig, load_config
from ktx_cli.project.config.settings import json_schema
from ktx_cli.project.plugins import SOURCES, WAREHOUSES, PluginError
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect

Distribution = Callable[..., None]

QUACK = """
from typing import Literal
from ktx_cli.warehouses import Warehouse
from ktx_cli.warehouses.duckdb import DuckDbConnection

class Quack(DuckDbConnection):
    "A pond."
    driver: Literal["quackbase"] = "quackbase"

WAREHOUSE = Warehouse(
    driver="quackbase", dialect="duckdb", settings="pond:Quack", connector="pond:Missing", schemes=("quack",)
)
"""
NO_KIND = "WAREHOUSE = 1"
ENTRY = {"quackbase": "pond:WAREHOUSE"}


def load(folder: Path, driver: str) -> LoadedConfig:
    text = f"connections:\n  pond: {{driver: {driver}, path: x.db}}\n  shop: {{driver: sqlite, path: shop.sqlite}}\n"
    return load_config(folder / "ktx.yaml", data=text.encode())


def test_a_plug_in_is_a_driver_like_any_other(distribution: Distribution, tmp_path: Path) -> None:
    distribution("pond", ENTRY, QUACK)
    assert WAREHOUSES.names() == (*WAREHOUSES.built_in, "quackbase")
    assert drivers()[: len(WAREHOUSES.built_in) + 2] == (*WAREHOUSES.built_in, "quackbase", "dbt")
    loaded = load(tmp_path, "quackbase")
    assert type(loaded.config.connections["pond"]).__name__ == "Quack"
    connections = json_schema()["properties"]["connections"]["additionalProperties"]
    assert "quackbase" in connections["properties"]["driver"]["enum"]
    assert WAREHOUSES.problems() == []


BROKEN = [
    ("raise RuntimeError('no pond')", "RuntimeError: no pond"),
    ("import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
    ("", "AttributeError: module 'pond' has no attribute 'WAREHOUSE'"),
    (NO_KIND, "pond:WAREHOUSE is a int, not a ktx_cli.warehouses.Warehouse"),
    (QUACK.replace('driver="quackbase"', 'driver="other"'), "pond:WAREHOUSE has the driver `other`"),
    (QUACK.replace('"pond:Quack"', '"pond:Gone"'), "AttributeError: module 'pond' has no attribute 'Gone'"),
    (QUACK.replace('"pond:Quack"', '"pond:Literal"'), "pond:Literal is not a subclass of ktx_cli.project.Database"),
]


@pytest.mark.table(("code", "why"), BROKEN)
def test_a_broken_plug_in_costs_itself_alone(code: str, why: str, distribution: Distribution, tmp_path: Path) -> None:
    distribution("pond", ENTRY, code)
    with pytest.raises(PluginError) as caught:
        WAREHOUSES.find("quackbase")
    assert caught.value.message == f"the driver `quackbase` of the package `pond 1.2` cannot be loaded: {why}"
    assert caught.value.hint == "update the package, or remove it: pip uninstall pond"
    loaded = load(tmp_path, "quackbase")
    disabled = loaded.config.connections["pond"]
    assert isinstance(disabled, DisabledConnection)
    assert why in disabled.error().message
    assert loaded.config.connections["shop"].driver == "sqlite"
    assert [kind.driver for kind in WAREHOUSES.all()] == list(WAREHOUSES.built_in)
    connections = json_schema()["properties"]["connections"]["additionalProperties"]
    assert "quackbase" not in connections["properties"]["driver"]["enum"]
    assert [(each.code, each.message) for each in WAREHOUSES.problems()] == [("plugin", caught.value.message)]


@pytest.mark.parametrize("driver", ["sqlite", "postgres", "dbt"])
def test_a_plug_in_cannot_take_the_name_of_a_built_in_driver(driver: str, distribution: Distribution) -> None:
    model = model_of(driver)
    distribution("pond", {driver: "pond:WAREHOUSE"}, QUACK)
    assert model_of(driver) is model
    assert drivers().count(driver) == 1
    (problem,) = WAREHOUSES.problems()
    said = f"the package `pond 1.2` adds a driver `{driver}`, which is built into ktx; ktx uses the built-in driver"
    assert (problem.message, problem.hint) == (said, "pip uninstall pond")


def test_a_name_that_is_no_driver_is_refused(distribution: Distribution) -> None:
    distribution("pond", {"Quack Base": "pond:WAREHOUSE"}, QUACK)
    assert WAREHOUSES.names() == WAREHOUSES.built_in
    (problem,) = WAREHOUSES.problems()
    assert "adds a driver `Quack Base`, which is not a valid driver name" in problem.message


def test_two_packages_with_the_same_driver_are_both_refused(distribution: Distribution) -> None:
    distribution("pond", ENTRY, QUACK)
    distribution("lake", ENTRY, QUACK)
    with pytest.raises(PluginError, match="more than one package adds the driver `quackbase`") as caught:
        WAREHOUSES.find("quackbase")
    assert "`lake 1.2`, `pond 1.2`" in caught.value.message
    assert WAREHOUSES.all() and len(WAREHOUSES.problems()) == 1


def test_a_connector_that_cannot_be_imported_names_its_package(distribution: Distribution) -> None:
    distribution("pond", ENTRY, QUACK)
    with pytest.raises(ConfigError, match=r"package `pond 1\.2` cannot be loaded: `connector` refers to pond:Mis"):
        connect(ConnectionSpec("x", "quackbase", {"path": "x.db"}))


def test_a_driver_of_the_typescript_ktx_can_be_a_plug_in(distribution: Distribution, tmp_path: Path) -> None:
    distribution("pond", {"sigma": "pond:WAREHOUSE"}, QUACK.replace("quackbase", "sigma"))
    assert load(tmp_path, "sigma").config.connections["pond"].driver == "sigma"


def test_doctor_says_what_is_wrong_with_a_plug_in(distribution: Distribution, tmp_path: Path) -> None:
    distribution("pond", {"sqlite": "pond:WAREHOUSE", "quackbase": "pond:WAREHOUSE"}, NO_KIND)
    context: Any = SimpleNamespace(loaded=load(tmp_path, "sqlite"))
    found = [(finding.level, finding.message.partition(",")[0], finding.hint) for finding in check_extras(context)]
    assert found == [
        (Level.WARN, "the package `pond 1.2` adds a driver `sqlite`", "pip uninstall pond"),
        (
            Level.WARN,
            "the driver `quackbase` of the package `pond 1.2` cannot be loaded: pond:WAREHOUSE is a int",
            "update the package, or remove it: pip uninstall pond",
        ),
    ]


def test_setup_asks_a_question_of_the_plug_ins_own(distribution: Distribution) -> None:
    own = 'questions=(Question("path", required=True), Question("wing", key="wing", text="Wing", secret=True),)'
    code = QUACK.replace('schemes=("quack",)', own).replace('    "A pond."', '    "A pond."\n    wing: str = ""')
    distribution("pond", ENTRY, "from ktx_cli.project import Question\n" + code)
    words = words_of("quackbase", DATABASE_WORDS)
    assert words[:-1] == DATABASE_WORDS
    assert words[-1] == Word("wing", ("wing",), "Wing", secret=True)
    given = fields_of("quackbase", {"path": "x.db", "wing": "left"}, words, flag="--database-")
    assert given == {"driver": "quackbase", "path": "x.db", "wing": "left"}
    assert list(ordered({"wing": "left", "path": "x.db", "driver": "quackbase"})) == ["driver", "path", "wing"]


def test_built_in_drivers_read_no_entry_points(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ktx_cli.project.config.file import load_config\n"
        "from ktx_cli.project.plugins import _entry_points\n"
        "text = b'connections: {a: {driver: sqlite, path: x}, b: {driver: dbt, source_dir: y}}'\n"
        "assert not load_config(Path('ktx.yaml'), data=text).config.disabled()\n"
        "print(_entry_points.cache_info().misses, 'ktx_cli.warehouses.postgres' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "0 False"


def test_the_groups_have_no_name_in_common() -> None:
    assert not set(WAREHOUSES.built_in) & set(SOURCES.built_in)
