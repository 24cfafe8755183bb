"""Files by their paths as git sees them, wherever they are: a commit, the working tree, an overlay in memory."""

from __future__ import annotations

import functools
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from ktx_cli.core.errors import ResultWarning, StorageError
from ktx_cli.core.text import escaped, listing, one_line, shell_words
from ktx_cli.project.files import read_bytes, storage_error
from ktx_cli.project.layout import EVALS_NAME, RAW_NAME, SEMANTIC_NAME, WIKI_NAME


class Tree(Protocol):
    """Files to read. A path is relative, with `/` between its parts."""

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None when there is no such file."""
        ...

    def paths(self, prefix: str) -> Iterable[str]:
        """Return the paths of all files that begin with `prefix` (`wiki/`; an empty prefix means every file)."""
        ...


class EmptyTree:
    """No files."""

    def read(self, path: str) -> bytes | None:
        """Return None."""
        return None

    def paths(self, prefix: str) -> Iterable[str]:
        """Return nothing."""
        return ()


def boundary(project: Path) -> Path:
    """Return the folder that the author of a project may have filled: the repository around it, else the project.

    A home folder that is a repository holds this user's own files, and counts as none.
    """
    root, home = project.resolve(), Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - that of Path raises
    around = (folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git") and folder != home)
    return next(around, root)


_NAMED: Final = (WIKI_NAME, SEMANTIC_NAME, RAW_NAME, EVALS_NAME)
_MOST_NAMED: Final = 5


def is_usable(path: str) -> bool:
    """Say whether a path can be named in a project's files: it is UTF-8, without a backslash or control character."""
    if "\\" in path:
        return False
    return path.isprintable() or not any(unicodedata.category(each) in ("Cc", "Cs") for each in path)


def file_name_warnings(root: Path) -> list[ResultWarning]:
    """Return a warning that names the files of a project whose names cannot be used; none where there are none."""
    odd = sorted(f"{name}/{path}" for name in _NAMED for path in _odd_below(root / name))
    if not odd:
        return []
    what, them = ("file has a name", "it") if len(odd) == 1 else ("files have names", "them")
    why = "not UTF-8, or a backslash or control character"
    message = f"{len(odd):,} {what} that ktx cannot index or commit ({why}): {listing(odd, _MOST_NAMED)}"
    return [ResultWarning("file_names", message, hint=f"rename {them}", paths=odd)]


def _odd_below(folder: Path) -> Iterator[str]:
    """Yield the files and folders below a folder whose own names cannot be used, escaped."""
    for place, folders, names in os.walk(folder):
        inner = Path(place).relative_to(folder)
        yield from (_shown((inner / each).as_posix()) for each in (*folders, *names) if not is_usable(each))
        folders[:] = [each for each in folders if is_usable(each)]


def _shown(path: str) -> str:
    return one_line(escaped(path))


class WorkingTree:
    """The files of a project as they are on disk now.

    Raises `StorageError` for what cannot be read, and for a link that leads out of the project and of the repository
    around it: whoever wrote the repository could have what lies elsewhere on this machine shown to agents.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None when there is no such file."""
        place = self._root / path
        found = read_bytes(place)
        if found is not None and self._leads_out(place):
            raise StorageError(
                f"{place} is a link that leads out of the project",
                hint=f"remove the link: {shell_words('rm', place)}",
                details={"path": str(place)},
            )
        return found

    def _leads_out(self, place: Path) -> bool:
        real = os.path.realpath(place)
        return not real.startswith(self._within)

    @functools.cached_property
    def _within(self) -> str:
        """The folder that everything has to lie in, with a slash at its end."""
        return f"{boundary(self._root)}{os.sep}".replace(2 * os.sep, os.sep)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths of all files that begin with `prefix`, sorted as paths are, folder by folder.

        A folder that is called like a file (`orders.yaml`) is among them: reading it says what is wrong. Raises
        `StorageError` where a folder cannot be listed: what is in it may not be taken for absent.
        """
        folder = self._root / prefix.rpartition("/")[0]
        found = sorted(path for path in _listed(folder) if path.suffix or path.is_file() or _leads_nowhere(path))
        paths = (path.relative_to(self._root).as_posix() for path in found)
        return [path for path in paths if path.startswith(prefix)]

    def names(self, folder: str) -> list[str]:
        """Return the names of everything directly in a folder, sorted; nothing where there is no such folder.

        Raises `StorageError` where it cannot be listed.
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
    """Return the names of everything directly in a folder of a tree, sorted; on disk nothing below it is listed."""
    if isinstance(tree, WorkingTree):
        return tree.names(folder)
    return sorted({path.removeprefix(f"{folder}/").split("/", 1)[0] for path in tree.paths(f"{folder}/")})


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _listed(folder: Path) -> list[Path]:
    """Return everything in a folder and below; nothing where there is no such folder. Links are not followed."""
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            return []
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.lexists(folder):
            return []
        raise StorageError(
            f"{folder} is a link to a folder that is not there",
            hint=f"correct or remove it: {shell_words('ls', '-l', folder)}",
            details={"path": str(folder)},
        ) from None
    except OSError as error:
        raise storage_error(folder, error, "read") from error
    found: list[Path] = []
    for here, folders, names in os.walk(folder, onerror=_not_listed):
        found += (Path(here) / name for name in (*folders, *names))
    return found


def _not_listed(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):  # it went while it was looked at
        raise storage_error(Path(error.filename), error, "read") from error
