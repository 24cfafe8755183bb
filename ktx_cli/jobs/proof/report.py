"""The figures of a proof: results and usage of each arm, the lift from the context, and the effect of each artifact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, Literal

from ktx_cli.core import Command, KtxError, Record, UsageError, listing, plural
from ktx_cli.jobs.check.eval.results import CaseAnswer
from ktx_cli.jobs.proof.arms import CONTEXT, SCHEMA, Arm
from ktx_cli.jobs.proof.artifacts import Artifact
from ktx_cli.jobs.proof.questions import GROUPS, Question
from ktx_cli.jobs.proof.records import ANSWERED, ERROR, NO_ANSWER, Attempt, ProofPlan, attempts_of
from ktx_cli.jobs.proof.statistics import (
    LEVEL,
    Interval,
    PairedTest,
    bootstrap_mean,
    clustered_share,
    holm,
    mcnemar,
    stratified_test,
)
from ktx_cli.llm import Usage

Word = Literal["right", "wrong", "no_answer", "error"]
WORDS: Final[tuple[Word, ...]] = ("right", "wrong", "no_answer", "error")

SIGNIFICANT: Final = 1 - LEVEL
"""The significance level of corrected probabilities."""


@dataclass(frozen=True, slots=True)
class Outcome(Record):
    """The outcome of an attempt.

    `reading` is the known wrong reading that the answer matches. `silent` means wrong without a stated assumption.
    """

    word: Word
    reading: str | None = None
    silent: bool = False


def judge(question: Question, attempt: Attempt) -> Outcome:
    """Return the outcome of an attempt. Rows are compared exactly, as in `ktx eval`."""
    if attempt.status == ERROR:
        return Outcome("error")
    if attempt.status == NO_ANSWER:
        return Outcome("no_answer")
    assert attempt.status == ANSWERED
    answer = CaseAnswer(attempt.columns, attempt.rows)
    if question.is_right(answer):
        return Outcome("right")
    return Outcome("wrong", question.reading_of(answer), silent=not attempt.assumptions)


@dataclass(frozen=True, slots=True)
class ArmFigures(Record):
    """The figures for one arm. Shares refer to finished runs; calls, tokens, cost and seconds are medians.

    `usd` is None if a run has no price. `total_usd` covers all runs with known prices.
    """

    arm: str
    runs: int
    outcomes: Mapping[str, int]
    right: Interval
    silently_wrong: Interval
    readings: Mapping[str, int]
    calls: float
    usage: Usage
    usd: float | None
    total_usd: float
    seconds: float
    groups: Mapping[str, Interval] = field(default_factory=dict)
    """The share of correct answers, by the place where the questions' conventions are documented."""

    json_keys = (
        *(
            "arm",
            "runs",
            "outcomes",
            "right",
            "groups",
            "silently_wrong",
            "readings",
            "calls",
            "tokens=usage",
            "cost_usd=usd",
        ),
        *("total_cost_usd=total_usd", "seconds"),
    )


@dataclass(frozen=True, slots=True)
class Comparison(Record):
    """The comparison of two arms by question. `harm` counts answers that become wrong with more context."""

    arm: str
    against: str
    questions: int
    lift: Interval
    harm: Interval
    test: PairedTest


@dataclass(frozen=True, slots=True)
class Ablation(Record):
    """The effect of one artifact: the context with and without it, on the questions that saw it.

    `p` is corrected for the number of artifacts. `tokens` is its average cost per run.
    """

    artifact: Artifact
    questions: int
    lift: Interval
    p: float
    tokens: float
    usd: float | None
    verdict: Literal["earns", "no difference shown", "harms", "not seen"]

    json_keys = ("artifact=artifact.id", "questions", "lift", "p", "tokens", "cost_usd=usd", "verdict")


@dataclass(frozen=True, slots=True)
class QuestionRow(Record):
    """A question with the outcomes of its runs by arm."""

    question: Question
    outcomes: Mapping[str, tuple[Outcome, ...]]

    json_keys = (
        "question=question.id",
        "text=question.text",
        "group=question.group",
        "place=question.place",
        "outcomes",
    )


@dataclass(slots=True)
class ProofReport(Record):
    """The figures of a proof. `stopped` is the error that ended it early."""

    plan: ProofPlan
    arms: list[ArmFigures] = field(default_factory=list)
    comparison: Comparison | None = None
    ablations: list[Ablation] = field(default_factory=list)
    questions: list[QuestionRow] = field(default_factory=list)
    missing: int = 0
    stopped: KtxError | None = None
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """The arms without a finished attempt, each with the error of its first attempt."""

    def failure(self) -> KtxError | None:
        """Return the error for a proof in which an arm has no finished attempt."""
        for arm, reason in self.unreachable.items():
            message = f"no attempt of the arm `{arm}` finished: {reason}"
            return KtxError(message, hint=Command("doctor"), code="proof_failed")
        return None

    @property
    def status(self) -> str:
        """`done`, or `stopped` if attempts are missing."""
        return "stopped" if self.stopped is not None or self.missing else "done"

    json_keys = (
        *("run_id=plan.run_id", "model=plan.model", "effort=plan.effort", "runs=plan.runs", "status", "missing"),
        *("arms", "comparison", "ablations", "questions"),
    )


