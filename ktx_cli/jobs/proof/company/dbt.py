"""A company's dbt project: sources, staging models, marts, and rules that appear only in their SQL.

Staging models and marts with the rows of a fact are ephemeral; marts with figures are views in the warehouse. A model
follows what a model or the handbook settles, and passes on every column that anything else would need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.jobs.demo.people import Dice
from ktx_cli.jobs.proof.company.conventions import Convention, SettledBy
from ktx_cli.jobs.proof.company.core import company_name
from ktx_cli.jobs.proof.company.questions import FACTS, Fact, Measure, Shape, statement, touches
from ktx_cli.jobs.proof.company.warehouse import CompanyTable, Kind, MadeUpCompany, Role, resolve
from ktx_cli.semantic import DecisionKind

FOLDER: Final = "dbt"
VIEWS: Final = "marts"
"""The schema of the marts that are views."""

_IS: Final = {
    Role.FACT: "One row for each of the {words} that were recorded.",
    Role.ENTITY: "The {words} that we know, one row each.",
    Role.LOOKUP: "The list of {words}.",
    Role.STATES: "How {words} were at a time.",
    Role.BRIDGE: "Which belong together, of {words}.",
}


@dataclass(frozen=True, slots=True)
class DbtProject:
    """The project files by path, the warehouse views by name, and the files that follow each convention.

    `places`: the path of the model by the id of the convention. `models`: the models by name, ephemeral ones too.
    """

    files: Mapping[str, str]
    views: Mapping[str, str]
    places: Mapping[str, str]
    models: tuple[str, ...]


@dataclass(slots=True)
class _Writer:
    """Writes the models for one project."""

    company: MadeUpCompany
    conventions: Sequence[Convention]
    dice: Dice
    files: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    described: dict[str, str] = field(default_factory=dict)

    def followed(self, fact: Fact, measure: Measure | None = None) -> list[Convention]:
        """Return the statements of models about a fact and its measures, as SQL."""
        return [
            each
            for each in self.conventions
            if each.settled_by is SettledBy.SQL
            and each.kind is not DecisionKind.FISCAL_START
            and any(touches(each, fact, one, Shape(by="year")) for one in ((measure,) if measure else fact.measures))
        ]

    def source(self, sql: str) -> str:
        """Return SQL with the warehouse tables as calls of `source`."""
        names = "|".join(re.escape(str(each)) for each in self.company.tables)
        return re.sub(rf"(?<![\w.])({names})(?![\w.])", lambda match: _source(*match[1].split(".")), sql)

    def own_rules(self, concept: str) -> list[Convention]:
        """Return the models' conditions on which rows of a table count."""
        return [
            each
            for each in self.conventions
            if each.settled_by is SettledBy.SQL and each.plan.table == concept and each.readings[each.truth].filter
        ]

    def staging(self, fact: Fact) -> None:
        """Write a fact's staging model: its columns and, for some rules, a column that states which rows count."""
        table = self.company.of(fact.table)
        path = f"models/staging/stg_{table.name}.sql"
        columns = [each.name for each in table.columns]
        for each in self.own_rules(fact.table):
            if self.dice.chance(0.4) and each.kind is not DecisionKind.DUPLICATES:
                rule = resolve(each.readings[each.truth].filter, self.company, table)
                name = f"is_reported_{len(columns) - len(table.columns) + 1}".removesuffix("_1")
                columns.append(f"CASE WHEN {rule} THEN 1 ELSE 0 END AS {name}")
                self.places[each.id] = path
        self.files[path] = _model(columns, [f"FROM {_source(table.schema, table.name)}"])
        self.described[f"stg_{table.name}"] = f"{table.name.replace('_', ' ').capitalize()} as they were loaded."

    def rows(self, fact: Fact) -> None:
        """Write the mart with the rows of a fact."""
        table = self.company.of(fact.table)
        path = f"models/marts/fct_{table.name}.sql"
        rules = self.followed(fact)
        renamed = {each.id: name for each in rules if (name := _result(each, fact)) is not None}
        hidden = {
            column
            for each in rules
            for column in each.columns
            if each.plan.table == fact.table and each.kind not in (DecisionKind.UNIT, DecisionKind.NULLS)
        }
        hidden |= {
            getattr(table.names, one.value.strip("{}"))
            for each in rules
            if each.id in renamed and each.readings[each.truth].value
            for one in fact.measures
            if one.id == renamed[each.id]
        } - {table.key.name if table.key else ""}
        prefix = f"{fact.table}."
        columns = [f"{prefix}{each.name}" for each in table.columns if each.name not in hidden]
        conditions = []
        counters = 0
        for each in rules:
            reading = each.readings[each.truth]
            home = self.company.of(each.plan.table)
            value = reading.value or (reading.time if "$time" not in reading.time else "")
            if each.id in renamed and value:
                sql = resolve(value, self.company, home, prefix=f"{each.plan.table}.")
                columns.append(f"{self.source(sql)} AS {renamed[each.id]}")
            if reading.filter and self.places.get(each.id, "").startswith("models/staging/stg_" + table.name):
                counters += 1
                conditions.append(f"{prefix}is_reported{f'_{counters}' if counters > 1 else ''} = 1")
            elif reading.filter:
                sql = resolve(reading.filter, self.company, home, prefix=f"{each.plan.table}.")
                conditions.append(self.source(sql))
            if each.plan.table == fact.table:
                self.places.setdefault(each.id, path)
        reached = {each.plan.table for each in rules} - {fact.table}
        lines = [f"FROM {_ref(table)} AS {fact.table}", *self._joins(fact, reached)]
        lines += [f"{'  AND' if place else 'WHERE'} {each}" for place, each in enumerate(conditions)]
        self.files[path] = _model(list(dict.fromkeys(columns)), lines)
        self.described[f"fct_{table.name}"] = f"{table.name.replace('_', ' ').capitalize()} as they are reported."

    def _joins(self, fact: Fact, wanted: set[str]) -> Iterator[str]:
        before = fact.table
        for concept, reference in fact.path.items():
            if not wanted:
                return
            table = self.company.of(concept)
            key = table.key.name if table.key else ""
            column = getattr(self.company.of(before).names, reference)
            yield f"LEFT JOIN {_ref(table)} AS {concept} ON {concept}.{key} = {before}.{column}"
            before = concept
            wanted = wanted - {concept}

    def figures(self, fact: Fact, measure: Measure) -> None:
        """Write the mart for a measure as a view, if models settle everything that the measure depends on."""
        group = next(iter(fact.groups.items()), None)
        if group is None:
            return
        shape = Shape(group)
        on = [each for each in self.conventions if each.is_on and touches(each, fact, measure, shape)]
        if any(each.settled_by is not SettledBy.SQL for each in on):
            return
        sql = statement(self.company, fact, measure, shape, on, {each.id: each.truth for each in on})
        name = f"{measure.id}_by_{group[1].rpartition('.')[2]}"
        self.views[name] = sql
        self.files[f"models/marts/{name}.sql"] = f"{{{{ config(materialized='view') }}}}\n\n{self.source(sql)}\n"
        self.described[name] = f"One row for each {group[0]}."

    def fiscal(self) -> None:
        """Write the calendar with the fiscal year, if only models state when it begins."""
        for each in self.conventions:
            if each.kind is not DecisionKind.FISCAL_START or each.settled_by is not SettledBy.SQL or not each.is_on:
                continue
            days = self.company.of("dim_date")
            day = f"days.{days.names.day}"
            shifted = each.readings[each.truth].time.replace("$time", day)
            path = "models/marts/fiscal_days.sql"
            columns = [f"{day} AS day", f"extract(year FROM {shifted}) AS fiscal_year"]
            self.files[path] = _model(columns, [f"FROM {_source(days.schema, days.name)} AS days"])
            self.places[each.id] = path
            self.described["fiscal_days"] = "The fiscal year of each day."


