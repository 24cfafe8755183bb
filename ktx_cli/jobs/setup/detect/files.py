"""Looks through a folder, not deep and not long; hidden folders, packages of others and ktx's own are passed over."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ktx_cli.core import KtxError, is_device_name, monotonic
from ktx_cli.jobs.clients.targets import CLIENTS, Scope, Target, Where, found_program
from ktx_cli.jobs.clients.uninstall import INSTALLED, list_clients
from ktx_cli.project import CONFIG_NAME, RAW_NAME, RESERVED_IDS, SEMANTIC_NAME, WAREHOUSES, WIKI_NAME
from ktx_cli.sources import LEFT_OUT, PROJECT_FILES, Folder, topmost
from ktx_cli.warehouses import READERS

MAX_DEPTH: Final = 3
"""How many folders below the first are looked into."""

MAX_ENTRIES: Final = 10_000
MAX_SECONDS: Final = 0.5
"""Where looking ends, in a home folder or on a slow disk: what was not seen is not offered."""

_OWN: Final = frozenset({RAW_NAME, SEMANTIC_NAME, WIKI_NAME})
_OF_DBT: Final = frozenset({"target", "seeds"})
_ENVIRONMENT: Final = "pyvenv.cfg"


def folders_in(root: Path) -> Iterator[Folder]:
    """Yield a folder and those below it, the nearest first; none where it cannot be listed."""
    ends, left = monotonic() + MAX_SECONDS, MAX_ENTRIES
    waiting = deque([PurePosixPath(".")])
    while waiting and left > 0 and monotonic() < ends:
        path = waiting.popleft()
        files, inner = _listed(root / path)
        left -= len(files) + len(inner)
        if _ENVIRONMENT in files:
            continue
        yield Folder(path, tuple(files))
        if len(path.parts) < MAX_DEPTH:
            passed = _passed_over(path, files)
            waiting += [path / name for name in inner if name not in passed]


def _passed_over(path: PurePosixPath, files: list[str]) -> frozenset[str]:
    """Return the names of folders that hold nothing of the user's: what tools leave behind, and what ktx writes."""
    passed = LEFT_OUT
    if path == PurePosixPath(".") or CONFIG_NAME in files:
        passed |= _OWN
    if any(name in files for name in PROJECT_FILES):
        passed |= _OF_DBT
    return passed


