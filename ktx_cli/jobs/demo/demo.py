"""`ktx demo`: builds the demo company and answers questions through its semantic layer."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import (
    BusyError,
    Command,
    Emit,
    Hint,
    Record,
    StepFinished,
    StepStarted,
    UsageError,
    ignore_events,
    monotonic,
    plural,
)
from ktx_cli.engine import IngestReport
from ktx_cli.jobs.connections import config_with_connection
from ktx_cli.jobs.demo.company import DBT_PROJECT, HANDBOOK, WAREHOUSE, WAREHOUSE_ID, build_company, write_evals
from ktx_cli.jobs.demo.people import FISCAL_YEAR_START_MONTH
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.semantic.question import LayerAnswer, ask_layer
from ktx_cli.jobs.semantic.question import Question as LayerQuestion
from ktx_cli.jobs.setup.answers import Answers, ConnectionAnswer
from ktx_cli.jobs.setup.plan import NEW_CONFIG
from ktx_cli.jobs.setup.request import SetupRequest
from ktx_cli.jobs.setup.setup import setup
from ktx_cli.jobs.wiki import read_wiki
from ktx_cli.project import (
    CONFIG_NAME,
    DECISIONS_NAME,
    EVALS_NAME,
    SEMANTIC_NAME,
    WIKI_NAME,
    Layout,
    Repository,
    edit,
    load_config,
    read_bytes,
    storage_error,
    write_atomic,
)
from ktx_cli.scan import ReviewedRelationship
from ktx_cli.semantic import Model, SemanticError, compile_query, load_layer


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question in words and as a semantic layer query with at most 12 rows."""

    title: str
    query: Mapping[str, Any]
    connection: str = "warehouse"


QUESTIONS: tuple[DemoQuestion, ...] = (
    DemoQuestion(
        "Net revenue and refunds by month of the order and region it was shipped to, in euros",
        {
            "measures": ["order_lines.net_revenue", "refunds.refunded", "order_lines.refund_rate"],
            "dimensions": [
                {"field": "ordered.month_start", "name": "month"},
                {"field": "ship_to.regions.region_name", "name": "region"},
            ],
            "filters": ["ordered.month_start >= DATE '2025-10-01'", "ordered.month_start < DATE '2025-12-01'"],
        },
    ),
    DemoQuestion(
        "Orders of 2025 shipped late, by the month they were shipped in",
        {
            "measures": ["orders.shipped_orders", "orders.late_orders", "orders.late_share"],
            "dimensions": [{"field": "shipped.month_start", "name": "month"}],
            "filters": ["shipped.calendar_year = 2025"],
        },
    ),
    DemoQuestion(
        "Stock by category at the last count",
        {
            "measures": ["inventory_snapshots.pieces_on_hand"],
            "dimensions": [{"field": "categories.category_name", "name": "category"}],
            "order_by": ["pieces_on_hand desc"],
        },
    ),
)
"""The first question is the closing answer: two facts that a plain join would multiply, a date in its role, a ratio."""

FROM_DBT = DemoQuestion(
    "Active customers and their share of all accounts, by segment",
    {
        "measures": ["customer_value.accounts", "customer_value.active_customers", "customer_value.active_share"],
        "dimensions": ["customer_value.segment"],
    },
)
"""The question whose measures are metrics of the dbt project, which must be read before it can be answered."""


@dataclass(frozen=True, slots=True)
class DemoAnswer(Record):
    """A question and its answer."""

    question: DemoQuestion
    answer: LayerAnswer

    json_keys = (
        "question=question.title",
        "query=question.query",
        "sql=answer.sql",
        "columns=answer.columns",
        "answer=answer.rows",
        "receipt=answer.receipt",
    )


def answered(folder: Path, question: DemoQuestion, environ: Mapping[str, str]) -> DemoAnswer:
    """Return the verified answer; raises the errors of `ask_layer`, and `KtxError` if recomputed numbers differ."""
    layout = Layout(folder)
    asked = LayerQuestion(question.query, question.connection, verified=True)
    answer = ask_layer(layout, load_config(layout.config).config, asked, environ=environ, formats=True)
    error = answer.error()
    if error is not None:
        raise error
    return DemoAnswer(question, answer)


SOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "dbt": {"driver": "dbt", "source_dir": DBT_PROJECT},
    "handbook": {"driver": "documents", "path": HANDBOOK},
}
"""The company's context sources, as in `ktx.yaml`."""