def _result(convention: Convention, fact: Fact) -> str | None:
    """Return the name of the column that follows a reading with another value or date."""
    reading = convention.readings[convention.truth]
    if convention.plan.table != fact.table or not (reading.value or reading.time):
        return None
    if reading.time:
        return f"{fact.table}_day"
    return next((each.id for each in fact.measures if each.id in convention.plan.measures), None)


def write_dbt(company: MadeUpCompany, conventions: Sequence[Convention]) -> DbtProject:
    """Return the dbt project for a company."""
    on = [each for each in conventions if each.is_on]
    writer = _Writer(company, on, Dice(company.seed, "dbt"))
    for fact in FACTS:
        writer.staging(fact)
    for fact in FACTS:
        writer.rows(fact)
        for measure in fact.measures:
            writer.figures(fact, measure)
    writer.fiscal()
    for name, sql in _backdrop_views(company):
        writer.views[name] = sql
        writer.files[f"models/marts/{name}.sql"] = f"{{{{ config(materialized='view') }}}}\n\n{writer.source(sql)}\n"
        writer.described[name] = f"{name.replace('_', ' ').capitalize()}, one row each."
    project = re.sub(r"\W+", "_", company_name(company.seed).lower())
    files = {
        "dbt_project.yml": _PROJECT.format(name=project),
        "profiles.yml": _PROFILES.format(name=project, schema=VIEWS),
        "models/sources.yml": "\n".join(_sources(company, conventions)) + "\n",
        "models/schema.yml": "\n".join(_schema(writer)) + "\n",
        **writer.files,
    }
    places = {convention: f"{FOLDER}/{path}" for convention, path in writer.places.items()}
    return DbtProject(dict(sorted(files.items())), writer.views, places, tuple(sorted(writer.described)))


