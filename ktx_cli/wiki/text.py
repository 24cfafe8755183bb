"""The parts of Markdown that checks need: the location of code, text hidden from readers, links and their hosts."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ktx_cli.core import Spot, line_start, one_line

UNEXPECTED_LINK: Final = "unexpected_link"
"""The diagnostic code of active links, and of links to hosts that a page's sources do not name."""

_FENCE: Final = re.compile(r"^ {0,3}(?:>[ \t]?)*[ \t]*(?:[-*+] +)?(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)
_RUN: Final = re.compile(r"`+")
_PARAGRAPH_END: Final = re.compile(r"\n[ \t]*\n")
_NOT_NEWLINE: Final = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class Span:
    """Inline code: `start` and `end` delimit it including backticks, and `text` is the text between the backticks."""

    start: int
    end: int
    text: str


def without_fences(text: str) -> str:
    """Return a text with every fenced block blanked out; all other characters keep their positions.

    A fence that is never closed extends to the end (CommonMark 4.5).
    """
    if "```" not in text and "~~~" not in text:
        return text
    pieces, position = [], 0
    opening = _FENCE.search(text)
    while opening is not None:
        fence = opening[1]
        closing = re.compile(rf"^[ \t>]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\r?$", re.MULTILINE)
        found = closing.search(text, text.find("\n", opening.end()) + 1 or len(text))
        end = len(text) if found is None else found.end()
        pieces += [text[position : opening.start()], _NOT_NEWLINE.sub(" ", text[opening.start() : end])]
        position, opening = end, _FENCE.search(text, end)
    return "".join([*pieces, text[position:]])


def inline_code(text: str) -> Iterator[Span]:
    """Yield the inline code in a text without fences: the text between two runs of equally many backticks.

    Code does not extend from one paragraph into the next (CommonMark 6.1).
    """
    if "`" not in text:
        return
    runs = [(found.start(), found.end()) for found in _RUN.finditer(text)]
    ends = [found.start() for found in _PARAGRAPH_END.finditer(text)]
    starts: dict[int, list[int]] = defaultdict(list)
    for start, end in runs:
        starts[end - start].append(start)
    position = 0
    for start, end in runs:
        if start < position:
            continue
        same = starts[end - start]
        place = bisect_right(same, start)
        if place == len(same) or bisect_right(ends, start) != bisect_right(ends, same[place]):
            continue
        closing = same[place]
        yield Span(start, closing + end - start, " ".join(text[end:closing].split()))
        position = closing + end - start


def without(text: str, spans: Iterable[Span]) -> str:
    """Return a text with these spans blanked out; all other characters keep their positions."""
    pieces, position = [], 0
    for span in spans:
        pieces += [text[position : span.start], _NOT_NEWLINE.sub(" ", text[span.start : span.end])]
        position = span.end
    return "".join([*pieces, text[position:]])


_INVISIBLE: Final = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f"
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb"
    "\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff]+"
)
"""Unicode's default-ignorable code points, controls, fillers and blanks, all of them invisible."""

_BIDI: Final = re.compile("[\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")
_TAGS: Final = re.compile("[\\U000e0000-\\U000e007f]")
_JOINERS: Final = ("\u200c", "\u200d")
_COMMENT: Final = re.compile(r"<!--|<!\[CDATA\[|<![a-z](?=[^<>]{0,2000}>)|<\?(?=[^<>]{0,2000}\?>)", re.IGNORECASE)
_UNSEEN_DEFINITION: Final = re.compile(r"^[ >\t*+\-0-9.)]{0,12}\[[^\]\n]*\]:[ \t]*(?:#|<>)[ \t]*[\"'(]", re.MULTILINE)
_TAG: Final = re.compile(r"<([a-zA-Z][a-zA-Z0-9-]*)\b([^<>]*)>")
_ACTIVE: Final = re.compile(
    "applet|embed|frame|frameset|iframe|math|noscript|plaintext|script|style|svg|template|textarea|xmp", re.IGNORECASE
)
_WITH_ATTRIBUTE: Final = re.compile(
    "audio|base|body|button|canvas|dialog|form|head|html|input|link|meta|object|option|param|select|source|track|video",
    re.IGNORECASE,
)
"""Tags that do nothing without an attribute, and may be placeholders such as `<source>`."""
_ACTIVE_ATTRIBUTE: Final = re.compile(r"(?:^|[\s\"'/])(?:style|hidden|on[a-z]+|srcdoc|formaction)\s*(?:=|$|\s)", re.I)


_SOME: Final = r"(?:[^\n{0}]|\n(?![ \t]*\n)){{0,4000}}?"
"""Matches text within one paragraph that excludes certain characters."""
_SWALLOWING: Final = re.compile(
    "|".join(
        (
            "</?[a-zA-Z]" + _SOME.format("<>") + ">",
            "~~" + _SOME.format("") + "~~",
            r"!\[" + _SOME.format(r"\]") + r"(?=\])",
            *(
                r"(?:\]\(|\]:)[ \t]*\S*\s+" + start + _SOME.format(end) + end
                for start, end in ('""', "''", ("\\(", "\\)"))
            ),
        )
    )
)


