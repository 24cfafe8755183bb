"""The dbt project, the handbook and the query history of a company: what they settle, and what they do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from ktx_cli.core import yaml
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.proof.company.company import WAREHOUSE_ID, Company
from ktx_cli.jobs.proof.company.conventions import Convention, SettledBy
from ktx_cli.jobs.proof.company.questions import FACTS, Shape, statement, touches
from ktx_cli.project import CONFIG_NAME, Repository, load_config
from ktx_cli.semantic import DecisionKind
from ktx_cli.sources.query_history.readers import read_sql_files

UNSETTLED = (SettledBy.DATA, SettledBy.NOTHING)
CALL = re.compile(r"\{\{ (ref|source)\('(\w+)'(?:, '(\w+)')?\) \}\}")


def models(company: Company) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted((company.folder / "dbt" / "models").rglob("*.sql"))}


def compiled(name: str, texts: dict[str, str]) -> str:
    def called(match: re.Match[str]) -> str:
        return f"({compiled(match[2], texts)})" if match[1] == "ref" else f"{match[2]}.{match[3]}"

    return CALL.sub(called, texts[name].replace("{{ config(materialized='view') }}", ""))


def rules(text: str) -> Iterator[str]:
    """Yield the lines of a model that say more than the name of a column."""
    yield from (line for line in text.splitlines() if not re.fullmatch(r"    (\w+\.)?\w+,?", line))


def test_every_model_runs_and_views_are_in_the_warehouse(company: Company) -> None:
    texts = models(company)
    assert {name for name in texts if name.startswith("stg_")} and len(texts) >= 40
    with duckdb.connect(company.warehouse, read_only=True) as database:
        for name in texts:
            assert database.execute(f"SELECT count(*) FROM ({compiled(name, texts)})").fetchall()[0][0] > 0, name
        found = database.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    assert {view for (view,) in found} == {name for name, text in texts.items() if "materialized='view'" in text}
    declared = yaml.load((company.folder / "dbt/models/schema.yml").read_text(), where="schema.yml")["models"]
    assert {each["name"] for each in declared} == set(texts)


def test_sources_name_every_table(company: Company) -> None:
    sources = yaml.load((company.folder / "dbt/models/sources.yml").read_text(), where="sources.yml")["sources"]
    named = {f"{source['schema']}.{table['name']}" for source in sources for table in source["tables"]}
    assert named == {str(table) for table in company.plan.tables}


def test_models_follow_what_only_their_sql_settles(company: Company) -> None:
    for each in company.switched_on:
        if each.settled_by is SettledBy.SQL:
            text = (company.folder / each.place).read_text()
            functions = {"sum", "count", "coalesce", "avg", "round", "min"}
            names = set(re.findall(r"[a-z]\w+|INTERVAL \d+ MONTH", each.statement)) - functions
            assert any(re.search(rf"\b{name}\b", line) for name in names for line in rules(text)), each.id


def test_no_model_follows_what_is_settled_elsewhere(company: Company) -> None:
    texts = models(company)
    for each in company.switched_on:
        if each.settled_by is not SettledBy.SQL and each.kind not in (DecisionKind.STAFF, DecisionKind.UNIT):
            table = each.table.partition(".")[2]
            said = [
                line for name in (f"stg_{table}", f"fct_{table}") for line in rules(CALL.sub("", texts.get(name, "")))
            ]
            for column in each.columns:
                assert not any(re.search(rf"\b{column}\b", line) for line in said), each.id


def test_the_rows_of_a_mart_are_those_that_the_truth_counts(companies: Callable[[int], Company]) -> None:
    checked = 0
    for company in map(companies, (1, 2, 3)):
        texts = models(company)
        with duckdb.connect(company.warehouse, read_only=True) as database:
            for fact in FACTS:
                table = company.plan.of(fact.table)
                measure, key = fact.measures[0], table.key
                on = [each for each in company.switched_on if touches(each, fact, measure, Shape())]
                if key is None or not on or any(each.settled_by is not SettledBy.SQL for each in on):
                    continue
                truth = statement(company.plan, fact, measure, Shape(), on, {each.id: each.truth for each in on})
                value = measure.id if any(each.readings[each.truth].value for each in on) else measure.value.strip("{}")
                column = getattr(table.names, value, value)
                mart = f"SELECT {measure.aggregate.format(column)} FROM ({compiled(f'fct_{table.name}', texts)})"
                assert database.execute(mart).fetchall() == database.execute(truth).fetchall(), (company.seed, mart)
                checked += 1
    assert checked >= 3


def handbook(company: Company) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((company.folder / "handbook").glob("*.md"))}


def sentence(convention: Convention) -> str:
    return convention.readings[convention.truth].sentence


def test_the_handbook_states_what_documents_settle_and_nothing_else(company: Company) -> None:
    pages = handbook(company)
    assert 20 <= len(pages) <= 30
    for each in company.switched_on:
        stating = [name for name, text in pages.items() if f"- {sentence(each)}" in text]
        if each.settled_by is SettledBy.DOCUMENT:
            assert [f"handbook/{name}" for name in stating] == [each.place], each.id
            assert each.statement == sentence(each)
        else:
            assert stating == [], each.id


def test_one_page_is_superseded_and_notes_contradict_another(company: Company) -> None:
    pages = handbook(company)
    stated = [each for each in company.switched_on if each.settled_by is SettledBy.DOCUMENT]
    others = {each.id: [each.readings[one].sentence for one in each.wrong] for each in stated}
    (old,) = (text for text in pages.values() if "status: superseded" in text)
    notes = pages["notes-2023-02.md"]
    denied = [key for key, texts in others.items() if any(text in old for text in texts)]
    doubted = [key for key, texts in others.items() if any(text in notes for text in texts)]
    assert len(denied) == len(doubted) == 1 and denied != doubted


def test_links_of_the_handbook_work_and_every_page_has_a_date(company: Company) -> None:
    pages = handbook(company)
    for name, text in pages.items():
        assert set(re.findall(r"\]\(([\w.-]+)\)", text)) <= set(pages), name
        assert name == "README.md" or re.search(r"^(date|last_reviewed): 20\d\d-\d\d-\d\d$", text, re.MULTILINE), name
    assert set(re.findall(r"\]\(([\w.-]+)\)", pages["README.md"])) == set(pages) - {"README.md"}


def test_the_history_runs_and_neither_answers_a_question_nor_settles_a_convention(company: Company) -> None:
    path = company.folder / "queries/history.sql"
    history = read_sql_files(path, "history.sql", dialect="duckdb", executions=1)
    assert len(history.observations) >= 20
    assert all(each.user and each.executions for each in history.observations)
    truths = {each.truth for each in company.questions}
    quiet = {column for each in company.switched_on if each.settled_by in UNSETTLED for column in each.columns}
    with duckdb.connect(company.warehouse, read_only=True) as database:
        for each in history.observations:
            statement = "\n".join(line for line in each.text.splitlines() if not line.startswith("--"))
            assert statement not in truths
            database.execute(statement)
            conditions = [line for line in statement.splitlines() if line.startswith(("WHERE", "AND"))]
            unsettled = [column for column in quiet for line in conditions if re.search(rf"\.{column}\b", line)]
            assert not unsettled or not_of(company, unsettled, statement)


def not_of(company: Company, columns: list[str], statement: str) -> bool:
    """Say whether the columns of a statement only share their names with those of unsettled conventions."""
    unsettled = [each for each in company.switched_on if each.settled_by in UNSETTLED]
    tables = {each.table for each in unsettled if set(each.columns) & set(columns)}
    return not any(re.search(rf"\b{re.escape(table)}\b", statement) for table in tables)


@pytest.mark.slow
def test_ingest_builds_the_context_without_a_model(company: Company) -> None:
    Repository.create(company.folder)
    report, _ = ingest(IngestRequest(company.folder, {}))
    assert report.error() is None
    assert len(load_config(company.folder / CONFIG_NAME).config.connections) == 3
    layer = list(Path(company.folder / "semantic-layer" / WAREHOUSE_ID).rglob("*.yaml"))
    assert layer
