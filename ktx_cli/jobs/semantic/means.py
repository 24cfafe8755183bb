"""How a question gets at files and databases: anew each time, or as a server does, which remembers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ktx_cli.connectors.opening import Opener, open_connection
from ktx_cli.connectors.remembering import Counts
from ktx_cli.context.semantic.graph import Graph
from ktx_cli.context.semantic.model import Model
from ktx_cli.jobs.semantic.guarded import Guard, guard_of
from ktx_cli.jobs.semantic.layers import LoadLayer, load_layer
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout

MakeGuard = Callable[[Layout, KtxConfig, str, Model], Guard]
"""Takes layout, settings, connection and its layer; returns what statements compiled from it have to pass."""


@dataclass(frozen=True, slots=True)
class Means:
    """What answers a question. `counted`: keeps what joins missed, as long as the data is proved the same."""

    load: LoadLayer = load_layer
    opener: Opener = open_connection
    guard: MakeGuard = guard_of
    graph: Callable[[Model], Graph] = Graph
    counted: Counts | None = None


ANEW: Final = Means()
"""Nothing is remembered."""
