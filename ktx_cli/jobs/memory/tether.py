"""Ends a process with the one that started it: the pipe between them closes when that one is killed."""

from __future__ import annotations

import os
import signal
import threading
from types import TracebackType
from typing import Final

GO: Final = b"g"
"""What is sent before the pipe is closed on purpose: the process goes on alone."""


class Tether:
    """Watches a pipe while a block runs; when it closes without a `g` the main thread is interrupted.

    `was_cut`: whether that happened.
    """

    def __init__(self, descriptor: int) -> None:
        self.was_cut = False
        self._descriptor = descriptor
        self._is_over = False
        self._lock = threading.Lock()

    def __enter__(self) -> Tether:
        threading.Thread(target=self._watch, name="ktx-tether", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop minding the pipe."""
        with self._lock:
            self._is_over = True

    def _watch(self) -> None:
        try:
            said = os.read(self._descriptor, 1)
            while said and said != GO:
                said = os.read(self._descriptor, 1)
        except OSError:  # it was closed in this process: nobody is at the other end
            said = b""
        if said == GO:
            return
        with self._lock:
            if not self._is_over:
                self.was_cut = True
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)
