"""Policies fail closed: while a file that says who sees what is broken, nothing it could have protected is shown.

Every kind of broken file is tried on every way to the rows, at a server that was at work before and goes on after.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.agent_tools.searcher import contents_of, search
from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.agent_tools.toolset import tools_for
from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.health.search_facts import index_facts, quick_signatures
from ktx_cli.jobs.index import index_project
from ktx_cli.jobs.semantic.question import Question, ask_layer
from ktx_cli.jobs.semantic.sql import run_sql
from ktx_cli.jobs.semantic.validate import validate_layers
from ktx_cli.llm.tools import check_tools, invoke
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout, WorkingTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.scan.snapshot import manifest_text, table_file
from ktx_cli.search.corpus import Scope
from ktx_cli.semantic.guarded import stray_problems
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from tests.mcp.conftest import Company

CANARY = "CANARY"
SHARD = """\
tables:
  people:
    table: people
    columns:
      - {name: id, type: number, pk: true}
      - {name: region, type: string}
      - {name: note, type: string}
      - {name: ssn, type: string}
    measures: [{name: headcount, expr: count(*)}]
  pv:
    table: pv
    columns: [{name: s, type: string}]
  open:
    table: open
    columns: [{name: id, type: number, pk: true}, {name: colour, type: string}]
    measures: [{name: things, expr: count(*)}]
