"""What the SDK logs goes into the debug log of ktx, and not to the terminal."""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger(__name__)

SDK: Final = "claude_agent_sdk"


class _ToDebugLog(logging.Handler):
    """Says what the SDK says again, as a message of ours for the debug log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.debug("%s: %s", SDK, record.getMessage())


def quieten() -> None:
    """Lead the SDK's log into ours; each failure it logs is raised too, and told in our words."""
    logger = logging.getLogger(SDK)
    logger.propagate = False
    if not any(isinstance(handler, _ToDebugLog) for handler in logger.handlers):
        logger.addHandler(_ToDebugLog())
