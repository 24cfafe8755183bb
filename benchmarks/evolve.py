"""Eight weeks of decay: the context of a made-up company with `ktx evolve` every week, and without it.

Every week pages are dropped from the context (30 % of them in the end), a column of the warehouse is renamed, and
conventions change (ten in the end). The same questions are asked every week; their right answers are those of the week.

What is scripted, and what is not. Scans, findings, grouping, repairs, gates, trials and branches are those of ktx. The
model is scripted, twice:

* The **answerer** reads, through the tools of an agent client, the page of each convention that a question depends on,
  and puts the reading that the page names into the SQL of the question. Where there is no page it takes the tempting
  reading. It knows no right answer: the SQL comes from what the pages say alone.
* The **drafter** gets the questions for drafting with their expected rows. It tries the readings of the conventions
  with `sql_execution` until the rows are the expected ones, and writes the reading into the page. By a seeded draw, it
  writes a wrong reading one time in five, so that trials have something to refuse.

So the figures say how well findings, trials and gates work with such a model, and nothing about a real one. Run it
with `python benchmarks/evolve.py [SEED] [--weeks N] [--questions N]`; it ends with exit code 1 if a repair landed that
made a right answer wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import duckdb

from ktx_cli import llm
from ktx_cli.core import yaml
from ktx_cli.engine import IngestReport
from ktx_cli.jobs.check.eval.results import same_value
from ktx_cli.jobs.check.eval.run import EvalRequest, run_evals
from ktx_cli.jobs.evolve.evolve import EvolveRequest, evolve
from ktx_cli.jobs.evolve.report import EvolveReport, Verdict
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.proof.company.company import WAREHOUSE, WAREHOUSE_ID, Company, write_company
from ktx_cli.jobs.proof.company.conventions import Convention
from ktx_cli.jobs.proof.company.questions import Question, answer_under
from ktx_cli.jobs.proof.run import ProofRequest, prove
from ktx_cli.llm import CallFacts, Cost, LoopResult, RuntimeTool, Usage
from ktx_cli.llm.tools import invoke
from ktx_cli.llm.types import ProbeReport
from ktx_cli.mcp.loop import ServerToolbox
from ktx_cli.project import Layout, append_value, load_config, set_value
from ktx_cli.scan import Depth

WEEKS: Final = 8
DROPPED: Final = 0.3
CHANGED: Final = 10
WRONG_DRAFTS: Final = 5
"""The drafter is wrong one time in so many."""

LLM: Final[Mapping[str, Any]] = {
    "provider": {"backend": "anthropic", "anthropic": {"api_key": "env:SCRIPTED_KEY"}},
    "models": {"default": "claude-sonnet-5-5"},
}
PERSON: Final = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


@dataclass(frozen=True, slots=True)
class WeekFigures:
    """What came of a week: right answers of so many questions, and what was proposed."""

    week: int
    questions: int
    without: int
    before: int
    after: int
    verdicts: Mapping[str, int]
    repairs: Mapping[str, int]
    sizes: tuple[int, ...]
    """The number of files that each accepted group changes."""
    regressions: int


@dataclass
class World:
    """The company in two folders, one of which is repaired every week."""

    company: Company
    evolved: Path
    neglected: Path
    questions: tuple[Question, ...]
    truths: dict[str, str]
    renames: list[tuple[str, str, str]]
    """Source, table and column of what is renamed, one a week."""
    dropped: list[list[str]]
    changed: list[list[str]]
    dice: random.Random
    environ: Mapping[str, str]
    week: int = 0
    totals: dict[str, Any] = field(default_factory=dict)
    """Measure -> its value, for the questions to the semantic layer."""

    @property
    def conventions(self) -> tuple[Convention, ...]:
        """The conventions of the company, with what is right now."""
        return tuple(replace(each, truth=self.truths.get(each.id, each.truth)) for each in self.company.conventions)

    def convention(self, name: str) -> Convention:
        """Return the convention of an id."""
        return next(each for each in self.conventions if each.id == name)

    def sql(self, question: Question, chosen: Mapping[str, str]) -> str:
        """Return the statement that answers a question under some readings."""
        return answer_under(self.company.plan, self.company.conventions, question.id, chosen)


def page_key(convention: str) -> str:
    """Return the key of the page about a convention."""
    return f"convention-{convention}".replace("_", "-")


def page_text(convention: Convention, reading: str, topics: Sequence[str]) -> str:
    """Return the body of the page about a convention."""
    about = f"It concerns: {', '.join(topics)}." if topics else ""
    return f"# Convention\n\n{convention.question}\n\nReading: {reading}.\n\n{about}\n"


def tempting(convention: Convention) -> str:
    """Return the reading that is taken where nothing says which."""
    return min(convention.readings, key=lambda each: hashlib.sha256(f"{convention.id} {each}".encode()).digest())


# The model.


Results = Sequence[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any]


Script = Generator[ToolCall, tuple[str, bool], None]


@dataclass
class ScriptedModel:
    """Answers and drafts as the module says."""

    world: World

    async def run_agent_loop(
        self, prompt: Any, *, system: str, tools: Sequence[RuntimeTool], label: str, **options: Any
    ) -> LoopResult:
        """Run a loop of the answerer or the drafter."""
        by_name = {tool.name: tool for tool in tools}
        text = prompt if isinstance(prompt, str) else "\n".join(part.text for part in prompt)
        script = self.answer(text) if "answer" in by_name else self.draft(text, label)
        count, sent = 0, None
        while True:
            try:
                call = next(script) if sent is None else script.send(sent)
            except StopIteration:
                break
            done = await invoke(by_name, call.name, dict(call.arguments), str(count))
            count, sent = count + 1, (done.text, done.is_error)
        facts = CallFacts(
            "anthropic", "default", "m", "m", count + 1, count, usage=Usage(1_000, 50), cost=Cost(0.001, "list_price")
        )
        return LoopResult("done", "natural", facts)

    async def probe(self, *, role: str, model: str) -> ProbeReport:
        """Say that the model answers."""
        return ProbeReport("anthropic", model, model, "scripted", 0.0, CallFacts("anthropic", role, model))

    def answer(self, prompt: str) -> Script:
        """Answer a question by what the pages say."""
        text = prompt.partition("The question: ")[2].partition("\n")[0]
        question = next(each for each in self.world.questions if each.text == text)
        chosen = {}
        for name in question.conventions:
            convention = self.world.convention(name)
            page, failed = yield ToolCall("context_read", {"id": page_key(name)})
            chosen[name] = tempting(convention) if failed else shown_reading(page) or tempting(convention)
        yield ToolCall("sql_execution", {"sql": self.world.sql(question, chosen), "connection": WAREHOUSE_ID})
        yield ToolCall("answer", {"result": "r1"})

    def draft(self, prompt: str, label: str) -> Script:
        """Find the readings that give the expected rows, and write them into the pages."""
        known = {each.text: each for each in self.world.questions}
        wanted = list(drafting_questions(prompt, known))
        shown: dict[str, str | None] = {}
        for name in dict.fromkeys(name for question, _ in wanted for name in question.conventions):
            page, failed = yield ToolCall("context_read", {"id": page_key(name)})
            shown[name] = None if failed else shown_reading(page)
        found: dict[str, str] = {}
        for question, expected in wanted:
            for chosen in self.combinations(question, {**shown, **found}):
                rows, failed = yield ToolCall(
                    "sql_execution", {"sql": self.world.sql(question, chosen), "connection": WAREHOUSE_ID}
                )
                if not failed and rows_in(rows, expected):
                    found.update(chosen)
                    break
        for name, reading in sorted(found.items()):
            if shown.get(name) == reading:
                continue
            convention = self.world.convention(name)
            others = [each for each in convention.readings if each != reading]
            draw = hashlib.sha256(f"{self.world.week} {label} {name}".encode()).digest()[0]
            written = others[0] if others and draw % WRONG_DRAFTS == 0 else reading
            topics = [each.id for each in self.world.questions if name in each.conventions][:6]
            yield ToolCall(
                "wiki_write",
                {
                    "key": page_key(name),
                    "summary": convention.question[:190],
                    "content": page_text(convention, written, topics),
                    "questions": [
                        convention.question[:190],
                        f"Which reading holds for {page_key(name)}?",
                        "What counts?",
                    ],
                    "synonyms": [page_key(name).replace("-", " ")],
                },
            )

    def combinations(self, question: Question, shown: Mapping[str, str | None]) -> Iterator[dict[str, str]]:
        """Yield readings of the conventions of a question: what is shown first, then with one and two others."""
        base = {name: shown.get(name) or tempting(self.world.convention(name)) for name in question.conventions}
        yield dict(base)
        for count in (1, 2):
            for names in itertools.combinations(question.conventions, count):
                readings = [[*self.world.convention(name).readings] for name in names]
                for chosen in itertools.product(*readings):
                    yield {**base, **dict(zip(names, chosen, strict=True))}


def shown_reading(page: str) -> str | None:
    """Return the reading that a page names."""
    _, found, rest = page.partition("Reading: ")
    return rest.partition(".")[0] if found else None


def drafting_questions(prompt: str, known: Mapping[str, Question]) -> Iterator[tuple[Question, Mapping[str, Any]]]:
    """Yield the questions of a draft with their expected rows, as the prompt shows them."""
    question = None
    for line in prompt.partition("Questions with known correct rows:")[2].splitlines():
        if line.startswith("- "):
            question = known.get(line.removeprefix("- "))
        elif line.startswith("  expected: ") and question is not None:
            with contextlib.suppress(ValueError):
                yield question, json.loads(line.removeprefix("  expected: "))


def rows_in(text: str, expected: Mapping[str, Any]) -> bool:
    """Whether a table that a tool shows has just the expected rows."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
    wanted = expected["rows"] if "rows" in expected else [[expected["value"]]]
    if len(rows) != len(wanted):
        return False
    pairs = zip(sorted(rows, key=repr), sorted(wanted, key=lambda row: repr([str(each) for each in row])), strict=True)
    return all(
        len(row) == len(other)
        and all(same_value(one, cell) or str(one) == cell for cell, one in zip(row, other, strict=True))
        for row, other in pairs
    )