"""
POLICY = "policies: [{name: own, filter: \"region = 'EU'\"}]\n"
HIDING = "column_overrides: [{name: ssn, visibility: hidden}]\n"
SOUND = f"name: people\n{HIDING}{POLICY}"
ROWS = f"""
CREATE TABLE people (id INTEGER, region TEXT, note TEXT, ssn TEXT);
INSERT INTO people VALUES (1, 'EU', 'quiet', '{CANARY}-1'), (2, 'US', '{CANARY}-loud', '{CANARY}-2');
CREATE TABLE open (id INTEGER, colour TEXT);
INSERT INTO open VALUES (1, 'blue');
CREATE VIEW pv AS SELECT ssn AS s FROM people;
"""
OVERLAY = "semantic-layer/shop/rules.yaml"

TEXTS = {
    "yaml error": f"name: people\n{HIDING}{POLICY}measures: [\n",
    "merge markers": f"name: people\n<<<<<<< HEAD\n{HIDING}=======\n{POLICY}>>>>>>> other\n",
    "merge markers around the name": (
        f"<<<<<<< HEAD\nname: people\n=======\nname: open\n>>>>>>> other\n{HIDING}{POLICY}"
    ),
    "latin-1": f"name: people\ndescriptions: {{user: caf\xe9}}\n{HIDING}{POLICY}".encode("latin-1"),
    "utf-16 without a mark": SOUND.encode("utf-16-le"),
    "a null byte": SOUND.encode() + b"\0",
    "two documents": f"{SOUND}---\nname: open\n",
    "a name twice": f"name: people\n{SOUND}",
    "a list": f"- name: people\n  {HIDING}  {POLICY}",
    "a text": "name people policies",
    "no name": f"{HIDING}{POLICY}",
    "a name of nothing": f"name: peple\n{HIDING}{POLICY}",
    "a name in other letters": f"Name: people\n{HIDING}{POLICY}",
    "a name that is a number": f"name: 5\n{HIDING}{POLICY}",
    "policy": f"name: people\n{HIDING}{POLICY.replace('policies', 'policy')}",
    "polices": f"name: people\n{HIDING}{POLICY.replace('policies', 'polices')}",
    "row_policies": f"name: people\n{HIDING}{POLICY.replace('policies', 'row_policies')}",
    "column_override": f"name: people\n{HIDING.replace('overrides', 'override')}{POLICY}",
    "overrides below another key": f"name: people\nchanges:\n  {HIDING}{POLICY}",
    "visiblity": f"name: people\n{HIDING.replace('visibility', 'visiblity')}{POLICY}",
    "hidden: true": f"name: people\n{HIDING.replace('visibility: hidden', 'hidden: true')}{POLICY}",
    "visibility below descriptions": (
        f"name: people\ncolumn_overrides: [{{name: ssn, descriptions: {{visibility: hidden}}}}]\n{POLICY}"
    ),
    "hidden below columns": f"name: people\ncolumns: [{{name: ssn, visibility: hidden}}]\n{POLICY}",
    "hidden below columns with an expr": (
        f"name: people\ncolumns: [{{name: ssn, type: string, expr: ssn, visibility: hidden}}]\n{POLICY}"
    ),
    "a column that is not there": f"name: people\n{HIDING.replace('ssn', 'snn')}{POLICY}",
    "an override of a type": f"name: people\n{HIDING.replace('visibility', 'type: string, visibility')}{POLICY}",
    "an override of each visibility": (
        "name: people\ncolumn_overrides: [{name: ssn, visibility: hidden}, {name: ssn, visibility: public}]\n" + POLICY
    ),
    "an override in other letters": (
        "name: people\ncolumn_overrides: [{name: SSN, visibility: hidden}, {name: ssn, descriptions: {user: x}},"
        " {name: ssn, visibility: public}]\n" + POLICY
    ),
    "masked: true": f"name: people\n{HIDING.replace('visibility: hidden', 'masked: true')}{POLICY}",
    "mask without a value": f"name: people\n{HIDING.replace('visibility: hidden', 'mask: ')}{POLICY}",
    "mask of a text": f"name: people\n{HIDING.replace('visibility: hidden', 'mask: support')}{POLICY}",
    "mask with another key": f"name: people\n{HIDING.replace('visibility: hidden', 'mask: {except: 1}')}{POLICY}",
    "mask below constraints": (
        f"name: people\ncolumn_overrides: [{{name: ssn, constraints: {{mask: {{unless: {{a: [b]}}}}}}}}]\n{POLICY}"
    ),
    "two masks": "name: people\ncolumn_overrides: [{name: ssn, mask: {}}, {name: ssn, mask: {value: x}}]\n" + POLICY,
    "rls": f"name: people\n{HIDING}{POLICY.replace('policies', 'rls')}",
    "policies without a value": f"name: people\n{HIDING}policies:\n",
    "policies without a value, and a comment": f"name: people\n{HIDING}policies: # below\n#  - name: own\n",
    "policies of null": f"name: people\n{HIDING}policies: null\n",
    "policy without a value": f"name: people\n{HIDING}policy:\n",
    "visibility without a value": f"name: people\n{HIDING.replace('hidden', '')}{POLICY}",
    "visibility of the source without a value": f"name: people\nvisibility: ~\n{POLICY}",
    "visibility without a value, and another": (
        "name: people\ncolumn_overrides: [{name: ssn, visibility: }, {name: ssn, visibility: public}]\n" + POLICY
    ),
    "policies no list": f"name: people\n{HIDING}policies: {{name: own, filter: \"region = 'EU'\"}}\n",
    "policies a text": f"name: people\n{HIDING}policies: region = 'EU'\n",
    "unknown key in a policy": f"name: people\n{HIDING}{POLICY.replace('filter', 'fitler')}",
    "one more key in a policy": f"name: people\n{HIDING}{POLICY.replace('}]', ', more: 1}]')}",
    "two policies of a name": f"name: people\n{HIDING}policies: [{{name: p, filter: a}}, {{name: p, filter: b}}]\n",
    "unknown key beside": f"name: people\n{HIDING}{POLICY}zzz: 1\n",
    "a forbidden key beside": f"name: people\n{HIDING}{POLICY}description: x\n",
    "a broken measure beside": f"name: people\n{HIDING}{POLICY}measures: [{{name: m}}]\n",
}


def _put(content: str | bytes) -> Callable[[Company], None]:
    def break_it(company: Company) -> None:
        path = company.folder / OVERLAY
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return break_it


def _second_file(company: Company) -> None:
    company.write("semantic-layer/shop/second.yaml", "name: people\n")


def _second_in_other_case(company: Company) -> None:
    company.write(
        "semantic-layer/shop/second.yaml", "name: People\ncolumn_overrides: [{name: ssn, visibility: public}]\n"
    )


def _broken_beside(company: Company) -> None:
    company.write("semantic-layer/shop/second.yaml", "columns: [{name: ssn, visibility: hidden}\n")


def _fifo(company: Company) -> None:
    (company.folder / OVERLAY).unlink()
    os.mkfifo(company.folder / OVERLAY)


def _folder(company: Company) -> None:
    (company.folder / OVERLAY).unlink()
    (company.folder / OVERLAY).mkdir()


def _dangling(company: Company) -> None:
    (company.folder / OVERLAY).unlink()
    (company.folder / OVERLAY).symlink_to("nowhere.yaml")


def _out_of_the_project(company: Company) -> None:
    outside = company.folder.parent / "outside.yaml"
    outside.write_text(SOUND)
    (company.folder / OVERLAY).unlink()
    (company.folder / OVERLAY).symlink_to(outside)


def _dangling_folder(company: Company) -> None:
    folder = company.folder / "semantic-layer" / "shop"
    folder.rename(folder.with_name("away"))
    folder.symlink_to("nowhere")


def _among_the_shards(company: Company) -> None:
    (company.folder / OVERLAY).rename(company.folder / "semantic-layer/shop/_schema/rules.yaml")


def _in_capitals(company: Company) -> None:
    (company.folder / OVERLAY).rename(company.folder / OVERLAY.replace(".yaml", ".YAML"))


def _moved_to(path: str) -> Callable[[Company], None]:
    def move(company: Company) -> None:
        place = company.folder / "semantic-layer" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        (company.folder / OVERLAY).rename(place)

    return move


def _connection_renamed(company: Company) -> None:
    """Rename it as people do, and scan again: what the scan writes is under the new name, their own files are not."""
    for folder in ("semantic-layer", "raw-sources"):
        shutil.copytree(company.folder / folder / "shop", company.folder / folder / "store")
    (company.folder / OVERLAY.replace("shop", "store")).unlink()
    manifest = company.folder / "raw-sources/store/live-database/manifest.yaml"
    manifest.write_text(manifest.read_text().replace("shop", "store"))
    config = company.folder / "ktx.yaml"
    config.write_text(config.read_text().replace("  shop:", "  store:"))
    company.lists(*_lists(), privacy="off", connection="store")


def _broken_in_no_folder(company: Company) -> None:
    (company.folder / OVERLAY).unlink()
    company.write("semantic-layer/old/rules.yaml", f"name: people\n{HIDING}{POLICY}measures: [\n")


def _pipe_in_no_folder(company: Company) -> None:
    (company.folder / OVERLAY).unlink()
    (company.folder / "semantic-layer/old").mkdir()
    os.mkfifo(company.folder / "semantic-layer/old/rules.yaml")


def _shard_in_no_folder(company: Company) -> None:
    (company.folder / OVERLAY).unlink()
    text = SHARD.replace("{name: ssn, type: string}", "{name: ssn, type: string, visibility: hidden}")
    company.write(
        "semantic-layer/old/_schema/main.yaml", text.replace("    measures:", f"    {POLICY}    measures:", 1)
    )


def _shard(company: Company) -> None:
    company.write("semantic-layer/shop/_schema/main.yaml", SHARD.replace("tables:", "<<<<<<< HEAD\ntables:"))


STRAYS: dict[str, Callable[[Company], None]] = {
    "a renamed connection": _connection_renamed,
    "moved beside the folders": _moved_to("rules.yaml"),
    "moved to a folder of other letters": _moved_to("Shop/rules.yaml"),
    "moved to a folder of no connection": _moved_to("old/deep/rules.YML"),
    "a yaml error in a folder of no connection": _broken_in_no_folder,
    "a pipe in a folder of no connection": _pipe_in_no_folder,
    "a shard in a folder of no connection": _shard_in_no_folder,
}
KINDS: dict[str, Callable[[Company], None]] = {
    **{name: _put(text) for name, text in TEXTS.items()},
    "a second file of the name": _second_file,
    "a second file of the name in other case": _second_in_other_case,
    "another file that cannot be read": _broken_beside,
    "a pipe": _fifo,
    "a folder": _folder,
    "a link that leads nowhere": _dangling,
    "a link out of the project": _out_of_the_project,
    "the folder is a link that leads nowhere": _dangling_folder,
    "moved among the shards": _among_the_shards,
    "renamed in capitals": _in_capitals,
    "a broken shard": _shard,
    **STRAYS,
}
STATEMENTS = (
    "SELECT ssn FROM people",
    "SELECT note FROM people",
    "SELECT * FROM people",
    "SELECT s FROM pv",
    "SELECT p.note FROM main.people AS p WHERE p.region = 'US'",
)
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"measures": ["people.headcount"], "dimensions": ["people.ssn"]},
    {"measures": ["people.headcount"], "dimensions": ["people.note"]},
    {"measures": [{"expr": "max(people.ssn)", "name": "m"}]},
    {"dimensions": ["people.note"]},
)
SERVED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("discover_data", {"query": CANARY}),
    ("context_pack", {"question": f"how many people have the note {CANARY}, by ssn", "budget": 32_000}),
    ("discover_data", {"query": "ssn note people", "kinds": ["value"]}),
    ("dictionary_search", {"values": [CANARY, "loud"]}),
    ("entity_details", {"targets": ["people", "people.ssn", "people.note", "pv", "pv.s"]}),
    ("sl_read_source", {"source": "people"}),
    ("sl_read_source", {"source": "people", "form": "files"}),
    ("sl_list", {}),
    ("sl_validate", {"data": True}),
)
TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("discover_data", {"query": f"{CANARY} people ssn"}),
    ("entity_details", {"targets": ["people", "pv"]}),
    ("sl_discover", {"source": "people"}),
    ("sl_read_source", {"source": "people"}),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the project in order; each test gets a copy."""
    made = Company(tmp_path_factory.mktemp("guarded"))
    made.write("ktx.yaml", "connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\nscan: {privacy: 'off'}\n")
    made.run(ROWS)
    made.write("semantic-layer/shop/_schema/main.yaml", SHARD)
    made.write(OVERLAY, SOUND)
    column = Column("id", "INTEGER", SemanticType.NUMBER)
    tables = [Table(TableRef(None, name), TableKind.TABLE, (column,)) for name in ("people", "open")]
    view = Table(
        TableRef(None, "pv"), TableKind.VIEW, (column,), view_sql="CREATE VIEW pv AS SELECT ssn AS s FROM people"
    )
    files = [table_file(each) for each in (*tables, view)]
    for each in files:
        made.write(f"raw-sources/shop/live-database/{each.path}", each.content.decode())
    listing = manifest_text("shop", "sqlite", {f.path: f.sha256 for f in files})
    made.write("raw-sources/shop/live-database/manifest.yaml", listing)
    made.lists(*_lists(), privacy="off")
    made.close()
    return made.folder


