"""The words of a text and their stems, in English and German."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL: Final = re.compile(r"[aeiouy]")
_TWO_SYLLABLES: Final = re.compile(r"[aeiouy][^aeiouy]+[aeiouy]")
_ENGLISH: Final = """
a about all also am an and any anybody anyone anything are as at be been being but by can cannot could did do does
doing done each every everybody everything for from get gets getting give gives had has have having he her here him
his how i if in into is it its just let like many me might much must my of on or our ought per please really shall she
should so some somebody someone something such tell than that the their them then there these they thing things this
those to too very was we were what when where whether which who whom whose why will with would you your
"""
_GERMAN: Final = """
aber alle alles als auch auf aus bei beim bitte da dabei damit dann das dass dem den denn der des dessen dies diese
diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es etwa etwas euch euer fur gibt
haben hatte hatten ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im ins ist jede jedem jeden jeder jedes kann kannst
konnen mein meine mich mir mit muss noch nun ob oder sehr sein seine sich sie sind soll sollen uber um und uns unser
unsere unserem unseren unserer vom von waren warum wann weil welche welchem welchen welcher welches wenn wer werden
wessen wie wieviel wieviele wir wird wo wozu wurde wurden zu zum zur
"""
"""German stop words without accents, and without words that have a meaning in English: `hat`, `man`, `war`, `die`."""
STOP_WORDS: Final = frozenset((_ENGLISH + _GERMAN).split())
"""Stop words in English and German."""

_COMMON: Final = """
able again ago already always another around ask away back bad become before begin best better big bring call case
change come different early else enough even ever fact feel few find first go good great hand happen hard help high
include instead keep kind know large last late later least leave less let little long look lot make mean most move
need never new next now old only other own part place play point possible present problem put question quite read real
right run same say second see seem set show side since small soon start stay still stop sure take think time today
together try turn type understand until use usual want way whole without word work world write wrong year yet above
against below between both down during few further here more no nor not off once out over through under up while
"""
GENERIC_WORDS: Final = frozenset(_COMMON.split())
"""Common English words that say little about the subject of a query."""

_FORMS: Final = """
be was were been|become became|begin began begun|break broke broken|bring brought|build built|buy bought
catch caught|choose chose chosen|come came|deal dealt|do did done|draw drew drawn|drive drove driven|eat ate eaten
fall fell fallen|feel felt|find found|forget forgot forgotten|get got gotten|give gave given|go went gone
grow grew grown|hear heard|hide hid hidden|hold held|keep kept|know knew known|lead led|leave left|lend lent
lose lost|make made|mean meant|meet met|pay paid|ride rode ridden|rise rose risen|run ran|say said|see saw seen
sell sold|send sent|show shown|speak spoke spoken|spend spent|stand stood|steal stole stolen|take took taken
teach taught|tell told|think thought|throw threw thrown|understand understood|win won|write wrote written
person people persons|child children|woman women
"""
_IRREGULAR: Final = {
    form: word for word, *forms in (line.split() for line in re.split(r"[|\n]", _FORMS.strip())) for form in forms
}
"""Irregular forms of verbs and nouns with their base form."""

_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]+")
"""Scripts without spaces between words: Thai, Lao, kana and Chinese characters."""


def words(text: str) -> list[str]:
    """Return the stems of the words in a text; `netRevenue` and `net_revenue` are two words each."""
    return [stem(word) for word in plain_words(text)]


def plain_words(text: str) -> list[str]:
    """Return the words in a text in lower case and without accents, but with their endings.

    In scripts without spaces between words, every two consecutive letters are a word.
    """
    found = _WORD.findall(folded(_HUMP.sub(" ", text)))
    return found if text.isascii() else [part for word in found for part in _parts(word)]


def _parts(word: str) -> list[str]:
    parts, position = [], 0
    for run in _UNSPACED.finditer(word):
        parts.append(word[position : run.start()])
        pairs = [run[0][at : at + 2] for at in range(len(run[0]) - 1)]
        parts += pairs or [run[0]]
        position = run.end()
    return [part for part in (*parts, word[position:]) if part]


def asked_words(text: str) -> list[str]:
    """Return the distinct words in a query, without stop words unless there are no others."""
    plain = list(dict.fromkeys(plain_words(text)))
    telling = [word for word in plain if not is_stop_word(word)]
    return telling or plain


def is_stop_word(word: str) -> bool:
    """Return whether a word from `plain_words` is a stop word."""
    return word in STOP_WORDS


def is_generic(word: str) -> bool:
    """Return whether a word from `plain_words` is common in all kinds of texts."""
    return stem(word) in _generic_stems()


@functools.cache
def _generic_stems() -> frozenset[str]:
    return frozenset(map(stem, GENERIC_WORDS))


def folded(text: str) -> str:
    """Return a text in lower case with plain letters instead of accented, wide or joined forms."""
    if text.isascii():
        return text.lower()
    # Letters for the joined and styled forms come first, for those may be capitals.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


@functools.lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return an English word without its plural and verb endings: `orders`, `ordered`, `ordering` are `order`.

    The S-stemmer of Harman (1991, How effective is suffixing?), then `-ing` and `-ed` if a vowel remains before them.
    """
    word = _singular(_IRREGULAR.get(word, word))
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and _VOWEL.search(rest):
            doubled = len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz"
            return rest[:-1] if doubled else _one_l(rest)
    return _one_l(word.removesuffix("e") if len(word) > 3 else word)


def _one_l(word: str) -> str:
    """Return `cancel` for `cancell`, as British spelling doubles the letter; monosyllables such as `sell` keep it."""
    return word[:-1] if word.endswith("ll") and _TWO_SYLLABLES.search(word) else word


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word if word.endswith(("us", "ss", "is")) else word[:-1]
