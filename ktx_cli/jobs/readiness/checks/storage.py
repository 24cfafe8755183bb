"""Checks of the disks: the state database can be one, a run could write where it has to, and there is room."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing, shell_words
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.project.files import can_write_in
from ktx_cli.project.layout import RAW_NAME, SEMANTIC_NAME
from ktx_cli.project.repository import Repository
from ktx_cli.project.repository.store import untracking
from ktx_cli.project.state import check_private_folder, is_hidden, open_to_others, prepare_private_folder

STATE, HIDDEN, WRITABLE, DISK = "state", "hidden", "writable", "disk"

NEEDED_BYTES: Final = 50 << 20
"""Room on a disk below which a run is likely to end in an error: objects of git, the state database, the index."""
WANTED_BYTES: Final = 500 << 20
"""Room below which somebody should look."""


def check_state(context: CheckContext) -> list[Finding]:
    """Nothing else stands where `.ktx` and the state database have to be, and they are this user's alone."""
    try:
        check_private_folder(context.layout)
    except KtxError as error:
        return [Finding(STATE, Level.FAIL, error.message, error.hint)]
    opened = open_to_others(context.layout)
    if context.layout.private in opened:  # what is in a folder that is closed is closed
        message = f"other users have access to {listing(map(str, opened), 3)}"
        hint = shell_words("chmod", "go-rwx", *opened[:20])
        return [Finding(STATE, Level.WARN, message, hint, repair=lambda: _closed(context, opened))]
    return [Finding(STATE, Level.OK, "nothing is in its way")]


def _closed(context: CheckContext, opened: list[Path]) -> str:
    prepare_private_folder(context.layout)
    return f"closed {listing(map(str, opened), 3)} to other users"


def check_hidden(context: CheckContext) -> list[Finding]:
    """Nothing in `.ktx` can be committed: git ignores all of it, and tracks none of it."""
    layout, repository = context.layout, context.repository
    if not layout.private.is_dir():
        return [Finding(HIDDEN, Level.OK, "there is nothing yet")]
    try:
        hidden, exposed = is_hidden(layout), repository.exposed() if repository is not None else []
    except KtxError as error:
        return [Finding(HIDDEN, Level.FAIL, error.message, error.hint)]
    if not hidden:
        message = f"{layout.private_gitignore} lets files of .ktx be committed"
        level = Level.FAIL if exposed else Level.WARN
        if exposed:
            message += f": {listing(exposed, 3)}"
        fix = f"ktx doctor --fix --only {HIDDEN}"
        return [Finding(HIDDEN, level, message, fix, repair=lambda: _hidden(context))]
    if exposed:
        message = f"git tracks {listing(exposed, 3)}, and what is in .ktx must never be committed"
        return [Finding(HIDDEN, Level.FAIL, message, untracking(context.project_dir, exposed))]
    return [Finding(HIDDEN, Level.OK, "git ignores everything in .ktx")]


def _hidden(context: CheckContext) -> str:
    prepare_private_folder(context.layout)
    return f"{context.layout.private_gitignore} hides everything in .ktx from git"


def check_disk(context: CheckContext) -> list[Finding]:
    """There is room for a run on the disk of the project and on that of temporary files."""
    folders = {folder.stat().st_dev: folder for folder in (Path(tempfile.gettempdir()), context.project_dir)}
    free = {folder: shutil.disk_usage(folder).free for folder in folders.values()}
    short = {folder: room for folder, room in free.items() if room < WANTED_BYTES}
    if not short:
        return [Finding(DISK, Level.OK, f"{_megabytes(min(free.values()))} free")]
    return [
        Finding(
            DISK,
            Level.FAIL if room < NEEDED_BYTES else Level.WARN,
            f"{_megabytes(room)} free on the disk of {folder}",
            _room_for(context, folder),
        )
        for folder, room in short.items()
    ]


def _room_for(context: CheckContext, folder: Path) -> str:
    """Return what makes room: ktx's own copies may go at any time; else what shows how full the disk is."""
    layout = context.layout
    own = [each for each in (layout.cache, layout.raw_store) if folder == context.project_dir and each.is_dir()]
    return shell_words("rm", "-r", *own) if own else shell_words("df", "-h", folder)


def _megabytes(count: int) -> str:
    return f"{count >> 20:,} MB"


def check_writable(context: CheckContext) -> list[Finding]:
    """This user may write in every folder a run writes in."""
    barred = [folder for folder in _folders(context) if not can_write_in(folder)]
    if not barred:
        return [Finding(WRITABLE, Level.OK, "a run can write everywhere it has to")]
    message = f"a run cannot write in {listing(map(str, barred), 3)}"
    return [Finding(WRITABLE, Level.FAIL, message, shell_words("chmod", "u+rwx", *barred[:20]))]


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