def score(plan: ProofPlan, attempts: Sequence[Attempt]) -> ProofReport:
    """Return the figures for recorded attempts. The result is deterministic."""
    questions = {each.id: each for each in plan.questions}
    outcomes: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for each in attempts:
        outcomes[each.arm][each.question].append(judge(questions[each.question], each))
    report = ProofReport(plan)
    names = [name for name in (SCHEMA, CONTEXT) if name in outcomes]
    report.arms = [
        replace(
            _figures(name, attempts_of(attempts, name), outcomes[name]), groups=_groups(plan.questions, outcomes[name])
        )
        for name in names
    ]
    if len(names) == 2:
        report.comparison = _comparison(CONTEXT, SCHEMA, outcomes)
    report.unreachable = {
        name: attempts_of(attempts, name)[0].reason
        for name in names
        if all(each.status == ERROR for each in attempts_of(attempts, name))
    }
    report.ablations = _ablations(plan, attempts, outcomes)
    report.questions = [
        QuestionRow(
            each, {name: tuple(outcomes[name][each.id]) for name in sorted(outcomes) if each.id in outcomes[name]}
        )
        for each in plan.questions
    ]
    report.missing = max(0, expected_attempts(plan, attempts) - len(attempts))
    return report


def expected_attempts(plan: ProofPlan, attempts: Sequence[Attempt]) -> int:
    """Return the number of attempts of a complete proof, estimated from the attempts with the full context."""
    whole = len(plan.questions) * plan.runs * (2 if plan.baseline else 1)
    return whole + sum(len(seen_by(plan, attempts, each)) for each in plan.ablated) * plan.runs


def seen_by(plan: ProofPlan, attempts: Sequence[Attempt], artifact: Artifact) -> list[str]:
    """Return the questions whose runs with the full context saw an artifact. It cannot affect other questions."""
    seen = {each.question for each in attempts if each.arm == CONTEXT and artifact.id in each.shown}
    return [each.id for each in plan.questions if each.id in seen]


_Outcomes = Mapping[str, Mapping[str, Sequence[Outcome]]]


def _shares(outcomes: Mapping[str, Sequence[Outcome]], is_one: Callable[[Outcome], bool]) -> dict[str, float]:
    """Return the share of runs with a property by question. Runs that ended with an error do not count."""
    ended = {name: [each for each in runs if each.word != "error"] for name, runs in outcomes.items()}
    return {name: fmean(map(is_one, runs)) for name, runs in ended.items() if runs}


def _is_right(outcome: Outcome) -> bool:
    return outcome.word == "right"


def _is_wrong(outcome: Outcome) -> bool:
    return outcome.word == "wrong"


def _is_silent(outcome: Outcome) -> bool:
    return outcome.silent


def _figures(name: str, attempts: Sequence[Attempt], outcomes: Mapping[str, Sequence[Outcome]]) -> ArmFigures:
    every = [each for runs in outcomes.values() for each in runs]
    readings: dict[str, int] = defaultdict(int)
    for each in every:
        if each.reading is not None:
            readings[each.reading] += 1
    ended = [each for each in attempts if each.status != ERROR] or list(attempts)
    prices = [each.usd for each in ended]
    known = [price for price in prices if price is not None]
    parts = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    usage = Usage(**{part: round(median(getattr(each.usage, part) for each in ended)) for part in parts})
    return ArmFigures(
        name,
        len(attempts),
        {word: sum(each.word == word for each in every) for word in WORDS},
        clustered_share(list(_shares(outcomes, _is_right).values())),
        clustered_share(list(_shares(outcomes, _is_silent).values())),
        dict(sorted(readings.items())),
        median(each.calls for each in ended),
        usage,
        median(known) if len(known) == len(prices) else None,
        round(sum(each.usd or 0.0 for each in attempts), 6),
        round(median(each.seconds for each in ended), 3),
    )


def _groups(questions: Sequence[Question], outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Interval]:
    shares = _shares(outcomes, _is_right)
    return {
        group: clustered_share([shares[each.id] for each in questions if each.group == group and each.id in shares])
        for group in GROUPS
        if any(each.group == group and each.id in shares for each in questions)
    }


