"""What was written of a query history from what agents said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import plural
from ktx_cli.project.layout import SEMANTIC_NAME


@dataclass(frozen=True, slots=True)
class Told:
    """What was written of one history.

    `owned`: what of project files is the source's, None: as before. `pages`: key -> `created`, `updated`, `stale`, ....
    `artifacts`: artifact -> the raw files it comes from. `units`: path of a file -> the units whose words are in it.
    """

    owned: Mapping[str, Mapping[str, str]] | None = None
    pages: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[ResultWarning, ...] = ()

    @property
    def result(self) -> str:
        """What a person reads of it; empty where nothing was written."""
        pages = f"{plural(len(self.pages), 'page')} of questions" if self.pages else ""
        said = sum(path.startswith(f"{SEMANTIC_NAME}/") for path in self.units)
        return ", ".join(each for each in (pages, "narratives of tables" if said else "") if each)


Tellings = Mapping[tuple[str, str], Told]
"""(connection, kind) -> what was written of it."""
