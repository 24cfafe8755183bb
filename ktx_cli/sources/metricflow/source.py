"""A repository of MetricFlow definitions: dbt's semantic models and metrics, as `DbtSource` reads them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, SettingPath
from ktx_cli.documents import Snapshot
from ktx_cli.sources.dbt.paths import CREDENTIALS, YAML, project_files
from ktx_cli.sources.dbt.source import DbtSource
from ktx_cli.sources.git import Origin, fetch_files
from ktx_cli.sources.port import FetchContext

_FILES: Final = project_files(YAML)


class MetricFlowSource(DbtSource):
    """MetricFlow definitions; agents get what the importer dropped or approximated, and nothing else."""

    kind: ClassVar[str] = "metricflow"
    skills: ClassVar[tuple[str, ...]] = ("metricflow_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the YAML; raises as `fetch_files` does, and `ConfigError` where there is none."""
        origin = self._origin(entry, context)
        snapshot = fetch_files(origin, context, _FILES)
        lack = self._lack(entry, origin, snapshot.origin, snapshot.files)
        if lack is not None:
            raise lack
        return snapshot

    def _lack(self, entry: Any, origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
        if any(path.endswith(YAML) and PurePosixPath(path).stem != CREDENTIALS for path in paths):
            return None
        return ConfigError(
            f"there are no MetricFlow definitions at {place}: no YAML file",
            hint=Hint("set {} to the folder of the definitions", SettingPath(f"{origin.where}.path")),
        )

    def _origin(self, entry: Any, context: FetchContext) -> Origin:
        repository = entry.metricflow
        return Origin(
            f"connections.{context.connection}.metricflow", url=repository.repo_url, branch=repository.branch,
            path=repository.path, token=repository.auth_token_ref, url_key="repoUrl",
        )  # fmt: skip