@pytest.fixture
def guarded(tmp_path: Path, sound: Path) -> Iterator[Company]:
    made = Company(tmp_path / "project")
    shutil.copytree(sound, made.folder)
    yield made
    made.close()


def _lists() -> list[ColumnValues]:
    values = {("people", "ssn"): f"{CANARY}-1", ("people", "note"): f"{CANARY}-loud", ("pv", "s"): f"{CANARY}-1"}
    lists = [ColumnValues(TableRef(None, table), name, ((v, 1),), True) for (table, name), v in values.items()]
    return [*lists, ColumnValues(TableRef(None, "open"), "colour", (("blue", 1),), True)]


@dataclass(frozen=True)
class Asked:
    """What is asked of a project on each way that takes it."""

    statements: tuple[str, ...] = STATEMENTS
    questions: tuple[dict[str, Any], ...] = QUESTIONS
    served: tuple[tuple[str, dict[str, Any]], ...] = SERVED
    tools: tuple[tuple[str, dict[str, Any]], ...] = TOOLS


def _asked(kind: str) -> Asked:
    """Return all there is to ask with KTX_TEST_FULL; by default the kinds of broken files take it in turns."""
    if os.environ.get("KTX_TEST_FULL"):
        return Asked()
    at = list(KINDS).index(kind) % 2
    return Asked(STATEMENTS[at::2], QUESTIONS[at::2], SERVED[at::2], TOOLS[at::2])