def _comparison(arm: str, against: str, outcomes: _Outcomes) -> Comparison:
    ours, theirs = _shares(outcomes[arm], _is_right), _shares(outcomes[against], _is_right)
    wrong = _shares(outcomes[arm], _is_wrong)
    both = [name for name in ours if name in theirs]
    lifts = [ours[name] - theirs[name] for name in both]
    harm = clustered_share([theirs[name] * wrong[name] for name in both])
    return Comparison(arm, against, len(both), bootstrap_mean(lifts), harm, mcnemar(lifts))


def _ablations(plan: ProofPlan, attempts: Sequence[Attempt], outcomes: _Outcomes) -> list[Ablation]:
    """Return the effect of each artifact, with probabilities and intervals corrected for multiple comparisons."""
    asked = [each for each in plan.ablated if outcomes.get(Arm.without(each).name)]
    level = 1 - SIGNIFICANT / max(1, len(asked))
    chances = [stratified_test(_strata(outcomes, Arm.without(each).name)) for each in asked]
    corrected = dict(zip(asked, holm(chances), strict=True))
    return [
        _ablation(each, attempts, outcomes, corrected[each], level) if each in corrected else _unseen(each)
        for each in plan.ablated
    ]


def _unseen(artifact: Artifact) -> Ablation:
    return Ablation(artifact, 0, Interval(0.0, 0.0, 0.0), 1.0, 0.0, None, "not seen")


def _ablation(artifact: Artifact, attempts: Sequence[Attempt], outcomes: _Outcomes, p: float, level: float) -> Ablation:
    arm = Arm.without(artifact).name
    with_it, without = _shares(outcomes[CONTEXT], _is_right), _shares(outcomes[arm], _is_right)
    both = [name for name in without if name in with_it]
    lift = bootstrap_mean([with_it[name] - without[name] for name in both], level=level)
    pairs = [[each for each in attempts if each.arm == name and each.question in both] for name in (CONTEXT, arm)]
    tokens = _mean(each.usage.total for each in pairs[0]) - _mean(each.usage.total for each in pairs[1])
    prices = [[each.usd for each in side if each.usd is not None] for side in pairs]
    whole = all(len(known) == len(side) for known, side in zip(prices, pairs, strict=True))
    usd = round(_mean(prices[0]) - _mean(prices[1]), 6) if whole else None
    differs = p < SIGNIFICANT and lift.estimate != 0
    verdict: Any = ("earns" if lift.estimate > 0 else "harms") if differs else "no difference shown"
    return Ablation(artifact, len(both), lift, p, round(tokens, 1), usd, verdict)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0


def _strata(outcomes: _Outcomes, arm: str) -> list[tuple[int, int, int, int]]:
    """Return the number of correct runs and of all runs for each question, with and without the artifact."""
    strata = []
    for name, runs in outcomes[arm].items():
        counts = []
        for side in (outcomes[CONTEXT].get(name, ()), runs):
            ended = [each for each in side if each.word != "error"]
            counts += [sum(map(_is_right, ended)), len(ended)]
        strata.append((counts[0], counts[1], counts[2], counts[3]))
    return strata


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions for CI as shares. None means no condition."""

    require_lift: float | None = None
    max_harm: float | None = None

    def error(self, report: ProofReport) -> KtxError | None:
        """Return the error if a proof does not meet the conditions."""
        found = report.comparison
        if (self.require_lift is None and self.max_harm is None) or report.stopped is not None:
            return None
        if found is None:
            return KtxError("the proof has no schema-only arm, so ktx cannot check the conditions", code="proof_failed")
        failed = []
        if self.require_lift is not None and found.lift.low < self.require_lift:
            failed.append(
                f"the lift may be as low as {percent(found.lift.low)}, but {percent(self.require_lift)} is required"
            )
        if self.max_harm is not None and found.harm.estimate > self.max_harm:
            failed.append(f"the harm is {percent(found.harm.estimate)}, but only {percent(self.max_harm)} is allowed")
        if not failed:
            return None
        hint = "if the interval is wide, add questions or use more --runs"
        return KtxError("; ".join(failed), hint=hint, code="proof_failed")


def percent(share: float) -> str:
    """Format a share as a percentage: `12.5 %`."""
    return f"{100 * share + 0.0:.1f}%".replace("-0.0%", "0.0%")


def interval_text(interval: Interval) -> str:
    """Format an estimate with its interval: `62.0% (51.2 to 71.7)`."""
    low, high = (percent(each).removesuffix("%") for each in (interval.low, interval.high))
    return f"{percent(interval.estimate)} ({low} to {high})"


GROUP_COLUMNS: Final = ("settled by", "questions")
"""The first columns of the table for the bundled company. The other columns are the arms."""

ABLATION_COLUMNS: Final = ("artifact", "verdict", "questions", "lift", "p", "tokens", "cost")


def arm_table(report: ProofReport) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the figures for all arms, with one column for each arm."""
    rows = (
        ("right", lambda each: interval_text(each.right)),
        ("silently wrong", lambda each: interval_text(each.silently_wrong)),
        ("right, wrong, none, error", lambda each: ", ".join(str(each.outcomes[word]) for word in WORDS)),
        ("tool calls", lambda each: f"{each.calls:g}"),
        ("fresh tokens", lambda each: f"{each.usage.input_tokens:,}"),
        ("cache writes", lambda each: f"{each.usage.cache_write_tokens:,}"),
        ("cache reads", lambda each: f"{each.usage.cache_read_tokens:,}"),
        ("output tokens", lambda each: f"{each.usage.output_tokens:,}"),
        ("cost", lambda each: "unknown" if each.usd is None else f"${each.usd:.4f}"),
        ("seconds", lambda each: f"{each.seconds:.1f}"),
    )
    columns = ["figure", *(each.arm for each in report.arms)]
    return columns, [(name, *map(text, report.arms)) for name, text in rows]


