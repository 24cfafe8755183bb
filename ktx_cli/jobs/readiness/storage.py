"""Checks of the disk: the state database can be one, and a run could write where it has to."""

from __future__ import annotations

import os
from pathlib import Path

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing, shell_words
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.project.files import can_write_in
from ktx_cli.project.layout import RAW_NAME, SEMANTIC_NAME
from ktx_cli.project.repository import Repository
from ktx_cli.project.state import check_private_folder, open_to_others

STATE, WRITABLE = "state", "writable"


def check_state(context: CheckContext) -> list[Finding]:
    """Nothing else stands where `.ktx` and the state database have to be, and they are this user's alone."""
    try:
        check_private_folder(context.layout)
    except KtxError as error:
        return [Finding(STATE, Level.FAIL, error.message, error.hint)]
    opened = open_to_others(context.layout)
    if context.layout.private in opened:  # what is in a folder that is closed is closed
        message = f"other users have access to {listing(map(str, opened), 3)}"
        return [Finding(STATE, Level.WARN, message, shell_words("chmod", "go-rwx", *opened[:20]))]
    return [Finding(STATE, Level.OK, "nothing is in its way")]


def check_writable(context: CheckContext) -> list[Finding]:
    """This user may write in every folder a run writes in."""
    barred = [folder for folder in _folders(context) if not can_write_in(folder)]
    if not barred:
        return [Finding(WRITABLE, Level.OK, "a run can write everywhere it has to")]
    message = f"a run cannot write in {listing(map(str, barred), 3)}"
    hint = f"give this user access, for example: {shell_words('chmod', 'u+rwx', *barred[:20])}"
    return [Finding(WRITABLE, Level.FAIL, message, hint)]


def _folders(context: CheckContext) -> list[Path]:
    root, layout = context.project_dir, context.layout
    found = [root, layout.private]
    for name in (SEMANTIC_NAME, RAW_NAME):
        for connection in context.loaded.config.connections:
            found += [Path(folder) for folder, _, _ in os.walk(root / name / connection)]
        found.append(root / name)
    try:
        repository = Repository.discover(root)
    except KtxError:  # named by the check of the repository
        repository = None
    if repository is not None:
        found += [repository.layout.git_dir, repository.layout.common_dir / "objects"]
    return sorted({folder for folder in found if folder.is_dir()})
