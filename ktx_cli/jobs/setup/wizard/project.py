"""The first step: whether this folder becomes a project."""

from __future__ import annotations

from pathlib import Path

from ktx_cli.core.errors import CancelledError
from ktx_cli.jobs.setup.answers import Answers
from ktx_cli.jobs.setup.trying import existing_folder
from ktx_cli.jobs.setup.wizard.work import Work
from ktx_cli.project.repository import Repository


def project_step(work: Work) -> None:
    """Make the project, unless it is there."""
    if work.layout.config.exists():
        return
    work.prompter.say(_says(work.root))
    default = work.root.resolve() != Path(work.request.environ.get("HOME") or "/").resolve()
    if not work.dialog.confirm("make", f"Make a ktx project in {work.root}?", default):
        raise CancelledError("nothing was made", hint="ktx setup --project-dir FOLDER")
    work.save(Answers())


def _says(root: Path) -> str:
    """Say what ktx puts into the folder, and what becomes of git."""
    repository = Repository.discover(existing_folder(root))
    git = "A git repository is made here, for there is none."
    if repository is not None:
        git = f"The folder is in the git repository {repository.layout.top_level}: ktx commits its own files there."
    return f"ktx keeps ktx.yaml, semantic-layer/, wiki/ and raw-sources/ in git, and .ktx/ out of it. {git}"