def group_rows(report: ProofReport) -> list[tuple[str, ...]]:
    """Return the shares of correct answers by the place of the conventions, with one column for each arm."""
    groups = [group for group in GROUPS if any(group in each.groups for each in report.arms)]
    return [
        (
            group,
            str(sum(each.group == group for each in report.plan.questions)),
            *(interval_text(each.groups[group]) if group in each.groups else "" for each in report.arms),
        )
        for group in groups
    ]


def ablation_rows(report: ProofReport) -> list[tuple[str, ...]]:
    """Return a row for each artifact that a question saw. `facts_of` lists the others."""
    return [
        (
            each.artifact.id,
            each.verdict,
            str(each.questions),
            interval_text(each.lift),
            f"{each.p:.4f}",
            f"{each.tokens:+,.0f}",
            "unknown" if each.usd is None else f"{'-' if each.usd < 0 else '+'}${abs(each.usd):.4f}",
        )
        for each in report.ablations
        if each.verdict != "not seen"
    ]


def facts_of(report: ProofReport) -> list[tuple[str, str]]:
    """Return the facts below the table."""
    plan, found = report.plan, report.comparison
    about = "" if plan.company is None else f" about the company of seed {plan.company}"
    asked = f"{plural(len(plan.questions), 'question')}{about}, {plural(plan.runs, 'run')} each"
    facts = [("asked", f"{asked}, {plan.model}" + (f" (effort {plan.effort})" if plan.effort else ""))]
    if found is not None:
        better, worse = found.test.better, found.test.worse
        facts += [
            ("lift", f"{interval_text(found.lift)} with the context"),
            ("questions", f"{better} better, {worse} worse of {found.questions}; McNemar exact p = {found.test.p:.4f}"),
            ("harm", f"{interval_text(found.harm)}: right without the context, wrong with it"),
        ]
    readings = {name: count for each in report.arms if each.arm == CONTEXT for name, count in each.readings.items()}
    if readings:
        facts.append(
            ("wrong readings with context", ", ".join(f"{name} ({count})" for name, count in readings.items()))
        )
    unseen = [each.artifact.id for each in report.ablations if each.verdict == "not seen"]
    if unseen:
        count = plural(len(unseen), "artifact")
        facts.append(("not seen", f"{count} that no question saw: {listing(unseen, 8)}"))
    if report.missing:
        facts.append(("missing", f"{plural(report.missing, 'attempt')}; run the same command again to continue"))
    facts.append(("run", plan.run_id))
    return facts


BEGIN: Final = "<!-- ktx proof -->"
END: Final = "<!-- end of ktx proof -->"
"""The lines that enclose a report in a Markdown file. The text between them is replaced."""


def place_in(text: str | None, path: Path) -> tuple[str, str]:
    """Return the text before and after the report in a file. `text` is None if the file does not exist.

    Raises `UsageError` for a file without the marker lines, so that other text is never replaced.
    """
    if text is None:
        return "", ""
    before, begin, rest = text.partition(BEGIN)
    if not begin:
        message = f"{path} has no marker lines for the report"
        raise UsageError(message, hint=f"add the line {BEGIN} where the report belongs")
    return before, rest.partition(END)[2].removeprefix("\n")


def markdown(report: ProofReport) -> str:
    """Return the report for a README, between its marker lines."""
    lines = [BEGIN, "", *_table(*arm_table(report)), ""]
    if rows := group_rows(report):
        lines += [*_table((*GROUP_COLUMNS, *(each.arm for each in report.arms)), rows), ""]
    if rows := ablation_rows(report):
        lines += [*_table(ABLATION_COLUMNS, rows), ""]
    lines += [f"* {name}: {text}" for name, text in facts_of(report)]
    return "\n".join([*lines, "", END]) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    texts = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in texts]
