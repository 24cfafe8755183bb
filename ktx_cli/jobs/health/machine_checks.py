"""Machine checks: Python, packages, SQLite, git, secrets, and the private folder with its disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, GitMissingError, KtxError, listing
from ktx_cli.jobs.health.model import CheckContext, CheckResult, Concern, Level, failed
from ktx_cli.project import (
    KINDS,
    RAW_NAME,
    SEMANTIC_NAME,
    SHARED_STORAGE,
    SOURCES,
    WAREHOUSES,
    Connection,
    Repository,
    SecretRef,
    can_write_in,
    check_private_folder,
    find_git,
    is_hidden,
    open_to_others,
    prepare_private_folder,
    resolve_options,
    secret_file_warnings,
    untracking,
)
from ktx_cli.sources import missing_source_package
from ktx_cli.warehouses import missing_package

DISTRIBUTION: Final = "ktx-cli"
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def check_python(context: CheckContext) -> list[CheckResult]:
    """Check that every required package is installed in a supported version."""
    wrong = list(_unmet())
    if wrong:
        words = ("-m", "pip", "install", "--upgrade", "--force-reinstall", DISTRIBUTION)
        hint = Command(*words, program=sys.executable)
        return [
            CheckResult(
                "python", Level.FAIL, f"packages are missing or have an unsupported version: {listing(wrong, 20)}", hint
            )
        ]
    return [CheckResult("python", Level.OK, f"Python {platform.python_version()} with all packages")]


def _unmet() -> Iterator[str]:
    """Yield ktx requirements that are not met; versions are only compared if `packaging` is installed."""
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from its sources: no metadata about requirements
        return
    for text in needed:
        name = _REQUIREMENT.match(text)
        if name is None or "extra ==" in text:
            continue
        try:
            version = metadata.version(name[0])
        except metadata.PackageNotFoundError:
            yield name[0]
            continue
        if not _suits(text, version):
            yield f"{text.partition(';')[0].strip()} (installed: {version})"


def _suits(requirement: str, version: str) -> bool:
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return True
    return Requirement(requirement).specifier.contains(version, prereleases=True)


def check_extras(context: CheckContext) -> list[CheckResult]:
    """Check that the package of every configured driver is installed, and that every installed plug-in works."""
    config = context.loaded.config
    connections: dict[str, Connection] = {**config.databases(), **config.sources()}
    findings = []
    for driver in dict.fromkeys(entry.driver for entry in connections.values()):
        command = missing_package(driver) or missing_source_package(driver)
        if command is not None:
            used = listing(f"`{name}`" for name, entry in connections.items() if entry.driver == driver)
            message = f"the package for the driver `{driver}` is not installed, so {used} cannot be read"
            findings.append(CheckResult("extras", Level.FAIL, message, command, Concern.SETUP))
    for warning in (*WAREHOUSES.problems(), *SOURCES.problems()):
        findings.append(CheckResult("extras", Level.WARN, warning.message, warning.hint, Concern.SETUP))
    return findings or [CheckResult("extras", Level.OK, "the packages of all drivers are installed")]


def check_sqlite(context: CheckContext) -> list[CheckResult]:
    """Check that SQLite has FTS5, which search needs."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        message = f"SQLite {sqlite3.sqlite_version} was built without FTS5"
        return [
            CheckResult(
                "sqlite", Level.FAIL, message, Command("tool", "install", "--python", "3.12", "ktx-cli", program="uv")
            )
        ]
    finally:
        connection.close()
    return [CheckResult("sqlite", Level.OK, f"SQLite {sqlite3.sqlite_version} with FTS5")]


def check_git(context: CheckContext) -> list[CheckResult]:
    """Check that git is installed in a recent version."""
    try:
        git = find_git(project_dir=context.project_dir)
    except GitMissingError as error:
        return [CheckResult("git", Level.FAIL, error.message, error.hint)]
    return [CheckResult("git", Level.OK, Command(git.version, "at", git.path, program="git"))]