def _served(company: Company, asked: Asked) -> Iterator[tuple[str, str]]:
    statements = (("sql_execution", {"sql": each}) for each in asked.statements)
    questions = ((tool, each) for tool in ("sl_query", "sl_explain") for each in asked.questions)

    async def ask(client: Any) -> list[tuple[str, str]]:
        found = []
        for name, arguments in (*statements, *questions, *asked.served):
            result = await client.call_tool(name, arguments)
            found.append((f"mcp {name} {json.dumps(arguments)}", "".join(each.text for each in result.content)))
        return found

    yield from company.client(ask)


def _loop(company: Company, asked: Asked) -> Iterator[tuple[str, str]]:
    """Yield what the tools of an agent's loop tell."""
    layout = Layout(company.folder)
    config = load_config(layout.config).config
    lists = {(each.ref.name, each.column): tuple(value for value, _ in each.values) for each in _lists()}

    def run(connection: str, sql: str, most: int) -> Any:
        from ktx_cli.warehouses.port import QueryResult

        told = run_sql(layout, config, sql, environ={}, connection=connection, max_rows=most)
        return QueryResult(told.columns, told.rows)

    def values(connection: str, source: Any) -> dict[str, Any]:
        return {column: found for (table, column), found in lists.items() if source.table[-1] == table}

    session = ToolSession(
        Workspace(WorkingTree(company.folder)),
        dict.fromkeys(config.databases(), "sqlite"),
        privacy="off",
        run_sql=run,
        values=values,
    )
    tools = check_tools(tools_for(session, "unit"))
    statements = (("sql_execution", {"sql": each}) for each in asked.statements)
    for name, arguments in (*statements, *asked.tools):
        done = asyncio.run(invoke(tools, name, arguments, "c"))
        yield f"tool {name} {json.dumps(arguments)}", done.text


