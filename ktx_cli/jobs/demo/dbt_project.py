"""The demo's dbt project, and as much of dbt's compiler as its models need: `source()` and ephemeral `ref()`s."""

from __future__ import annotations

import re
from pathlib import Path

from ktx_cli.jobs.demo.files import copy_packaged, packaged_names, packaged_text

FOLDER = "dbt"
MARTS = {"order_revenue": "finance", "customer_value": "finance", "days": "finance"}
"""The models that are views of the warehouse, with their schema; the others are ephemeral."""

_CALL = re.compile(r"\{\{\s*(ref|source)\(([^)]*)\)\s*\}\}")
_CONFIG = re.compile(r"\{\{\s*config\([^)]*\)\s*\}\}\s*")


def write_dbt_project(folder: Path) -> list[Path]:
    """Write the dbt project into `folder` and return the files written.

    Raises `StorageError`.
    """
    return copy_packaged(FOLDER, folder)


def model_files() -> dict[str, str]:
    """Return the path of every model inside the project, by model name."""
    return {name.rpartition("/")[2].removesuffix(".sql"): name for name in packaged_names(FOLDER) if name.endswith(".sql")}


def compiled_sql(model: str) -> str:
    """Return the SQL of a model as dbt would run it; every model it refers to is put in as a subquery."""
    text = _CONFIG.sub("", packaged_text(f"{FOLDER}/{model_files()[model]}"))
    return _CALL.sub(lambda call: _relation(call[1], re.findall(r"'([^']*)'", call[2])), text).strip()


def _relation(function: str, arguments: list[str]) -> str:
    return ".".join(arguments) if function == "source" else f"({compiled_sql(arguments[0])})"
