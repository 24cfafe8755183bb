"""Links, images and data in a text, and which hosts a text names."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

from ktx_cli.core import Spot, line_start, one_line
from ktx_cli.wiki.text import inline_code, without, without_fences

_LINK: Final = re.compile(
    r"(?:(?<![^\W_])(?P<scheme>[a-z][a-z0-9+.-]{1,20}):[/\\]{2}|(?<![:/\\\w])[/\\]{2}(?=[\w-]+\.\w)|\bwww\.(?=\w))"
    r"(?P<rest>[^\s<>\"'`|)\]}]+)",
    re.IGNORECASE,
)
_ANY: Final = re.compile(r"[/\\]{2}|www\.|mailto:", re.IGNORECASE)
"""Stands in every text with a link."""
_DOING: Final = re.compile(r"\b(?:(?:java|vb)script:(?=\S)|file:(?=/{2})|(?:blob|filesystem):(?=http))", re.IGNORECASE)
_MAIL: Final = re.compile(r"\bmailto:[^\s<>\"'`)]{0,320}(?:@|%40)(?P<host>[\w.-]+\w)", re.IGNORECASE)
_MAILED: Final = re.compile(r"(?:@|%40)([\w.-]+\w)")
_DATA: Final = re.compile(r"\bdata:(?:[a-z]+/[\w.+-]+)?(?:;[\w=-]+)*,|\bdata:[a-z]+/[\w.+-]+;base64\b", re.IGNORECASE)
_IMAGE: Final = re.compile(r"!\[(?=[\s\S]{0,300}?\][(\[])|!\[\[|<\s*(?:img|picture|image)\b", re.IGNORECASE)
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,30}):", re.IGNORECASE)
_SCRIPTS: Final = frozenset({"blob", "file", "filesystem", "javascript", "vbscript", "view-source"})
_WEB: Final = frozenset({"http", "https", "ftp", "ws", "wss"})
"""A browser needs no slashes behind these, and takes any number."""
_CALLS: Final = frozenset({"callto", "geo", "sms", "tel", "urn", "doi"})
"""Schemes that open no program with what somebody wrote."""
_DATABASES: Final = re.compile(
    "bigquery|clickhouse|databricks|duckdb|gs|jdbc|mariadb|mongodb|mssql|mysql|oracle|postgres|postgresql|redshift|s3"
    "|snowflake|sqlite|sqlserver|trino",
    re.IGNORECASE,
)
"""Schemes no reader's click follows."""
_Address = tuple[int, str, str]
"""Place, scheme in lower case (empty where there is none), and what is behind it."""


def hosts_in(text: str) -> frozenset[str]:
    """Return the hosts that links in a text lead to, in lower case."""
    return frozenset(host for _, host in _links(text, list(_addresses(text))) if host)


def links(text: str, named: Collection[str] | None) -> Iterator[Spot]:
    """Yield links that do something, and those to hosts not among `named` (None: links to hosts are not judged).

    One that opens another program counts as one to a host nobody named.
    """
    for found in _DOING.finditer(text):
        yield _doing(found.start(), found[0].lower())
    addresses = list(_addresses(text))
    for at, scheme, _ in addresses:
        if scheme in _SCRIPTS:
            yield _doing(at, f"{scheme}:")
    if named is None:
        return
    known = {host.lower() for host in named}
    for at, host in _links(text, addresses):
        if host not in known:
            shown = one_line(host, 80) or "nowhere"
            message = f"a link to {shown}, which the sources of the page do not name"
            yield Spot(at, "unexpected_link", message, "delete it, or add the source that names it")
    for at, scheme, _ in addresses:
        if scheme and not _is_known(scheme):
            yield _doing(at, f"{scheme}:")


def _doing(at: int, kind: str) -> Spot:
    return Spot(at, "unexpected_link", f"a link of the kind {kind}", "delete it")


def _is_known(scheme: str) -> bool:
    known = scheme in _SCRIPTS or scheme in _WEB or scheme in _CALLS or scheme in ("data", "mailto")
    return known or _DATABASES.fullmatch(scheme) is not None


def images(text: str) -> Iterator[Spot]:
    """Yield images and data written into links: a remote image tells its server who reads the page, and when."""
    for found in _IMAGE.finditer(text):
        yield Spot(found.start(), "image", "an image, which no agent sees", "say in words what it shows")
    data = [found.start() for found in _DATA.finditer(text)]
    for at in (*data, *(at for at, scheme, _ in _addresses(text) if scheme == "data")):
        yield Spot(at, "data_uri", "data written into a link", "delete it")


