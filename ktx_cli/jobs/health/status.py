"""`ktx status`: whether a project is ready, and the state of its connections, models, index, git and clients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ktx_cli.core import Command, Emit, KtxError, NotReadyError, Record, ResultWarning, ignore_events, listing, plural
from ktx_cli.jobs.health.connection_checks import check_profiles
from ktx_cli.jobs.health.facts import ClientFacts, ConnectionStatus, client_facts, connection_statuses
from ktx_cli.jobs.health.machine_checks import check_secrets, check_state
from ktx_cli.jobs.health.model import TIME_LIMIT, CheckContext, CheckResult, Level, Task, in_background, side_by_side
from ktx_cli.jobs.health.model_checks import MODELS as LLM
from ktx_cli.jobs.health.model_checks import LlmFacts, ask_sessions, llm_facts, unasked_sessions
from ktx_cli.jobs.health.project_checks import (
    CONTRADICTIONS,
    CONVENTIONS,
    DECISIONS,
    MOUNTS,
    SEMANTIC,
    check_compiled,
    check_config,
    check_context,
    check_contradictions,
    check_conventions,
    check_databases,
    check_decisions,
    check_mounts,
    check_repository,
    check_run_lock,
)
from ktx_cli.jobs.health.search_facts import FIX, NO_INDEX, EmbeddingFacts, IndexFacts, embedding_facts, index_facts
from ktx_cli.jobs.health.shared_checks import SHARED, check_shared, is_shared, replicated, say_once
from ktx_cli.project import (
    CONFIG_NAME,
    CONTRADICTIONS_NAME,
    DECISIONS_NAME,
    PROMPTS_NAME,
    RAW_NAME,
    SEMANTIC_NAME,
    WIKI_NAME,
    Layout,
    Repository,
    file_name_warnings,
    load_config,
    read_state,
)
from ktx_cli.runs import last_runs

if TYPE_CHECKING:
    from ktx_cli.llm import ProbeResult

PATHS: Final = (
    CONFIG_NAME, SEMANTIC_NAME, WIKI_NAME, RAW_NAME, PROMPTS_NAME, "evals", CONTRADICTIONS_NAME, DECISIONS_NAME,
)  # fmt: skip
"""The project paths that ktx reads or writes."""


@dataclass(frozen=True, slots=True)
class GitFacts(Record):
    """The repository and its branch; `top_level` None: there is none. `problem`: why its state is unknown."""

    top_level: Path | None = None
    branch: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    uncommitted: tuple[str, ...] = ()
    problem: str | None = None

    json_keys = ("repository=top_level", "branch", "upstream", "ahead", "behind", "uncommitted", "problem")

    @property
    def text(self) -> str:
        """The facts as one line."""
        if self.problem is not None or self.top_level is None:
            return self.problem or "no repository yet"
        parts = ["detached HEAD" if self.branch is None else f"on {self.branch}"]
        for count, where in ((self.ahead, "ahead of"), (self.behind, "behind")):
            if count:
                parts.append(f"{plural(count, 'commit')} {where} {self.upstream}")
        changed = f"{len(self.uncommitted):,} uncommitted: {listing(self.uncommitted, 3)}" if self.uncommitted else ""
        return ", ".join((*parts, changed or "nothing uncommitted"))


def git_facts(discover: Callable[[], Repository | None], installed: Sequence[str] = ()) -> GitFacts:
    """Ask git, without locking or writing anything; a repository that git does not open is the `problem`.

    `installed`: the files of agent clients in the project, which a person may commit too.
    """
    try:
        repository = discover()
        if repository is None:
            return GitFacts()
        changes = repository.changes((*PATHS, *installed))
    except KtxError as error:
        return GitFacts(problem=error.message)
    top = repository.layout.top_level
    return GitFacts(top, changes.branch, changes.upstream, changes.ahead, changes.behind, changes.uncommitted)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All facts."""

    index: IndexFacts
    embeddings: EmbeddingFacts
    git: GitFacts
    clients: ClientFacts

    @property
    def findings(self) -> list[CheckResult]:
        """The results that are listed among the checks."""
        return [self.embeddings.finding]

    @property
    def next_command(self) -> str | None:
        """The command that updates the index, or None if the index is up to date."""
        return None if self.index.state in ("current", "not_needed") else FIX

    def to_json(self, connections: Iterable[ConnectionStatus]) -> dict[str, Any]:
        """Return the facts for the JSON output."""
        return {
            "context": context_counts(connections, self.index.pages),
            "index": self.index.to_json(),
            "embeddings": self.embeddings.to_json(),
            "git": self.git.to_json(),
            **self.clients.to_json(),
        }


