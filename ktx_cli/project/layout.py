"""The location of every file in a project. No other module builds a path inside the project."""

from __future__ import annotations

import functools
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ktx_cli.core import (
    Command,
    Hint,
    NoProjectError,
    ResultWarning,
    StorageError,
    UsageError,
    escaped,
    listing,
    one_line,
)
from ktx_cli.project.files import read_bytes, require_regular, storage_error

CONFIG_NAME = "ktx.yaml"
PRIVATE_NAME = ".ktx"
PROMPTS_NAME = "prompts"
SEMANTIC_NAME = "semantic-layer"
RAW_NAME = "raw-sources"
WIKI_NAME = "wiki"
EVALS_NAME = "evals"
CONTRADICTIONS_NAME = "contradictions.yaml"
"""Contradictions between sources that await a decision; see `ktx_cli.wiki`."""

OWNERS_NAME = "owners.yaml"
"""The people who may accept and certify definitions; see `ktx_cli.semantic`."""

DECISIONS_NAME = "decisions.yaml"
"""Decisions about conventions that the data cannot settle; see `ktx_cli.semantic`."""

SCHEMA_NAME = "_schema"
OWN_NAMES = frozenset(
    {CONFIG_NAME, PRIVATE_NAME, SEMANTIC_NAME, RAW_NAME, WIKI_NAME, EVALS_NAME, PROMPTS_NAME}
    | {CONTRADICTIONS_NAME, OWNERS_NAME, DECISIONS_NAME}
)
"""Files that ktx keeps at the top of a folder with a `ktx.yaml`. No source reads them."""

DATABASE_SOURCE = "live-database"
"""The name of a database scan among the raw sources, as in the TypeScript ktx."""


_WORKER_COPIES: Final = "worker"
_SNAPSHOTS: Final = "snapshots"


def origin_of(project_dir: Path) -> Path:
    """Return the folder of the project that a project is a copy of, or its own folder if it is none."""
    folder = project_dir.parent
    if folder.name in (_WORKER_COPIES, _SNAPSHOTS) and folder.parent.name == PRIVATE_NAME:
        origin = folder.parent.parent
        return origin if (origin / CONFIG_NAME).is_file() else project_dir
    return project_dir


