"""The questions of a proof: in words, with the rows that are right and the wrong readings that are known."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, Emit, Hint, KtxError, Record, ResultWarning, UsageError, did_you_mean, listing, plural
from ktx_cli.jobs.check.eval.cases import Case, Expectation, load_evals
from ktx_cli.jobs.check.eval.results import CaseAnswer, CaseResult, difference
from ktx_cli.jobs.check.eval.run import Asker, EvalRequest, expectation_of
from ktx_cli.project import EVALS_NAME, KtxConfig, Layout, Warn, load_config
from ktx_cli.warehouses import ConnectorPool


@dataclass(frozen=True, slots=True)
class Question(Record):
    """A question with its truth.

    `readings`: name -> what the answer is when the question is read wrongly in that way. `group`: where what it needs
    is written, for questions of the bundled company. `attributes`: of the caller, for row policies.
    """

    id: str
    text: str
    expect: Expectation
    connection: str = ""
    readings: Mapping[str, Expectation] = field(default_factory=dict)
    group: str = ""
    place: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    json_keys = ("id", "text", "expect", "connection", "readings", "group", "place", "attributes")

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Question:
        """Return the question that `to_json` gave."""
        readings = {name: _expectation(each) for name, each in raw["readings"].items()}
        expect = _expectation(raw["expect"])
        plain = {name: raw[name] for name in ("id", "text", "connection", "group", "place", "attributes")}
        return cls(**plain, expect=expect, readings=readings)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answer: one for a single value, none where only the number of rows is known."""
        if self.expect.has_value:
            return ("value",)
        return () if self.expect.table is None else tuple(self.expect.table[0])

    @property
    def prompt(self) -> str:
        """The question as an agent gets it: with the columns of the answer, which are no secret."""
        lines = [f"The question: {self.text}"]
        if self.connection:
            lines.append(f"It is about the connection `{self.connection}`.")
        if self.expect.has_value:
            lines.append("The answer is a single value: one row with one column.")
        elif self.columns:
            lines.append(
                f"The columns of the answer, in this order: {listing((f'`{each}`' for each in self.columns), 50)}."
            )
        return "\n".join(lines)

    def reading_of(self, answer: CaseAnswer) -> str | None:
        """Return the wrong reading that an answer is, by its name; None where it is none of those known."""
        return next((name for name, each in sorted(self.readings.items()) if self._is(each, answer)), None)

    def is_right(self, answer: CaseAnswer) -> bool:
        """Whether an answer has the expected rows, as `ktx eval` compares them."""
        return self._is(self.expect, answer)

    def _is(self, expect: Expectation, answer: CaseAnswer) -> bool:
        if not expect.has_value and expect.table is not None and len(answer.columns) == len(expect.table[0]):
            answer = CaseAnswer(tuple(expect.table[0]), answer.rows)
        return difference(expect, answer) is None


def load_questions(
    layout: Layout, config: KtxConfig, environ: Mapping[str, str], names: Sequence[str], warn: Warn
) -> list[Question]:
    """Return the questions of the project's evals; the truth of one without an expected answer is computed.

    Raises `UsageError` where none has a question in words and a truth, and as `load_evals`.
    """
    loaded = load_evals(layout)
    for warning in loaded.warnings:
        warn(warning)
    questions = questions_of(layout, config, environ, loaded.named(names), warn)
    if not questions:
        what = "give cases of {} a `question` in words and what is expected, or ask about a made-up company: {}"
        hint = Hint(what, f"{EVALS_NAME}/*.yaml", Command("proof", "--company", "7"))
        raise UsageError("there is no question to ask", hint=hint)
    return questions


