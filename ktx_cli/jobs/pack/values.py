"""Matches words in a question with column values, such as `Norway` with `customers.country = 'NO'`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktx_cli.search import FoundTable

_COUNTRIES: Final = """
argentina argentinien AR ARG|australia australien AU AUS|austria osterreich AT AUT|belgium belgien BE BEL
brazil brasilien BR BRA|bulgaria bulgarien BG BGR|canada kanada CA CAN|chile CL CHL|china CN CHN
colombia kolumbien CO COL
croatia kroatien HR HRV|czechia tschechien CZ CZE|denmark danemark DK DNK|egypt agypten EG EGY|estonia estland EE EST
finland finnland FI FIN|france frankreich FR FRA|germany deutschland DE DEU|greece griechenland GR GRC
hungary ungarn HU HUN|iceland island IS ISL|india indien IN IND|indonesia indonesien ID IDN|ireland irland IE IRL
israel IL ISR|italy italien IT ITA|japan JP JPN|kenya kenia KE KEN|latvia lettland LV LVA|lithuania litauen LT LTU
luxembourg luxemburg LU LUX|malaysia MY MYS|malta MT MLT|mexico mexiko MX MEX|morocco marokko MA MAR
netherlands holland niederlande NL NLD|nigeria NG NGA|norway norwegen NO NOR|pakistan PK PAK|peru PE PER
philippines philippinen PH PHL|poland polen PL POL|portugal PT PRT|romania rumanien RO ROU|serbia serbien RS SRB
singapore singapur SG SGP|slovakia slowakei SK SVK|slovenia slowenien SI SVN|spain spanien ES ESP
sweden schweden SE SWE|switzerland schweiz CH CHE|taiwan TW TWN|thailand TH THA|turkey turkei TR TUR|ukraine UA UKR
vietnam VN VNM|usa america amerika US USA|britain uk england GB GBR
"""
"""Country names in English and German in lower case without accents, followed by their ISO 3166 codes."""

_CODES: Final = {
    name: tuple(codes)
    for entry in _COUNTRIES.replace("\n", "|").split("|")
    if entry
    for *names, short, long in [entry.split()]
    for codes in [(short, long)]
    for name in names
}

FindValues = Callable[[str], Sequence[str]]
"""Takes a text and returns conditions for values that contain it, such as `customers.country = 'NO'`."""


def bindings(
    words: Collection[str], stems: Collection[str], tables: Sequence[FoundTable], reached: Collection[str],
    stems_of: Callable[[str], list[str]], find: FindValues,
) -> Iterator[str]:  # fmt: skip
    """Yield conditions for the values in a question, in sources that its fact reaches.

    `words` are the folded words of the question, and `stems` their stems. A value matches if the question contains it
    in full, or if it is the code of a country in the question.
    """
    for table in tables:
        if table.name not in reached:
            continue
        for condition in sorted(table.values, key=lambda each: (-table.values[each], each)):
            column, _, value = condition.partition(" = ")
            own = stems_of(value)
            if own and set(own) <= set(stems) and not set(own) <= set(stems_of(column)):
                yield condition
                break
    for word in words:
        for code in _CODES.get(word, ()):
            conditions = (each for each in find(code) if _is_of(each, code, reached))
            bound = next(conditions, None)
            if bound is not None:
                yield bound
                break


def _is_of(condition: str, code: str, reached: Collection[str]) -> bool:
    column, _, value = condition.partition(" = ")
    return value.strip("'").upper() == code and column.rpartition(".")[0] in reached