class _Below:
    """A path in a project, given by its parts below the project folder."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, layout: Layout, owner: object) -> Path:
        return layout.root.joinpath(*self._names)


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one project. `*_path` are relative POSIX strings as git sees them, the others are absolute.

    `connections`: the connections that exist for whoever reads the project through these paths; None for all. What
    belongs to others is read as if it did not exist.
    """

    root: Path
    connections: frozenset[str] | None = None

    config = _Below(CONFIG_NAME)
    """`ktx.yaml`."""
    prompts = _Below(PROMPTS_NAME)
    """The project's own prompts, which replace the packaged ones."""
    evals = _Below(EVALS_NAME)
    """Golden questions, committed."""
    private = _Below(PRIVATE_NAME)
    """`.ktx/`: private to ktx, never committed."""
    private_gitignore = _Below(PRIVATE_NAME, ".gitignore")
    """`.ktx/.gitignore`, which contains `*`."""
    state = _Below(PRIVATE_NAME, "state.sqlite")
    """The SQLite state database."""
    cache = _Below(PRIVATE_NAME, "cache")
    """Parsed copies; may be deleted at any time."""
    raw_store = _Below(PRIVATE_NAME, "raw")
    """Raw files of sources that are not on this disk, stored by content; may be deleted at any time."""
    search_index = _Below(PRIVATE_NAME, "search.sqlite")
    """The SQLite search index; may be deleted at any time."""
    search_memo = _Below(PRIVATE_NAME, "search-units.json")
    """The digests of the indexed files, for an index in Postgres; may be deleted at any time."""
    own_state = _Below(PRIVATE_NAME, "own-state")
    """Present in the copy of a project, whose state is a file even if that of the project is shared."""
    secrets = _Below(PRIVATE_NAME, "secrets")
    """Secrets that were entered in setup, one file each. Not disposable."""
    worker_copies = _Below(PRIVATE_NAME, _WORKER_COPIES)
    """Copies of the project with the context files of runs, in which a worker works; see `copy_project`."""
    snapshots = _Below(PRIVATE_NAME, _SNAPSHOTS)
    """Copies of the project with the context files of published snapshots, which a server serves."""
    shared_files = _Below(PRIVATE_NAME, "shared")
    """This host's copies of files from a shared state, by content; may be deleted at any time."""
    setup_draft = _Below(PRIVATE_NAME, "setup.json")
    """The answers given in setup so far; may be deleted at any time."""
    replaced = _Below(PRIVATE_NAME, "replaced")
    """Old contents of git-ignored files from which ktx removed something."""
    scratch = _Below(PRIVATE_NAME, "runtime", "tmp")
    """Files that exist for one model call: prompts that are too long for a command line."""
    agents_manifest = _Below(PRIVATE_NAME, "agents", "manifest.json")
    """Record of what ktx added to agent clients' files."""
    mcp_state = _Below(PRIVATE_NAME, "mcp.json")
    """The MCP server that runs on this project, without its token."""
    mcp_lock = _Below(PRIVATE_NAME, "mcp.lock")
    """Locked by the MCP server while it runs."""
    mcp_log = _Below(PRIVATE_NAME, "logs", "mcp.log")
    """Log of the MCP server."""
    mcp_audit = _Below(PRIVATE_NAME, "logs", "mcp-audit.jsonl")
    """Log of agents' requests to this project's servers, one per line."""
    mcp_usage = _Below(PRIVATE_NAME, "mcp-usage.sqlite")
    """What agents took from this project's servers in the last hour, unless the state is shared."""
    memory = _Below(PRIVATE_NAME, "memory")
    """A record of each capture, with its text."""
    memory_lock = _Below(PRIVATE_NAME, "memory", "worker.lock")
    """Locked by the process that works through the capture queue."""
    memory_log = _Below(PRIVATE_NAME, "logs", "memory.log")
    """The last output of the process that a server started for the capture queue."""
    runs = _Below(PRIVATE_NAME, "runs")
    """A JSON report for each run, and a folder with its events and agent transcripts."""

    def has(self, connection: str) -> bool:
        """Return whether a connection exists for whoever reads the project through these paths."""
        return self.connections is None or connection in self.connections

    def memory_record(self, run_id: str) -> Path:
        """The record of a capture, as JSON."""
        return self.memory / f"{run_id}.json"

    def run_report(self, run_id: str) -> Path:
        """The report of a run, as JSON."""
        return self.runs / f"{run_id}.json"

    def run_folder(self, run_id: str) -> Path:
        """The events in a run and its agents' transcripts; may be deleted at any time."""
        return self.runs / run_id

    def run_events(self, run_id: str) -> Path:
        """The events in a run with their times, one per line."""
        return self.run_folder(run_id) / "events.jsonl"

    def run_transcripts(self, run_id: str) -> Path:
        """One file for each agent loop of a run."""
        return self.run_folder(run_id) / "transcripts"

    def run_proof(self, run_id: str) -> Path:
        """The questions in a proof with their expected answers, and its arms, as JSON."""
        return self.run_folder(run_id) / "proof.json"

    def run_answers(self, run_id: str) -> Path:
        """The answers in a proof, one per line."""
        return self.run_folder(run_id) / "answers.jsonl"

    def launched(self, run_id: str = "") -> Path:
        """Process and output of a run that a server started; may be deleted at any time."""
        return self.private / "launched" / run_id

    def schema_dir(self, connection: str) -> Path:
        """The folder of a connection's manifest shards."""
        return self.root / self.schema_path(connection)

    @staticmethod
    def context_paths(connection: str) -> tuple[str, ...]:
        """The folders with a connection's context."""
        return (f"{SEMANTIC_NAME}/{connection}", f"{RAW_NAME}/{connection}")

    @staticmethod
    def schema_path(connection: str) -> str:
        """`semantic-layer/<connection>/_schema`."""
        return f"{SEMANTIC_NAME}/{connection}/{SCHEMA_NAME}"

    @staticmethod
    def raw_path(connection: str, source: str, name: str = "") -> str:
        """`raw-sources/<connection>/<source>/<name>`."""
        return f"{RAW_NAME}/{connection}/{source}/{name}".rstrip("/")