def hidden_characters(text: str) -> Iterator[Spot]:
    """Yield every run of invisible characters, except those that emoji and some scripts need."""
    if text.isascii() and text.isprintable():
        return
    for found in _INVISIBLE.finditer(text):
        if (found.start() == 0 and found[0] == "\ufeff") or _is_script(text, found):
            continue
        codes = " ".join(dict.fromkeys(f"U+{ord(each):04X}" for each in found[0][:8]))
        yield Spot(found.start(), "hidden_characters", f"{_what(found[0])} ({codes})", "delete them")


def hidden_markup(text: str) -> Iterator[Spot]:
    """Yield comments and HTML outside code that are active, or that a rendered page does not show."""
    if "<" not in text and "[" not in text:
        return
    plain = without_fences(text)
    text = without(plain, inline_code(plain))
    for found in _COMMENT.finditer(text):
        yield Spot(
            found.start(), "html_comment", "a comment, which readers do not see", "delete it, or write it as text"
        )
    for found in _UNSEEN_DEFINITION.finditer(text):
        yield Spot(found.start(), "html_comment", "a definition that only hides text", "delete it")
    for found in _TAG.finditer(text):
        if _acts(found[1], found[2]):
            message = f"the HTML tag <{found[1][:20]}>, which hides something or is active"
            yield Spot(found.start(), "html", message, "write it in Markdown")


def without_swallowed(text: str) -> str:
    """Return a text without multi-line markup that shows its content differently or not at all.

    Code, tags, titles, descriptions of images and struck-out text; none of them extends into the next paragraph.
    """
    plain = without_fences(text)
    code = [each for each in inline_code(plain) if "\n" in plain[each.start : each.end]]
    return _SWALLOWING.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), without(plain, code))


def without_hidden(text: str) -> str:
    """Return a text without invisible characters; line numbers are unchanged."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def _acts(tag: str, attributes: str) -> bool:
    """Return whether an HTML tag hides something or is active."""
    if _ACTIVE.fullmatch(tag) or _ACTIVE_ATTRIBUTE.search(attributes):
        return True
    return "=" in attributes and _WITH_ATTRIBUTE.fullmatch(tag) is not None


def _what(run: str) -> str:
    if _TAGS.search(run):
        return "characters from the Unicode tags block, which only machines read"
    return "characters that change the text direction" if _BIDI.search(run) else "invisible characters"


def _is_script(text: str, found: re.Match[str]) -> bool:
    """Return whether a single invisible character is needed here: in an emoji, or between letters of a
    joining script.
    """
    run, before, behind = found[0], text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
    if run in ("\ufe0f", "\ufe0e", "\ufe0f\u200d"):
        return bool(before) and (unicodedata.category(before) in ("So", "Sm", "Sk") or before in "#*0123456789‼⁉")
    if run not in _JOINERS or not before or not behind:
        return False
    if run == "\u200d" and unicodedata.category(before) in ("So", "Sk") and unicodedata.category(behind) == "So":
        return True
    return _joins(before) and _joins(behind)


def _joins(character: str) -> bool:
    """Return whether a character belongs to a script in which joiners matter: Arabic to Khmer, Mongolian."""
    return 0x0600 <= ord(character) <= 0x18AF and unicodedata.category(character)[0] in "LM"


_LINK: Final = re.compile(
    r"(?:(?<![^\W_])(?P<scheme>[a-z][a-z0-9+.-]{1,20}):[/\\]{2}|(?<![:/\\\w])[/\\]{2}(?=[\w-]+\.\w)|\bwww\.(?=\w))"
    r"(?P<rest>[^\s<>\"'`|)\]}]+)",
    re.IGNORECASE,
)
_ANY: Final = re.compile(r"[/\\]{2}|www\.|mailto:", re.IGNORECASE)
"""Pattern that occurs in every text with a link."""
_DOING: Final = re.compile(r"\b(?:(?:java|vb)script:(?=\S)|file:(?=/{2})|(?:blob|filesystem):(?=http))", re.IGNORECASE)
_MAIL: Final = re.compile(r"\bmailto:[^\s<>\"'`)]{0,320}(?:@|%40)(?P<host>[\w.-]+\w)", re.IGNORECASE)
_MAILED: Final = re.compile(r"(?:@|%40)([\w.-]+\w)")
_DATA: Final = re.compile(r"\bdata:(?:[a-z]+/[\w.+-]+)?(?:;[\w=-]+)*,|\bdata:[a-z]+/[\w.+-]+;base64\b", re.IGNORECASE)
_IMAGE: Final = re.compile(r"!\[(?=[\s\S]{0,300}?\][(\[])|!\[\[|<\s*(?:img|picture|image)\b", re.IGNORECASE)
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,30}):", re.IGNORECASE)
_SCRIPTS: Final = frozenset({"blob", "file", "filesystem", "javascript", "vbscript", "view-source"})
_WEB: Final = frozenset({"http", "https", "ftp", "ws", "wss"})
"""Schemes after which a browser needs no slashes and accepts any number of them."""
_CALLS: Final = frozenset({"callto", "geo", "sms", "tel", "urn", "doi"})
"""Schemes that do not pass the text of a link to a program."""
_DATABASES: Final = re.compile(
    "bigquery|clickhouse|databricks|duckdb|gs|jdbc|mariadb|mongodb|mssql|mysql|oracle|postgres|postgresql|redshift|s3"
    "|snowflake|sqlite|sqlserver|trino",
    re.IGNORECASE,
)
"""Schemes that a click does not follow."""
_Address = tuple[int, str, str]
"""A link's position, its lowercase scheme (empty if there is none), and the rest."""


