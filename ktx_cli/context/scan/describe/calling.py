"""Model calls side by side: which failures cost one call, and which end all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from ktx_cli.context.scan.failures import ends_more, unexpected
from ktx_cli.llm.errors import LlmError

log = logging.getLogger(__name__)

Item = TypeVar("Item")

ROLE: Final = "candidateExtraction"
"""The role that describes tables and proposes joins, as in the TypeScript ktx."""

_OF_ONE_CALL: Final = frozenset({"context", "max_turns", "structured_output", "permission", "execution", "refusal"})
_OVER_BUDGET: Final = "error_max_budget_usd"


def is_of_one_call(error: LlmError) -> bool:
    """Say whether other calls may succeed all the same: nothing is wrong with account, limits, budget or network."""
    return error.code in _OF_ONE_CALL and error.details.get("subtype") != _OVER_BUDGET


def error_of_call(error: Exception) -> LlmError | None:
    """Return the error of a call where it is one of this call alone; an unexpected one costs no more than its call."""
    if isinstance(error, LlmError):
        return error if is_of_one_call(error) else None
    if ends_more(error):
        return None
    log.debug("a model call of a scan failed", exc_info=error)
    return LlmError(
        unexpected(type(error).__name__), code="execution", hint="run the command again with --debug to see where"
    )


async def side_by_side(items: Sequence[Item], work: Callable[[Item], Awaitable[None]], concurrency: int) -> None:
    """Do the work for every item, begun in order, at most `concurrency` at a time.

    The first exception ends the rest: it is raised when no work is under way any more.
    """
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    tasks = [asyncio.create_task(worker()) for _ in range(min(max(concurrency, 1), len(items)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
