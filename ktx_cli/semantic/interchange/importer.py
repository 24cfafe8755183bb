"""Import files of another tool into the project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ktx_cli.core import Command, Hint, UsageError, did_you_mean, yaml
from ktx_cli.project import Layout, WorkingTree, read_bytes, storage_error, write_atomic
from ktx_cli.semantic.interchange.dbt.importer import import_dbt
from ktx_cli.semantic.interchange.drafts import HEADER_START
from ktx_cli.semantic.interchange.lookml.importer import import_lookml
from ktx_cli.semantic.interchange.osi.importer import import_osi
from ktx_cli.semantic.interchange.powerbi.importer import import_powerbi
from ktx_cli.semantic.interchange.powerbi.template import TEMPLATE_SUFFIX, model_in
from ktx_cli.semantic.interchange.report import Imported
from ktx_cli.semantic.interchange.tableau.importer import import_tableau
from ktx_cli.semantic.interchange.tableau.package import document_in
from ktx_cli.semantic.interchange.tableau.workbook import TABLEAU_SUFFIXES
from ktx_cli.semantic.load.load import read_files, text_of
from ktx_cli.semantic.model import Model

_YAML: Final = (".yml", ".yaml")
_LEFT_OUT: Final = frozenset({"target", "dbt_packages", "dbt_modules", "node_modules", "logs"})


class _Format(NamedTuple):
    """The importer for a format, its file suffixes, and how to get the text in a file."""

    read: Callable[[Mapping[str, str], Model | None], Imported]
    suffixes: tuple[str, ...]
    unpack: Callable[[str, bytes], bytes] = lambda _, content: content


_FORMATS: Final[Mapping[str, _Format]] = {
    "dbt": _Format(import_dbt, _YAML),
    "lookml": _Format(import_lookml, (".lkml", ".lookml")),
    "powerbi": _Format(import_powerbi, (".tmdl", ".bim", TEMPLATE_SUFFIX), model_in),
    "osi": _Format(import_osi, (*_YAML, ".json")),
    "tableau": _Format(import_tableau, TABLEAU_SUFFIXES, document_in),
}
FORMATS: Final = tuple(_FORMATS)
"""The formats that ktx can import."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The imported files by their path in the project.

    `written` are new or replaced, `same` are unchanged. `kept` maps files with the user's own changes, which ktx does
    not replace, to the text that it would have written.
    """

    written: tuple[str, ...]
    same: tuple[str, ...]
    kept: Mapping[str, str]


def import_path(kind: str, path: Path, model: Model | None) -> Imported:
    """Return the result of importing a file or folder in one of the `FORMATS`, without writing anything.

    Raises `UsageError` for an unknown format or a path without matching files, `StorageError` for unreadable files, and
    `ConfigError` for a packaged file that is damaged or unsafe.
    """
    if kind not in _FORMATS:
        near = did_you_mean(kind, FORMATS)
        raise UsageError(f"ktx cannot import the format `{kind}`", hint=f"use {near or ', '.join(FORMATS)}")
    wanted = _FORMATS[kind]
    files = read_inputs(path, wanted.suffixes, wanted.unpack)
    if not files:
        shown = ", ".join(wanted.suffixes)
        message = f"{path} contains no {kind} files ({shown})"
        raise UsageError(message, hint=Hint("see {}", Command(path, program="ls")))
    return wanted.read(files, model)


def read_inputs(path: Path, suffixes: tuple[str, ...], unpack: Callable[[str, bytes], bytes]) -> dict[str, str]:
    """Return the text of a file, or of all files in a folder with one of the suffixes, by path.

    Paths are relative to the folder. Hidden folders, package folders and build folders are skipped. `unpack` takes a
    path and the content of a file, and returns the content of the document in it.
    """

    def text_in(name: str, file: Path) -> str:
        return text_of(unpack(name, read_bytes(file) or b""))

    if path.is_file():
        return {path.name: text_in(path.name, path)}
    result: dict[str, str] = {}
    try:
        paths = sorted(each for each in path.rglob("*") if each.suffix in suffixes and each.is_file())
    except OSError as error:
        raise storage_error(path, error, "read") from error
    for each in paths:
        below = each.relative_to(path)
        if not any(part in _LEFT_OUT or part.startswith(".") for part in below.parts[:-1]):
            result[below.as_posix()] = text_in(below.as_posix(), each)
    return result


def place(imported: Imported, layout: Layout, connection: str) -> Placed:
    """Write imported files into the project, except over files with the user's own changes.

    If it raises `StorageError`, every file has either its previous or its imported content.
    """
    folder = Layout.context_paths(connection)[0]
    tree = WorkingTree(layout.root)
    owners = {file.document["name"]: file for file in read_files(tree, connection).own}
    written, same, kept = [], [], {}
    for name, text in imported.files.items():
        target = f"{folder}/{name}"
        owner = owners.get(yaml.load(text, where=target)["name"])
        current = tree.read(target)
        where = target if owner is None else owner.path
        if current == text.encode():
            same.append(target)
        elif where != target or (current is not None and not text_of(current).startswith(HEADER_START)):
            kept[where] = text
        else:
            write_atomic(layout.root / target, text.encode())
            written.append(target)
    return Placed(tuple(written), tuple(same), kept)