def questions_of(
    layout: Layout, config: KtxConfig, environ: Mapping[str, str], named: Sequence[Case], warn: Warn
) -> list[Question]:
    """Return the questions in words of some cases; those whose truth nobody states or can compute are a warning."""
    cases = [case for case in named if case.asked.question is not None]
    questions, silent = [], []
    with contextlib.closing(ConnectorPool()) as pool:
        asker = Asker(EvalRequest(layout, config, environ, save=False), pool)
        for case in cases:
            expect = case.asked.expect or _computed(case, asker)
            if expect is None:
                silent.append(case.name)
                continue
            place = f"{case.path}:{case.line}"
            asked, attributes = str(case.asked.question), case.asked.attributes
            questions.append(
                Question(case.name, asked, expect, case.connection or "", place=place, attributes=attributes)
            )
    if silent:
        message = f"{plural(len(silent), 'eval')} without an expected answer cannot be used: {listing(silent)}"
        warn(ResultWarning("no_truth", message, hint=Command("eval", *silent[:5], "--accept")))
    return questions


def _expectation(raw: Mapping[str, Any]) -> Expectation:
    """Return the expectation that `to_json` gave; where no rows are expected, it names no columns."""
    return Expectation.model_validate({key: value for key, value in raw.items() if key != "columns" or value})


@dataclass(frozen=True, slots=True)
class Subject:
    """The project whose context is judged, and its questions. `made_up`: nothing in it is real."""

    layout: Layout
    config: KtxConfig
    questions: tuple[Question, ...]
    made_up: bool = False

    @property
    def databases(self) -> list[str]:
        """The connections to databases."""
        return sorted(self.config.databases())


@contextlib.contextmanager
def company_of(
    seed: int, config: KtxConfig, environ: Mapping[str, str], names: Sequence[str], warn: Warn, emit: Emit
) -> Iterator[Subject]:
    """Build the bundled company of a seed and its context, without a model, and lend it with its questions.

    `config`: gives the model that answers. `names`: ids of questions; none: all.
    """
    import duckdb

    from ktx_cli.jobs.ingest.plan import IngestRequest
    from ktx_cli.jobs.ingest.run import ingest
    from ktx_cli.jobs.proof.company.check import AnswerKey
    from ktx_cli.jobs.proof.company.company import WAREHOUSE_ID, write_company

    with tempfile.TemporaryDirectory(prefix="ktx-proof-") as scratch:
        folder = Path(scratch) / "company"
        company = write_company(folder, seed)
        unknown = [name for name in names if all(each.id != name for each in company.questions)]
        if unknown:
            known = [each.id for each in company.questions]
            near = did_you_mean(unknown[0], known)
            hint = Command("proof", near, "--company", seed) if near else f"for example: {listing(known, 8)}"
            raise UsageError(f"the company of seed {seed} has no question `{unknown[0]}`", hint=hint)
        report, warnings = ingest(IngestRequest(folder, environ, no_llm=True, emit=emit))
        for warning in warnings:
            warn(warning)
        error = report.error()
        if error is not None:
            raise error
        settled = {each.id: each.settled_by for each in company.switched_on}
        with duckdb.connect(company.warehouse, read_only=True) as database:
            key = AnswerKey(database)
            questions = tuple(
                Question(
                    asked.id,
                    asked.text,
                    key.expected(asked, asked.truth),
                    WAREHOUSE_ID,
                    {f"{each.convention}: {each.alternative}": key.expected(asked, each.sql) for each in asked.wrong},
                    _group([settled[name] for name in asked.conventions]),
                )
                for asked in company.questions
                if not names or asked.id in names
            )
        layout = Layout(folder)
        own = load_config(layout.config).config
        yield Subject(layout, own.model_copy(update={"llm": config.llm}), questions, made_up=True)


GROUPS: Final = ("document", "sql", "data", "nothing")
"""Where the conventions of a question are settled, the easiest to find first."""


def _group(settled: Sequence[str]) -> str:
    """Return where the convention is settled that is hardest to find."""
    return max(settled, key=GROUPS.index, default="")


def _computed(case: Case, asker: Asker) -> Expectation | None:
    """Return the truth of a case as its query or statement has it now; None for one that only a model answers."""
    if case.asked.kind == "ask":
        return None
    result = CaseResult(case, "new")
    asker.ask(result)
    if result.answer is None:
        raise KtxError(f"the eval `{case.name}` has no answer", hint=Command("eval", case.name))
    expected = expectation_of(result.answer)
    return Expectation.model_validate({"rows": expected} if isinstance(expected, list) else expected)
