"""Warns, before a unit is paid for, of manifests that git ignores: without them no run knows what was read."""

from __future__ import annotations

from typing import Final

from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Notice
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.project.layout import RAW_NAME
from ktx_cli.project.repository import Repository

HINT: Final = f"add the lines `!/{RAW_NAME}/` and `!/{RAW_NAME}/**` to the end of .gitignore in the project's folder"


def warn_of_ignored(run: Run) -> None:
    """Warn of every source with units whose manifest is in no commit and will get into none."""
    works = [work for work in run.works if work.error is None and work.units and not work.manifest.files]
    repository = Repository.discover(run.layout.root) if works else None
    if repository is None:
        return
    ignored = repository.ignored([work.manifest_path for work in works])
    for work in works:
        if work.manifest_path in ignored:
            _warn(run, work)


def _warn(run: Run, work: SourceWork) -> None:
    message = (
        f"git ignores {work.manifest_path}, which says what of {work.name} was read: "
        f"every run pays for all of it again, now for {plural(len(work.units), 'unit')}"
    )
    run.warn(ResultWarning("manifest_ignored", message, hint=HINT, path=work.manifest_path))
    run.request.emit(Notice(message))
