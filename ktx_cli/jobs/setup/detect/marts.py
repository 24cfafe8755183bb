"""The database schemas that contain the marts of a dbt project, which people should query."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import KtxError, load
from ktx_cli.jobs.setup.detect.databases import source_offers
from ktx_cli.project import KtxConfig, read_bytes

MARTS: Final = frozenset(("marts", "mart", "reporting", "presentation", "gold"))
"""Names that projects give to the folder with the models meant to be queried."""
_PROJECT: Final = "dbt_project.yml"
_LARGEST: Final = 100_000_000
"""Number of manifest bytes to read."""


def marts_of(root: Path, environ: Mapping[str, str], config: KtxConfig, schemas: Collection[str]) -> list[str]:
    """Return the schemas with the marts of the dbt projects that are configured or in the folder."""
    offers = [each.fields for each in source_offers(root, environ, config)]
    configured = (entry.model_dump() for entry in config.sources().values())
    folders = [each["source_dir"] for each in (*offers, *configured) if each.get("source_dir")]
    found = (name for each in folders for name in mart_schemas(root / str(each), schemas))
    return list(dict.fromkeys(found))


def mart_schemas(project: Path, schemas: Collection[str]) -> list[str]:
    """Return the schemas of a database with the marts of a dbt project; empty if unknown.

    By the manifest that dbt wrote; without one, by the schemas that `dbt_project.yml` sets for the folder of the marts.
    """
    settings = _yaml(project / _PROJECT)
    built = _built(project / str(settings.get("target-path") or "target") / "manifest.json")
    if built:
        return [name for name in schemas if name in built]
    custom = [each for each in _configured(settings.get("models"), inside=False) if "{" not in each]
    return [name for name in schemas if any(name == each or name.endswith(f"_{each}") for each in custom)]


def _built(manifest: Path) -> set[str]:
    """Return the schemas of the models below a folder of marts, according to the manifest."""
    try:
        if not manifest.is_file() or manifest.stat().st_size > _LARGEST:
            return set()
        nodes = json.loads(manifest.read_bytes()).get("nodes", {}).values()
        return {
            str(node["schema"])
            for node in nodes
            if node.get("resource_type") == "model"
            and node.get("config", {}).get("materialized") != "ephemeral"
            and MARTS.intersection(Path(str(node.get("original_file_path", ""))).parts)
        }
    except (OSError, ValueError, AttributeError, KeyError, TypeError):  # it is no manifest
        return set()


def _configured(settings: Any, *, inside: bool) -> Iterator[str]:
    """Yield the schemas that are set for mart folders and their subfolders."""
    if not isinstance(settings, Mapping):
        return
    for key, value in settings.items():
        if inside and key in ("schema", "+schema") and isinstance(value, str):
            yield value
        else:
            yield from _configured(value, inside=inside or key in MARTS)


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        found = load(read_bytes(path) or b"", where=path.name)
    except KtxError:
        return {}
    return found if isinstance(found, Mapping) else {}
