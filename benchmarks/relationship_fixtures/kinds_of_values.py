"""What the values of an attribute look like, told from its name."""

from __future__ import annotations

_KINDS = {
    "label": "name title label subject headline brand",
    "first_name": "first_name middle_name",
    "last_name": "last_name surname",
    "person": "full_name contact_name author_name",
    "email": "email",
    "phone": "phone mobile fax",
    "url": "url website link avatar",
    "street": "street address_line",
    "city": "city_name town district",
    "zip": "zip postal_code",
    "money": "price amount total cost freight fee salary balance limit budget premium tax subtotal revenue deposit fine"
    " payout charge rent wage commission value credit debit",
    "quantity": "quantity stock ordered received shipped reserved points units seats capacity beds pages",
    "count": "count views likes clicks visits attempts goals minutes_played passengers copies attendees",
    "small": "level priority grade severity stars rank tier floor gate lap round set dose guests rooms copies_left",
    "sequence": "position sequence sort_order step version revision turn",
    "percent": "percent discount rate margin share probability tax_rate interest",
    "float": "weight height length width depth volume distance temperature score speed area thickness pressure"
    " consumption reading mileage humidity power",
    "coordinate": "latitude longitude",
    "year": "year season_year model_year vintage",
    "month": "month fiscal_period",
    "duration": "duration minutes hours days seconds age",
    "date": "date day birthday deadline",
    "timestamp": "at time timestamp moment started ended",
    "flag": "active deleted flag paid enabled verified locked default approved public closed mandatory",
    "status": "status type category state kind stage gender method channel size color colour mode reason language_name"
    " outcome class",
    "text": "description notes comment remark body text message instructions summary address content",
    "code": "code symbol sku isbn barcode plate abbreviation iban vin swift",
    "number": "number reference_number serial_number document_number",
    "json": "payload settings metadata properties",
    "hash": "checksum token password fingerprint",
    "ip": "ip",
}
_KIND_OF_WORD = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_DATED = ("_date", "_on", "_from", "_until", "_to")


def kind_of(name: str) -> str:
    """Return the kind of values: that of the whole name, else of its last words, else `label`."""
    if name.startswith(("is_", "has_")):
        return "flag"
    parts = name.split("_")
    for start in range(len(parts)):
        kind = _KIND_OF_WORD.get("_".join(parts[start:]))
        if kind is not None:
            return kind
    return "date" if name.endswith(_DATED) else "label"
