"""What may stand in the URL of a Postgres server, and what of it libpq is told."""

from __future__ import annotations

from collections.abc import Mapping

from ktx_cli.connectors.url_parameters import ADDRESS, ANY, FLAG

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full", "no-verify")
"""The values of `sslmode`: libpq's and node-postgres's `no-verify`."""

FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
"""Parameters that name a file."""

KEPT_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*FILES, "sslpassword", "ssl_min_protocol_version", "ssl_max_protocol_version"), ANY),
    **dict.fromkeys(("krbsrvname", "requirepeer", "require_auth", "service", "hostaddr"), ANY),
    **dict.fromkeys(("channel_binding", "gssencmode"), ("disable", "prefer", "require")),
    "sslmode": SSL_MODES,
    "sslnegotiation": ("postgres", "direct"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
}
"""What libpq is told, with the values it may have."""

_WITHOUT_EFFECT = (
    *("application_name", "fallback_application_name", "client_encoding", "connect_timeout", "tcp_user_timeout"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    *("pgbouncer", "connection_limit", "pool_timeout", "statement_cache_size", "uselibpqcompat"),
)
URL_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **ADDRESS,
    **KEPT_PARAMETERS,
    **dict.fromkeys(_WITHOUT_EFFECT, ANY),
    "options": ANY,
    "ssl": FLAG,
}
"""What ktx reads, and what it sets itself or other clients need, which has no effect."""