def _listed(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder, sorted; links to folders are not followed."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not entry.name.isprintable():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
    except OSError:
        return [], []
    return sorted(files), sorted(folders)


HEAD_BYTES: Final = 64
"""How much of a file is read to see which database it is."""
MOST_FILES: Final = 20
"""How many databases are offered: a folder with more of them is a cache of some program."""

SEVERAL: Final = 2
"""How many data files make a folder a database."""


@dataclass(frozen=True, slots=True)
class Found:
    """A database that was seen. `fields`: by `ktx.yaml` key. `name`: what its id should be like."""

    driver: str
    label: str
    fields: Mapping[str, Any]
    name: str


def file_databases(root: Path) -> list[Found]:
    """Return the databases in a folder, the nearest first, then the folders of data files."""
    folders = list(folders_in(root))
    single = [found for folder in folders for found in _single(root, folder)]
    return [*single[:MOST_FILES], *_of_data_files(root, folders)]


def _single(root: Path, folder: Folder) -> Iterator[Found]:
    for name in folder.files:
        path = folder.path / name
        kind = None if _is_data(name) else _kind(root / path)
        if kind is not None:
            yield Found(kind[0], f"{kind[1]} file {path}", {"path": str(path)}, path.stem)


def _kind(path: Path) -> tuple[str, str] | None:
    """Return driver and name of what a file is by its first bytes."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError:
        return None
    for warehouse in WAREHOUSES.all():
        signature = warehouse.signature
        if signature is not None and head[signature.offset :].startswith(signature.head):
            return warehouse.driver, signature.name
    return None


def _of_data_files(root: Path, folders: list[Folder]) -> Iterator[Found]:
    counts = {folder.path: sum(map(_is_data, folder.files)) for folder in folders if _holds_data(folder)}
    for path in topmost(list(counts)):
        shown = "." if path == PurePosixPath(".") else f"{path}/"
        label = f"folder {shown} with {counts[path]} data files, each a table"
        yield Found("files", label, {"path": str(path)}, path.name or root.resolve().name)


def _holds_data(folder: Folder) -> bool:
    """Whether several files are data. JSON alone is not: settings of programs are JSON too."""
    found = [name for name in folder.files if _is_data(name)]
    return len(found) >= SEVERAL and any(".json" not in Path(name).suffixes for name in found)


def _is_data(name: str) -> bool:
    return name.lower().endswith(tuple(READERS))


_LONGEST: Final = 60


def free_id(wanted: str, taken: Collection[str]) -> str:
    """Return an id that may name a connection and is not taken, as near to `wanted` as that goes."""
    stem = re.sub(r"[^a-z0-9_-]+", "-", wanted.lower())[:_LONGEST].strip("-_") or "warehouse"
    if stem in RESERVED_IDS or is_device_name(stem):
        stem = f"{stem}-db"
    used = {each.lower() for each in taken}
    number, name = 2, stem
    while name in used:
        name, number = f"{stem}-{number}", number + 1
    return name


_CLIENTS: Final[Mapping[Target, tuple[str, tuple[str, ...]]]] = {
    Target.CLAUDE_CODE: ("Claude Code", ("claude",)),
    Target.CLAUDE_DESKTOP: ("Claude Desktop", ()),
    Target.CODEX: ("Codex", ("codex",)),
    Target.CURSOR: ("Cursor", ("cursor", "cursor-agent")),
    Target.OPENCODE: ("opencode", ("opencode",)),
    Target.VSCODE: ("VS Code", ("code",)),
    Target.UNIVERSAL: ("any other client: skills for it, and an entry to paste", ()),
}
"""What each client is called, and its programs."""


class _Sign(IntEnum):
    """Why a client seems to be here, the strongest first."""

    INSTALLED = 0
    IN_PROJECT = 1
    PROGRAM = 2
    OF_USER = 3


@dataclass(frozen=True, slots=True)
class AgentOffer:
    """A client that could get the project. `installed`: it has it, and nothing of that is changed or stale."""

    target: Target
    label: str
    installed: bool


def agent_offers(project_dir: Path, environ: Mapping[str, str]) -> list[AgentOffer]:
    """Return the clients that seem to be on this machine, the likeliest first; `universal` is always the last."""
    where = Where(project_dir, environ)
    installed = _installed(where)
    found: list[tuple[_Sign, AgentOffer]] = []
    for target in CLIENTS:
        has = target in installed
        sign = (_Sign.INSTALLED, "has this project") if has else next(_signs(target, where), None)
        if sign is not None and target is not Target.UNIVERSAL:
            found.append((sign[0], AgentOffer(target, f"{_CLIENTS[target][0]} ({sign[1]})", has)))
    universal = AgentOffer(Target.UNIVERSAL, _CLIENTS[Target.UNIVERSAL][0], Target.UNIVERSAL in installed)
    return [*(offer for _, offer in sorted(found, key=lambda each: each[0])), universal]


def _installed(where: Where) -> set[Target]:
    try:
        return {state.target for state in list_clients(where) if state.state == INSTALLED}
    except KtxError:  # `ktx agents list` and `install` say what is wrong
        return set()


def _signs(target: Target, where: Where) -> Iterator[tuple[_Sign, str]]:
    """Yield why a client seems to be here, the strongest first."""
    if _has_files(target, Scope.PROJECT, where):
        yield _Sign.IN_PROJECT, "used in this folder"
    for program in _CLIENTS[target][1]:
        if found_program(where.environ, program) is not None:
            yield _Sign.PROGRAM, f"`{program}` is on PATH"
    if _has_files(target, Scope.USER, where):
        yield _Sign.OF_USER, "has settings of this user"


def _has_files(target: Target, scope: Scope, where: Where) -> bool:
    """Whether a client's configuration file is there, or the folder that is the client's own."""
    place = CLIENTS[target].places.get(scope)
    if place is None:
        return False
    try:
        paths = where.configs(place)
    except KtxError:  # no home folder
        return False
    shared = (where.project, _home(where))
    return any(os.path.lexists(path) or (path.parent not in shared and path.parent.is_dir()) for path in paths)


def _home(where: Where) -> Path | None:
    try:
        return where.home
    except KtxError:
        return None
