"""Which project a command works on: `--project-dir`, `KTX_PROJECT_DIR`, the nearest parent with `ktx.yaml`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ktx_cli.core.errors import NoProjectError, UsageError
from ktx_cli.core.text import shell_words
from ktx_cli.project.files import require_regular, storage_error
from ktx_cli.project.layout import CONFIG_NAME


def find_project(flag: str | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the absolute folder of the project, or None where neither flag, variable nor parent names one.

    Raises `NoProjectError` when the flag or the variable names a folder without `ktx.yaml`, or the nearest `ktx.yaml`
    is a link to a file that is not there; `UsageError` when flag or variable is blank.
    """
    named = named_folder(flag, environ, cwd)
    if named is not None:
        folder, origin = named
        if not _has_config(folder):
            if folder.is_file():
                raise NoProjectError(
                    f"{origin} names {folder}, which is a file",
                    hint=shell_words("ktx", "status", "--project-dir", folder.parent),
                    details={"project_dir": str(folder)},
                )
            raise NoProjectError(
                f"{origin} names {folder}, and there is no {CONFIG_NAME} in it",
                hint=f"{shell_words('ktx', 'setup', '--project-dir', folder)}",
                details={"project_dir": str(folder)},
            )
        return folder
    return next((folder for folder in (cwd, *cwd.parents) if _has_config(folder)), None)


def _has_config(folder: Path) -> bool:
    """Say whether `ktx.yaml` is there; `NoProjectError` where it is a link that leads nowhere."""
    path = folder / CONFIG_NAME
    if path.is_file():
        return True
    if path.is_symlink() and not path.exists():
        target = path.readlink()
        raise NoProjectError(
            f"{path} is a link to {target}, and that file is not there",
            hint=f"put the file back, or remove the link: {shell_words('rm', path)}",
            details={"project_dir": str(folder), "target": str(target)},
        )
    if os.path.lexists(path):
        _require_file(path)
    return False


def _require_file(path: Path) -> None:
    """Raise `StorageError` for what is no regular file, or cannot be looked at."""
    try:
        require_regular(path, path.stat().st_mode)
    except OSError as error:
        raise storage_error(path, error, "look at") from error


def require_project(flag: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the project's folder; `NoProjectError` where there is none."""
    folder = find_project(flag, environ, cwd)
    if folder is None:
        raise NoProjectError(
            f"no {CONFIG_NAME} in {cwd} or a folder above it",
            hint="`ktx setup` creates a project here; --project-dir DIR names one elsewhere",
        )
    return folder


def folder_for_setup(flag: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the folder `ktx setup` works in: the named one, else the project around `cwd`, else `cwd` itself.

    Raises `NoProjectError` where its `ktx.yaml` is a link to a file that is not there, `UsageError` for a blank name.
    """
    named = named_folder(flag, environ, cwd)
    if named is not None:
        _has_config(named[0])
        return named[0]
    return find_project(None, {}, cwd) or cwd


def require_meant(folder: Path, flag: str | None, environ: Mapping[str, str], cwd: Path) -> None:
    """Raise `UsageError` where the home folder would become a project and nobody said so."""
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - that of Path raises where there is none
    if named_folder(flag, environ, cwd) is None and folder.resolve() == home and not (folder / CONFIG_NAME).exists():
        raise UsageError(
            f"{folder} is your home folder, and all of it would be the project",
            hint="ktx setup --project-dir ktx-project, or --project-dir . if that is meant",
        )


def named_folder(flag: str | None, environ: Mapping[str, str], cwd: Path) -> tuple[Path, str] | None:
    """Return the folder that the flag or the variable names, and which of the two it was."""
    for value, origin in ((flag, "--project-dir"), (environ.get("KTX_PROJECT_DIR"), "KTX_PROJECT_DIR")):
        if value is None:
            continue
        if not value.strip():
            raise UsageError(f"{origin} is blank", hint=f"give {origin} a folder, or leave it out")
        return Path(cwd, Path(value).expanduser()).resolve(), origin
    return None
