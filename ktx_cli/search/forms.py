"""The form of a question: whether it asks for a number, reason, person, time, place, way, thing, or yes or no.

Stored questions of the same form match a query better, and kinds that answer a form rank higher. All texts are folded
(see `folded`), in English and German.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PERIODS: Final = r"(?:minute|hour|day|week|month|stunde|tag|woche|monat)[a-z]*"
_PATTERNS: Final = {
    "time": rf"(?:since |until |till |from |by )?when|how (?:long|soon|late|early)|how many {_PERIODS}"
    rf"|(?:what|which) (?:date|year|quarter|{_PERIODS})|(?:seit |bis |ab )?wann|wie lange|wie ?viele? {_PERIODS}"
    rf"|welche[mnrs]? (?:datum|jahr|quartal|{_PERIODS})",
    "number": r"how (?:many|much|often)"
    r"|(?:what|which) (?:percentage|percent|share|proportion|part|fraction|number|total)"
    r"|(?:the )?(?:total|average|sum of|number of|count of|share of|percentage of|rate of)"
    r"|wie ?viele?|wie (?:oft|hoch)|welcher (?:anteil|prozentsatz)"
    r"|(?:die )?(?:anzahl|summe|anteil|durchschnittliche[nrs]?)",
    "reason": r"why|how come|what is the reason|warum|wieso|weshalb",
    "person": r"who|whom|whose|wer|wen|wem|wessen",
    "place": r"where|wo|woher|wohin",
    "way": r"how|wie",
    "thing": r"which|what|welche[mnrs]?|was",
    "choice": r"is|are|were|am|do|does|did|can|could|may|must|should|shall|has|have|had|will|would"
    r"|ist|sind|waren|darf|durfen|kann|konnen|muss|mussen|soll|sollen|hat|haben|wird|werden|zahlt|zahlen|gibt",
}
"""The beginnings of clauses for each form. The first match counts."""
_BEFORE: Final = (
    r"(?:(?:and|but|so|then|und|aber|also|dann|(?:can|could) you (?:tell|show) me|(?:please )?(?:tell|show) me) )*"
    r"(?:(?:about|after|at|before|by|for|from|in|of|on|to|with|ab|an|auf|aus|bei|fur|mit|nach|seit|von|vor|zu) )?"
)
_FORM: Final = re.compile(
    _BEFORE + "(?:" + "|".join(f"(?P<{name}>{each})" for name, each in _PATTERNS.items()) + r")\b"
)
_CLAUSE: Final = re.compile(r"[.?!:;,]\s+|\n")

_ALL: Final = frozenset({"source", "measure", "segment", "page", "column", "passage", "value"})
_NUMBERS: Final = frozenset({"measure", "source"})
"""The kinds that can answer with a number."""
_TEXTS: Final = frozenset({"page", "passage"})
"""The kinds that explain."""
_EXPLAINED: Final = frozenset({"time", "reason", "person", "place", "way", "choice"})
"""The forms that require a text instead of a number."""
_CUT: Final = re.compile(r"\w (?:per|by|pro|je) \w")
"""Keywords that ask for a number without a question: `revenue by region`."""
_WHICH: Final = r"(?:which|what|welche[nrs]?)"
_NAMED: Final = {
    "segment": r"filters?|segments? (?:that|which|for|der|die|das|fur)",
    "measure": r"measures?|metrics?|kpis?|kennzahl(?:en)?"
    r"|(?:number|count|share|percentage) of|(?:anzahl|anteil) de[rs]",
    "source": rf"{_WHICH} (?:table|view|tabelle|sicht)s?n?",
    "column": rf"{_WHICH} (?:column|field|spalte|feld)s?n?",
    "page": r"(?:dash)?boards?|wiki",
}
"""Words that ask for a kind by name."""

_NO_NUMBER: Final = 0.6
"""Weight of kinds without numbers for a question about a number."""
_NO_TEXT: Final = 0.85
"""Weight of kinds without explanations for a question that needs an explanation."""
_BY_NAME: Final = 2.0
"""Weight of a kind that a question names."""

_NAMES: Final = {kind: re.compile(rf"\b(?:{pattern})\b") for kind, pattern in _NAMED.items()}


def forms(text: str) -> list[str]:
    """Return the forms of the clauses in a text, in order. Clauses that are not questions have none."""
    found = (_FORM.match(clause.strip()) for clause in _CLAUSE.split(text))
    return [each.lastgroup for each in found if each and each.lastgroup]


def worth_of_kinds(text: str) -> Mapping[str, float]:
    """Return the weights of kinds for a question. Missing kinds have the weight 1."""
    asked = forms(text)
    named = _kinds_named(text) if asked else frozenset[str]()
    telling = [form for form in asked if form == "number" or form in _EXPLAINED]
    others, cut = frozenset[str](), 1.0
    if telling and telling[-1] != "number":
        others, cut = _ALL - _TEXTS, _NO_TEXT
    elif telling or (not asked and _CUT.search(text)):
        others, cut = _ALL - _NUMBERS, _NO_NUMBER
    return {**dict.fromkeys(others - named, cut), **dict.fromkeys(named, _BY_NAME)}


def _kinds_named(text: str) -> frozenset[str]:
    """Return the kinds named in the question clauses."""
    clauses = [clause for clause in map(str.strip, _CLAUSE.split(text)) if _FORM.match(clause)]
    return frozenset(kind for kind, names in _NAMES.items() if any(map(names.search, clauses)))