def find_project(flag: str | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the absolute project folder, or None if no flag, variable or parent folder leads to one.

    Raises `NoProjectError` if the flag or the variable names a folder without `ktx.yaml`, or the nearest `ktx.yaml` is
    a broken symbolic link; `UsageError` if the flag or the variable is blank.
    """
    named = named_folder(flag, environ, cwd)
    if named is not None:
        folder, origin = named
        if not _has_config(folder):
            if folder.is_file():
                message = f"{origin} is {folder}, which is a file, not a folder"
                hint = Command("status", "--project-dir", folder.parent)
                raise NoProjectError(message, hint=hint, details={"project_dir": str(folder)})
            message = f"{origin} is {folder}, which contains no {CONFIG_NAME}"
            hint = Command("setup", "--project-dir", folder)
            raise NoProjectError(message, hint=hint, details={"project_dir": str(folder)})
        return folder
    return next((folder for folder in (cwd, *cwd.parents) if _has_config(folder)), None)


def _has_config(folder: Path) -> bool:
    """Return whether `ktx.yaml` exists; raises `NoProjectError` if it is a broken symbolic link."""
    path = folder / CONFIG_NAME
    if path.is_file():
        return True
    if path.is_symlink() and not path.exists():
        target = path.readlink()
        message = f"{path} is a symbolic link to {target}, which does not exist"
        hint = Hint("restore that file, or remove the link: {}", Command(path, program="rm"))
        raise NoProjectError(message, hint=hint, details={"project_dir": str(folder), "target": str(target)})
    if os.path.lexists(path):
        _require_file(path)
    return False


def _require_file(path: Path) -> None:
    """Raise `StorageError` if the path is not a regular file or cannot be inspected."""
    try:
        require_regular(path, path.stat().st_mode)
    except OSError as error:
        raise storage_error(path, error, "inspect") from error


def require_project(flag: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the project folder; raises `NoProjectError` if there is none."""
    folder = find_project(flag, environ, cwd)
    if folder is None:
        hint = Hint("create a project here with `{}`, or select one with --project-dir DIR", Command("setup"))
        raise NoProjectError(f"no {CONFIG_NAME} in {cwd} or any parent folder", hint=hint)
    return folder


def folder_for_setup(flag: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the folder that `ktx setup` works in: the given one, else the project around `cwd`, else `cwd` itself.

    Raises `NoProjectError` if its `ktx.yaml` is a broken symbolic link, `UsageError` for a blank name.
    """
    named = named_folder(flag, environ, cwd)
    if named is not None:
        _has_config(named[0])
        return named[0]
    return find_project(None, {}, cwd) or cwd


def require_meant(folder: Path, flag: str | None, environ: Mapping[str, str], cwd: Path) -> None:
    """Raise `UsageError` if the home folder would become a project without an explicit request."""
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - that of Path raises where there is none
    if named_folder(flag, environ, cwd) is None and folder.resolve() == home and not (folder / CONFIG_NAME).exists():
        hint = Hint("{}, or --project-dir . to use it anyway", Command("setup", "--project-dir", "ktx-project"))
        raise UsageError(f"{folder} is your home folder, and the project would contain all of it", hint=hint)


def named_folder(flag: str | None, environ: Mapping[str, str], cwd: Path) -> tuple[Path, str] | None:
    """Return the folder that the flag or the variable names, and which of the two named it."""
    for value, origin in ((flag, "--project-dir"), (environ.get("KTX_PROJECT_DIR"), "KTX_PROJECT_DIR")):
        if value is None:
            continue
        if not value.strip():
            raise UsageError(f"{origin} is blank", hint=f"set {origin} to a folder, or leave it out")
        return Path(cwd, Path(value).expanduser()).resolve(), origin
    return None


class Tree(Protocol):
    """A readable tree of files. Paths are relative, with `/` between their parts."""

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if there is no such file."""
        ...

    def paths(self, prefix: str) -> Iterable[str]:
        """Return the paths of all files that begin with `prefix` (such as `wiki/`; an empty prefix
        means every file).
        """
        ...


class EmptyTree:
    """An empty tree."""

    def read(self, path: str) -> bytes | None:
        """Return None."""
        return None

    def paths(self, prefix: str) -> Iterable[str]:
        """Return nothing."""
        return ()


def boundary(project: Path) -> Path:
    """Return the folder that the project's author may control: the repository around it, else the project.

    A home folder that is a repository contains this user's own files, so it does not count.
    """
    root, home = project.resolve(), Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - that of Path raises
    around = (folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git") and folder != home)
    return next(around, root)


def ancestors(path: str) -> Iterator[str]:
    """Yield the parent folders of a path, outermost first: `a`, `a/b` for `a/b/c`."""
    position = path.find("/")
    while position != -1:
        yield path[:position]
        position = path.find("/", position + 1)


_NAMED: Final = (WIKI_NAME, SEMANTIC_NAME, RAW_NAME, EVALS_NAME)
_MOST_NAMED: Final = 5


def is_usable(path: str) -> bool:
    """Return whether a path can occur in a project's files: it is UTF-8, without backslashes or control characters."""
    if "\\" in path:
        return False
    return path.isprintable() or not any(unicodedata.category(each) in ("Cc", "Cs") for each in path)


def file_name_warnings(root: Path) -> list[ResultWarning]:
    """Return a warning that lists the project's files with unusable names; none if there are none."""
    odd = sorted(f"{name}/{path}" for name in _NAMED for path in _odd_below(root / name))
    if not odd:
        return []
    what, them = ("file has a name", "it") if len(odd) == 1 else ("files have names", "them")
    why = "not UTF-8, or contains a backslash or control character"
    message = f"{len(odd):,} {what} that ktx cannot index or commit ({why}): {listing(odd, _MOST_NAMED)}"
    return [ResultWarning("file_names", message, hint=f"rename {them}", paths=odd)]


def _odd_below(folder: Path) -> Iterator[str]:
    """Yield the files and folders below a folder whose own names are unusable, escaped."""
    for place, folders, names in os.walk(folder):
        inner = Path(place).relative_to(folder)
        yield from (_shown((inner / each).as_posix()) for each in (*folders, *names) if not is_usable(each))
        folders[:] = [each for each in folders if is_usable(each)]


def _shown(path: str) -> str:
    return one_line(escaped(path))


class WorkingTree:
    """The files of a project as they are on disk now.

    Raises `StorageError` for files that cannot be read, and for links that lead out of the project and the repository
    around it, or to a path with a name that begins with a dot: otherwise the author of a repository could
    show agents any file on this machine, or the `.env`, `.git` or `.ktx` of another project in it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if there is no such file."""
        place = self._root / path
        found = read_bytes(place)
        where = None if found is None else self._forbidden(path)
        if where is not None:
            message = f"{place} is a symbolic link that points {where}"
            hint = Hint("remove the link: {}", Command(place, program="rm"))
            raise StorageError(message, hint=hint, details={"path": str(place)})
        return found

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return path -> content for the files that exist; raises the errors of `read`."""
        contents = ((path, self.read(path)) for path in paths)
        return {path: content for path, content in contents if content is not None}

    def blobs(self, prefix: str) -> dict[str, str]:
        """Return the paths of all files below a folder like the method of a commit, but with empty ids."""
        return {path: "" for path in self.paths(f"{prefix}/") if (self._root / path).is_file()}

    def _forbidden(self, path: str) -> str | None:
        """Return where a path leads if it must not be read, or None otherwise."""
        real = os.path.realpath(self._root / path)
        if not real.startswith(self._within):
            return "outside the project"
        if real == os.path.join(self._real, path):  # noqa: PTH118 - of every file that is read
            return None
        further = Path(real).relative_to(os.path.commonpath((real, self._real)))
        return "to a hidden file" if any(name.startswith(".") for name in further.parts) else None

    @functools.cached_property
    def _real(self) -> str:
        return os.path.realpath(self._root)

    @functools.cached_property
    def _within(self) -> str:
        """The folder that must contain everything, with a trailing slash."""
        return f"{boundary(self._root)}{os.sep}".replace(2 * os.sep, os.sep)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths of all files that begin with `prefix`, sorted like paths, folder by folder.

        A folder with the name of a file (`orders.yaml`) is included: reading it reports the error. Raises
        `StorageError` if a folder cannot be listed, because its files must not count as absent.
        """
        folder = self._root / prefix.rpartition("/")[0]
        found = sorted(path for path in _listed(folder) if path.suffix or path.is_file() or _leads_nowhere(path))
        paths = (path.relative_to(self._root).as_posix() for path in found)
        return [path for path in paths if path.startswith(prefix)]

    def names(self, folder: str) -> list[str]:
        """Return the names of everything directly in a folder, sorted; empty if there is no such folder.

        Raises `StorageError` if the folder cannot be listed.
        """
        place = self._root / folder
        try:
            with os.scandir(place) as entries:
                return sorted(entry.name for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise storage_error(place, error, "read") from error


def names_in(tree: Tree, folder: str) -> list[str]:
    """Return the names of everything directly in a folder of a tree, sorted. On disk, subfolders are not listed."""
    if isinstance(tree, WorkingTree):
        return tree.names(folder)
    return sorted({path.removeprefix(f"{folder}/").split("/", 1)[0] for path in tree.paths(f"{folder}/")})


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _listed(folder: Path) -> list[Path]:
    """Return everything in a folder and its subfolders; empty if there is no such folder. Links are not followed."""
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            return []
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.lexists(folder):
            return []
        message = f"{folder} is a symbolic link to a folder that does not exist"
        hint = Hint("correct or remove it: {}", Command("-l", folder, program="ls"))
        raise StorageError(message, hint=hint, details={"path": str(folder)}) from None
    except OSError as error:
        raise storage_error(folder, error, "read") from error
    found: list[Path] = []
    for here, folders, names in os.walk(folder, onerror=_not_listed):
        found += (Path(here) / name for name in (*folders, *names))
    return found


def _not_listed(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):  # removed while it was being inspected
        raise storage_error(Path(error.filename), error, "read") from error