def _commands(company: Company, asked: Asked) -> Iterator[tuple[str, str]]:
    """Yield what `ktx sl query` and `ktx search` tell."""
    layout = Layout(company.folder)
    config = load_config(layout.config).config
    for each in asked.questions:
        try:
            told = ask_layer(layout, config, Question(each), environ={})
        except KtxError as error:
            yield f"sl query {each}", f"{error.message} {error.hint}"
        else:
            yield f"sl query {each}", json.dumps(told.to_json(), default=str)
    kinds: tuple[str, ...]
    for query, kinds in (("loud", ()), ("people ssn note", ("value",))):
        try:
            found = search(layout, config, query, environ={}, scope=Scope(kinds))
        except KtxError as error:
            yield f"search {query}", error.message
        else:
            yield f"search {query}", json.dumps([hit.to_json() for hit in found.found.hits])


def _leaks(company: Company, asked: Asked = Asked()) -> list[str]:
    told = [each for way in (_served, _loop, _commands) for each in way(company, asked)]
    return [f"{what}: {text[:300]}" for what, text in told if f"{CANARY}-" in text]  # questions name it without a dash


def _state(company: Company) -> tuple[bool, bool]:
    """Return whether the protected source answers at all, and whether raw SQL on an open table does."""
    reply = company.call("sl_query", {"measures": ["people.headcount"], "dimensions": ["people.note"]})
    raw = company.call("sql_execution", {"sql": "SELECT colour FROM open"})
    return reply.error is None and reply.data["rows"] == [["quiet", 1]], raw.error is None


def test_a_sound_project_answers_and_shows_nothing_hidden(guarded: Company) -> None:
    assert _state(guarded) == (True, True)
    assert _leaks(guarded) == []
    layout = Layout(guarded.folder)
    index_project(layout, load_config(layout.config).config, {}, warn=lambda _: None)
    assert _leaks(guarded) == []