@dataclass(frozen=True, slots=True)
class ContextCounts:
    """The amount of context that a project has about its warehouse.

    `descriptions` of sources and columns; `rules` say that a column is unique, never empty, or which values it has;
    `joins` count a pair of columns once; `pages` are those of the wiki.
    """

    descriptions: int
    rules: int
    joins: int
    measures: int
    pages: int

    @classmethod
    def of(cls, model: Model, pages: int) -> ContextCounts:
        """Count the content of a semantic layer."""
        sources = list(model.sources.values())
        columns = [column for source in sources for column in source.columns.values()]
        pairs = {
            frozenset(((source.name, own), (join.to, other)))
            for source in sources
            for join in source.joins
            for own, other in join.pairs
        }
        return cls(
            sum(bool(each) for each in (*(s.description for s in sources), *(c.description for c in columns))),
            sum(each.unique + (not each.nullable) + bool(each.values) for each in columns),
            len(pairs),
            sum(not each.is_proposed for source in sources for each in source.measures.values()),
            pages,
        )


@dataclass(frozen=True, slots=True)
class SecondHalf:
    """The context read from the sources. `refused`: the error of the question before them."""

    ingest: IngestReport
    before: ContextCounts
    after: ContextCounts
    refused: str
    asked: DemoAnswer

    @property
    def to_add(self) -> list[tuple[str, str]]:
        """What a model would add: the source, and the additions."""
        return [(work.name, each) for work in self.ingest.sources for each in work.left_for_a_model]

    def to_json(self) -> dict[str, Any]:
        """Return it for the JSON output."""
        before, after = asdict(self.before), asdict(self.after)
        return {
            "ingest": self.ingest.to_json(),
            "known": {name: {"before": before[name], "after": after[name]} for name in before},
            "a_model_would_add": [{"source": source, "what": what} for source, what in self.to_add],
            "refused": self.refused,
            **self.asked.to_json(),
        }


def name_sources(folder: Path) -> None:
    """Write a `ktx.yaml` with the fiscal year and the context sources; existing settings are kept."""
    path = Layout(folder).config
    text = read_bytes(path) or NEW_CONFIG
    text = edit.set_value(text, ("semantic", "fiscal_year_start"), FISCAL_YEAR_START_MONTH, where=CONFIG_NAME)
    known = load_config(Path(CONFIG_NAME), data=text).config.connections
    for connection, fields in SOURCES.items():
        if connection not in known:
            text = config_with_connection(text, connection, fields)
    write_atomic(path, text)


def second_half(folder: Path, environ: Mapping[str, str], emit: Emit) -> SecondHalf:
    """Read the context sources and answer the question; raises the errors of `ingest` and `ask_layer`."""
    model, before = _known(folder)
    refused = _refusal(model)
    connections = (*SOURCES, WAREHOUSE_ID)  # The scan uses what dbt declares.
    report, _ = ingest(IngestRequest(folder, environ, connections=connections, command=Command("demo"), emit=emit))
    error = report.error()
    if error is not None:
        raise error
    _, after = _known(folder)
    return SecondHalf(report, before, after, refused, answered(folder, FROM_DBT, environ))


def _known(folder: Path) -> tuple[Model, ContextCounts]:
    layout = Layout(folder)
    model = load_layer(layout, load_config(layout.config).config, WAREHOUSE_ID)
    return model, ContextCounts.of(model, len(read_wiki(layout).pages))


def _refusal(model: Model) -> str:
    """Return why the question has no answer yet; empty if it has one."""
    try:
        compile_query(model, FROM_DBT.query)
    except SemanticError as error:
        return error.message
    return ""


