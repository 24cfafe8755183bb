"""Says at the end of a run which definitions it broke, and which were broken before."""

from __future__ import annotations

import logging

from ktx_cli.context.scan.failures import ends_more, unexpected
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.jobs.ingest.base import ProjectBase
from ktx_cli.jobs.ingest.gates import folder
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.semantic.broken import BrokenDefinition, broken_now, keep_broken, newly_broken, said, way_out

log = logging.getLogger(__name__)


def report_broken(run: Run, base: ProjectBase, *, dry_run: bool = False) -> None:
    """Put what the run broke into its report, and warn of what does not compile for longer.

    Of a database whose definitions did not change nothing is read. That a check cannot be made is a warning.
    """
    try:
        fresh = _broken_by(run, base)
        now = broken_now(run.layout, run.config) if dry_run else keep_broken(run.layout, run.config, run.layers)
    except Exception as error:
        if ends_more(error) and not isinstance(error, KtxError):
            raise
        log.debug("the definitions could not be checked", exc_info=error)
        why = error.message if isinstance(error, KtxError) else unexpected(type(error).__name__)
        hint = error.hint if isinstance(error, KtxError) else "ktx sl validate --no-data --debug"
        run.warn(ResultWarning("definitions_not_checked", f"the definitions were not checked: {why}", hint=hint))
        return
    known = {each.identity for each in fresh}
    if dry_run:
        _warn(run, fresh, "no longer compile")
    else:
        run.report.broken = fresh
    _warn(run, tuple(each for each in now if each.identity not in known), "do not compile")


def _broken_by(run: Run, base: ProjectBase) -> tuple[BrokenDefinition, ...]:
    layers, changed = run.layers, run.workspace.changes()
    touched = [each for each in layers.dialects if any(path.startswith(folder(each)) for path in changed)]
    return tuple(found for each in touched for found in newly_broken(layers, base, run.workspace, each))


def _warn(run: Run, broken: tuple[BrokenDefinition, ...], verb: str) -> None:
    if broken:
        definitions = [each.to_json() for each in broken]
        message, hint = said(broken, verb), way_out(broken)
        run.warn(ResultWarning("broken_definitions", message, hint=hint, definitions=definitions))
