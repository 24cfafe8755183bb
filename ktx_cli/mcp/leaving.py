"""How a serving process ends: at once, also where a question is still under way in a thread."""

from __future__ import annotations

import os
import sys
import threading
from typing import Final, NoReturn

PATIENCE_SECONDS: Final = 2.0


def leave(code: int) -> NoReturn:
    """End this process. A statement nobody waits for any more may take as long as it may: it is not waited for."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(PATIENCE_SECONDS)
            if thread.is_alive():
                sys.stderr.flush()
                os._exit(code)
    sys.exit(code)
