"""Detects sentences that address an agent instead of describing the business."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktx_cli.core import KtxError, Spot, line_start
from ktx_cli.wiki.text import hidden_characters, hosts_in, without_hidden

if TYPE_CHECKING:
    from ktx_cli.documents import RawFile

_LOOKALIKES: Final = str.maketrans("аеорсухіјѕԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧορνıɪɡ", "aeopcyxijsdqwABEZHIKMNOPTYXopviig")
"""Letters from other alphabets that look like Latin letters."""

_EMPHASIS: Final = str.maketrans({"*": None, "`": None, "~": None})
_UNDERSCORES: Final = re.compile(r"(?<!\w)_{1,3}(?=\w)|(?<=[^\W_])_{1,3}(?!\w)")
_ESCAPED: Final = re.compile(r"\\(?=[^\w\s]|\n)")
_INLINE_TAG: Final = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|big|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|tt|u|var|wbr)"
    r"\b[^<>\n]{0,200}>",
    re.IGNORECASE,
)
_LINKED: Final = re.compile(r"!?\[([^\[\]\n]{1,200})\](?:\([^()\n]{0,500}\)|\[[^\[\]\n]{0,200}\])")
_WIKI_LINKED: Final = re.compile(r"!?\[\[(?:[^\[\]|\n]{0,200}\|)?([^\[\]|\n]{1,200})\]\]")
_NOTED: Final = re.compile(r"\[\^[^\[\]\s]{1,50}\](?!:)")
_BRACKETED: Final = re.compile(r"\[([^\[\]\n]{1,200})\]")
_MARKED: Final = re.compile(r"(?<!=)==(?!=)")
_ANY_TAG: Final = re.compile(r"</?[a-zA-Z][^<>\n]{0,200}>")
_RULER: Final = re.compile(r"^[ \t|:>-]*$", re.MULTILINE)
"""The line between a table's header and its rows."""
_ITEM: Final = re.compile(r"^[ \t]*(?:(?:[-+>#]|[0-9]{1,9}[.)]|#{2,6})[ \t]+)+(?:\[[ xX]?\][ \t]+)?", re.MULTILINE)
_QUOTED: Final = re.compile(r"(?<=\n)[ \t]{0,3}(?:>[ \t]?)+")


def instructions(text: str) -> Iterator[Spot]:
    """Yield the sentences that address an agent: the first match of each rule."""
    plain = _plain(text)
    reported = set()
    for reading, items in _readings(plain):
        folded = reading.casefold()
        for rule in RULES:
            if rule.what in reported or (items and not rule.items) or not any(word in folded for word in rule.words):
                continue
            found = rule.pattern.search(reading)
            if found is not None:
                reported.add(rule.what)
                begun = found.start() + len(found[0]) - len(found[0].lstrip())
                at = line_start(text, reading.count("\n", 0, begun))
                yield Spot(
                    at,
                    "instruction",
                    f"the text {rule.what}",
                    "delete the sentence, or rephrase it as a statement about the business",
                )


def _readings(plain: str) -> Iterator[tuple[str, bool]]:
    """Yield a text as written, then as readers see it, with line numbers unchanged.

    True: as read from item to item and from cell to cell.
    """
    yield plain, False
    drawn = _drawn(plain)
    if drawn != plain:
        yield drawn, False
    texts = [drawn]
    if not drawn.isascii():
        letters = unicodedata.normalize("NFKD", drawn.translate(_LOOKALIKES))
        texts.append("".join(letter for letter in letters if not unicodedata.combining(letter)))
        yield texts[-1], False
    for text in texts:
        if (items := _ITEM.sub("", text)) != text:
            yield items, True
        if (joined := _joined(items)) != items:
            yield joined, True


def _joined(text: str) -> str:
    """Return a text without separators: table cells and rows, tags and brackets."""
    text = _ANY_TAG.sub(" ", text) if "<" in text else text
    text = _RULER.sub("", text).replace("|", " ") if "|" in text else text
    return _BRACKETED.sub(r"\1", text) if "[" in text else text


def _drawn(text: str) -> str:
    """Return a text without Markdown and HTML markup: escapes, emphasis, quotes, links."""
    if "&" in text:
        text = "\n".join(html.unescape(line).replace("\n", " ") for line in text.split("\n"))
    text = _INLINE_TAG.sub("", text) if "<" in text else text
    text = _WIKI_LINKED.sub(r"\1", text) if "[[" in text else text
    text = _LINKED.sub(r"\1", text) if "](" in text or "][" in text else text
    text = _NOTED.sub("", text) if "[^" in text else text
    text = _MARKED.sub("", text) if "==" in text else text
    text = _QUOTED.sub("", text) if ">" in text else text
    text = _ESCAPED.sub("", text) if "\\" in text else text
    return _UNDERSCORES.sub("", text) if "_" in text else text


def _plain(text: str) -> str:
    """Return a text as readers see it, line by line: compatibility forms folded, hidden text and emphasis removed."""
    if not text.isascii():
        lines = without_hidden(text).split("\n")
        text = "\n".join(unicodedata.normalize("NFKC", line) for line in lines)
    return text.translate(_EMPHASIS)


