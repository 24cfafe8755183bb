"""The end of an installation or its undoing: the files, the folders and the manifest, or (a dry run) nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from ktx_cli.core.errors import NotReadyError, ResultWarning
from ktx_cli.jobs.agents.diffs import diff_of
from ktx_cli.jobs.agents.manifest import Manifest, load_manifest, save_manifest, written
from ktx_cli.jobs.agents.report import Outcome, Report
from ktx_cli.jobs.agents.skills import skill_files
from ktx_cli.jobs.agents.staging import Staging, remove_empty
from ktx_cli.jobs.agents.targets import CLIENTS, Where
from ktx_cli.project.files import remove_dead_leftovers_of
from ktx_cli.project.layout import Layout


def finished(
    where: Where,
    manifest: Manifest,
    staging: Staging,
    outcomes: Sequence[Outcome],
    *,
    dry_run: bool,
    warnings: Sequence[ResultWarning] = (),
) -> Report:
    """Write what was staged, and what is installed then.

    The manifest knows of a file before it is there, and forgets it when it is gone: who is killed between the two
    finds everything by uninstalling.
    """
    report = Report(outcomes, [diff_of(change) for change in staging.changes], dry_run, warnings)
    if dry_run:
        return report
    for path in _of_clients(where):
        remove_dead_leftovers_of(path)
    layout = Layout(where.project)
    before = load_manifest(layout)
    made = [written(folder, where.project) for folder in staging.missing_folders()]
    manifest.folders += [folder for folder in made if folder not in manifest.folders]
    if before.installs != manifest.installs or before.folders != manifest.folders:
        save_manifest(layout, _both(before, manifest))
    try:
        staging.apply()
    except BaseException:
        save_manifest(layout, before)
        raise
    made_folders, around = {where.project / folder for folder in manifest.folders}, _around(where)
    kept = [*remove_empty(sorted(made_folders & around)), *sorted(made_folders - around)]
    manifest.folders = [written(folder, where.project) for folder in kept] if manifest.installs else []
    save_manifest(layout, manifest)
    return report


def _around(where: Where) -> set[Path]:
    """Return the folders around the files of clients: no other one can have been made for them."""
    return {folder for path in _of_clients(where) for folder in path.parents}


def _of_clients(where: Where) -> set[Path]:
    """Return the files of all clients, also where links lead to."""
    found: set[Path] = set()
    for place in (place for client in CLIENTS.values() for place in client.places.values()):
        with contextlib.suppress(NotReadyError):  # without a home nothing is installed there
            for path in (*where.configs(place), *skill_files(place, where)):
                found.update((path, Path(os.path.realpath(path))))
    return found


def _both(before: Manifest, after: Manifest) -> Manifest:
    """Return what is or will be installed."""
    both = after.model_copy(deep=True)
    for install in before.installs:
        if both.of(install.target, install.scope) is None:
            both.put(install)
    return both
