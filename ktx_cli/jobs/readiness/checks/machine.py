"""Checks of the machine: Python and its packages, those of drivers, SQLite, git."""

from __future__ import annotations

import platform
import re
import sqlite3
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final

from ktx_cli.connectors.registry import missing_package
from ktx_cli.core.errors import GitMissingError
from ktx_cli.core.text import listing, shell_words
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.project.git import find_git

DISTRIBUTION: Final = "ktx-cli"
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def check_python(context: CheckContext) -> list[Finding]:
    """Every package that ktx was published with is there, in a version it takes."""
    wrong = list(_unmet())
    if wrong:
        hint = f"{shell_words(sys.executable)} -m pip install --upgrade --force-reinstall {DISTRIBUTION}"
        return [
            Finding("python", Level.FAIL, f"packages are missing or of another version: {listing(wrong, 20)}", hint)
        ]
    return [Finding("python", Level.OK, f"Python {platform.python_version()}, all packages found")]


def _unmet() -> Iterator[str]:
    """Yield what ktx needs and does not have; versions are compared where `packaging` is there to do it."""
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from its sources: nothing says what it needs
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
            yield f"{text.partition(';')[0].strip()} (here: {version})"


def _suits(requirement: str, version: str) -> bool:
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return True
    return Requirement(requirement).specifier.contains(version, prereleases=True)


def check_extras(context: CheckContext) -> list[Finding]:
    """The package of every driver that a connection names is there."""
    databases = context.loaded.config.databases()
    findings = []
    for driver in dict.fromkeys(entry.driver for entry in databases.values()):
        command = missing_package(driver)
        if command is not None:
            used = listing(f"`{name}`" for name, entry in databases.items() if entry.driver == driver)
            message = f"the package of the driver `{driver}` is not installed: {used} cannot be read"
            findings.append(Finding("extras", Level.FAIL, message, command, Concern.SETUP))
    return findings or [Finding("extras", Level.OK, "every driver has its package")]


def check_sqlite(context: CheckContext) -> list[Finding]:
    """SQLite has FTS5, which search needs."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        message = f"SQLite {sqlite3.sqlite_version} was built without FTS5"
        return [Finding("sqlite", Level.FAIL, message, "uv tool install --python 3.12 ktx-cli")]
    finally:
        connection.close()
    return [Finding("sqlite", Level.OK, f"SQLite {sqlite3.sqlite_version} with FTS5")]


def check_git(context: CheckContext) -> list[Finding]:
    """There is a git binary that is new enough."""
    try:
        git = find_git(project_dir=context.project_dir)
    except GitMissingError as error:
        return [Finding("git", Level.FAIL, error.message, error.hint)]
    return [Finding("git", Level.OK, f"git {git.version} at {git.path}")]