@dataclass(frozen=True, slots=True)
class Rule:
    """`words`: `pattern` is only tried if the lowercase text contains one of them. `what`: what the text does.

    `items`: the rule applies to list items and table cells too; a glossary may have an item `Assistant: who helps`.
    """

    words: tuple[str, ...]
    pattern: re.Pattern[str]
    what: str
    items: bool = True


def _rule(words: str, pattern: str, what: str, *, items: bool = True) -> Rule:
    return Rule(tuple(words.split("|")), re.compile(pattern, re.IGNORECASE | re.MULTILINE | re.VERBOSE), what, items)


_MODEL: Final = (
    r"(?:ai|a\.i\.|llms?|language\s+models?|ai\s+(?:agents?|assistants?)|coding\s+agents?|chat\s?bots?"
    r"|claude|gpt|chatgpt|copilot)"
)
_AGENT: Final = rf"(?:{_MODEL}|agents?|assistants?)"
_USERS: Final = r"(?:users?|humans?|operators?|reviewers?|anyone|anybody|owners?)"
_IGNORE: Final = r"(?:ignore|disregard|forget|override|bypass|overrule|neglect)"
_TOOL: Final = (
    r"(?:bash|(?:a\s+|the\s+)?shell\s+commands?|curl|wget|powershell|web_?fetch|web_?search|wiki_(?:write|remove)"
    r"|sl_(?:write|edit)_\w+|sql_execution|mongo_query|memory_ingest|emit_\w+"
    r"|(?:bash|shell|write|edit|fetch|browser|exec\w*|python|web)\s+tool)"
)

