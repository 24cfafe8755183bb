"""Opens the tools of the loops of a run: what each may read, write and ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ktx_cli.connectors.port import QueryResult
from ktx_cli.connectors.registry import dialect_of
from ktx_cli.context.documents.evidence import evidence_tools
from ktx_cli.context.documents.library import Library
from ktx_cli.context.semantic.model import CalendarSettings
from ktx_cli.context.sources.registry import QUERY_HISTORY
from ktx_cli.context.tools.finding import Find
from ktx_cli.context.tools.models import Layers
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.skills import Skill
from ktx_cli.context.tools.stage import Stage
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.driver import Piece
from ktx_cli.jobs.ingest.units.samples import Samples
from ktx_cli.jobs.semantic.guarded import Guard
from ktx_cli.jobs.semantic.layers import calendar_of
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Opener:
    """Makes tool sessions. `base`: the overlay every unit begins with."""

    run: Run
    base: Workspace
    skills: Mapping[str, Skill]
    library: Library
    layers: Layers
    samples: Samples
    find: Find

    def unit(self, piece: Piece) -> ToolSession:
        """Return the tools of a unit, on an overlay of its own."""
        unit, files = piece.unit, piece.work.snapshot.files
        session = self._session(
            self.base.child(),
            raw={path: files[path] for path in unit.readable if path in files},
            files=unit.files,
            origin=piece.work.name,
            semantic=unit.semantic,
            why_not=unit.why_not,
            history=piece.work.kind == QUERY_HISTORY,
        )
        if piece.work.source.documents:
            session.extra = evidence_tools(session, self.library)
        return session

    def capture(
        self, piece: Piece, *, scope: str, connections: Mapping[str, str], accepted: Tree | None
    ) -> ToolSession:
        """Return the tools of a capture, on an overlay of its own; see `ToolSession` for `scope` and `accepted`."""
        unit = piece.unit
        return self._session(
            self.base.child(),
            raw=piece.work.snapshot.files,
            files=unit.files,
            origin=piece.work.snapshot.origin,
            semantic=unit.semantic,
            why_not=unit.why_not,
            scope=scope,
            connections=connections,
            accepted=accepted,
            refs_later=False,
        )

    def curate(self, work: SourceWork, workspace: Workspace, stage: Stage, files: tuple[str, ...]) -> ToolSession:
        """Return the tools of a pass over candidates; its writes may name `files`."""
        return self._session(workspace, raw=work.snapshot.files, files=files, origin=work.name, stage=stage)

    def reconcile(self, workspace: Workspace, stage: Stage) -> ToolSession:
        """Return the tools of the loop that looks over the whole run."""
        works = self.run.works
        raw = {f"{work.connection}/{path}": file for work in works for path, file in work.snapshot.files.items()}
        return self._session(workspace, raw=raw, files=tuple(raw), stage=stage)

    def _session(
        self, workspace: Workspace, connections: Mapping[str, str] | None = None, **fields: object
    ) -> ToolSession:
        config = self.run.config
        return ToolSession(
            workspace,
            connections=dialects(self.run) if connections is None else connections,
            configured=config.connections.keys(),
            calendar=self._calendar(),
            privacy=config.scan.privacy,
            run_sql=self._run_sql,
            values=self.samples,
            find=self.find,
            skills=self.skills,
            **fields,  # type: ignore[arg-type]
        )

    def _calendar(self) -> CalendarSettings:
        return calendar_of(self.run.config)

    def _run_sql(self, connection: str, sql: str, limit: int) -> QueryResult:
        run = self.run
        model = self.layers.model(self.base, connection)
        tables = [each.table for each in model.sources.values() if each.table is not None]
        guard = Guard.of(run.layout, run.config, connection, tables)
        guard.check(sql, max_rows=limit)
        with guard.open(run.config, layout=run.layout, environ=run.request.environ) as connector:
            return connector.query(sql, max_rows=limit)


def dialects(run: Run) -> dict[str, str]:
    """Return the databases of the project that have SQL of their own -> its name."""
    found = {each: dialect_of(entry.driver) for each, entry in run.config.databases().items()}
    return {each: dialect for each, dialect in found.items() if dialect is not None}
