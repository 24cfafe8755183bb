"""`ktx evolve`: collects and groups findings, tries repairs, and creates a branch with a commit per accepted group.

Repairs are tried one after another on top of the accepted ones, and all together at the end. The current branch, the
index and the working files do not change.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.agent_tools import Find, in_memory
from ktx_cli.core import (
    Command,
    Emit,
    Hint,
    KtxError,
    NotReadyError,
    ResultWarning,
    StepFinished,
    StepStarted,
    UsageError,
    ignore_events,
    listing,
    monotonic,
    new_run_id,
    plural,
)
from ktx_cli.engine import (
    Cancellation,
    Gates,
    LockedRun,
    MetricGate,
    Models,
    Preflight,
    PreflightFailed,
    ProjectBase,
    RunPlan,
    TaskStore,
    closing,
    under_lock,
    writable_repository,
)
from ktx_cli.jobs.check.eval.cases import load_evals
from ktx_cli.jobs.decide.draft import DecisionDraft, GivenAnswer
from ktx_cli.jobs.decide.points import load_decisions
from ktx_cli.jobs.evolve.audit import Asking, audited, findings_of_askings, transcribed
from ktx_cli.jobs.evolve.draft import KIND as DRAFT_KIND
from ktx_cli.jobs.evolve.draft import ROLES, draft_repair, findings_text
from ktx_cli.jobs.evolve.findings import KnownContext, broken_findings, counted, findings_of_questions
from ktx_cli.jobs.evolve.gate import refusals
from ktx_cli.jobs.evolve.groups import Group, GroupKind, group_findings
from ktx_cli.jobs.evolve.repairs import Repair, Repairs
from ktx_cli.jobs.evolve.report import (
    EvolveReport,
    GroupReport,
    QuestionRow,
    Score,
    TriedRepair,
    Verdict,
    commit_message,
    plain_command,
    way_out_of,
)
from ktx_cli.jobs.evolve.trial import (
    UNIT,
    AgentAsker,
    Comparison,
    RecordedAsker,
    TrialQuestion,
    TrialResult,
    Trials,
    compare,
    merged,
    split,
)
from ktx_cli.jobs.proof.agent import Toolbox
from ktx_cli.jobs.proof.arms import Arms
from ktx_cli.jobs.proof.attempts import KIND as ATTEMPT_KIND
from ktx_cli.jobs.proof.attempts import ROLE
from ktx_cli.jobs.proof.questions import questions_of
from ktx_cli.jobs.proof.records import Attempt, read_proof
from ktx_cli.jobs.proof.run import with_model
from ktx_cli.llm import NO_BACKEND, effort_of, model_for
from ktx_cli.project import SEMANTIC_NAME, WIKI_NAME, KtxConfig, Layout, Repository, Workspace
from ktx_cli.runs import Recorder, list_runs
from ktx_cli.search import Scope
from ktx_cli.semantic import ChangeChecks

COMMAND: Final = Command("evolve")
RUNS: Final = 4
"""Default number of attempts per question in words: the minimum at which a single question shows a difference."""

_BRANCHES: Final = "ktx/evolve"


@dataclass(frozen=True, slots=True)
class EvolveRequest:
    """The request for a run.

    `names` selects evals, by default all. `runs` is the number of attempts for each question in words. `model` and
    `effort` override those of the roles. `since` is the first day of agent requests to consider (YYYY-MM-DD). `branch`
    is the name of the new branch. `show_values` lets the model see row values regardless of `scan.privacy`.
    """

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    toolbox: Toolbox
    names: Sequence[str] = ()
    runs: int = RUNS
    model: str | None = None
    effort: str | None = None
    since: str | None = None
    branch: str | None = None
    show_values: bool = False
    dry_run: bool = False
    max_usd: float | None = None
    max_tokens: int | None = None
    wait_seconds: float = 0.0
    emit: Emit = ignore_events

    @property
    def asks_model(self) -> bool:
        """Whether a backend is configured."""
        return self.config.llm.provider.backend != NO_BACKEND


def evolve(request: EvolveRequest) -> tuple[EvolveReport, list[ResultWarning]]:
    """Draft and try repairs, and commit those that help to a new branch.

    Raises `KtxError` if the run cannot start: there is no commit, the branch exists, an eval is unknown, the backend
    does not answer, or another run holds the lock.
    """
    plan, report = _planned(request)
    preflight = Preflight(plan, report.spending, needed=request.asks_model, roles=[ROLE, *ROLES])
    preflight.check_settings()
    repository = writable_repository(request.layout)
    if repository is None or repository.head().commit is None:
        message = "the project has no commit yet, but ktx proposes repairs on a branch"
        raise NotReadyError(message, hint=Command("ingest"))
    _require_free(repository, _branch(request, plan))
    load_evals(request.layout).named(request.names)
    _warn_of_edits(plan, repository)
    try:
        with closing(plan, report):
            run = functools.partial(_work, request, report, preflight)
            under_lock(plan, report, repository, preflight, run)
    except PreflightFailed as failed:
        raise failed.error from None
    return report, plan.recorder.warnings


def findings(request: EvolveRequest) -> tuple[EvolveReport, list[ResultWarning]]:
    """Return the findings by group, without drafting repairs, calling a model or writing anything."""
    plan, report = _planned(request)
    try:
        repository = Repository.discover(request.layout.root)
        base = Workspace(ProjectBase.of_head(request.layout, repository))
        with _arms(plan, base) as arms:
            session = _Session(request, plan, report, base, arms)
            session.look()
    finally:
        plan.recorder.close()
    return report, plan.recorder.warnings


def _planned(request: EvolveRequest) -> tuple[RunPlan, EvolveReport]:
    config = with_model(request.config, request.model, request.effort) if request.asks_model else request.config
    if request.model is not None and request.asks_model:
        chosen = config.llm.models[ROLE]
        models = {**config.llm.models, **dict.fromkeys(ROLES, chosen)}
        config = config.model_copy(update={"llm": config.llm.model_copy(update={"models": models})})
    plan = RunPlan(
        *(COMMAND, request.layout, config, request.environ, Recorder(request.layout, new_run_id(), request.emit)),
        max_usd=request.max_usd,
        max_tokens=request.max_tokens,
        dry_run=request.dry_run,
        no_llm=not request.asks_model,
        wait_seconds=request.wait_seconds,
    )
    report = EvolveReport.of(plan)
    assert isinstance(report, EvolveReport)
    return plan, report


def _branch(request: EvolveRequest, plan: RunPlan) -> str:
    return request.branch or f"{_BRANCHES}/{plan.run_id}"


def _warn_of_edits(plan: RunPlan, repository: Repository) -> None:
    """Warn about uncommitted edits to the context, because repairs are based on the last commit."""
    edited = repository.changes([SEMANTIC_NAME, WIKI_NAME]).uncommitted
    if edited:
        message = f"uncommitted changes are not part of this run: {listing(edited, 5)}"
        hint = Hint("commit them first: {}", Command("commit", "-a", program="git"))
        plan.warn(ResultWarning("uncommitted_context", message, hint=hint, paths=list(edited)))


def _require_free(repository: Repository, branch: str) -> None:
    if repository.commit_at(f"refs/heads/{branch}") is not None:
        raise UsageError(f"the branch `{branch}` already exists", hint="merge or delete it, or choose another name")


@contextlib.contextmanager
def _arms(plan: RunPlan, base: Workspace) -> Iterator[Arms]:
    """Open copies of the committed context. Queries may use proposed definitions, because repairs are proposed."""
    semantic = plan.config.semantic.model_copy(update={"min_status": "proposed"})
    config = plan.config.model_copy(update={"semantic": semantic})
    with Arms(plan.layout, config, plan.environ, tree=base) as arms:
        yield arms


def _work(request: EvolveRequest, report: EvolveReport, preflight: Preflight, run: LockedRun) -> None:
    plan = run.plan
    base = Workspace(run.base)
    with contextlib.ExitStack() as stack:
        arms = stack.enter_context(_arms(plan, base))
        models = stack.enter_context(Models(preflight, run.database)) if request.asks_model else None
        if models is not None:
            models.begin()
        session = _Session(request, plan, report, base, arms, run, models)
        try:
            session.look()
            session.repair()
            session.check_together()
            session.note_questions()
        except KtxError as error:
            if not session.stops(error):
                raise
            report.stopped = error
            session.leave_rest()
            return
        session.propose()
        if models is not None:
            for kind in (ATTEMPT_KIND, DRAFT_KIND):
                TaskStore(run.database, plan.layout.state).landed(UNIT, kind)


@dataclass
class _Accepted:
    """An accepted repair as an overlay on the previous ones."""

    report: GroupReport
    repair: int
    workspace: Workspace


@dataclass
class _Session:
    """One run. If `run` is None, it is a dry run without repairs. If `models` is None, no backend is configured."""

    request: EvolveRequest
    plan: RunPlan
    report: EvolveReport
    base: Workspace
    arms: Arms
    run: LockedRun | None = None
    models: Models | None = None
    current: Workspace = field(init=False)
    """The base with all accepted repairs."""
    before: dict[str, TrialResult] = field(default_factory=dict)
    results: dict[str, TrialResult] = field(default_factory=dict)
    """The results with all accepted repairs."""
    accepted: list[_Accepted] = field(default_factory=list)
    cancellation: Cancellation = field(default_factory=Cancellation)

    def __post_init__(self) -> None:
        self.current = self.base.child()

    def look(self) -> None:
        """Ask all questions in the current context, and group the findings."""
        with self._step("findings") as conclude:
            self.before = self.trials.ask()
            self.results = dict(self.before)
            found = counted(
                [
                    *broken_findings(self.known),
                    *findings_of_questions(self.known, self.questions, self.before),
                    *findings_of_askings(self.known, self._askings(), self._hits, self.request.since),
                ]
            )
            groups = group_findings(self.known, found)
            self.report.groups = [self._group_report(each) for each in groups]
            self.report.before = self.report.after = Score.of(self.before)
            conclude(f"{plural(len(found), 'finding')} in {plural(len(groups), 'group')}")

    def repair(self) -> None:
        """Draft and try repairs by group."""
        for each in self.report.groups:
            with self._step(f"repair {each.group.id}") as conclude:
                self._repair(each)
                each.settle()
                conclude(each.verdict.value)

    def _repair(self, report: GroupReport) -> None:
        group = report.group
        if group.questions and self._is_settled(report):
            report.reason, report.way_out = "other repairs fixed its questions", None
            return
        if group.kind is GroupKind.DECISION and self._is_undecided(report):
            return
        texts = [self._question(each).text for each in report.drafting]
        for repair in self.repairs.of(group, self.current, texts):
            if self._is_settled(report):
                break
            self._try(report, repair, held=self._held(report))
            tried = report.repairs[-1].comparison
            if _sees_questions(group) and tried is not None and not (tried.improved or tried.worsened):
                break  # if the whole repair changes no answer, neither do its parts
        if self._is_settled(report):
            return
        if self.models is None or self.run is None:
            if not report.repairs:
                report.reason = "no repair can be computed, and no model backend is configured"
                report.way_out = plain_command(way_out_of(group) or Command("setup", "--only", "llm"))
        elif report.held:
            self._draft(report)
        elif not report.repairs:
            report.verdict = Verdict.UNPROVEN
            report.reason = "a draft cannot be judged, because evals/ contains fewer than two questions of the group"

    def _held(self, report: GroupReport) -> Sequence[str]:
        """Return the questions that judge a computed repair: all of the group, unless it was computed from them."""
        return report.held if _sees_questions(report.group) else report.group.questions

    def _is_settled(self, report: GroupReport) -> bool:
        """Whether a group's questions are all answered correctly, or, without questions, a repair was accepted."""
        questions = report.group.questions
        if questions:
            return all(self.results[each].is_right for each in questions)
        return bool(report.accepted)

    def _try(self, report: GroupReport, repair: Repair, held: Sequence[str]) -> None:
        """Try a repair on top of the accepted ones, and accept it if it helps."""
        spent = self._spent
        after = self.current.child()
        conflicts = after.absorb(repair.workspace)
        files = tuple(after.changes())
        tried = functools.partial(TriedRepair, repair.kind, repair.summary, files=files, evidence=repair.evidence)
        wrong = [str(each) for each in conflicts]
        wrong = wrong or refusals(self._gates(), self.current, after, renames=repair.kind == "rename")
        if wrong or not files:
            reason = wrong[0] if wrong else "another repair already made the same change"
            report.repairs.append(tried(Verdict.REJECTED, reason))
            return
        proven = repair.proof is not None and repair.proof(KnownContext(self.current, self.plan.layers))
        changes = _changes(self.base, after)
        answers = self.trials.ask(changes, report.group.questions)
        found = compare(self.results, answers, held)
        others = {each.id for each in self.questions} - set(report.group.questions)
        if others and not found.worsened and (found.improved or proven):
            answers = merged(answers, self.trials.ask(changes, others))
            found = compare(self.results, answers, held)
        verdict, reason = _judged(found, proven=proven, held=held)
        tokens, usd = self._spent
        report.repairs.append(tried(verdict, reason, comparison=found, tokens=tokens - spent[0], usd=usd - spent[1]))
        if verdict is Verdict.ACCEPTED:
            self.accepted.append(_Accepted(report, len(report.repairs) - 1, after))
            self.current = after.child()
            self.results = merged(self.results, answers)

    def _draft(self, report: GroupReport) -> None:
        """Let the model draft a repair, and try it."""
        assert self.models is not None and self.run is not None
        drafting = [self._question(each) for each in report.drafting]
        text = findings_text(report.group, drafting, self.results, privacy=self._privacy)
        spent = self._spent
        draft = draft_repair(self.plan, self.models, self.run.database, self.current, report.group, text)
        tokens, usd = self._spent
        if draft.stopped is not None:
            raise draft.stopped
        if draft.workspace is None:
            report.reason = draft.reason
            report.repairs.append(TriedRepair("draft", "model draft", Verdict.REJECTED, draft.reason))
            return
        summary = f"repair {report.group.subject}"
        self._try(report, Repair("draft", summary, draft.workspace), held=report.held)
        made = report.repairs[-1]
        report.repairs[-1] = _with_cost(made, tokens - spent[0], usd - spent[1])

    def _is_undecided(self, report: GroupReport) -> bool:
        """Whether one reading of a group's open decision fixes its questions, so that a person must decide."""
        group = report.group
        loaded = load_decisions(self.current, self.plan.layers.model(self.current, group.connection))
        point = next((each for each in loaded.decisions.points if each.id == group.subject), None)
        computed = [each for each in group.questions if self._question(each).worded is None]
        for reading in () if point is None else point.alternatives:
            child = self.current.child()
            given = GivenAnswer(group.connection, group.subject, reading.id, "ktx evolve", "2000-01-01")
            try:
                DecisionDraft(child, self.plan.layers).decide(given)
            except KtxError:  # skip a reading that cannot be applied
                continue
            answers = self.trials.ask(_changes(self.base, child), ()) if child.changes() else self.results
            if computed and all(answers[each].is_right for each in computed):
                report.verdict = Verdict.UNDECIDED
                report.reason = f"the expected answers follow this reading of an open decision: {reading.label}"
                report.way_out = plain_command(Command("decide", group.subject, "--as", reading.id))
                return True
        if not computed:
            report.verdict = Verdict.UNDECIDED
            report.reason = "it is an open decision"
            report.way_out = plain_command(way_out_of(group))
            return True
        return False

    def check_together(self) -> None:
        """Ask all questions again with all accepted repairs. Undo repairs, last first, that make one worse."""
        while self.accepted:
            with self._step("joint check") as conclude:
                answers = self.trials.ask(_changes(self.base, self.current))
                found = compare(self.before, answers, ())
                if not found.worsened:
                    self.results = merged(self.results, answers)
                    self.report.after = Score.of(self.results)
                    conclude("no question is worse")
                    return
                last = self.accepted.pop()
                made = last.report.repairs[last.repair]
                reason = f"together with the other repairs, {found.worsened[0]} is worse"
                last.report.repairs[last.repair] = _with_verdict(made, Verdict.REJECTED, reason)
                last.report.settle()
                self._rebuild()
                conclude(f"{found.worsened[0]} is worse")
        self.results = dict(self.before)
        self.report.after = Score.of(self.results)

    def note_questions(self) -> None:
        """Record the answers before and after."""
        self.report.questions = [
            QuestionRow(name, each.right, self.results[name].right, each.runs) for name, each in self.before.items()
        ]

    def _rebuild(self) -> None:
        self.current = self.accepted[-1].workspace.child() if self.accepted else self.base.child()

    def propose(self) -> None:
        """Create the branch with a commit for each group in the order of acceptance."""
        if not self.accepted or self.run is None:
            return
        steps, owners, known = [], [], self.base
        for report in dict.fromkeys(id(each.report) for each in self.accepted):
            own = [each for each in self.accepted if id(each.report) == report]
            last = own[-1].workspace
            changes = _changes(known, last)
            steps.append((changes, commit_message(own[0].report, self.plan.run_id)))
            owners.append(own[0].report)
            known = last
        ref = f"refs/heads/{_branch(self.request, self.plan)}"
        commits = self.run.repository.propose_series(
            steps,
            ref=ref,
            base=self.run.base.commit,
            author=self.plan.config.storage.git.author,
            before_publish=self.run.lock.check,
        )
        for owner, commit in zip(owners, commits, strict=True):
            owner.commit = commit
        self.report.commit, self.report.proposed = commits[-1], ref.removeprefix("refs/heads/")
        self.report.add_files(_changes(self.base, known))

    def stops(self, error: KtxError) -> bool:
        """Whether an error ends the run but keeps the repairs that were accepted so far."""
        asker = self.trials.agent
        ended = isinstance(asker, AgentAsker) and asker.cancellation.is_set
        return ended or error.code in ("budget", "cancelled", "rate_limit", "overloaded", "auth", "billing")

    def leave_rest(self) -> None:
        """Mark the remaining groups as not tried. Without the joint check, no repair is accepted."""
        for made in self.accepted:
            reason = "the run ended before the joint check"
            made.report.repairs[made.repair] = _with_verdict(
                made.report.repairs[made.repair], Verdict.NOT_TRIED, reason
            )
        self.accepted.clear()
        for each in self.report.groups:
            each.settle()
            if each.verdict is Verdict.NOT_DRAFTED:
                each.verdict, each.reason = Verdict.NOT_TRIED, "the run ended before this group"

    # What all of it works with.

    @functools.cached_property
    def known(self) -> KnownContext:
        """The committed context."""
        return KnownContext(self.base, self.plan.layers)

    @functools.cached_property
    def questions(self) -> tuple[TrialQuestion, ...]:
        """The trial questions: queries in `evals/` with an expected answer, and questions in words."""
        layout, plan = self.request.layout, self.plan
        loaded = load_evals(layout)
        for warning in loaded.warnings:
            plan.warn(warning)
        cases = loaded.named(self.request.names)
        computed = [
            TrialQuestion(each)
            for each in cases
            if each.asked.compares or (each.asked.kind == "query" and each.asked.expect is not None)
        ]
        if self.models is None and not self._earlier:
            return tuple(computed)
        by_name = {each.name: each for each in cases}
        worded = questions_of(layout, self.arms.config, plan.environ, cases, plan.warn)
        return (*computed, *(TrialQuestion(by_name[each.id], each) for each in worded))

    def _question(self, name: str) -> TrialQuestion:
        return next(each for each in self.questions if each.id == name)

    @functools.cached_property
    def trials(self) -> Trials:
        """The trials in which the questions are asked."""
        return Trials(self.arms, self.plan.environ, self.questions, self._asker())

    def _asker(self) -> AgentAsker | RecordedAsker:
        if self.models is None or self.run is None:
            return RecordedAsker(self._earlier)
        self.models.cancels(self.cancellation)
        ref = model_for(self.plan.config, ROLE)
        self.report.model, self.report.runs = f"{ref.backend}:{ref.model}", self.request.runs
        return AgentAsker(
            self.plan,
            self.models,
            self.arms,
            self.request.toolbox,
            TaskStore(self.run.database, self.plan.layout.state),
            self.request.runs,
            self._privacy,
            self.report.model,
            effort_of(self.plan.config, ROLE, ref),
            self.cancellation,
            self._earlier,
        )

    @functools.cached_property
    def _earlier(self) -> dict[str, list[Attempt]]:
        """The attempts of the newest proof of this project by context digest, if it used the same model."""
        model = ""
        if self.models is not None:
            ref = model_for(self.plan.config, ROLE)
            model = f"{ref.backend}:{ref.model}"
        for record in list_runs(self.request.layout)[0]:
            if not self.request.layout.run_proof(record.run_id).exists():
                continue
            try:
                proof, attempts = read_proof(self.request.layout, record.run_id)
            except KtxError:  # another version of ktx recorded it, so the questions are asked again
                return {}
            if proof.company is None and proof.model == (model or proof.model) and proof.context:
                return {proof.context: [each for each in attempts if each.arm == "context"]}
            return {}
        return {}

    @functools.cached_property
    def repairs(self) -> Repairs:
        """The computation of repairs without a model."""
        assert self.run is not None
        return Repairs(self.base, self.known, self.run.repository)

    def _gates(self) -> Gates:
        plan = self.plan
        return Gates(
            self.current,
            plan.layers,
            MetricGate(plan.layout, plan.config, plan.environ, plan.warn),
            ChangeChecks(plan.layout, plan.config, plan.environ),
            plan.warn,
        )

    def _askings(self) -> Iterator[Asking]:
        yield from audited(self.request.layout)
        yield from transcribed(self.request.layout)

    def _hits(self, words: str) -> int:
        return len(self._find(self.base, words, Scope(), 1).hits)

    @functools.cached_property
    def _find(self) -> Find:
        return in_memory(self.plan.layers)

    def _group_report(self, group: Group) -> GroupReport:
        """Return the report on a group, with its questions split into drafting and held-out questions."""
        cases = {each: self._question(each).case.name for each in group.questions}
        drafting, held = split(cases.values())
        report = GroupReport(
            group,
            tuple(each for each, case in cases.items() if case in drafting),
            tuple(each for each, case in cases.items() if case in held),
        )
        report.way_out = plain_command(way_out_of(group))
        return report

    @property
    def _privacy(self) -> bool:
        return self.plan.config.scan.privacy != "off" and not self.request.show_values

    @property
    def _spent(self) -> tuple[int, float]:
        return self.report.spending.tokens, self.report.spending.usd

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[Callable[[str], None]]:
        started = monotonic()
        summaries: list[str] = []
        self.plan.emit(StepStarted(name))
        yield summaries.append
        self.plan.emit(StepFinished(name, summaries[-1] if summaries else "", monotonic() - started))


