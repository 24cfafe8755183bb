"""The agent that answers a question in one arm: its prompt, its tools and its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.agent_tools import TaskPrompt
from ktx_cli.core import EXIT_NOT_READY, EXIT_UNREACHABLE, KtxError, Record, json_value, listing, plural
from ktx_cli.jobs.proof.arms import Arm, ArmProject, Arms
from ktx_cli.jobs.proof.artifacts import Artifact
from ktx_cli.jobs.proof.questions import Question
from ktx_cli.jobs.serve.ask import Watch, run_served
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.llm import RuntimeTool, ToolError, ToolOutput
from ktx_cli.prompts import text_of
from ktx_cli.semantic import Caller, VisibleModel
from ktx_cli.warehouses import Table, TableRef

STEPS: Final = 30
"""Maximum number of steps for one question."""

MOST_KEPT: Final = 10_000
"""Maximum number of rows in an answer."""

_PARTS: Final = re.compile(r"[^\w-]+")

_SHOWN_ROWS: Final = 200
_DEFAULT_ROWS: Final = 1_000


class KeepRows(Protocol):
    """Stores the rows of a query, and returns the result id, or None if it is too large to be an answer."""

    def __call__(
        self, tool: str, statement: Any, columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: bool, /
    ) -> str | None:
        """Store the rows from a query."""
        ...


class Toolbox(Protocol):
    """The tools of an agent client for an agent loop."""

    def instructions(self, *, privacy: bool) -> str:
        """Return the tool instructions for an agent client."""
        ...

    def tools(
        self, project: ServedProject, *, privacy: bool, attributes: Mapping[str, Any], keep: KeepRows
    ) -> Sequence[RuntimeTool]:
        """Return the tools for a project and a caller with attributes."""
        ...


@dataclass(frozen=True, slots=True)
class ResultRows(Record):
    """The rows from an agent's query."""

    tool: str
    statement: Any
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> ResultRows:
        """Return the rows from the result of `to_json`."""
        rows = tuple(tuple(row) for row in raw["rows"])
        return cls(raw["tool"], raw["statement"], tuple(raw["columns"]), rows)


