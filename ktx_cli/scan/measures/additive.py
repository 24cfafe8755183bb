"""Detect additive columns (amounts of money, quantities, durations) from words in names, types and profiles.

A wrong sum is worse than a missing one. A column is summed only if its name says what it counts and none of its words
means a key, a rate, a unit price, a balance or a position.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.scan.relationships.names import tokens, word_set
from ktx_cli.scan.relationships.names import words as vocabulary
from ktx_cli.warehouses import Column, SemanticType


class Additive(StrEnum):
    """The kinds of additive values."""

    MONEY = "money"
    QUANTITY = "quantity"
    DURATION = "duration"


@dataclass(frozen=True, slots=True)
class AdditiveColumn:
    """A column that may be summed. `unit`: the currency, or unit of time or distance, that its name states."""

    kind: Additive
    unit: str | None = None


CURRENCIES: Final = word_set(
    "aud brl cad chf cny czk dkk eur gbp huf inr jpy krw mxn nok nzd pln ron sek sgd try uah usd zar"
)
_CURRENCY_WORDS: Final = {"euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD"}
_UNITS: Final = {
    "minutes": "minutes", "mins": "minutes", "minuten": "minutes", "hours": "hours", "hrs": "hours",
    "stunden": "hours", "heures": "hours", "horas": "hours", "seconds": "seconds", "secs": "seconds",
    "sekunden": "seconds", "milliseconds": "milliseconds", "millis": "milliseconds", "ms": "milliseconds",
    "km": "km", "kilometers": "km", "kilometres": "km", "miles": "miles", "kwh": "kWh", "bytes": "bytes",
    "liters": "liters", "litres": "liters", "nights": "nights", "days": "days", "cents": "cents",
}  # fmt: skip

GROSS: Final = word_set("gross brutto ttc incl including inclusive brut lordo bruto grand total totaal gesamt")
"""Words for amounts that include everything, for example taxes."""

NET: Final = word_set("net netto ht excl excluding exclusive subtotal neto zwischensumme hors")
TAX: Final = word_set("tax taxes vat mwst ust steuer tva iva gst btw impuesto")
DISCOUNT: Final = word_set("discount discounts rabatt remise descuento sconto korting rabat rebate rebates")
FEE: Final = word_set("fee fees gebuehr gebuehren frais")
REFUND: Final = word_set("refund refunds refunded")
PRICE: Final = word_set("price preis prix precio prezzo prijs cena preco pret")
SHARE: Final = word_set(
    "rate rates ratio ratios pct percent percentage prozent prozentsatz satz taux porcentaje tasa procent share shares"
    " anteil quote"
)
"""Words for numbers that express a part as a percentage or fraction."""

_MONEY: Final = (
    FEE
    | REFUND
    | word_set(
        "amount amounts amt amnt betrag betraege summe sum montant importe importo bedrag kwota belopp"
        " revenue revenues sales turnover umsatz erloes ingresos ricavi omzet przychod income profit gewinn benefice"
        " earnings expense expenses expenditure spend spent spending cost costs kosten cout couts coste costes costo"
        " costi koszt payment payments paid charge charges charged freight fracht frachtkosten tip tips bonus subtotal"
        " zwischensumme payout payouts donation donations proceeds surcharge debit debits credit credits soll haben gmv"
        " premium premiums gross net brutto netto budget bezahlt verse pagado"
    )
)
_QUANTITY: Final = word_set(
    "quantity quantities qty qnty qnt quant menge mengen quantite cantidad quantita quantidade aantal hoeveelheid ilosc"
    " antal count counts cnt anzahl units pieces pcs stueck stueckzahl items clicks klicks impressions pageviews"
    " visits sessions orders conversions downloads installs guests nights passengers attendees participants goals"
    " kwh bytes tokens copies boxes pallets parcels packages calls requests messages views opens signups replies"
    " km kilometers kilometres miles litres liters distance"
)
_DURATION: Final = word_set(
    "minutes mins minuten hours hrs stunden heures horas seconds secs sekunden milliseconds millis duration dauer"
    " duree duracion durata"
)
_AMOUNT_OR_RATE: Final = (
    DISCOUNT
    | TAX
    | word_set(
        "margin marge commission commissions provision provisionen markup interest zinsen zins deduction deductions"
    )
)
"""Words for amounts that are often percentage rates; the profile decides."""

_OF_THE_WHOLE: Final = word_set("total totals gesamt extended line final grand totale totaal insgesamt ttc ht")
"""Words that turn a unit price into a total: `total_price`."""

_VALUES: Final = word_set("value wert valeur valor valore waarde")
_OF_A_DEAL: Final = word_set(
    "order deal contract transaction invoice cart basket booking purchase claim opportunity gross net sales auftrag"
    " bestell auftrags warenkorb waren commande pedido"
)
"""Words that turn a value into an amount: `order_value`."""

_TOTALS: Final = word_set("total totals gesamt gesamtsumme grand tot")

_NEVER: Final = SHARE | word_set(
    # statistics
    "score scores rating ratings rank ranking index idx indicator average avg mean median std stdev"
    " stddev variance var min max minimum maximum percentile quantile zscore probability prob likelihood confidence"
    " factor faktor multiplier coefficient weighting propensity sentiment similarity"
    # Prices and costs of one unit, attributes of a period.
    " unit per each einzel einzelpreis stueckpreis unitario unitaire unitprice list msrp rrp retail"
    " standard annual monthly yearly weekly daily hourly quarterly salary salaries wage wages gehalt lohn salaire"
    " sueldo stipendio exchange fx kurs wechselkurs cambio conversion"
    # Balances, stocks, states.
    " balance balances bal saldo solde saldi kontostand bestand stand stock stocks inventory lager lagerbestand"
    " existencia existencias giacenza voorraad onhand hand available avail reserved backlog outstanding offen"
    " due owed owing unpaid remaining restant rest reste open opening closing starting ending beginning running"
    " cumulative cumulated kumuliert lifetime ltv clv ytd mtd qtd mrr arr acv aum nav equity headcount level levels"
    " exposure position positions capacity kapazitaet limit limits threshold quota target targets goal ziel plan"
    " planned forecast expected estimated estimate projected previous prior last latest current old new before after"
    # Numbers that order or identify.
    " id ids key number nummer numero num version revision priority prioritaet prioridad sort seq sequence ordinal"
    " step stage attempt iteration order_index page year years jahr annee ano anno month monat mois mes day days tag"
    " tage jour dia week woche semaine semana quarter quartal trimestre hour stunde heure hora minute second"
    " weekday dow doy fiscal period age alter edad eta"
    # Measurements of things and places.
    " latitude longitude lat lon lng long geo coordinate coordinates x y z altitude elevation height width depth length"
    " hoehe breite tiefe laenge size groesse weight gewicht poids peso temperature temperatur pressure voltage speed"
    " density area flaeche angle bmi zip zipcode plz postal postcode phone telefon fax ssn iban vat_id"
    # Times between events, which are averaged.
    " to since until from between ago lead lag latency delay overdue late early wait waiting response resolution"
    " resolve idle turnaround processing cycle"
    # settings
    " default flag is has allow enabled type kind code cd status class category"
)

_CHANGES: Final = word_set("change delta")
_LEVELS: Final = {
    **dict.fromkeys(("mrr", "arr", "acv", "balance", "saldo"), Additive.MONEY),
    **dict.fromkeys(("stock", "inventory", "headcount"), Additive.QUANTITY),
}
"""Words for levels, which are not additive, unlike changes to them: `mrr_delta`."""

_INVOICES: Final = word_set("invoice invoices bill bills rechnung rechnungen facture factures installment installments")
_ABSENCES: Final = word_set(
    "absence absences leave leaves vacation vacations rental rentals stay stays trip trips abwesenheit abwesenheiten"
    " urlaub"
)
"""Last words of tables whose rows have a duration in days, which is additive."""

_DAYS_SPENT: Final = word_set("absence leave sick vacation holiday worked working billed billable rental absent")
_MAILS: Final = word_set(
    "email emails mail mails send sends newsletter newsletters mailing mailings campaign campaigns"
)
"""Words for tables in which `open` means that a recipient opened a message."""

_COUNT_PREFIXES: Final = word_set("num number no nr nbr nb n anzahl cnt count nombre numero liczba")
"""First words that turn a name into a count of the things that follow: `num_items`, `number_of_guests`."""

_OF: Final = word_set("of de der von di van")
_ENDINGS: Final = tuple(
    sorted(
        {
            *(word for word in (*_MONEY, *_QUANTITY, *_AMOUNT_OR_RATE, *PRICE, *_VALUES, *_NEVER) if len(word) >= 4),
            *("amt", "qty", "pct", "cnt", "bal", "tot", "cost"),
        },
        key=lambda word: (-len(word), word),
    )
)
_WHOLE_WORDS: Final = word_set(
    "account accounts discount discounts country county mileage separate corporate estimate percentage subtotal"
    " average weekday weekdays accountid headcount template surcharge storage message package language manage"
)
"""Words that end in a vocabulary word but are not compounds of it."""

_FEWEST_AMOUNTS: Final = 30
"""The number of distinct values from which a discount or tax is an amount if some values exceed 1; rates have few."""


def additive(
    column: Column, profile: ColumnProfile | None, parts: tuple[str, ...] = (), table: tuple[str, ...] = ()
) -> AdditiveColumn | None:
    """Return what a sum of the column means, or None if it should not be summed.

    `parts`: the words of its name without a prefix of the table. `table`: the words of the table's name. `profile` is
    None if the column was not sampled; names alone then decide.
    """
    if column.type is not SemanticType.NUMBER or (profile is not None and not _varies(profile)):
        return None
    words = _joined(parts or tokens(column.name))
    kind = _kind_in_table(words, profile, table) or _kind(words, profile)
    if kind is None or (profile is not None and _is_share(profile)):
        return None
    return AdditiveColumn(kind, _unit(words))


def is_currency_column(column: Column) -> bool:
    """Return whether a column contains the currency of its row's amounts."""
    known = word_set("currency currencies ccy waehrung devise moneda divisa valuta moeda waluta")
    return column.type is SemanticType.STRING and any(word in known for word in tokens(column.name))