IN_TURNS = [pytest.param(kind, marks=pytest.mark.slow) if number % 3 else kind for number, kind in enumerate(KINDS)]
"""One kind in three by default; the others with the sweeps."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", IN_TURNS)
def test_nothing_it_could_have_protected_is_shown(guarded: Company, kind: str) -> None:
    assert _state(guarded) == (True, True), "what it keeps of a sound file is there before the file breaks"
    KINDS[kind](guarded)
    assert _leaks(guarded, _asked(kind)) == []
    layout = Layout(guarded.folder)
    raw = run_sql(layout, load_config(layout.config).config, "SELECT ssn FROM people", environ={})
    assert len(raw.rows) == 2, "`ktx sql` is a person's own, and knows no policies"


@pytest.mark.parametrize("kind", ["yaml error", "policy", "latin-1", "a name of nothing", "a pipe", "two documents"])
def test_a_server_at_work_goes_on_when_the_file_is_sound_again(guarded: Company, kind: str) -> None:
    for _ in range(2):
        assert _state(guarded) == (True, True)
        KINDS[kind](guarded)
        assert not _state(guarded)[0]
        (guarded.folder / OVERLAY).unlink()
        guarded.write(OVERLAY, SOUND)
    assert _state(guarded) == (True, True)


@pytest.mark.parametrize("kind", ["yaml error", "policy", "unknown key in a policy", "hidden below columns"])
def test_a_file_whose_source_is_known_locks_nothing_else(guarded: Company, kind: str) -> None:
    KINDS[kind](guarded)
    assert guarded.call("sql_execution", {"sql": "SELECT colour FROM open"}).data["rows"] == [["blue"]]
    assert guarded.call("sl_query", {"measures": ["open.things"]}).data["rows"] == [[1]]
    assert "blue" in guarded.call("dictionary_search", {"values": ["blue"]}).text


@pytest.mark.parametrize("kind", ["a name of nothing", "no name", "a pipe", "utf-16 without a mark"])
def test_a_file_that_may_be_about_anything_locks_the_connection_and_says_so(guarded: Company, kind: str) -> None:
    KINDS[kind](guarded)
    error = guarded.call("sql_execution", {"sql": "SELECT colour FROM open"}).error
    assert error is not None and error["code"] == "hidden"
    assert "the semantic layer has errors" in error["message"] and OVERLAY in error["message"]
    assert "ktx sl validate -c shop" in error["hint"]
    assert guarded.call("sl_query", {"measures": ["open.things"]}).error is not None


@pytest.mark.table(
    "text",
    [
        "name: open\nsegments: [{name: m}]\n",
        "name: open\nzzz: 1\n",
        "name: open\ncolumn_overrides: [{name: nothing, role: default}]\n",
        "name: nothing\nmeasures: [{name: m, expr: count(*)}]\n",
        "measures: []\n",
        "",
    ],
)
def test_a_file_that_protects_nothing_locks_nobody_out(guarded: Company, text: str) -> None:
    guarded.write("semantic-layer/shop/other.yaml", text)
    assert guarded.call("sql_execution", {"sql": "SELECT colour FROM open"}).data["rows"] == [["blue"]]
    assert guarded.call("sl_query", {"measures": ["open.things"]}).data["rows"] == [[1]]
    assert _state(guarded) == (True, True)


def test_a_source_that_inherits_from_a_broken_one_is_not_shown(guarded: Company) -> None:
    text = "name: copy\ntable: people\ngrain: [id]\ncolumns: [{name: id}, {name: ssn}]\ninherits_columns_from: people\n"
    guarded.write("semantic-layer/shop/copy.yaml", text)
    asked = {"dimensions": ["copy.ssn"]}
    assert CANARY not in guarded.call("sl_query", asked).text
    KINDS["policy"](guarded)
    assert CANARY not in guarded.call("sl_query", asked).text
    KINDS["a folder"](guarded)
    assert CANARY not in guarded.call("sl_query", asked).text


def test_a_folder_that_cannot_be_listed_is_not_taken_for_empty(
    guarded: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path).endswith("semantic-layer/shop"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    error = guarded.call("sql_execution", {"sql": "SELECT ssn FROM people"}).error
    assert error is not None and "Permission denied" in error["message"]


def test_lists_of_values_follow_views_and_policies(guarded: Company) -> None:
    """They were stored before: by a scan that saw a view which read nothing hidden then."""
    ask = {"values": [CANARY, "loud", "blue"]}
    assert [len(each["matches"]) for each in guarded.call("dictionary_search", ask).data["values"]] == [0, 0, 1]
    guarded.write(OVERLAY, "name: people\n")
    found = guarded.call("dictionary_search", ask).data["values"]
    assert {f"{m['source']}.{m['column']}" for m in found[0]["matches"]} == {"people.ssn", "people.note", "pv.s"}
    assert "pv.s = " in guarded.call("discover_data", {"query": f"{CANARY} 1", "kinds": ["value"]}).text
    assert f"{CANARY}-1" in guarded.call("entity_details", {"targets": ["pv"]}).text


@pytest.mark.parametrize("kind", STRAYS)
def test_a_file_of_no_connection_closes_raw_sql_until_it_is_moved(guarded: Company, kind: str) -> None:
    blue = {"sql": "SELECT colour FROM open"}
    assert guarded.call("sql_execution", blue).data["rows"] == [["blue"]]
    before = {path for path in (guarded.folder / "semantic-layer").rglob("*") if not path.is_dir()}
    STRAYS[kind](guarded)
    layout = Layout(guarded.folder)
    config = load_config(layout.config).config
    (problem,) = stray_problems(layout, config)
    error = guarded.call("sql_execution", blue).error
    assert error is not None and error["code"] == "hidden" and problem.path in error["message"]
    (database,) = config.databases()
    assert f"ktx sl validate -c {database}" in error["hint"]
    told = validate_layers(layout, config, environ={}, connection=database, data=False)
    assert [each.code for _, each in told.problems if each.severity == "error"] == ["no_connection"]
    assert f"semantic-layer/{database}/" in (problem.hint or "")
    asked = guarded.call("sl_query", {"measures": ["open.things"]})
    assert (asked.error is None) == (kind != "a pipe in a folder of no connection"), "only what it may be about"
    file = guarded.folder / problem.path
    assert file not in before or kind == "a renamed connection"
    file.unlink()
    guarded.write(f"semantic-layer/{database}/rules.yaml", SOUND)
    assert guarded.call("sql_execution", blue).data["rows"] == [["blue"]]
    assert _state(guarded) == (True, True)
    if kind in ("a renamed connection", "moved beside the folders"):
        assert _leaks(guarded) == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", STRAYS)
def test_an_index_that_was_written_before_shows_nothing_more(guarded: Company, kind: str) -> None:
    layout = Layout(guarded.folder)
    index_project(layout, load_config(layout.config).config, {}, warn=lambda _: None)
    assert _state(guarded) == (True, True)
    STRAYS[kind](guarded)
    assert _leaks(guarded) == []
    config = load_config(layout.config).config
    index_project(layout, config, {}, warn=lambda _: None)
    assert _leaks(guarded) == []
    assert index_facts(layout, config).state == "current"
    assert quick_signatures(layout, config, {}) == contents_of(layout, config).signatures()


@pytest.mark.table(
    ("path", "text"),
    [
        ("notes.md", POLICY),
        ("old/README", POLICY),
        ("rules.yaml", "name: people\nmeasures: [{name: m, expr: count(*)}]\n"),
        ("old/_schema/main.yaml", SHARD),
        ("off/rules.yaml", SOUND),
    ],
)
def test_what_protects_nothing_or_belongs_to_a_connection_closes_nothing(
    guarded: Company, path: str, text: str
) -> None:
    config = (guarded.folder / "ktx.yaml").read_text().partition("scan:")[0]
    guarded.write(
        "ktx.yaml", f"{config.partition('  off:')[0]}  off: {{driver: unheard_of}}\nscan: {{privacy: 'off'}}\n"
    )
    guarded.write(f"semantic-layer/{path}", text)
    assert list(load_config(guarded.folder / "ktx.yaml").config.disabled()) == ["off"]
    assert _state(guarded) == (True, True)


def test_a_link_to_a_folder_elsewhere_closes_raw_sql(guarded: Company) -> None:
    place = guarded.folder / "away/rules.yaml"
    place.parent.mkdir()
    (guarded.folder / OVERLAY).rename(place)
    (guarded.folder / "semantic-layer/old").symlink_to("../away")
    error = guarded.call("sql_execution", {"sql": "SELECT ssn FROM people"}).error
    assert error is not None and "semantic-layer/old/rules.yaml" in error["message"]
    place.unlink()
    place.parent.rmdir()
    error = guarded.call("sql_execution", {"sql": "SELECT ssn FROM people"}).error
    assert (
        error is not None
        and "semantic-layer/old is a symbolic link to a folder that does not exist" in error["message"]
    )


def test_every_database_is_closed(guarded: Company) -> None:
    config = (guarded.folder / "ktx.yaml").read_text()
    second = "connections:\n  other: {driver: sqlite, path: shop.sqlite}\n"
    guarded.write("ktx.yaml", config.replace("connections:\n", second))
    ask = {"sql": "SELECT ssn FROM people", "connection": "other"}
    assert CANARY in guarded.call("sql_execution", ask).text, "it has no layer, and nothing says that it is protected"
    (guarded.folder / OVERLAY).rename(guarded.folder / "semantic-layer/rules.yaml")
    for connection in ("shop", "other"):
        error = guarded.call("sql_execution", {**ask, "connection": connection}).error
        assert error is not None and "semantic-layer/rules.yaml" in error["message"]
    layout = Layout(guarded.folder)
    found = validate_layers(layout, load_config(layout.config).config, environ={}, data=False)
    assert [each.code for _, each in found.problems if each.severity == "error"] == ["no_connection"], "named once"
