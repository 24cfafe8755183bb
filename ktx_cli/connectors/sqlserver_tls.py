"""Opens a session with the server's certificate checked.

FreeTDS, on which pymssql stands, checks a certificate only when its configuration file names the certificates to trust,
and finds that file through an environment variable alone.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VARIABLE = "FREETDSCONF"
_ONE_AT_A_TIME = threading.Lock()


def system_certificates() -> str | None:
    """Return the file of the certificates this system trusts, None where there is none."""
    return ssl.get_default_verify_paths().cafile


@contextmanager
def checked_certificate(trusted: str | None) -> Iterator[None]:
    """Let sessions opened inside take a server only when a certificate of the file `trusted` vouches for its host.

    With None any certificate is taken. One block at a time: the variable belongs to the whole process.
    """
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory(prefix="ktx-") as folder:
        path = Path(folder) / "freetds.conf"
        checks = f"\tca file = {trusted}\n\tcheck certificate hostname = yes\n" if trusted else ""
        path.write_text(f"[global]\n{checks}", encoding="utf-8")
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = str(path)
        try:
            yield
        finally:
            os.environ.pop(_VARIABLE)
            if before is not None:
                os.environ[_VARIABLE] = before