def _source(schema: str, name: str) -> str:
    return f"{{{{ source('{schema}', '{name}') }}}}"


def _ref(table: CompanyTable) -> str:
    return f"{{{{ ref('stg_{table.name}') }}}}"


def _model(columns: Sequence[str], lines: Iterable[str]) -> str:
    return "\n".join(["SELECT", ",\n".join(f"    {each}" for each in columns), *lines]) + "\n"


def _backdrop_views(company: MadeUpCompany) -> Iterator[tuple[str, str]]:
    """Yield marts for tables that no convention is about."""
    for name, concept, group, value in (
        ("hours_by_project", "timesheets", "project_id", "hours"),
        ("absence_days_by_employee", "absences", "employee_id", "days"),
        ("talk_time_by_agent", "calls", "agent_id", "talk_seconds"),
        ("movements_by_product", "stock_movements", "product_id", "quantity"),
    ):
        table = company.of(concept)
        by, column = getattr(table.names, group), getattr(table.names, value)
        yield name, f"SELECT {by}, sum({column}) AS total_{value}\nFROM {table}\nGROUP BY {by}"


_PROJECT: Final = """\
name: {name}
version: "1.0.0"
config-version: 2
profile: {name}

model-paths: ["models"]

models:
  {name}:
    staging:
      +materialized: ephemeral
    marts:
      +materialized: ephemeral
"""
_PROFILES: Final = """\
{name}:
  target: local
  outputs:
    local:
      type: duckdb
      path: ../warehouse.duckdb
      schema: {schema}
      threads: 1
"""


def _sources(company: MadeUpCompany, conventions: Sequence[Convention]) -> Iterator[str]:
    """Yield the lines for the sources: table descriptions, their keys, and references."""
    repeated = {each.plan.table for each in conventions if each.is_on and each.kind is DecisionKind.DUPLICATES}
    yield from ("version: 2", "", "sources:")
    for schema in sorted({each.schema for each in company.tables}):
        yield from (f"  - name: {schema}", f"    schema: {schema}", "    tables:")
        for table in company.tables:
            if table.schema != schema:
                continue
            words = table.concept.replace("_", " ")
            yield from (f"      - name: {table.name}", f"        description: {_IS[table.role].format(words=words)}")
            key = table.key
            references = [each for each in table.columns if each.kind is Kind.REF and not each.derived]
            if key is None and not references:
                continue
            yield "        columns:"
            if key is not None:
                yield from (f"          - name: {key.name}", "            data_tests: [unique, not_null]")
                if table.concept in repeated:
                    yield "            description: Set when the row is loaded."
            for column in references:
                other = company.of(column.arguments[0])
                if other.key is not None and table.concept != other.concept:
                    yield f"          - name: {column.name}"
                    yield "            data_tests:"
                    to = f"source('{other.schema}', '{other.name}')"
                    yield f'              - relationships: {{to: "{to}", field: {other.key.name}}}'


def _schema(writer: _Writer) -> Iterator[str]:
    yield from ("version: 2", "", "models:")
    for name, text in sorted(writer.described.items()):
        yield from (f"  - name: {name}", f"    description: {text}")