@contextlib.contextmanager
def playing(model: ScriptedModel) -> Iterator[None]:
    """Let the scripted model answer every call of this process."""

    @contextlib.asynccontextmanager
    async def opened(*args: Any, usage_sink: Callable[[Any], None] | None = None, **options: Any) -> AsyncIterator[Any]:
        yield model

    before = llm.project_runtime
    llm.project_runtime = opened  # type: ignore[assignment]
    try:
        yield
    finally:
        llm.project_runtime = before


# The world and its decay.


def make_world(scratch: Path, seed: int, *, questions: int = 60, weeks: int = WEEKS) -> World:
    """Make the company of a seed, its context, and the plan of its decay."""
    environ = {"SCRIPTED_KEY": "made-up", "PATH": os.environ["PATH"], "HOME": str(scratch)}
    folder = scratch / "evolved"
    company = write_company(folder, seed)
    dice = random.Random(seed)
    asked = company.questions[:questions]
    config = set_value((folder / "ktx.yaml").read_bytes(), ("llm",), LLM, where="ktx.yaml")
    (folder / "ktx.yaml").write_bytes(set_value(config, ("scan", "privacy"), "off", where="ktx.yaml"))
    (folder / ".gitignore").write_text(f"{WAREHOUSE}*\n")
    error = scan(folder, environ).error()
    if error is not None:
        raise error
    names = sorted({name for each in asked for name in each.conventions})
    world = World(
        company,
        folder,
        scratch / "neglected",
        asked,
        {},
        [],
        [[] for _ in range(weeks)],
        [[] for _ in range(weeks)],
        dice,
        environ,
    )
    for name in names:
        convention = world.convention(name)
        topics = [each.id for each in asked if name in each.conventions][:6]
        text = page_text(convention, convention.truth, topics)
        page = folder / "wiki" / "global" / f"{page_key(name)}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"---\nsummary: {json.dumps(convention.question)}\n---\n\n{text}")
    for place, name in enumerate(dice.sample(names, round(DROPPED * len(names)))):
        world.dropped[place % weeks].append(name)
    for place, name in enumerate(dice.sample(names, min(CHANGED, len(names)))):
        world.changed[(place + weeks // 2) % weeks].append(name)
    world.renames = add_measures(world, weeks)
    commit(folder, "the context of the company")
    shutil.copytree(folder, world.neglected, symlinks=True)
    return world


def add_measures(world: World, weeks: int) -> list[tuple[str, str, str]]:
    """Define a measure on columns that no question and no view reads, and return what is renamed, one a week."""
    used = set()
    for question in world.questions:
        for text in (question.truth, *(each.sql for each in question.wrong)):
            used |= set(text.replace(".", " ").replace("(", " ").replace(")", " ").replace(",", " ").split())
    with duckdb.connect(world.company.warehouse, read_only=True) as database:
        views = " ".join(
            sql for (sql,) in database.execute("SELECT sql FROM duckdb_views() WHERE NOT internal").fetchall()
        )
        found = database.execute(
            "SELECT c.schema_name, c.table_name, c.column_name FROM duckdb_columns() c JOIN duckdb_tables() t "
            "USING (schema_name, table_name) WHERE c.data_type LIKE 'DECIMAL%' OR c.data_type IN ('DOUBLE', 'INTEGER') "
            "ORDER BY 1, 2, 3"
        ).fetchall()
        sources = source_names(world.evolved)
        free = [
            (sources[table], f"{schema}.{table}", column)
            for schema, table, column in found
            if column not in used and column not in views and not column.endswith("id") and table in sources
        ]
        world.dice.shuffle(free)
        chosen = free[:weeks]
        for source, table, column in chosen:
            path = world.evolved / "semantic-layer" / WAREHOUSE_ID / f"{source}.yaml"
            measure = {"name": f"total_{column}", "expr": f"sum({column})", "description": f"Sum of {column}."}
            text = path.read_bytes() if path.exists() else f"name: {source}\n".encode()
            path.write_bytes(append_value(text, ("measures",), measure, where=path.name))
            ((value,),) = database.execute(f"SELECT sum({column}) FROM {table}").fetchall()
            world.totals[f"{source}.total_{column}"] = None if value is None else str(value)
    return chosen


def source_names(folder: Path) -> dict[str, str]:
    """Return the name of a table -> that of its source, where they are the same for one table alone."""
    found: Counter[str] = Counter()
    for path in (folder / "semantic-layer" / WAREHOUSE_ID / "_schema").rglob("*.yaml"):
        found.update(list((yaml.load(path.read_bytes(), where=path.name) or {}).get("tables") or {}))
    return {name: name for name, count in found.items() if count == 1}


def decay(world: World) -> None:
    """Let a week pass: conventions change, pages are dropped, a column is renamed."""
    for name in world.changed[world.week]:
        convention = world.convention(name)
        world.truths[name] = world.dice.choice(convention.wrong)
    write_evals(world)
    for folder in (world.evolved, world.neglected):
        for name in world.dropped[world.week]:
            (folder / "wiki" / "global" / f"{page_key(name)}.md").unlink(missing_ok=True)
        if world.week < len(world.renames):
            _, table, column = world.renames[world.week]
            with duckdb.connect(folder / WAREHOUSE) as database:
                database.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO {column}_v{world.week + 2}")
        commit(folder, f"week {world.week + 1}")
        scan(folder, world.environ)


def scan(folder: Path, environ: Mapping[str, str]) -> IngestReport:
    """Read the structure of the warehouse into the context."""
    request = IngestRequest(folder, environ, (WAREHOUSE_ID,), databases_only=True, depth=Depth.STRUCTURAL, no_llm=True)
    return ingest(request)[0]


def write_evals(world: World) -> None:
    """Write the questions with their right answers of this week."""
    cases: list[dict[str, Any]] = []
    truths = {each.id: each.truth for each in world.conventions}
    with duckdb.connect(world.evolved / WAREHOUSE, read_only=True) as database:
        for question in world.questions:
            sql = world.sql(question, truths)
            rows = [[plain(value) for value in row] for row in database.execute(sql).fetchall()]
            expect = (
                {"value": rows[0][0]} if len(question.columns) == 1 else {"columns": [*question.columns], "rows": rows}
            )
            cases.append({"id": question.id, "question": question.text, "sql": sql, "expect": expect})
    cases += [
        {"id": name.replace(".", "-"), "query": {"measures": [name]}, "expect": {"value": value}}
        for name, value in world.totals.items()
    ]
    for folder in (world.evolved, world.neglected):
        (folder / "evals").mkdir(exist_ok=True)
        (folder / "evals" / "company.yaml").write_text(yaml.dump({"connection": WAREHOUSE_ID, "cases": cases}))


def plain(value: Any) -> Any:
    """Return a value of the database as a file of evals has it."""
    return value if value is None or isinstance(value, int | float | bool) else str(value)


def commit(folder: Path, message: str) -> None:
    """Commit everything as a person does."""
    if not (folder / ".git").exists():
        subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run(["git", *PERSON, "commit", "-q", "--allow-empty", "-m", message], cwd=folder, check=True)


def pass_week(world: World, *, runs: int = 4) -> WeekFigures:
    """Let a week pass, repair one of the folders, and ask all questions in both."""
    decay(world)
    config = load_config(Layout(world.evolved).config).config
    with playing(ScriptedModel(world)):
        without = right_now(world, world.neglected)
        layout = Layout(world.evolved)
        report, _ = evolve(EvolveRequest(layout, config, world.environ, ServerToolbox(), runs=runs))
        if report.proposed is not None:
            merge = ["git", *PERSON, "merge", "-q", "--no-edit", report.proposed]
            subprocess.run(merge, cwd=world.evolved, check=True)
        after = right_now(world, world.evolved)
    world.week += 1
    return figures_of(world, report, len(without), without, after)


def right_now(world: World, folder: Path) -> dict[str, bool]:
    """Ask every question once in a folder, and say which are right."""
    layout = Layout(folder)
    config = load_config(layout.config).config
    proof, _ = prove(ProofRequest(layout, config, world.environ, ServerToolbox(), runs=1, baseline=False))
    found = {
        each.question.id: all(outcome.word == "right" for outcome in outcomes)
        for each in proof.questions
        for outcomes in each.outcomes.values()
    }
    evals = run_evals(EvalRequest(layout, config, world.environ, save=False))
    measures = {each.case.name: each.status == "pass" for each in evals.results if each.case.asked.kind == "query"}
    return {**found, **measures}


def figures_of(
    world: World, report: EvolveReport, count: int, without: Mapping[str, bool], after: Mapping[str, bool]
) -> WeekFigures:
    """Return the figures of a week."""
    accepted = [each for each in report.groups if each.verdict is Verdict.ACCEPTED]
    tried = Counter(repair.verdict.value for each in report.groups for repair in each.repairs)
    asked_before = {each.question for each in report.questions if each.before == each.runs > 0}
    worse = [name for name in asked_before if not after.get(name.removesuffix(" in words"), True)]
    return WeekFigures(
        world.week,
        count,
        sum(without.values()),
        report.before.right if report.before is not None else 0,
        sum(after.values()),
        Counter(each.verdict.value for each in report.groups),
        tried,
        tuple(len({path for repair in each.accepted for path in repair.files}) for each in accepted),
        len(worse),
    )


HEAD: Final = (
    "week",
    "without",
    "before",
    "after",
    "groups",
    "repairs tried",
    "files per accepted group",
    "regressions",
)


def shown(figures: WeekFigures) -> tuple[str, ...]:
    """Return the figures of a week as a row."""

    def counted(counts: Mapping[str, int]) -> str:
        return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"

    share = [f"{100 * right / figures.questions:.0f} %" for right in (figures.without, figures.before, figures.after)]
    sizes = ", ".join(map(str, figures.sizes)) or "none"
    return (
        str(figures.week),
        *share,
        counted(figures.verdicts),
        counted(figures.repairs),
        sizes,
        str(figures.regressions),
    )


def main() -> int:
    """Print the figures of each week."""
    parser = argparse.ArgumentParser(
        description="Let the context of a made-up company decay, with and without repairs."
    )
    parser.add_argument("seed", type=int, nargs="?", default=3)
    parser.add_argument("--weeks", type=int, default=WEEKS)
    parser.add_argument("--questions", type=int, default=60)
    options = parser.parse_args()
    print(" | ".join(HEAD), flush=True)
    weeks: list[WeekFigures] = []
    with tempfile.TemporaryDirectory(prefix="ktx-evolve-") as scratch:
        world = make_world(Path(scratch), options.seed, questions=options.questions, weeks=options.weeks)
        for _ in range(options.weeks):
            weeks.append(pass_week(world))
            print(" | ".join(shown(weeks[-1])), flush=True)
    regressions = sum(each.regressions for each in weeks)
    verdicts = sum((Counter(each.repairs) for each in weeks), Counter())
    print(f"repairs: {', '.join(f'{count} {name}' for name, count in sorted(verdicts.items()))}")
    print(f"regressions landed: {regressions}")
    return int(regressions > 0)


if __name__ == "__main__":
    sys.exit(main())