@dataclass(slots=True)
class AnswerState:
    """An agent's results and answer so far. It is stored with each step, so that a killed loop can resume.

    `shown` are the ids of the artifacts in the results of its tools.
    """

    question: Question
    known: Sequence[Artifact] = ()
    results: dict[str, ResultRows] = field(default_factory=dict)
    answer: Mapping[str, Any] | None = None
    shown: set[str] = field(default_factory=set)
    broken: KtxError | None = None
    """The error that kept a tool from reaching a database."""

    def state(self) -> dict[str, Any]:
        """Return the state as JSON."""
        results = {name: each.to_json() for name, each in self.results.items()}
        return {"results": results, "answer": self.answer, "shown": sorted(self.shown)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        self.results = {name: ResultRows.of(each) for name, each in state["results"].items()}
        self.answer, self.shown = state["answer"], set(state["shown"])

    def keep(
        self, tool: str, statement: Any, columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: bool, /
    ) -> str | None:
        """Store the rows of a query. See `KeepRows`."""
        if not whole or len(rows) > MOST_KEPT:
            return None
        name = f"r{len(self.results) + 1}"
        values = tuple(tuple(json_value(value) for value in row) for row in rows)
        self.results[name] = ResultRows(tool, statement, tuple(columns), values)
        return name

    def failed(self, error: KtxError) -> None:
        """Record a tool error. If a database is unreachable, a missing answer is not the agent's fault."""
        self.observe(f"{error.message} {error.hint}")
        if error.exit_code in (EXIT_UNREACHABLE, EXIT_NOT_READY):
            self.broken = error

    def observe(self, text: str) -> None:
        """Record the artifacts in the result of a tool."""
        named = set(re.findall(r"[\w-]+", text.casefold()))
        self.shown.update(
            each.id for each in self.known if any(set(_PARTS.split(word.casefold())) <= named for word in each.words)
        )

    def accept(self, value: GiveAnswer) -> ToolOutput:
        """Record an answer; the last one counts. Raises `ToolError` if it has no rows to compare."""
        assumptions = [each.strip() for each in value.assumptions if each.strip()]
        if value.no_answer.strip():
            self.answer = {"no_answer": value.no_answer.strip(), "assumptions": assumptions}
            return ToolOutput("Recorded that there is no answer. Stop now.")
        result = self.results.get(value.result)
        if result is None:
            names = listing(self.results, 30) or "none yet: run a query first"
            raise ToolError(f"there is no result `{value.result}`", hint=f"results: {names}")
        columns = value.columns or list(result.columns)
        missing = [name for name in columns if name not in result.columns]
        if missing:
            raise ToolError(f"`{value.result}` has no column {listing(missing)}", hint=listing(result.columns, 50))
        wanted = self.question.columns
        if wanted and len(columns) != len(wanted):
            message = f"the question asks for {plural(len(wanted), 'column')}, but this answer has {len(columns)}"
            raise ToolError(message, hint="select them with `columns`, in the order of the question")
        self.answer = {"result": value.result, "columns": columns, "assumptions": assumptions}
        return ToolOutput("The answer is recorded. Stop now.")


class _Input(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(extra="forbid")


class GiveAnswer(_Input):
    """The answer to the question."""

    result: str = Field("", description="Id of the result with the answer, for example `r2`.")
    columns: list[str] = Field(
        default_factory=list,
        description="Columns of that result in the order of the question. Defaults to all columns.",
    )
    assumptions: list[str] = Field(
        default_factory=list, description="Unsettled assumptions that would change the numbers, one sentence each."
    )
    no_answer: str = Field("", description="Why there is no reliable answer. Only set this without an answer.")


class ReadSchema(_Input):
    """The tables to describe."""

    tables: list[str] = Field(
        default_factory=list, description="Tables to describe with columns and keys. Lists all tables if empty."
    )
    connection: str = Field("", description="The database. Required if there are several.")


class RunSql(_Input):
    """The statement to run."""

    sql: str = Field(min_length=1, max_length=50_000, description="One SELECT in the dialect of the database.")
    connection: str = Field("", description="The database. Required if there are several.")


def prompt_of(arms: Arms, arm: Arm, question: Question, toolbox: Toolbox, *, privacy: bool) -> TaskPrompt:
    """Return the prompt for a question. It is the same in all arms, except for the description of the tools."""
    text, _ = text_of("prompts", "proof_question", arms.layout.root)
    about = SCHEMA_TOOLS if not has_context(arm) else toolbox.instructions(privacy=privacy)
    if privacy:
        about += "\nRow values are hidden from you. Results and answers still contain them."
    return TaskPrompt(text.replace("{{tools}}", about), question.prompt)


def has_context(arm: Arm) -> bool:
    """Whether an arm uses the tools of an agent client."""
    return arm.name != "schema"


SCHEMA_TOOLS: Final = """\
Tools:
1. `database_schema` lists the tables of the database, or describes the columns and keys of the tables you name.
2. `sql_execution` runs one read-only SELECT statement.
There is no other information about the data."""


def tools_of(
    arms: Arms, arm: Arm, project: ArmProject, state: AnswerState, toolbox: Toolbox, *, privacy: bool
) -> list[RuntimeTool]:
    """Return the tools of an arm for one question."""
    if has_context(arm):
        attributes = state.question.attributes
        given = toolbox.tools(project, privacy=privacy, attributes=attributes, keep=state.keep)
        tools = [_observed(each, state) for each in given]
    else:
        tools = _schema_tools(arms, project, state, privacy=privacy)
    answer = RuntimeTool(
        "answer", "Submit the answer to the question, or report that there is none.", GiveAnswer, state.accept
    )
    return [*tools, answer]


def _observed(tool: RuntimeTool, state: AnswerState) -> RuntimeTool:
    """Return a tool that records the artifacts in its results and errors."""

    def handle(value: Any) -> Any:
        try:
            output = tool.handler(value)
        except KtxError as error:
            state.failed(error)
            raise
        state.observe(output if isinstance(output, str) else str(output))
        return output

    return RuntimeTool(tool.name, tool.description, tool.input_model, handle, tool.read_only, tool.common)


def _schema_tools(arms: Arms, project: ArmProject, state: AnswerState, *, privacy: bool) -> list[RuntimeTool]:
    """Return the tools that only provide access to the database. Hidden data stays hidden."""

    def read_schema(value: ReadSchema) -> ToolOutput:
        chosen = _connection(arms, value.connection)
        try:
            return ToolOutput(_schema_text(arms, chosen, value.tables))
        except KtxError as error:
            state.failed(error)
            raise

    def run_sql(value: RunSql) -> ToolOutput:
        chosen = _connection(arms, value.connection)
        caller = Caller.of(state.question.attributes)
        try:
            answer, page = run_served(
                project, value.sql, chosen, caller=caller, max_rows=MOST_KEPT, offset=0, privacy=privacy, watch=Watch()
            )
        except KtxError as error:
            if error.code == "hidden":  # its hint refers to tools and definitions that this arm lacks
                raise ToolError("the statement reads hidden rows or columns") from None
            state.failed(error)
            raise
        result = state.keep("sql_execution", value.sql, answer.columns, answer.rows, answer.cut is None)
        return ToolOutput(_rows_text(result, answer.columns, page.rows, len(answer.rows), privacy=privacy))

    return [
        RuntimeTool("database_schema", "Describe the tables of the database.", ReadSchema, read_schema, read_only=True),
        RuntimeTool("sql_execution", "Run one read-only SELECT on the database.", RunSql, run_sql, read_only=True),
    ]


def _connection(arms: Arms, wanted: str) -> str:
    known = sorted(arms.config.databases())
    if wanted in known or (not wanted and len(known) == 1):
        return wanted or known[0]
    raise ToolError("set `connection` to the database to use", hint=f"one of: {listing(known, 30)}")


def _rows_text(result: str | None, columns: Sequence[str], rows: Sequence[Any], count: int, *, privacy: bool) -> str:
    """Return rows as text for an agent."""
    head = f"{'no result id, because there are too many rows for an answer' if result is None else f'result: {result}'}"
    lines = [f"{head}, {plural(count, 'row')}", f"columns: {json.dumps(list(columns), ensure_ascii=False)}"]
    shown = () if privacy else rows[:_SHOWN_ROWS]
    lines += [json.dumps(list(row), ensure_ascii=False, default=str) for row in shown]
    if len(shown) < count and not privacy:
        lines.append(f"and {count - len(shown):,} more")
    return "\n".join(lines)


def _schema_text(arms: Arms, connection: str, wanted: Sequence[str]) -> str:
    """Return the tables of a database, or the columns and keys of some tables, without hidden columns."""
    tables = _open_tables(arms, connection)
    dialect = arms.dialect(connection)
    if not wanted:
        lines = [f"- {ref} ({plural(len(table.columns), 'column')})" for ref, table in sorted(tables.items())]
        return "\n".join([f"connection `{connection}` (SQL: {dialect}), {plural(len(tables), 'table')}:", *lines])
    return "\n\n".join(_table_text(name, tables) for name in wanted)


def _table_text(name: str, tables: Mapping[str, Table]) -> str:
    found = [ref for ref in tables if name.casefold() in (ref.casefold(), ref.rpartition(".")[2].casefold())]
    if not found:
        return f"There is no table `{name}`."
    table = tables[found[0]]
    lines = [f"table {found[0]}"]
    for column in table.columns:
        facts = [column.native_type, *([] if column.nullable else ["NOT NULL"])]
        lines.append(f"- {column.name} {' '.join(facts)}" + (f": {column.comment}" if column.comment else ""))
    lines += [f"primary key: {', '.join(table.primary_key)}"] if table.primary_key else []
    lines += [
        f"foreign key: {', '.join(key.columns)} -> {key.target}({', '.join(key.target_columns)})"
        for key in table.foreign_keys
    ]
    return "\n".join(lines)


def _open_tables(arms: Arms, connection: str) -> dict[str, Table]:
    """Return the tables of a database by name, without hidden tables and columns."""
    model = arms.models.get(connection)
    visible = None if model is None else VisibleModel(model, internal=True)
    tables = {}
    for table in arms.schema(connection).tables:
        sources = [] if model is None else [each for each in model.sources.values() if _is_of(each, table.ref)]
        if visible is not None and sources:
            if not any(visible.has(each) for each in sources):
                continue
            hidden = {name for each in sources for name in each.columns} - {
                column.name for each in sources for column in visible.columns(each)
            }
            table = replace(table, columns=tuple(each for each in table.columns if each.name not in hidden))
        tables[str(table.ref)] = table
    return tables


def _is_of(source: Any, ref: TableRef) -> bool:
    return source.table is not None and source.table[-1].casefold() == ref.name.casefold() and source.is_of(ref)
