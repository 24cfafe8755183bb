"""Links, images and data in a text, and which hosts a text names."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import urlsplit

from ktx_cli.context.wiki.spots import Spot, line_start
from ktx_cli.core.text import one_line

_LINK: Final = re.compile(
    r"(?:\b(?P<scheme>[a-z][a-z0-9+.-]{1,20}):[/\\]{2}|(?<![:/\\\w])[/\\]{2}(?=[\w-]+\.\w)|\bwww\.(?=\w))"
    r"(?P<rest>[^\s<>\"'`|)\]}]+)",
    re.IGNORECASE,
)
_ANY: Final = re.compile(r"[/\\]{2}|www\.|mailto:", re.IGNORECASE)
"""Stands in every text with a link."""
_DOING: Final = re.compile(r"\b(?:(?:java|vb)script:(?=\S)|file:(?=/{2})|(?:blob|filesystem):(?=http))", re.IGNORECASE)
_MAIL: Final = re.compile(r"\bmailto:[^\s<>\"'`)]{0,320}@(?P<host>[\w.-]+\w)", re.IGNORECASE)
_DATA: Final = re.compile(r"\bdata:(?:[a-z]+/[\w.+-]+)?(?:;[\w=-]+)*,|\bdata:[a-z]+/[\w.+-]+;base64\b", re.IGNORECASE)
_IMAGE: Final = re.compile(r"!\[(?=[\s\S]{0,300}?\][(\[])|!\[\[|<\s*(?:img|picture|image)\b", re.IGNORECASE)
_DATABASES: Final = re.compile(
    "bigquery|clickhouse|databricks|duckdb|gs|jdbc|mariadb|mongodb|mssql|mysql|oracle|postgres|postgresql|redshift|s3"
    "|snowflake|sqlite|sqlserver|trino",
    re.IGNORECASE,
)
"""Schemes no reader's click follows."""


def hosts_in(text: str) -> frozenset[str]:
    """Return the hosts that links in a text lead to, in lower case."""
    return frozenset(host for _, host in _links(text) if host)


def links(text: str, named: Collection[str] | None) -> Iterator[Spot]:
    """Yield links that do something, and those to hosts not among `named` (None: links to hosts are not judged)."""
    for found in _DOING.finditer(text):
        yield Spot(found.start(), "unexpected_link", f"a link of the kind {found[0].lower()}", "delete it")
    if named is None:
        return
    known = {host.lower() for host in named}
    for at, host in _links(text):
        if host not in known:
            shown = one_line(host, 80) or "nowhere"
            message = f"a link to {shown}, which the sources of the page do not name"
            yield Spot(at, "unexpected_link", message, "delete it, or add the source that names it")


def images(text: str) -> Iterator[Spot]:
    """Yield images and data written into links: a remote image tells its server who reads the page, and when."""
    for found in _IMAGE.finditer(text):
        yield Spot(found.start(), "image", "an image, which no agent sees", "say in words what it shows")
    for found in _DATA.finditer(text):
        yield Spot(found.start(), "data_uri", "data written into a link", "delete it")


def _links(text: str) -> Iterator[tuple[int, str]]:
    """Yield (place, host) of every link; the host is empty where a browser would not find one either."""
    yield from _plain_links(text)
    if "&" not in text:
        return
    read = html.unescape(text)
    if read != text and read.count("\n") == text.count("\n"):
        for at, host in _plain_links(read):
            yield line_start(text, read.count("\n", 0, at)), host


def _plain_links(text: str) -> Iterator[tuple[int, str]]:
    if not _ANY.search(text):
        return
    for found in _LINK.finditer(text):
        if not _DATABASES.fullmatch(found["scheme"] or ""):
            yield found.start(), _host(found)
    for found in _MAIL.finditer(text):
        yield found.start(), found["host"].lower()


def _host(found: re.Match[str]) -> str:
    """Return the host a browser goes to: it takes `\\` for `/`, and what stands before `@` for a name."""
    prefix = "www." if found[0][:4].lower() == "www." else ""
    try:
        host = urlsplit("//" + prefix + found["rest"].replace("\\", "/")).hostname
    except ValueError:
        return ""
    return (host or "").rstrip(".,;:!?*_").lower()