def is_unit(word: str) -> bool:
    """Return whether a word is a currency or a unit: `eur`, `cents`, `km`."""
    return word in CURRENCIES or word in _CURRENCY_WORDS or word in _UNITS


def names_money(word: str) -> bool:
    """Return whether a word by itself means money: `fee`, but not `line`."""
    return bool(_expanded((word,)) & (_MONEY | _AMOUNT_OR_RATE | PRICE | _VALUES | CURRENCIES))


@functools.lru_cache(maxsize=20_000)
def _expanded(words: tuple[str, ...]) -> frozenset[str]:
    """Return the words of a name, including the last parts of compounds: `gesamtbetrag` also gives `gesamt` and
    `betrag`.
    """
    found: set[str] = set()
    for word in words:
        found.add(word)
        if word in _WHOLE_WORDS or word in _MONEY | _QUANTITY | _DURATION | _AMOUNT_OR_RATE | PRICE | _NEVER:
            continue
        ending = next((each for each in _ENDINGS if word.endswith(each) and len(word) >= len(each) + 2), None)
        if ending is not None:
            found |= {ending, word.removesuffix(ending).rstrip("s") or ending, word.removesuffix(ending)}
    return frozenset(found)


def _kind_in_table(words: tuple[str, ...], profile: ColumnProfile | None, table: tuple[str, ...]) -> Additive | None:
    """Return the meaning of a name if it depends on several of its words or on the table's name."""
    if len(words) > 1 and words[-1] in _CHANGES and set(words[:-2]) <= {"net"}:
        return _LEVELS.get(words[-2])
    if words[-1] == "days" and (set(words[:-1]) & _DAYS_SPENT if words[:-1] else set(table[-1:]) & _ABSENCES):
        return Additive.DURATION
    if words in (("open", "count"), ("opens", "count")) and set(table) & _MAILS:
        return Additive.QUANTITY
    if words in (("amount", "due"), ("due", "amount"), ("total", "due")) and set(table[-1:]) & _INVOICES:
        # The amount due on an invoice drops to 0 once it is paid; the billed amount does not.
        billed = profile is not None and profile.minimum is not None and profile.minimum > 0
        return Additive.MONEY if billed else None
    return None


