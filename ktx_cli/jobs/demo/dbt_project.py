"""The demo's dbt project, and as much of dbt's compiler as its models need: `source`, `ref` and `var`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ktx_cli.core.yaml import load
from ktx_cli.jobs.demo.files import copy_packaged, packaged_names, packaged_text

FOLDER = "dbt"
MARTS = {"order_revenue": "finance.order_revenue", "customer_value": "finance.customer_value", "days": "finance.days"}
"""The models that are views of the warehouse, in the order they can be created; the others are ephemeral."""

_CALL = re.compile(r"\{\{\s*(ref|source|var)\(([^)]*)\)\s*\}\}")


def write_dbt_project(folder: Path) -> list[Path]:
    """Write the dbt project into `folder` and return the files written.

    Raises `StorageError`.
    """
    return copy_packaged(FOLDER, folder)


def model_files() -> dict[str, str]:
    """Return the path of every model inside the project, by model name."""
    paths = (name for name in packaged_names(FOLDER) if name.endswith(".sql"))
    return {Path(path).stem: path for path in paths}


def compiled_sql(model: str) -> str:
    """Return the SQL of a model as dbt would run it; an ephemeral model it refers to is put in as a subquery."""
    variables = load(packaged_text(f"{FOLDER}/dbt_project.yml"), where="dbt_project.yml")["vars"]
    return _compile(model, model_files(), variables)


def _compile(model: str, paths: dict[str, str], variables: dict[str, Any]) -> str:
    def value_of(call: re.Match[str]) -> str:
        arguments = re.findall(r"'([^']*)'", call[2])
        if call[1] == "source":
            return ".".join(arguments)
        if call[1] == "var":
            return str(variables[arguments[0]])
        return MARTS.get(arguments[0]) or f"({_compile(arguments[0], paths, variables)})"

    return _CALL.sub(value_of, packaged_text(f"{FOLDER}/{paths[model]}")).strip()