def _sees_questions(group: Group) -> bool:
    """Whether a group's repairs are computed from the words of its drafting questions."""
    return group.kind in (GroupKind.SOURCE, GroupKind.QUESTION)


def _changes(base: Workspace, after: Workspace) -> dict[str, bytes | None]:
    """Return an overlay's changes relative to a base, across any overlays in between."""
    paths = {**base.overlaid(), **after.overlaid()}
    return {path: after.read(path) for path in sorted(paths) if after.read(path) != base.read(path)}


def _judged(found: Comparison, *, proven: bool, held: Sequence[str]) -> tuple[Verdict, str]:
    """Return the verdict on a tried repair with the reason."""
    if found.worsened:
        return Verdict.REJECTED, f"{found.worsened[0]} was right before and is wrong now"
    if found.is_proven:
        return Verdict.ACCEPTED, ""
    if proven:
        return Verdict.ACCEPTED, "the finding is fixed, and no question got worse"
    if not held:
        return Verdict.UNPROVEN, "there is no held-out question to judge it"
    if found.improved:
        return Verdict.UNPROVEN, f"the improvement may be chance (p = {found.p:.2f}); use more --runs"
    return Verdict.REJECTED, "no held-out question got better"


def _with_verdict(repair: TriedRepair, verdict: Verdict, reason: str) -> TriedRepair:
    return replace(repair, verdict=verdict, reason=reason)


def _with_cost(repair: TriedRepair, tokens: int, usd: float) -> TriedRepair:
    return replace(repair, tokens=repair.tokens + tokens, usd=repair.usd + usd)
