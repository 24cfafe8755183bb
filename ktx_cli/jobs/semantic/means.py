"""How a question gets at files and databases: anew each time, or as a server does, which remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from ktx_cli.connectors.opening import Opener, open_connection
from ktx_cli.connectors.remembering import Counts
from ktx_cli.context.semantic.model import Model
from ktx_cli.jobs.semantic.guarded import Guard, guard_of
from ktx_cli.jobs.semantic.layers import LoadLayer, load_layer
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout

if TYPE_CHECKING:
    from ktx_cli.context.semantic.asking import Prepared

MakeGuard = Callable[[Layout, KtxConfig, str, Model], Guard]
"""Takes layout, settings, connection and its layer; returns what statements compiled from it have to pass."""


class Prepare(Protocol):
    """How a question is compiled: anew, or once for all who ask it."""

    def __call__(
        self, model: Model, query: Mapping[str, Any], *, attributes: Mapping[str, Any], now: datetime
    ) -> Prepared:
        """Return the question ready to be asked; `SemanticError` where it has no right answer."""
        ...


def prepared_anew(model: Model, query: Mapping[str, Any], *, attributes: Mapping[str, Any], now: datetime) -> Prepared:
    """Return a question ready to be asked; see `Prepare`."""
    from ktx_cli.context.semantic.asking import prepare

    return prepare(model, query, attributes=attributes, now=now)


@dataclass(frozen=True, slots=True)
class Means:
    """What answers a question. `counted`: keeps what joins missed, as long as the data is proved the same."""

    load: LoadLayer = load_layer
    opener: Opener = open_connection
    guard: MakeGuard = guard_of
    prepare: Prepare = prepared_anew
    counted: Counts | None = None


ANEW: Final = Means()
"""Nothing is remembered."""
