"""Checks of the machine: Python and its packages, SQLite, git."""

from __future__ import annotations

import importlib.util
import platform
import sqlite3
import sys

from ktx_cli.core.errors import GitMissingError
from ktx_cli.core.text import shell_words
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.project.git import find_git

PACKAGES = ("typer", "rich", "pydantic", "yaml", "sqlalchemy", "sqlglot", "duckdb", "questionary", "anthropic")


def check_python(context: CheckContext) -> list[Finding]:
    """Every package ktx needs can be found."""
    missing = [name for name in (*PACKAGES, "claude_agent_sdk") if importlib.util.find_spec(name) is None]
    if missing:
        hint = f"{shell_words(sys.executable)} -m pip install --force-reinstall ktx-cli"
        return [Finding("python", Level.FAIL, f"packages are missing: {', '.join(missing)}", hint)]
    return [Finding("python", Level.OK, f"Python {platform.python_version()}, all packages found")]


def check_sqlite(context: CheckContext) -> list[Finding]:
    """SQLite has FTS5, which search needs."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        message = f"SQLite {sqlite3.sqlite_version} was built without FTS5"
        return [Finding("sqlite", Level.FAIL, message, "use a Python whose SQLite has FTS5, as python.org's has")]
    finally:
        connection.close()
    return [Finding("sqlite", Level.OK, f"SQLite {sqlite3.sqlite_version} with FTS5")]


def check_git(context: CheckContext) -> list[Finding]:
    """There is a git binary that is new enough."""
    try:
        git = find_git()
    except GitMissingError as error:
        return [Finding("git", Level.FAIL, error.message, error.hint)]
    return [Finding("git", Level.OK, f"git {git.version} at {git.path}")]
