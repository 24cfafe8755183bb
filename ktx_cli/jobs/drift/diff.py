"""Compares databases as they are with what was scanned of them; reads only, of the databases the structure alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktx_cli.connectors.opening import Opener, open_connection
from ktx_cli.connectors.port import DatabaseSchema, Table
from ktx_cli.context.scan.carry import carried_over, require_some_tables
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import CancelledError, KtxError, ResultWarning
from ktx_cli.core.text import listing, plural, shell_words
from ktx_cli.jobs.drift.comparing import changes_between
from ktx_cli.jobs.drift.context_uses import ContextUses
from ktx_cli.jobs.drift.known import MANIFEST, Known, read_known
from ktx_cli.jobs.drift.model import ConnectionDrift, Drift
from ktx_cli.jobs.ingest.targets import Target, broken_targets, choose_targets
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout


def find_drift(
    layout: Layout,
    config: KtxConfig,
    wanted: Sequence[str] = (),
    *,
    environ: Mapping[str, str],
    opener: Opener = open_connection,
) -> tuple[Drift, list[ResultWarning]]:
    """Return the changes of the wanted databases, or of all, since their last scan; what fails costs only itself.

    The structure is read as a structural scan reads it: what could not be read counts as it was. Nothing is written.
    Raises as `choose_targets`.
    """
    uses = ContextUses(layout, config)
    drift, warnings = Drift(), []
    for target in choose_targets(layout, config, wanted, databases_only=True):
        found, told = _of_connection(layout, config, target, environ, opener, uses)
        drift.connections.append(found)
        warnings += told
    for target, error in broken_targets(config, wanted, databases_only=True).items():
        drift.connections.append(ConnectionDrift(target.connection, target.driver, error=error))
    return drift, [*warnings, *uses.warnings]


def _of_connection(
    layout: Layout, config: KtxConfig, target: Target, environ: Mapping[str, str], opener: Opener, uses: ContextUses
) -> tuple[ConnectionDrift, list[ResultWarning]]:
    started = monotonic()
    found = ConnectionDrift(target.connection, target.driver)
    warnings: list[ResultWarning] = []
    try:
        known = read_known(layout, target.connection)
        schema = _introspected(layout, config, target, environ, opener)
        require_some_tables(target.connection, schema, known.tables)
        tables, kept = carried_over(schema, known.tables)
        names_only = known.basis == MANIFEST
        changes = changes_between(known.tables, tables, names_only=names_only)
        found.basis, found.tables = known.basis, len(tables)
        found.columns = sum(len(table.columns) for table in tables)
        found.changes = uses.told(target.connection, changes)
        warnings += [*known.warnings, *_unread(target, known, schema, kept)]
    except CancelledError:
        raise
    except KtxError as error:
        found.error = error
    found.seconds = monotonic() - started
    return found, warnings


def _introspected(
    layout: Layout, config: KtxConfig, target: Target, environ: Mapping[str, str], opener: Opener
) -> DatabaseSchema:
    connector, scope = opener(config, target.connection, project_dir=layout.root, environ=environ)
    with connector:
        return connector.introspect(scope)


def _unread(target: Target, known: Known, schema: DatabaseSchema, kept: Sequence[Table]) -> Iterator[ResultWarning]:
    """Yield what a person should know of the comparison."""
    name = target.connection
    if known.basis == MANIFEST:
        said = f"connection `{name}` has no snapshot of a scan: only names and types were compared, with the manifest"
        yield ResultWarning("no_snapshot", said, hint=shell_words("ktx", "ingest", name), connection=name)
    if schema.problems:
        told = listing(f"{each.ref or 'the database'} ({each.what}: {each.message})" for each in schema.problems)
        said = f"connection `{name}`: {plural(len(schema.problems), 'problem')} while reading it: {told}"
        hint = shell_words("ktx", "connection", "test", name)
        yield ResultWarning("unread", said, hint=hint, connection=name, kept=[str(table.ref) for table in kept])
