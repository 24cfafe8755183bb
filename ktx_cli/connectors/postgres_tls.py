"""What libpq is told about TLS, and whether a password it sends could be read on its way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ktx_cli.connectors.reaching import is_local
from ktx_cli.connectors.reflect import option_flag
from ktx_cli.connectors.url_parameters import folded


def tls_parameters(options: dict[str, Any], parameters: dict[str, str]) -> dict[str, str]:
    """Return libpq's TLS parameters for `sslmode`, or for `ssl` and `rejectUnauthorized` as node-postgres has them.

    `ssl` is a flag or the fields `ca` (a file) and `rejectUnauthorized`. Certificates are checked unless told not to.
    """
    mode = folded(str(options.get("sslmode") or parameters.get("sslmode") or ""))
    if mode == "no-verify":
        return {"sslmode": "require"}
    if mode:
        return {"sslmode": mode}
    given = options.get("ssl")
    fields = given if isinstance(given, dict) else {}
    ssl = True if fields else option_flag(options, "ssl")
    if ssl is None:
        ssl = option_flag(parameters, "ssl")
    if ssl is None:
        return {}
    if not ssl:
        return {"sslmode": "disable"}
    if False in (option_flag(fields, "rejectUnauthorized"), option_flag(options, "rejectUnauthorized")):
        return {"sslmode": "require"}
    authority = fields.get("ca") or parameters.get("sslrootcert") or "system"
    return {"sslmode": "verify-full", "sslrootcert": str(authority)}


def is_encrypted(parameters: Mapping[str, Any]) -> bool:
    """Whether libpq sends nothing before the connection is encrypted."""
    strict = parameters.get("sslmode") in ("require", "verify-ca", "verify-full")
    return strict or parameters.get("gssencmode") == "require"


def reaches_this_machine(parameters: Mapping[str, Any]) -> bool:
    """Whether libpq can only reach this machine; an address beside the host's name is where it goes."""
    if parameters.get("hostaddr"):
        return is_local(str(parameters["hostaddr"]))
    # libpq takes an address from its environment too, and from a service file.
    if any(os.environ.get(name) for name in ("PGHOSTADDR", "PGSERVICE")) or parameters.get("service"):
        return False
    return is_local(str(parameters["host"]))


def without_clear_text(required: str) -> str:
    """Return libpq's `require_auth` (methods, or methods behind `!`) without clear text."""
    methods = [method for each in required.split(",") if (method := each.strip()) and method != "password"]
    if not methods or methods[0].startswith("!"):
        methods = [*dict.fromkeys([*methods, "!password"])]
    return ",".join(methods)
