"""Folders of tables: which folder is a table, and what it is called."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ktx_cli.core import Command, SourceError
from ktx_cli.project import WAREHOUSES
from ktx_cli.warehouses import base
from ktx_cli.warehouses.port import ConnectionSpec, ObjectProblem, TableRef

HOME: Final = "main"
"""The schema of tables that are in no folder of their own; DuckDB looks up names without a schema in it."""

_MOST_FOLDERS: Final = 1000
"""The maximum number of folders in which ktx looks for tables of another kind."""


def require_folder(spec: ConnectionSpec, folder: Path) -> None:
    """Raise `SourceError` unless a path is a folder that this user can list."""
    hint = Command("config", "set", f"connections.{spec.id}.path", "FOLDER")
    details = {"path": str(folder)}
    try:
        if not folder.is_dir():
            missing = "is not a folder" if folder.exists() else "does not exist"
            raise SourceError(f"connection `{spec.id}`: {folder} {missing}", hint=hint, details=details)
        os.scandir(folder).close()
    except OSError as error:
        raise base.unreadable(spec, folder, error) from error


def require_tables(spec: ConnectionSpec, folder: Path, driver: str) -> None:
    """Raise the `SourceError` for a folder without tables of a driver, which says what it contains instead."""
    others = {each.driver: each.table_mark for each in WAREHOUSES.all() if each.table_mark and each.driver != driver}
    problem = f"there are no {driver.title()} tables in {folder}"
    hint = Command("config", "set", f"connections.{spec.id}.path", "FOLDER")
    for number, (where, folders, _) in enumerate(os.walk(folder)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for other, mark in others.items():
            if next(Path(where).glob(mark), None) is not None:
                problem += f"; the folder contains {other.title()} tables"
                hint = Command("config", "set", f"connections.{spec.id}.driver", other)
                break
        else:
            if number < _MOST_FOLDERS:
                continue
        break
    raise SourceError(problem, where=f"connection `{spec.id}`", hint=hint, details={"path": str(folder)})


def find_tables(root: Path, is_table: Callable[[Path], bool]) -> tuple[dict[TableRef, Path], list[ObjectProblem]]:
    """Return the folders of the tables below a folder, and problems with other folders.

    A folder of tables is a schema: `sales/eu/orders` is the table `orders` in the schema `sales.eu`. The tables
    directly in `root`, or `root` itself if it is a table, are in DuckDB's own schema. Hidden folders are ignored.
    """
    inside = root.resolve()
    if is_table(root):
        return {TableRef(HOME, inside.name): inside}, []
    found: dict[TableRef, Path] = {}
    problems: list[ObjectProblem] = []

    def left_out(path: Path, why: str) -> None:
        name = path.relative_to(root).as_posix().encode(errors="replace").decode()
        problems.append(ObjectProblem(TableRef(None, name), "folder", base.reason(f"{name} {why}")))

    def unreadable(error: OSError) -> None:
        problems.append(ObjectProblem(None, "folder", base.reason(f"cannot read {error.filename}: {error.strerror}")))

    for where, folders, _ in os.walk(root, onerror=unreadable):
        here = Path(where)
        below = []
        for name in sorted(folders):
            path = here / name
            if name.startswith("."):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                left_out(path, "is a link to a target outside the folder")
                continue
            if not is_table(path):
                below.append(name)
                continue
            try:
                str(path).encode()
            except UnicodeEncodeError:
                left_out(path, "has a name that is not UTF-8")
                continue
            schema = ".".join(here.relative_to(root).parts) or HOME
            found[TableRef(schema, name)] = path.resolve()
        folders[:] = below
    return found, problems
