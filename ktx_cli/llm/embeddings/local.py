"""Models on this machine: a folder, or one that is in the cache of the Hugging Face hub; none is ever fetched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ktx_cli.core.errors import NotReadyError
from ktx_cli.core.text import shell_words

OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""The switches of the libraries that keep them off the network."""
QUIET: Final = "HF_HUB_DISABLE_PROGRESS_BARS"
"""The switch that keeps them from drawing on the terminal while they load a model."""


def stay_offline() -> None:
    """Keep the libraries of this process off the network, and off the terminal."""
    for name in (*OFFLINE, QUIET):
        os.environ[name] = "1"


def model_folder(model: str, project_dir: Path) -> Path:
    """Return the folder of a model: its path (from the project's folder), else where the hub's cache has it.

    Raises `NotReadyError` with the command that fetches it; `NotReadyError` too where the library is missing.
    """
    folder = project_dir / Path(model).expanduser()
    if folder.is_dir():
        return folder
    stay_offline()
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise missing_package("huggingface_hub", error) from error
    try:
        return Path(snapshot_download(model, local_files_only=True))
    except HFValidationError as error:
        raise NotReadyError(
            f"the folder {folder} of the embeddings model is not there",
            hint="ktx config set ingest.embeddings.model FOLDER",
            details={"model": model},
        ) from error
    except LocalEntryNotFoundError as error:
        raise NotReadyError(
            f"the embeddings model `{model}` is not on this machine, and ktx downloads nothing",
            hint=shell_words("hf", "download", model),
            details={"model": model},
        ) from error


def missing_package(name: str, error: ImportError, extra: str = "ktx-cli[embeddings]") -> NotReadyError:
    """Return the error for a library that is not installed."""
    return NotReadyError(
        f"the embeddings need the package {name}",
        hint=shell_words("pip", "install", extra),
        details={"missing": str(error)},
    )
