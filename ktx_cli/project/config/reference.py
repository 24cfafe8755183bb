"""Every setting there is, flat: what the reference, the example and `ktx config get/set` walk over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktx_cli.project.config.base import Block, Setting, Status, settings_of
from ktx_cli.project.config.drivers import model_of
from ktx_cli.project.config.root import KtxConfig


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting in its place. `keys` lead to it from the root, or from the connection; `model` declares it."""

    keys: tuple[str, ...]
    model: type[Block]
    setting: Setting
    status: Status

    @property
    def path(self) -> str:
        """Return the path, dotted."""
        return ".".join(self.keys)


def block_entries(model: type[Block], status: Status | None = None, at: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Yield the settings of a block and of the blocks in it, without the blocks themselves, in declared order.

    `status`, of a block that is not read, stands over the declared one.
    """
    for declared in settings_of(model).values():
        own = declared.status if status is None or declared.status == "dead" else status
        keys = (*at, declared.key)
        if declared.block is None:
            yield Entry(keys, model, declared, own)
        else:
            yield from block_entries(declared.block, None if own == "used" else own, keys)


def root_entries() -> Iterator[Entry]:
    """Yield every setting outside `connections`."""
    return (entry for entry in block_entries(KtxConfig) if entry.keys != ("connections",))


def driver_entries(driver: str) -> Iterator[Entry]:
    """Yield every setting of a connection with this driver."""
    return block_entries(model_of(driver))