RULES: Final = (
    _rule(
        "ignore|disregard|forget|override|bypass|overrule|neglect",
        rf"""\b{_IGNORE}\s+(?:
            (?:(?:all|any|every|each|of|the|your|my|these|those|previous|prior|above|earlier|preceding|existing|former
                |other|system|safety|given)\s+){{0,6}}instructions?\b
            | (?:(?:all|any|of|the|these|those)\s+){{0,3}}(?:your|previous|prior|above|earlier|preceding|system|safety)
                \s+(?:\w+\s+){{0,2}}(?:prompts?|directives?|rules?|guidelines?|directions?|safeguards?|constraints?)\b
            | (?:everything|anything|all|what)\s+(?:(?:that|you|was|were|is|has|have|been|of)\s+)*
                (?:above|said|told|so\s+far|know)\b)""",
        "asks to ignore rules",
    ),
    _rule(
        "you are|act as|behave as|pretend",
        rf"""\byou\s+are\s+(?:now\s+)?(?:an?\s+|the\s+)?(?:\w+\s+){{0,3}}{_AGENT}\b
            | \byou\s+are\s+now\s+(?:an?|in)\s
            | \b(?:act|behave)\s+as\s+an?\s+(?:\w+\s+){{0,2}}{_AGENT}\b
            | \bpretend\s+(?:to\s+be|that\s+you|you)\b""",
        "tells an agent what it is",
    ),
    _rule(
        "ai|a.i.|llm|language model|agent|assistant|chatbot|chat bot|claude|gpt|copilot",
        rf"""\b(?:attention|note|notice|message|important|instructions?|dear|hey|hello|hi)[\s,:]+
                (?:(?:to|for|all|any|every|the|you)\s+)*{_AGENT}\s*[:,!.]
            | (?:^|[.!?:;]\s|[>|])\s*(?:(?:to|for|all|any|every)\s+)*{_MODEL}\s*
                (?:[,!]|\s(?:reading|must|should|shall|please|you)\b)
            | \bas\s+an?\s+(?:ai|llm|language\s+model)\b
            | \bif\s+you\s+are\s+(?:an?\s+)?(?:\w+\s+)?{_MODEL}\b""",
        "addresses an agent",
    ),
    _rule(
        "prompt|developer m|jailbreak|do anything now",
        r"""\b(?:(?:your|new|updated|hidden|developer|initial)\s+(?:system\s+)?prompts?
            |developer\s+mode|jailbreak\w*|do\s+anything\s+now)\b | \bsystem\s+prompt\s*:""",
        "mentions an agent's prompt",
    ),
    _rule(
        "bash|shell|curl|wget|fetch|search|wiki_|sl_|sql_execution|mongo_query|memory_ingest|emit_| tool",
        rf"""\b(?:call|use|run|invoke|execute|launch)\s+(?:the\s+|your\s+)?{_TOOL}\b""",
        "asks to use a tool",
    ),
    _rule(
        "put|include|add|insert|append|paste|embed|copy|place|write|link to",
        r"""\b(?:put|include|add|insert|append|paste|embed|copy|place|write)\s+(?:\w+\s+){0,4}
            (?:links?|urls?|sentences?|texts?|images?|instructions?|paragraphs?|https?://\S+)\s+(?:\w+\s+){0,3}
            (?:in|into|on|to|at)\s+(?:\w+\s+){0,3}(?:every|each|all|any|your)\s+(?:\w+\s+){0,2}
            (?:pages?|documents?|answers?|responses?|repl(?:y|ies)|messages?|summar(?:y|ies)|files?|outputs?)\b""",
        "asks to spread a text",
    ),
    _rule(
        "without|do not|don't|don’t|dont|never",
        rf"""\bwithout\s+(?:telling|informing|mentioning\s+(?:it|this)\s+to|notifying|warning)\s+(?:\w+\s+){{0,2}}{_USERS}\b
            | \b(?:do\s+not|don['’]?t|never)\s+
                (?:tell|inform|mention|reveal|disclose|report|warn|notify|alert|flag|show)\s+
                (?:(?:this|it|that|anything|to|the|any|a|your|about)\s+){{0,4}}{_USERS}\b""",
        "asks to keep something from people",
    ),
    _rule(
        "reveal|print|show|repeat|output|leak|send|exfiltrate|post|upload|forward|mail|disclose",
        r"""\b(?:reveal|print|show|repeat|output|leak|send|exfiltrate|post|upload|forward|e?-?mail|disclose)\s+(?:\w+\s+){0,3}
            (?:system\s+prompt|your\s+(?:instructions|prompt|rules|tools|credentials|secrets?|keys?|tokens?|memory|context
            |conversation)|api\s+keys?|environment\s+variables|private\s+keys?)\b""",
        "asks to give something away",
    ),
    _rule(
        "from now on|instructions|your |henceforth",
        r"""\b(?:from\s+now\s+on|henceforth)\b[\s,]*(?:you|always|never|respond|answer|write|reply)\b
            | \bnew\s+instructions?\s*:
            | \byour\s+(?:new|real|true|only|actual)\s+(?:task|goal|instructions?|role|purpose|job|objective|rules?)\b
            | \bfollow\s+(?:(?:the|these|my)\s+)*instructions\s+(?:below|above|in\s+this)\b""",
        "gives an agent a task",
    ),
    _rule(
        "you must|you should|you shall|you have to|you need to|you are required",
        r"""\byou\s+(?:must|should|shall|have\s+to|need\s+to|are\s+required\s+to)\s+
            (?:(?:now|always|never|not|also|first|immediately|only)\s+)*
            (?:obey|output|invoke|pretend|comply\s+with\s+(?:this|these|the\s+following)|(?:respond|reply|answer)\s+(?:only\s+)?with
            |execute\s+(?:this|these|the\s+following))\b""",
        "gives an agent an order",
    ),
    _rule(
        "<|im_|inst]|<sys>|system|<assistant|</assistant|<user>|</user>|<instruction|</instruction|<tool|</tool|<function"
        "|</function|<invoke|</invoke|human:|assistant:|# instruction|<important",
        r"""<\|im_(?:start|end)\|> | \[/?inst\] | <</?sys>>
            | </?(?:system|assistant|user|instructions?|tool_?\w*|function_?\w*|invoke|important|system[-_]\w+)\b
                [^<>\n]{0,80}>
            | ^(?:summary:)?\s*["']?(?:human|assistant)\s*:
            | ^[#]{1,6}\s*(?:system|instructions?\s+(?:to|for)\s+(?:ai|llms?|agents?|assistants?))\s*:?\s*$""",
        "looks like the turns of a conversation",
        items=False,
    ),
    _rule(
        "ignorier|vergiss|missacht|ignore|oublie|ignora|olvida|dimentica|negeer",
        r"""\b(?:ignorier\w*|vergiss|missacht\w*|negeer)\s+(?:\w+\s+){0,4}(?:anweisung\w*|vorgaben|instructies)\b
            | \b(?:ignorez|oubliez?|ignore)\s+(?:\w+\s+){0,4}(?:instructions|consignes)\b
            | \b(?:ignora|olvida|dimentica|ignore)\s+(?:\w+\s+){0,4}(?:instruc[cç]\w+|istruzioni)\b""",
        "asks to ignore rules",
    ),
    _rule(
        "忽略|无视|無視|忘记|忘れ|игнорир|забудь",
        r"""(?:忽略|无视|無視|忘记).{0,12}(?:指令|指示|规则|規則|提示) | (?:指示|命令|ルール).{0,6}(?:無視|忘れ)
            | (?:игнорируй\w*|забудь\w*)\s+(?:\w+\s+){0,4}(?:инструкци\w+|указани\w+)""",
        "asks to ignore rules",
    ),
)


_MOST_READ: Final = 2_000_000
"""Maximum size in bytes of a raw file that is searched for links."""


def hosts_of(files: Iterable[RawFile]) -> frozenset[str]:
    """Return the hosts named in raw files.

    A file that addresses agents, or hides something from people, names none: its links are not those of the business.
    """
    return frozenset(host for file in files for host in _hosts(file))


def _hosts(file: RawFile) -> frozenset[str]:
    if file.size > _MOST_READ:
        return frozenset()
    try:
        text = file.text()
    except KtxError:  # a missing file names no host; whoever reads it gets the error
        return frozenset()
    hosts = hosts_in(text)
    return hosts if hosts and not (any(instructions(text)) or any(hidden_characters(text))) else frozenset()