def _links(text: str, addresses: Iterable[_Address]) -> Iterator[tuple[int, str]]:
    """Yield (place, host) of every link; the host is empty where a browser would not find one either."""
    yield from _plain_links(text)
    for at, scheme, rest in addresses:
        if scheme in _WEB or (not scheme and rest[:2].strip("/\\") == "" and len(rest) > 1):
            yield at, _host_of(rest.lstrip("/\\"))
        elif scheme == "mailto":
            yield from ((at, host) for host in _MAILED.findall(rest.lower()))
    if "&" not in text:
        return
    read = html.unescape(text)
    if read != text and read.count("\n") == text.count("\n"):
        for at, host in _plain_links(read):
            yield line_start(text, read.count("\n", 0, at)), host


def _addresses(text: str) -> Iterator[_Address]:
    """Yield where every link leads; of a person's address in `<>` as of one behind `mailto:`."""
    for at, address in destinations(text):
        found = _SCHEME.match(address)
        if found is None and "@" in address and "/" not in address:
            yield at, "mailto", address
        else:
            yield at, "" if found is None else found[1].lower(), address if found is None else address[found.end() :]


def _plain_links(text: str) -> Iterator[tuple[int, str]]:
    if not _ANY.search(text):
        return
    for found in _LINK.finditer(text):
        if not _DATABASES.fullmatch(found["scheme"] or ""):
            prefix = "www." if found[0][:4].lower() == "www." else ""
            yield found.start(), _host_of(prefix + found["rest"])
    for found in _MAIL.finditer(text):
        yield found.start(), found["host"].lower()


def _host_of(rest: str) -> str:
    """Return the host a browser goes to: it takes `\\` for `/`, and what stands before `@` for a name."""
    try:
        host = urlsplit("//" + rest.replace("\\", "/")).hostname
    except ValueError:
        return ""
    return (host or "").rstrip(".,;:!?*_").lower()


_MARKDOWN: Final = re.compile(
    r"\]\(\s{0,9}(?:<(?P<angled>[^<>\n]{1,2000})>|(?P<inline>(?:[^\s<>()]|\([^\s<>()]{0,500}\)){1,2000}+))"
    r"|^[ >\t*+\-0-9.)]{0,12}\[[^\]\n^][^\]\n]{0,200}\]:[ \t]{0,9}\n?[ \t]{0,9}"
    r"(?:<(?P<held>[^<>\n]{1,2000})>|(?P<defined>[^\s<>]{1,2000}))[ \t]*(?=\n|\r|$|[\"'(])"
    r"|<(?P<auto>[a-z][a-z0-9+.-]{1,31}:[^\s<>]{0,2000}|[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,200})>",
    re.IGNORECASE | re.MULTILINE,
)
_TAG: Final = re.compile(
    r"<[a-z](?:[^<>\"']++|\"[^\"]{0,500}+\"|'[^']{0,500}+'){0,20}+>", re.IGNORECASE
)  # fmt: skip
_ATTRIBUTE: Final = re.compile(
    r"[\s\"'/](?:href|src|action|formaction|ping|poster|cite|background|data|xlink:href)\s{0,9}=\s{0,9}"
    r"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\s\"'>]+))",
    re.IGNORECASE,
)
_ESCAPED: Final = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_DROPPED: Final = re.compile(r"[\t\n\r]")
_EDGES: Final = "".join(map(chr, range(0x21)))
"""Controls and blanks around an address, which browsers take away."""


def destinations(text: str) -> Iterator[tuple[int, str]]:
    """Yield (place, destination) of every link outside code: references, escapes, tabs and line ends are undone."""
    if not any(each in text for each in ("](", "]:", "<")):
        return
    plain = without_fences(text)
    plain = without(plain, inline_code(plain))
    for found in _MARKDOWN.finditer(plain):
        yield found.start(), _read(_ESCAPED.sub("", found[found.lastgroup or 0]))
    for tag in _TAG.finditer(plain) if "=" in plain else ():
        for each in _ATTRIBUTE.finditer(tag[0]):
            yield tag.start() + each.start(), _read(each[each.lastgroup or 0])


def _read(written: str) -> str:
    return _DROPPED.sub("", html.unescape(written)).strip(_EDGES)
