"""Let a model draft repairs: one agent task for each group of findings, on its own overlay, through all gates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.agent_tools import EVOLVE_PROMPTS, evolve_prompt, tools_for
from ktx_cli.core import KtxError, listing, one_line
from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.engine import AgentTask, AgentWork, SourceWork, UnitStatus, judge_writes, run_agents, unit_key
from ktx_cli.jobs.evolve.findings import LONGEST, Finding, shown_text
from ktx_cli.jobs.evolve.groups import Group
from ktx_cli.jobs.evolve.trial import UNIT, TrialQuestion, TrialResult
from ktx_cli.project import StateDatabase, Workspace
from ktx_cli.sources import Source

if TYPE_CHECKING:
    from ktx_cli.engine import AgentContext, Models, RunPlan
    from ktx_cli.sources import FetchContext, Projection

ROLE: Final = "writer"
ROLES: Final = (ROLE, "repair")
"""The model roles for drafting."""

STEPS: Final = 40
"""Maximum number of steps for one draft."""

KIND: Final = "repair"
_ORIGIN: Final = "questions that went wrong"
_MOST_FINDINGS: Final = 30
_MOST_ROWS: Final = 50
_MOST_STATEMENTS: Final = 3


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted repair. If `workspace` is None, `reason` explains why. `stopped` is the error that ended the run."""

    workspace: Workspace | None
    reason: str = ""
    steps: int = 0
    stopped: KtxError | None = None


class FindingsSource(Source):
    """A source that exists only in the run: the findings in a group."""

    kind: ClassVar[str] = KIND

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Return nothing, because the findings come with the run."""
        return Snapshot({})

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return nothing. See `draft_repair`."""
        return ()


def draft_repair(
    plan: RunPlan, models: Models, database: StateDatabase, workspace: Workspace, group: Group, text: str
) -> Draft:
    """Let a model draft the repair for a group on top of an overlay, which does not change.

    `text` is its input from `findings_text`. A finished draft is kept until the end of the run.
    """
    work = _work(group, text, workspace)
    agents = AgentWork(
        plan,
        [work],
        workspace,
        task=lambda context, work, unit: _task(context, work, unit, text),
        prompts=EVOLVE_PROMPTS,
        is_ingest=False,
    )
    result = run_agents(agents, models, database)
    (outcome,) = result.integration.outcomes
    if result.is_interrupted:
        return Draft(None, stopped=KtxError("interrupted", hint=plan.command, code="cancelled"))
    if outcome.status is UnitStatus.LEFT:
        return Draft(None, outcome.reason, stopped=result.stopped or outcome.error)
    if outcome.status is not UnitStatus.DONE:
        return Draft(None, outcome.reason, outcome.steps)
    after = result.integration.workspace
    child = workspace.child()
    child.apply(after.changes())
    if not child.changes():
        return Draft(None, "the model changed nothing", outcome.steps)
    return Draft(child, "", outcome.steps)


def _task(context: AgentContext, work: SourceWork, unit: WorkUnit, text: str) -> AgentTask:
    session = context.open_session(
        context.base.child(),
        raw=work.snapshot.files,
        files=unit.files,
        source=work.connection,
        origin=work.snapshot.origin,
        refs_later=False,
    )
    return AgentTask(
        unit,
        ROLE,
        prompt=lambda: evolve_prompt(session, context.prompts["evolve"], text),
        tools=lambda: tools_for(session, "memory"),
        step_budget=STEPS,
        connection=work.connection,
        kind=work.kind,
        session=session,
        judge=lambda outcome, result: judge_writes(context, session, outcome, result),
        key=unit_key(context, work, unit),
        is_unit=True,
    )


def _work(group: Group, text: str, workspace: Workspace) -> SourceWork:
    content = text.encode("utf-8", "surrogatepass")
    sha256 = hashlib.sha256(content).hexdigest()
    raw = RawFile(f"{sha256}.md", sha256, len(content), lambda: content)
    state = hashlib.sha256()
    for path, held in sorted(workspace.overlaid().items()):
        state.update(f"{path}\0{held is None}\0".encode() + (held or b""))
    notes = json.dumps([group.id, state.hexdigest()])
    unit = WorkUnit(group.id, f"{group.kind.value} {group.subject}", (raw.path,), notes=notes)
    snapshot = Snapshot({raw.path: raw}, complete=False, origin=_ORIGIN, fetched=1)
    changes = Changes(added=(raw.path,))
    return SourceWork(UNIT, None, FindingsSource(), snapshot=snapshot, changes=changes, units=(unit,), asked=True)


def findings_text(
    group: Group, drafting: Sequence[TrialQuestion], results: Mapping[str, TrialResult], *, privacy: bool
) -> str:
    """Return the model input for a group: its findings and the questions for drafting.

    It contains no held-out questions. With `privacy`, it contains no expected rows.
    """
    shown = {each.id for each in drafting}
    findings = [each for each in group.findings if not each.question or each.question in shown]
    lines = [f"This is about {group.subject}" + (f" (connection `{group.connection}`)." if group.connection else ".")]
    lines += ["", *(_finding_line(each) for each in findings[:_MOST_FINDINGS])]
    if len(findings) > _MOST_FINDINGS:
        lines.append(f"- and {len(findings) - _MOST_FINDINGS} more")
    if drafting:
        lines += ["", "Questions with known correct rows:"]
        for question in drafting:
            lines += _question_lines(question, results.get(question.id), privacy=privacy)
    return "\n".join(lines)


def _finding_line(finding: Finding) -> str:
    parts = [f"- {finding.kind.value}, {finding.count} times"]
    parts += [f"asked: {finding.text}"] if finding.text else []
    parts += [f"needs {listing(finding.names, 6)}"] if finding.names else []
    parts += [f"missing: {listing(finding.missing, 6)}"] if finding.missing else []
    parts += [finding.reason] if finding.reason else []
    parts += [f"in {listing(finding.places, 3)}"] if finding.places else []
    return one_line("; ".join(parts), 4 * LONGEST)


def _question_lines(question: TrialQuestion, result: TrialResult | None, *, privacy: bool) -> Iterator[str]:
    yield f"- {shown_text(question.text)}"
    expect = question.worded.expect if question.worded is not None else question.case.asked.expect
    if expect is not None:
        yield f"  expected: {_expected(expect.to_json(), privacy=privacy)}"
    for statement in () if result is None else result.statements[:_MOST_STATEMENTS]:
        asked = statement if isinstance(statement, str) else json.dumps(statement, ensure_ascii=False, default=str)
        yield f"  query behind a wrong answer: {shown_text(asked)}"


def _expected(expect: Mapping[str, Any], *, privacy: bool) -> str:
    if privacy:
        columns = expect.get("columns")
        return (
            f"rows with the columns {listing(columns, 30)}; values are hidden" if columns else "a value that is hidden"
        )
    held = dict(expect)
    rows = held.get("rows")
    if isinstance(rows, list) and len(rows) > _MOST_ROWS:
        held["rows"] = [*rows[:_MOST_ROWS], f"and {len(rows) - _MOST_ROWS} more"]
    return json.dumps(held, ensure_ascii=False, default=str)