def _kind(words: tuple[str, ...], profile: ColumnProfile | None) -> Additive | None:
    counted = counted_words(words)
    if counted:
        known = _expanded(counted)
        return None if known & _NEVER or (len(counted) == 1 and counted[0] in vocabulary("key")) else Additive.QUANTITY
    known = _expanded(words)
    if known & _NEVER or words[-1] in vocabulary("key") - _QUANTITY:
        return None
    whole = bool(known & (_OF_THE_WHOLE | _TOTALS))
    if known & PRICE:
        return Additive.MONEY if whole else None
    if known & _AMOUNT_OR_RATE:
        return Additive.MONEY if known & word_set("amount amt betrag montant importe") or _is_amount(profile) else None
    if known & _DURATION:
        return Additive.DURATION
    if known & _QUANTITY:
        return Additive.QUANTITY
    if known & _MONEY or (known & _VALUES and known & _OF_A_DEAL) or known & CURRENCIES:
        return Additive.MONEY
    return Additive.MONEY if words[-1] in _TOTALS else None


def _joined(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with `page views` as one word, because `page` alone means a number."""
    pairs = {("page", "views"): "pageviews", ("page", "view"): "pageview"}
    for place in range(len(words) - 1):
        if (word := pairs.get((words[place], words[place + 1]))) is not None:
            return (*words[:place], word, *words[place + 2 :])
    return words


def counted_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a name that begins with a word such as `num` counts; empty for other names."""
    if len(words) < 2 or words[0] not in _COUNT_PREFIXES:
        return ()
    rest = words[2:] if len(words) > 2 and words[1] in _OF else words[1:]
    plural = rest[-1].endswith(("s", "n", "en", "i")) or words[1] in _OF
    return rest if plural else ()


def _varies(profile: ColumnProfile) -> bool:
    numeric = profile.kind in (ValueKind.INTEGER, ValueKind.NUMBER)
    return numeric and profile.problem is None and (profile.distinct is None or profile.distinct > 1)


def _is_share(profile: ColumnProfile) -> bool:
    """Return whether all values are fractions between 0 and 1, which makes the column a share, whatever its name."""
    if profile.kind is not ValueKind.NUMBER:
        return False
    low, high = profile.minimum, profile.maximum
    return low is not None and high is not None and low >= 0 and high <= 1


def _is_amount(profile: ColumnProfile | None) -> bool:
    """Return whether a discount or tax is an amount: it has many distinct values, some above 1."""
    if profile is None or profile.maximum is None or profile.distinct is None:
        return False
    many = profile.distinct > _FEWEST_AMOUNTS
    return profile.maximum > 100 or (many and profile.maximum > 1 and profile.kind is ValueKind.NUMBER)


def _unit(words: Iterable[str]) -> str | None:
    for word in words:
        if word in CURRENCIES:
            return word.upper()
        unit = _CURRENCY_WORDS.get(word) or _UNITS.get(word)
        if unit is not None:
            return unit
    return None
