"""The records of a proof: its plan with the expected answers, and every attempt, for rescoring offline."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.core import Command, KtxError, Record
from ktx_cli.jobs.proof.artifacts import Artifact, ArtifactKind
from ktx_cli.jobs.proof.questions import Question
from ktx_cli.llm import Usage
from ktx_cli.project import Layout, read_bytes, write_atomic
from ktx_cli.runs import LineFile, find_run, read_lines

FORMAT: Final = 1
"""Version of the records. Increase it when a stored proof would be scored differently."""

_MOST_BYTES: Final = 1_000_000_000

ANSWERED: Final = "answered"
NO_ANSWER: Final = "no_answer"
ERROR: Final = "error"


@dataclass(frozen=True, slots=True)
class Attempt(Record):
    """One run of one question in one arm: its answer and usage.

    `status` is `answered`, `no_answer`, or `error` if the model call failed. `transcript_of` is the ktx run with its
    transcript. `shown` are the artifacts in the results of its tools.
    """

    question: str
    arm: str
    run: int
    status: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    statement: Any = None
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    shown: tuple[str, ...] = ()
    steps: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    usd: float | None = None
    seconds: float = 0.0
    model: str = ""
    transcript_of: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of the attempt in its proof."""
        return self.question, self.arm, self.run

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Attempt:
        """Return the attempt from the result of `to_json`."""
        usage = {name: count for name, count in raw["usage"].items() if name != "total_tokens"}
        values: dict[str, Any] = {name: raw[name] for name in _PLAIN}
        values |= {name: tuple(raw[name]) for name in ("columns", "assumptions", "shown")}
        return cls(**values, rows=tuple(map(tuple, raw["rows"])), usage=Usage(**usage))


_PLAIN: Final = (
    *("question", "arm", "run", "status", "statement", "reason", "steps", "calls", "usd", "seconds", "model"),
    "transcript_of",
)


@dataclass(frozen=True, slots=True)
class ProofPlan(Record):
    """The plan of a proof: questions with expected answers, arms, and the number of runs."""

    run_id: str
    questions: tuple[Question, ...]
    runs: int
    ablated: tuple[Artifact, ...] = ()
    model: str = ""
    effort: str | None = None
    baseline: bool = True
    """Whether the schema-only arm is included."""
    company: int | None = None
    """The seed of the bundled company, or None for a project."""
    context: str = ""
    """The digest of the context (`Arms.digest`), or empty if it was not recorded."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> ProofPlan:
        """Return the plan from the result of `to_json`."""
        questions = tuple(Question.of(each) for each in raw["questions"])
        ablated = tuple(
            Artifact(ArtifactKind(each["kind"]), each["name"], each["connection"]) for each in raw["ablated"]
        )
        plain = {name: raw[name] for name in ("run_id", "runs", "model", "effort", "baseline", "company")}
        return cls(**plain, questions=questions, ablated=ablated, context=raw.get("context", ""))


class ProofRecord:
    """Writes the attempts in a proof as they finish. Safe for several threads."""

    def __init__(self, layout: Layout, plan: ProofPlan) -> None:
        self._layout, self._plan = layout, plan
        document = {"format": FORMAT, **plan.to_json()}
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        layout.run_folder(plan.run_id).mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(layout.run_proof(plan.run_id), text.encode("utf-8", "surrogatepass"), mode=0o600)
        self._file = LineFile(layout.run_answers(plan.run_id), _MOST_BYTES)
        self._lock = threading.Lock()

    def add(self, attempt: Attempt) -> None:
        """Write an attempt. Raises `OSError`."""
        with self._lock:
            self._file.write(attempt.to_json())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_proof(layout: Layout, text: str) -> tuple[ProofPlan, list[Attempt]]:
    """Return the plan and attempts of a run. Raises `UsageError`, and `KtxError` for a run that is not a proof."""
    record, _ = find_run(layout, text, first=Command("proof"))
    content = read_bytes(layout.run_proof(record.run_id))
    if content is None:
        raise KtxError(f"run {record.run_id} is not a proof, or its records were deleted", hint=Command("runs", "list"))
    document = json.loads(content)
    if document.get("format") != FORMAT:
        message = f"run {record.run_id} was recorded in an incompatible format"
        raise KtxError(message, hint="score it with the version of ktx that recorded it")
    plan = ProofPlan.of(document)
    return plan, in_order(plan, map(Attempt.of, read_lines(layout.run_answers(record.run_id))))


def in_order(plan: ProofPlan, attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return attempts by question, arm and run. Of duplicates, the last one counts."""
    latest = {each.key: each for each in attempts}
    places = {question.id: place for place, question in enumerate(plan.questions)}
    return sorted(latest.values(), key=lambda each: (places.get(each.question, len(places)), each.arm, each.run))


def of_run(attempt: Attempt, run_id: str) -> Attempt:
    """Return an attempt with the run of its transcript, unless the run is already set."""
    return attempt if attempt.transcript_of else replace(attempt, transcript_of=run_id)


def attempts_of(attempts: Sequence[Attempt], arm: str) -> list[Attempt]:
    """Return the attempts in one arm."""
    return [each for each in attempts if each.arm == arm]