def context_counts(connections: Iterable[ConnectionStatus], pages: int) -> dict[str, int]:
    """Return how much context the project has in total."""
    counts = [connection.counts for connection in connections]
    return {
        "sources": sum(connection.sources + connection.own_sources for connection in counts),
        "columns": sum(connection.columns for connection in counts),
        "measures": sum(connection.measures for connection in counts),
        "joins": sum(connection.joins for connection in counts),
        "wiki_pages": pages,
    }


def _installed_files(layout: Layout) -> list[str]:
    if not layout.agents_manifest.exists():
        return []
    from ktx_cli.jobs.clients.manifest import load_manifest

    try:
        return list(load_manifest(layout).project_files())
    except KtxError:  # `ktx doctor` reports it
        return []


def surroundings_of(context: CheckContext) -> Surroundings:
    """Collect all facts; writes nothing."""
    is_replica = replicated(context) is not None
    return Surroundings(
        NO_INDEX if is_replica else index_facts(context.layout, context.loaded.config, context.environ),
        embedding_facts(context),
        git_facts(lambda: context.repository, _installed_files(context.layout)),
        client_facts(context.layout, context.environ),
    )


Readiness = Literal["ready", "unverified", "not_ready"]
Warn = Callable[[ResultWarning], None]

BEFORE: Final = {"config": check_config}
AFTER: Final = {
    "databases": check_databases,
    MOUNTS: check_mounts,
    "secrets": check_secrets,
    "context": check_context,
    "state": check_state,
    SHARED: check_shared,
}
READINESS: Final = (*BEFORE, LLM, *AFTER)
"""The checks that decide whether a project is ready, under the same names as in `ktx doctor`."""
BESIDE: Final = {"profiles": check_profiles, "repository": check_repository, "lock": check_run_lock}
"""Checks that are shown but do not decide readiness."""
COMPILED: Final = {
    SEMANTIC: check_compiled,
    CONTRADICTIONS: check_contradictions,
    DECISIONS: check_decisions,
    CONVENTIONS: check_conventions,
}
"""Shown but not decisive: the results of the last run, which `ktx doctor` computes anew, and open decisions."""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Everything that `ktx status` shows. `surroundings`: what only people look at; None: not requested."""

    project_dir: Path
    llm: LlmFacts
    connections: tuple[ConnectionStatus, ...]
    findings: tuple[CheckResult, ...]
    runs: tuple[dict[str, str | None], ...]
    warnings: tuple[ResultWarning, ...]
    surroundings: Surroundings | None = None
    is_replica: bool = False
    """Whether this is the folder of a replica, whose context comes from another clone."""

    @property
    def readiness(self) -> Readiness:
        """`ready`: nothing that a run or an agent needs is missing; `unverified`: what `--fast` did not check."""
        if self._failed():
            return "not_ready"
        return "ready" if self._unverified() is None else "unverified"

    @property
    def ready(self) -> bool:
        """Whether the project is known to be ready."""
        return self.readiness == "ready"

    @property
    def index_text(self) -> str:
        """The state of the index as one line; it has no values of what this state has never seen."""
        if self.surroundings is None:
            return ""
        text = self.surroundings.index.text
        unseen = [each.id for each in self.connections if each.is_unseen]
        if self.surroundings.index.state != "current" or not unseen:
            return text
        return f"{text}, without values and passages of {listing(unseen, 3)}: `{Command('ingest')}` adds them"

    @property
    def has_broken_definitions(self) -> bool:
        """Whether the semantic layer has errors, with which everything else still works."""
        return any(f.check == SEMANTIC and f.level in (Level.WARN, Level.FAIL) for f in self.findings)

    @property
    def next_command(self) -> str | None:
        """The most useful next command; None if everything was scanned and nothing is left to do."""
        failed, unverified = self._failed(), self._unverified()
        if failed:
            return failed[0].hint or Command("doctor")
        if unverified is not None:
            return unverified.hint
        last = self.runs[0]["status"] if self.runs else None
        undecided = any(f.check == DECISIONS and f.level in (Level.WARN, Level.FAIL) for f in self.findings)
        others = [finding for finding in self.findings if finding.check != DECISIONS]
        if last == "failed" or any(finding.level is Level.FAIL for finding in others):
            return Command("doctor")
        if self.is_replica:
            return None
        never = [c.id for c in self.connections if c.is_database and c.last_scan is None]
        if len(never) == 1:
            return Command("ingest", never[0])
        cut_off = last == "interrupted" or any(f.check == "lock" and f.level is Level.WARN for f in self.findings)
        if never or cut_off:
            return Command("ingest")
        if self.has_broken_definitions:
            return Command("sl", "validate")
        behind = None if self.surroundings is None else self.surroundings.next_command
        return behind or (Command("decide") if undecided else None)

    def error(self) -> KtxError | None:
        """Return the error of the command if the project is not known to be ready."""
        failed, unverified = self._failed(), self._unverified()
        if failed:
            return NotReadyError(f"not ready: {failed[0].message}", hint=failed[0].hint)
        if unverified is not None:
            return NotReadyError(f"not known to be ready: {unverified.message}", hint=unverified.hint)
        return None

    def _failed(self) -> list[CheckResult]:
        return [f for f in self.findings if f.level is Level.FAIL and f.check in READINESS]

    def _unverified(self) -> CheckResult | None:
        session = self.llm.session
        return session.finding if session is not None and session.state == "unverified" else None

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "project_dir": str(self.project_dir),
            "ready": self.ready,
            "readiness": self.readiness,
            "next": self.next_command,
            "checks": [finding.to_json() for finding in self.findings],
            "llm": self.llm.to_json(),
            "connections": [connection.to_json() for connection in self.connections],
            **({} if self.surroundings is None else self.surroundings.to_json(self.connections)),
            "runs": list(self.runs),
        }


def project_status(
    project_dir: Path,
    environ: Mapping[str, str],
    *,
    fast: bool = False,
    around: bool = False,
    probes: Sequence[ProbeResult] = (),
) -> StatusReport:
    """Collect the facts; raises `ConfigError` for an invalid `ktx.yaml`.

    `fast`: do not check local sessions. `around`: include index, git, agents and server. `probes`: the
    results of current probes. The session and git are checked while the files are read.
    """
    layout = Layout(project_dir)
    context = CheckContext(layout, load_config(layout.config), environ)
    sessions = in_background(lambda: unasked_sessions(context) if fast else ask_sessions(context))
    beside = in_background(lambda: _run({**COMPILED, **BESIDE}, context))
    surroundings = in_background(lambda: surroundings_of(context)) if around else None
    before = _run(BEFORE, context)
    after = _run({check: run for check, run in AFTER.items() if _concerns(check, context)}, context)
    connections, problems = connection_statuses(context)
    runs = [] if problems else _last_runs(layout)
    if any(each.check == SHARED and each.database for each in after):  # which says the same
        problems = []
    warnings = [*context.loaded.warnings(), *problems, *file_name_warnings(layout.root)]
    around_it = None if surroundings is None else surroundings.result()
    llm = llm_facts(context, sessions.result, probes)
    findings = [*before, *llm.findings, *after, *([] if around_it is None else around_it.findings), *beside.result()]
    (findings,) = say_once([findings])
    is_replica = replicated(context) is not None
    parts = tuple(findings), tuple(runs), tuple(warnings)
    return StatusReport(project_dir, llm, connections, *parts, around_it, is_replica)


def _last_runs(layout: Layout) -> list[dict[str, str | None]]:
    try:
        return read_state(layout, last_runs) or []
    except KtxError:  # reported by the check of the run lock
        return []


def _concerns(check: str, context: CheckContext) -> bool:
    """Return whether a project has what a check is about; most have no mounts and share nothing."""
    return {MOUNTS: bool(context.loaded.config.mounts), SHARED: is_shared(context)}.get(check, True)


def probe_now(
    project_dir: Path, environ: Mapping[str, str], *, warn: Warn, emit: Emit = ignore_events
) -> list[ProbeResult]:
    """Probe every configured backend and model and record the time: all that `ktx status --probe` writes, in `.ktx`."""
    from ktx_cli.llm import distinct_models, probe_models

    layout = Layout(project_dir)
    config = load_config(layout.config).config
    try:
        if not distinct_models(config):
            return []
    except KtxError:  # reported by the check of the backends
        return []
    probes = probe_models(layout, config, environ, command=Command("status", "--probe"), warn=warn, emit=emit)
    probes.store(layout)
    return probes.results


def _run(checks: Mapping[str, Callable[[CheckContext], list[CheckResult]]], context: CheckContext) -> list[CheckResult]:
    work = (Task(name, functools.partial(check, context), TIME_LIMIT) for name, check in checks.items())
    return [finding for findings in side_by_side(work) for finding in findings]