STATE, HIDDEN, WRITABLE, DISK = "state", "hidden", "writable", "disk"

NEEDED_BYTES: Final = 50 << 20
"""Free space below which a run is likely to fail: git objects, the state database, the index."""
WANTED_BYTES: Final = 500 << 20
"""Free space below which someone should check the disk."""


def check_state(context: CheckContext) -> list[CheckResult]:
    """Check that nothing blocks `.ktx` and the state database, and that they are private to this user."""
    try:
        check_private_folder(context.layout)
    except KtxError as error:
        return [CheckResult(STATE, Level.FAIL, error.message, error.hint)]
    opened = open_to_others(context.layout)
    if context.layout.private in opened:  # what is in a private folder is private
        message = f"other users have access to {listing(map(str, opened), 3)}"
        hint = Command("go-rwx", *opened[:20], program="chmod")
        return [CheckResult(STATE, Level.WARN, message, hint, repair=lambda: _closed(context, opened))]
    storage = context.loaded.config.storage
    is_shared = storage.state in SHARED_STORAGE and storage.postgres is not None
    found = "no problems found in .ktx; the shared database is another check" if is_shared else "no problems found"
    return [CheckResult(STATE, Level.OK, found)]


def _closed(context: CheckContext, opened: list[Path]) -> str:
    prepare_private_folder(context.layout)
    return f"removed the access of other users to {listing(map(str, opened), 3)}"


def check_hidden(context: CheckContext) -> list[CheckResult]:
    """Check that nothing in `.ktx` can be committed: git ignores all of it and tracks none of it."""
    layout, repository = context.layout, context.repository
    if not layout.private.is_dir():
        return [CheckResult(HIDDEN, Level.OK, "does not exist yet")]
    try:
        hidden, exposed = is_hidden(layout), repository.exposed() if repository is not None else []
    except KtxError as error:
        return [CheckResult(HIDDEN, Level.FAIL, error.message, error.hint)]
    if not hidden:
        message = f"{layout.private_gitignore} allows files of .ktx to be committed"
        level = Level.FAIL if exposed else Level.WARN
        if exposed:
            message += f": {listing(exposed, 3)}"
        fix = Command("doctor", "--fix", "--only", HIDDEN)
        return [CheckResult(HIDDEN, level, message, fix, repair=lambda: _hidden(context))]
    if exposed:
        message = f"git tracks {listing(exposed, 3)}, but files in .ktx must never be committed"
        return [CheckResult(HIDDEN, Level.FAIL, message, untracking(context.project_dir, exposed))]
    return [CheckResult(HIDDEN, Level.OK, "git ignores everything in .ktx")]


def _hidden(context: CheckContext) -> str:
    prepare_private_folder(context.layout)
    return f"{context.layout.private_gitignore} now hides everything in .ktx from git"


def check_disk(context: CheckContext) -> list[CheckResult]:
    """Check that the disks of the project and of temporary files have enough free space for a run."""
    folders = {folder.stat().st_dev: folder for folder in (Path(tempfile.gettempdir()), context.project_dir)}
    free = {folder: shutil.disk_usage(folder).free for folder in folders.values()}
    short = {folder: room for folder, room in free.items() if room < WANTED_BYTES}
    if not short:
        return [CheckResult(DISK, Level.OK, f"{_megabytes(min(free.values()))} free")]
    return [
        CheckResult(
            DISK,
            Level.FAIL if room < NEEDED_BYTES else Level.WARN,
            f"{_megabytes(room)} free on the disk of {folder}",
            _room_for(context, folder),
        )
        for folder, room in short.items()
    ]


def _room_for(context: CheckContext, folder: Path) -> str:
    """Return the command that frees space by deleting ktx's own caches; else the one that shows the disk usage."""
    layout = context.layout
    own = [copies for copies in (layout.cache, layout.raw_store) if folder == context.project_dir and copies.is_dir()]
    return Command("-r", *own, program="rm") if own else Command("-h", folder, program="df")


