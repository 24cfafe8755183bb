"""The questions of a proof: texts with the expected rows and known wrong readings."""

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
    """A question with its expected answer.

    `readings` maps names of wrong readings to their answers. `group` is the place where the required convention is
    documented, for the bundled company. `attributes` belong to the caller, for row policies.
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
        """Return the question from the result of `to_json`."""
        readings = {name: _expectation(each) for name, each in raw["readings"].items()}
        expect = _expectation(raw["expect"])
        plain = {name: raw[name] for name in ("id", "text", "connection", "group", "place", "attributes")}
        return cls(**plain, expect=expect, readings=readings)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answer: one for a single value, none if only the number of rows is known."""
        if self.expect.has_value:
            return ("value",)
        return () if self.expect.table is None else tuple(self.expect.table[0])

    @property
    def prompt(self) -> str:
        """The question for an agent, including the answer columns."""
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
        """Return the name of the known wrong reading that an answer matches, or None."""
        return next((name for name, each in sorted(self.readings.items()) if self._is(each, answer)), None)

    def is_right(self, answer: CaseAnswer) -> bool:
        """Whether an answer has the expected rows, compared as in `ktx eval`."""
        return self._is(self.expect, answer)

    def _is(self, expect: Expectation, answer: CaseAnswer) -> bool:
        if not expect.has_value and expect.table is not None and len(answer.columns) == len(expect.table[0]):
            answer = CaseAnswer(tuple(expect.table[0]), answer.rows)
        return difference(expect, answer) is None


def load_questions(
    layout: Layout, config: KtxConfig, environ: Mapping[str, str], names: Sequence[str], warn: Warn
) -> list[Question]:
    """Return the questions from the project's evals. Missing expected answers are computed.

    Raises `UsageError` if no eval has a question in words with an answer, and the errors of `load_evals`.
    """
    loaded = load_evals(layout)
    for warning in loaded.warnings:
        warn(warning)
    questions = questions_of(layout, config, environ, loaded.named(names), warn)
    if not questions:
        what = "add a `question` and an expected answer to cases in {}, or use the bundled company: {}"
        hint = Hint(what, f"{EVALS_NAME}/*.yaml", Command("proof", "--company", "7"))
        raise UsageError("there are no questions to ask", hint=hint)
    return questions


def questions_of(
    layout: Layout, config: KtxConfig, environ: Mapping[str, str], named: Sequence[Case], warn: Warn
) -> list[Question]:
    """Return the questions in words from some cases. Cases without a known answer lead to a warning."""
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
    """Return the expectation from the result of `to_json`. Without rows, it has no columns."""
    return Expectation.model_validate({key: value for key, value in raw.items() if key != "columns" or value})


@dataclass(frozen=True, slots=True)
class Subject:
    """The project under test and its questions. `made_up` is true for the bundled company."""

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
    """Build the bundled company of a seed with its context, without a model, and provide it with its questions.

    `config` has the model that answers. `names` are the ids of questions, by default all.
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
"""The places where conventions are documented, easiest to find first."""


def _group(settled: Sequence[str]) -> str:
    """Return the place of the convention that is hardest to find."""
    return max(settled, key=GROUPS.index, default="")


def _computed(case: Case, asker: Asker) -> Expectation | None:
    """Compute the expected answer of a case from its query or statement, or return None for a model question."""
    if case.asked.kind == "ask":
        return None
    result = CaseResult(case, "new")
    asker.ask(result)
    if result.answer is None:
        raise KtxError(f"the eval `{case.name}` has no answer", hint=Command("eval", case.name))
    expected = expectation_of(result.answer)
    return Expectation.model_validate({"rows": expected} if isinstance(expected, list) else expected)
