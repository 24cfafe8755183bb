"""The check that every secret reference of a connection resolves; `ktx status` leaves the keyring unasked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.project.config import Connection, resolve_options, secret_file_warnings
from ktx_cli.project.secrets import KINDS, SecretRef

CHECK = "secrets"
QUIET_KINDS = tuple(kind for kind in KINDS if kind != "keyring")
"""References that resolve without asking anybody; a keyring may open a window and wait for a password."""


def check_secrets(context: CheckContext) -> list[Finding]:
    """Every secret reference of a connection resolves.

    What a connection without code in this version names is not needed, so it only warns.
    """
    config = context.loaded.config
    findings = [
        finding
        for connection, entry in config.usable().items()
        if (finding := secrets_finding(context, connection, entry)) is not None
    ]
    for warning in secret_file_warnings(config, project_dir=context.project_dir):
        findings.append(Finding(CHECK, Level.WARN, warning.message, warning.hint, Concern.SETUP))
    return findings or [Finding(CHECK, Level.OK, "every secret reference resolves")]


def secrets_finding(context: CheckContext, connection: str, entry: Connection) -> Finding | None:
    """Return what is wrong with a connection's references, or that some were not asked for; None when all resolve."""
    kinds = KINDS if context.live else QUIET_KINDS
    try:
        resolve_options(entry, project_dir=context.project_dir, environ=context.environ, kinds=kinds)
    except KtxError as error:
        message = f"connection `{connection}`: {error.message}"
        return Finding(CHECK, Level.FAIL, message, error.hint, Concern.SETUP)
    # What stands in the file, not what it resolves to: a value is never shown.
    written = resolve_options(entry, project_dir=context.project_dir, environ=context.environ, kinds=())
    unasked = [f"`{reference}`" for reference in _references(written) if reference.kind not in kinds]
    if not unasked:
        return None
    message = f"connection `{connection}`: unverified, only `ktx doctor` asks the keyring: {listing(unasked)}"
    return Finding(CHECK, Level.SKIP, message, "ktx doctor --only secrets", Concern.SETUP)


def _references(value: Any) -> Iterator[SecretRef]:
    """Yield the references that stand in options."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, str) and (reference := SecretRef.parse(value)) is not None:
        yield reference