def _megabytes(count: int) -> str:
    return f"{count >> 20:,} MB"


def check_writable(context: CheckContext) -> list[CheckResult]:
    """Check that this user may write in every folder that runs write to."""
    barred = [folder for folder in _folders(context) if not can_write_in(folder)]
    if not barred:
        return [CheckResult(WRITABLE, Level.OK, "runs can write all their files")]
    message = f"runs cannot write in {listing(map(str, barred), 3)}"
    return [CheckResult(WRITABLE, Level.FAIL, message, Command("u+rwx", *barred[:20], program="chmod"))]


def _folders(context: CheckContext) -> list[Path]:
    root, layout = context.project_dir, context.layout
    folders = [root, layout.private]
    for name in (SEMANTIC_NAME, RAW_NAME):
        for connection in context.loaded.config.connections:
            folders += [Path(folder) for folder, _, _ in os.walk(root / name / connection)]
        folders.append(root / name)
    try:
        repository = Repository.discover(root)
    except KtxError:  # reported by the check of the repository
        repository = None
    if repository is not None:
        folders += [repository.layout.git_dir, repository.layout.common_dir / "objects"]
    return sorted({folder for folder in folders if folder.is_dir()})


CHECK = "secrets"
QUIET_KINDS = tuple(kind for kind in KINDS if kind != "keyring")
"""References that resolve without a prompt; a keyring may open a window and wait for a password."""


def check_secrets(context: CheckContext) -> list[CheckResult]:
    """Check that every secret reference of a connection resolves.

    For a connection whose driver this version does not support, a failure is only a warning.
    """
    config = context.loaded.config
    findings = [
        finding
        for connection, entry in config.usable().items()
        if (finding := secrets_finding(context, connection, entry)) is not None
    ]
    for warning in secret_file_warnings(config, project_dir=context.project_dir):
        findings.append(CheckResult(CHECK, Level.WARN, warning.message, warning.hint, Concern.SETUP))
    return findings or [CheckResult(CHECK, Level.OK, "all secret references resolve")]


def secrets_finding(context: CheckContext, connection: str, entry: Connection) -> CheckResult | None:
    """Return the error in a connection's references, or that some were not checked; None if all resolve."""
    kinds = KINDS if context.live else QUIET_KINDS
    try:
        resolve_options(entry, project_dir=context.project_dir, environ=context.environ, kinds=kinds)
    except KtxError as error:
        return failed(CHECK, error, Concern.SETUP, where=f"connection `{connection}`")
    # The text in the file, not what it resolves to: a value is never shown.
    written = resolve_options(entry, project_dir=context.project_dir, environ=context.environ, kinds=())
    unasked = [f"`{reference}`" for reference in _references(written) if reference.kind not in kinds]
    if not unasked:
        return None
    message = f"connection `{connection}`: unverified, because only `ktx doctor` reads the keyring: {listing(unasked)}"
    return CheckResult(CHECK, Level.SKIP, message, Command("doctor", "--only", "secrets"), Concern.SETUP)


def _references(value: Any) -> Iterator[SecretRef]:
    """Yield the references in options."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, str) and (reference := SecretRef.parse(value)) is not None:
        yield reference


TELEMETRY: Final = "telemetry"


def check_telemetry(context: CheckContext) -> list[CheckResult]:
    """Check that the collector that OpenTelemetry's variables name answers: commands go on without it."""
    from ktx_cli.telemetry import collector_warnings, is_requested

    if not is_requested(context.environ):
        return [CheckResult(TELEMETRY, Level.OK, "the environment names no collector")]
    warnings = collector_warnings(context.environ)
    found = [CheckResult(TELEMETRY, Level.WARN, each.message, each.hint) for each in warnings]
    return found or [CheckResult(TELEMETRY, Level.OK, "the collector answers")]