def hosts_in(text: str) -> frozenset[str]:
    """Return the hosts of the links in a text, in lower case."""
    return frozenset(host for _, host in _links(text, list(_addresses(text))) if host)


def links(text: str, named: Collection[str] | None) -> Iterator[Spot]:
    """Yield active links, and links to hosts that are not among `named` (if None, hosts are not checked).

    A link that opens another program counts as one to an unknown host.
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
            yield Spot(at, UNEXPECTED_LINK, message, "delete it, or add the source that names it")
    for at, scheme, _ in addresses:
        if scheme and not _is_known(scheme):
            yield _doing(at, f"{scheme}:")


def _doing(at: int, kind: str) -> Spot:
    return Spot(at, UNEXPECTED_LINK, f"a link with the scheme {kind}", "delete it")


def _is_known(scheme: str) -> bool:
    known = scheme in _SCRIPTS or scheme in _WEB or scheme in _CALLS or scheme in ("data", "mailto")
    return known or _DATABASES.fullmatch(scheme) is not None


def images(text: str) -> Iterator[Spot]:
    """Yield images and data in links, because a remote image reveals to its server who reads the page, and when."""
    for found in _IMAGE.finditer(text):
        yield Spot(found.start(), "image", "an image, which agents cannot see", "describe in words what it shows")
    data = [found.start() for found in _DATA.finditer(text)]
    for at in (*data, *(at for at, scheme, _ in _addresses(text) if scheme == "data")):
        yield Spot(at, "data_uri", "data in a link", "delete it")


def _links(text: str, addresses: Iterable[_Address]) -> Iterator[tuple[int, str]]:
    """Yield (position, host) of every link; the host is empty if a browser would not find one."""
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
    """Yield the destination of every link; a person's address in `<>` counts as one with `mailto:`."""
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
    """Return the host that a browser opens: it reads `\\` as `/`, and what precedes `@` as a user name."""
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
_OPENING_TAG: Final = re.compile(
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
"""Control characters and blanks around a URL, which browsers remove."""


def destinations(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, destination) of every link outside code, with references, escapes, tabs and line breaks
    resolved.
    """
    if not any(each in text for each in ("](", "]:", "<")):
        return
    plain = without_fences(text)
    plain = without(plain, inline_code(plain))
    for found in _MARKDOWN.finditer(plain):
        yield found.start(), _read(_ESCAPED.sub("", found[found.lastgroup or 0]))
    for tag in _OPENING_TAG.finditer(plain) if "=" in plain else ():
        for each in _ATTRIBUTE.finditer(tag[0]):
            yield tag.start() + each.start(), _read(each[each.lastgroup or 0])


def _read(written: str) -> str:
    return _DROPPED.sub("", html.unescape(written)).strip(_EDGES)


_GROUPING: Final = re.compile("(?<=\\d)[.,'\\u2019\\u00a0\\u202f ](?=\\d{3}(?!\\d))")
"""Separators between groups of three digits."""
_FIGURE: Final = re.compile(r"(?<![\w.,:/#-])\d{4,}(?![\w/-]|[.,:]\d{2}(?!\d)[.,:/-])")
_YEARS: Final = range(1900, 2101)


def unstated_figures(text: str, sources: Iterable[str]) -> list[tuple[int, str]]:
    """Return (line, number) for each number of four or more digits in a page's prose that no source contains.

    Code, dates and years do not count; `1,234.50` and `1.234,50` are both 1234.
    """
    prose = without_fences(text)
    prose = _GROUPING.sub("", without(prose, inline_code(prose)))
    found = {
        match[0]: prose.count("\n", 0, match.start()) + 1
        for match in reversed(list(_FIGURE.finditer(prose)))
        if len(match[0]) > 4 or int(match[0]) not in _YEARS
    }
    for source in sources if found else ():
        stated = set(re.findall(r"\d{4,}", _GROUPING.sub("", source)))
        found = {figure: line for figure, line in found.items() if figure not in stated}
        if not found:
            break
    return sorted((line, figure) for figure, line in found.items())
