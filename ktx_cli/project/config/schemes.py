"""Which URLs a driver takes, by their scheme: for `ktx.yaml` and, behind a secret reference, for what it stands for."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.core.text import listing

SCHEMES: Final = {
    "postgres": ("postgresql", "postgres"),
    "mysql": ("mysql", "mariadb"),
    "sqlite": ("sqlite", "file"),
    "duckdb": ("duckdb", "file"),
    "files": ("file",),
    "sqlserver": ("mssql", "sqlserver"),
    "clickhouse": ("https", "http", "clickhouse", "clickhouses"),
    "redshift": ("redshift", "postgresql", "postgres"),
    "snowflake": ("snowflake",),
    "bigquery": ("bigquery",),
    "trino": ("trino", "https", "http"),
}
"""The schemes of each driver whose URLs name one of its own; the first is the usual one."""

_ANYBODYS: Final = ("http", "https")
"""Schemes that say nothing of the driver."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")


def wrong_scheme(driver: str, url: str) -> tuple[str, str] | None:
    """Return what is wrong with a URL of another driver, and what to do; None when nothing is.

    The sentence continues "`the.setting` ..." and shows of the URL nothing but its scheme. A dialect's driver behind
    a plus sign (`mysql+pymysql`) does not matter. A text without a scheme is no matter of this.
    """
    taken = SCHEMES.get(driver)
    found = _SCHEME.match(url.strip())
    if taken is None or found is None:
        return None
    scheme = found[1].lower().partition("+")[0]
    known = {name for names in SCHEMES.values() for name in names}
    if scheme in taken or not (found[2] or scheme in known):
        return None
    message = f"is a `{scheme}:` URL, and the driver `{driver}` takes {listing([f'`{each}:`' for each in taken])}"
    other = driver_of(scheme)
    correct = f"a URL that begins with `{taken[0]}:`"
    return message, f"write `driver: {other}`, or {correct}" if other else f"write {correct}"


def driver_of(scheme: str) -> str | None:
    """Return the driver whose URLs have this scheme, None for one that says nothing of a driver."""
    return next((name for name, schemes in SCHEMES.items() if scheme in schemes and scheme not in _ANYBODYS), None)