SHOWN_JOINS = 3
"""The number of inferred joins that the demo shows."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The demo as built: the folder, the rows of each table, the scan with a question, the context sources."""

    folder: Path
    seed: int
    rows: Mapping[str, int]
    ingest: IngestReport
    asked: DemoAnswer
    second: SecondHalf

    @property
    def joins(self) -> tuple[ReviewedRelationship, ...]:
        """Inferred joins that neither a key nor a name indicates: the column is named differently from the key."""
        found = (each for report in self.ingest.connections for each in report.joins)
        telling = [each for each in found if each.relationship.child_columns != each.relationship.parent_columns]
        return tuple(sorted(telling, key=lambda each: (each.relationship.probability, each.name))[:SHOWN_JOINS])

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the JSON output."""
        return {
            "folder": str(self.folder),
            "seed": self.seed,
            "rows": dict(self.rows),
            "ingest": self.ingest.to_json(),
            "joins": [
                {"edge": each.name, "score": each.relationship.probability, "reason": each.relationship.reason}
                for each in self.joins
            ],
            **self.asked.to_json(),
            "second_half": self.second.to_json(),
        }


def demo(folder: Path, seed: int, *, environ: Mapping[str, str], emit: Emit = ignore_events) -> DemoReport:
    """Build the demo in a new or empty folder, or continue an interrupted one; errors as in `claimed`, `ingest`."""
    with claimed(folder) as half_built:
        return _demo(folder, seed, environ, emit, half_built=half_built)


def _demo(folder: Path, seed: int, environ: Mapping[str, str], emit: Emit, *, half_built: bool) -> DemoReport:
    emit(StepStarted("company"))
    started = monotonic()
    company = build_company(folder, seed, half_built=half_built)
    built = f"{plural(len(company.rows), 'table')}, {plural(sum(company.rows.values()), 'row')}"
    emit(StepFinished("company", built, monotonic() - started))
    _commit_company(folder, seed)
    answers = Answers(databases=(ConnectionAnswer({"driver": "duckdb", "path": WAREHOUSE}, WAREHOUSE_ID),))
    setup(SetupRequest(folder, environ, answers, emit=emit))
    report, _ = ingest(IngestRequest(folder, environ, connections=(WAREHOUSE_ID,), command=Command("demo"), emit=emit))
    error = report.error()
    if error is not None:
        raise error
    asked = answered(folder, QUESTIONS[0], environ)
    return DemoReport(folder, seed, company.rows, report, asked, second_half(folder, environ, emit))


def _ignored(seed: int) -> str:
    """Return the `.gitignore` of a demo, which says how a clone gets the warehouse."""
    again = Command("demo", "../ktx-demo-data", "--seed", str(seed))
    copied = Command(f"../ktx-demo-data/{WAREHOUSE}", ".", program="cp")
    return f"# Git ignores the warehouse file. To create it in a clone, run: {again} && {copied}\n{WAREHOUSE}*\n"


def _commit_company(folder: Path, seed: int) -> None:
    """Make the folder a separate repository, even inside another one, with the company's text files in it."""
    write_atomic(folder / ".gitignore", _ignored(seed).encode())
    name_sources(folder)
    write_evals(folder)
    repository = Repository.create(folder)
    folders = [folder / each for each in (DBT_PROJECT, HANDBOOK, SEMANTIC_NAME, EVALS_NAME, WIKI_NAME)]
    files = [
        *(folder / each for each in (".gitignore", CONFIG_NAME, DECISIONS_NAME)),
        *(path for each in folders for path in each.rglob("*")),
    ]
    texts = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(files) if path.is_file()}
    base = repository.head().commit
    repository.commit(texts, message="The company: its dbt project, its handbook, its measures, its wiki\n", base=base)


PREFIX: Final = ".ktx-demo-"
"""Prefix for the names of the marker and of the scratch folders next to it."""

SUFFIX: Final = ".marker"


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Claim a new, empty or half-built folder for a block; yields whether it is half-built.

    If the block fails, the marker stays so that the next demo can continue. Raises `UsageError` if the folder contains
    something else, `BusyError` while another demo is running in it, `StorageError`.
    """
    names = _names(folder)
    old = [name for name in names if name.startswith(PREFIX) and name.endswith(SUFFIX)]
    if names and not old:
        raise UsageError(f"{folder} exists and is not empty", hint=Command("demo", "OTHER-FOLDER"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        marker = folder / (old[0] if old else f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
        descriptor = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise storage_error(folder, error, "create") from error
    try:
        _lock(descriptor, folder)
        if old:
            _remove_scratch(folder)
        yield bool(old)
        marker.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise UsageError(f"{folder} exists and is not a folder", hint=Command("demo", "OTHER-FOLDER")) from None
    except OSError as error:
        raise storage_error(folder, error, "read") from error


def _lock(descriptor: int, folder: Path) -> None:
    """Lock the marker; the system releases the lock of a killed process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = f"another `ktx demo` is running in {folder}"
        raise BusyError(
            message, hint=Hint("wait until it has finished, or: {}", Command("demo", "OTHER-FOLDER"))
        ) from None
    if not os.fstat(descriptor).st_nlink:
        raise BusyError(f"another `ktx demo` has just ended in {folder}", hint=Command("demo", "OTHER-FOLDER"))


def _remove_scratch(folder: Path) -> None:
    """Remove the scratch folders of dead processes; a live one would hold the marker."""
    for path in folder.glob(f"{PREFIX}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
