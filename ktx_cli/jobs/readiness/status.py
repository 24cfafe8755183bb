"""The facts `ktx status` shows: no database is opened, no model is asked, git only reads, nothing is written."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from ktx_cli.core.errors import KtxError, NotReadyError, ResultWarning
from ktx_cli.core.events import Emit, ignore_events
from ktx_cli.jobs.ingest.ledger import last_runs
from ktx_cli.jobs.models.probing import ProbeResult, distinct_models, probe_models
from ktx_cli.jobs.readiness.checks.context import check_context
from ktx_cli.jobs.readiness.checks.models import CHECK as LLM
from ktx_cli.jobs.readiness.checks.models import LlmFacts, ask_session, llm_facts, unasked_session
from ktx_cli.jobs.readiness.checks.profiles import check_profiles
from ktx_cli.jobs.readiness.checks.project import check_config, check_databases, check_lease, check_repository
from ktx_cli.jobs.readiness.checks.references import SEMANTIC, check_compiled
from ktx_cli.jobs.readiness.checks.secrets import check_secrets
from ktx_cli.jobs.readiness.checks.storage import check_state
from ktx_cli.jobs.readiness.facts.connections import ConnectionStatus, connection_statuses
from ktx_cli.jobs.readiness.facts.surroundings import Surroundings, surroundings_of
from ktx_cli.jobs.readiness.model import TIME_LIMIT, CheckContext, Finding, Level
from ktx_cli.jobs.readiness.running import Work, side_by_side
from ktx_cli.project.config import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import read_state
from ktx_cli.project.tree import file_name_warnings

Readiness = Literal["ready", "unverified", "not_ready"]
Warn = Callable[[ResultWarning], None]
Answer = TypeVar("Answer")

BEFORE: Final = {"config": check_config}
AFTER: Final = {
    "databases": check_databases,
    "secrets": check_secrets,
    "context": check_context,
    "state": check_state,
}
READINESS: Final = (*BEFORE, LLM, *AFTER)
"""The checks that decide whether a project is ready, of those `ktx doctor` has under the same names."""
BESIDE: Final = {"profiles": check_profiles, "repository": check_repository, "lease": check_lease}
"""Checks that are shown and decide nothing."""
COMPILED: Final = {SEMANTIC: check_compiled}
"""Shown and decides nothing: what the last run found, where `ktx doctor` looks again."""


@dataclass(frozen=True, slots=True)
class Status:
    """Everything `ktx status` shows. `surroundings`: what only people look at; None: it was not asked for."""

    project_dir: Path
    llm: LlmFacts
    connections: tuple[ConnectionStatus, ...]
    findings: tuple[Finding, ...]
    runs: tuple[dict[str, str | None], ...]
    warnings: tuple[ResultWarning, ...]
    surroundings: Surroundings | None = None

    @property
    def readiness(self) -> Readiness:
        """`ready`: nothing that a run or an agent needs is missing; `unverified`: that was not asked (`--fast`)."""
        if self._failed():
            return "not_ready"
        return "ready" if self._unverified() is None else "unverified"

    @property
    def ready(self) -> bool:
        """Whether it is known that nothing is missing."""
        return self.readiness == "ready"

    @property
    def next_command(self) -> str | None:
        """The one command worth typing now; None when everything was scanned and nothing is left undone."""
        failed, unverified = self._failed(), self._unverified()
        if failed:
            return failed[0].hint or "ktx doctor"
        if unverified is not None:
            return unverified.hint
        last = self.runs[0]["status"] if self.runs else None
        if last == "failed" or any(finding.level is Level.FAIL for finding in self.findings):
            return "ktx doctor"
        never = [c.id for c in self.connections if c.is_database and c.last_scan is None]
        if len(never) == 1:
            return f"ktx ingest {never[0]}"
        cut_off = last == "interrupted" or any(f.check == "lease" and f.level is Level.WARN for f in self.findings)
        if never or cut_off:
            return "ktx ingest"
        return None if self.surroundings is None else self.surroundings.next_command

    def error(self) -> KtxError | None:
        """Return the error the command ends with when the project is not known to be ready."""
        failed, unverified = self._failed(), self._unverified()
        if failed:
            return NotReadyError(f"not ready: {failed[0].message}", hint=failed[0].hint)
        if unverified is not None:
            return NotReadyError(f"not known to be ready: {unverified.message}", hint=unverified.hint)
        return None

    def _failed(self) -> list[Finding]:
        return [f for f in self.findings if f.level is Level.FAIL and f.check in READINESS]

    def _unverified(self) -> Finding | None:
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
) -> Status:
    """Collect the facts; raises `ConfigError` for a broken `ktx.yaml`.

    `fast`: the local Claude Code session is not asked for. `around`: index, git, agents and server are looked at too.
    `probes`: what probes of this moment found. The session and git are asked while the files are read.
    """
    layout = Layout(project_dir)
    context = CheckContext(layout, load_config(layout.config), environ)
    session = _Beside(lambda: unasked_session(context) if fast else ask_session(context))
    beside = _Beside(lambda: _beside(context))
    surroundings = _Beside(lambda: surroundings_of(context)) if around else None
    before = _run(BEFORE, context)
    after = _run(AFTER, context)
    connections, problems = connection_statuses(context)
    warnings = [*context.loaded.warnings(), *problems, *file_name_warnings(layout.root)]
    try:
        runs = read_state(layout, last_runs) or []
    except KtxError:  # named by connection_statuses and by the lease's check
        runs = []
    found = None if surroundings is None else surroundings.answer()
    llm = llm_facts(context, session.answer, probes)
    findings = [*before, *llm.findings, *after, *([] if found is None else found.findings), *beside.answer()]
    return Status(project_dir, llm, connections, tuple(findings), tuple(runs), tuple(warnings), found)


def probe_now(
    project_dir: Path, environ: Mapping[str, str], *, warn: Warn, emit: Emit = ignore_events
) -> list[ProbeResult]:
    """Probe every backend and model of a role and keep when: all that `ktx status --probe` writes, in `.ktx`."""
    layout = Layout(project_dir)
    config = load_config(layout.config).config
    try:
        if not distinct_models(config):
            return []
    except KtxError:  # named by the check of the backends
        return []
    probes = probe_models(layout, config, environ, command="ktx status --probe", warn=warn, emit=emit)
    probes.store(layout)
    return probes.results


def _beside(context: CheckContext) -> list[Finding]:
    return _run({**COMPILED, **BESIDE}, context)


def _run(checks: Mapping[str, Callable[[CheckContext], list[Finding]]], context: CheckContext) -> list[Finding]:
    work = (Work(name, functools.partial(check, context), TIME_LIMIT) for name, check in checks.items())
    return [finding for found in side_by_side(work) for finding in found]


class _Beside(Generic[Answer]):
    """A question that is asked while other work is done; `answer` waits for it and raises what it raised."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._answer: list[Answer] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer.append(self._ask())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is wanted
            self._error = error

    def answer(self) -> Answer:
        """Return the answer."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._answer[0]
