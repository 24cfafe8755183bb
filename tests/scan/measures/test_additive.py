"""Which columns may be summed, by name, type and profile."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.measures.additive import additive, is_currency_column
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.warehouses import Column, SemanticType

NUMBER, MONEY, QUANTITY, DURATION = SemanticType.NUMBER, "money", "quantity", "duration"


def column(name: str, type: SemanticType = NUMBER) -> Column:
    return Column(name, type.value, type)


def profile(low: Any, high: Any, distinct: int = 200, kind: ValueKind = ValueKind.NUMBER) -> ColumnProfile:
    return ColumnProfile("x", kind, 1_000, distinct=distinct, minimum=low, maximum=high)


WIDE = profile(0.5, 5_000.0)

SUMMED = {
    MONEY: (
        "amount amt net_amount amount_eur total total_price totalprice o_totalprice extendedprice grand_total subtotal"
        " revenue net_revenue gross_profit sales umsatz betrag gesamtbetrag rechnungsbetrag netto brutto montant"
        " montant_ttc prix_total importe importo cost shipping_cost kosten versandkosten fee payment_fee gebuehr frais"
        " refund_amount amount_refunded amount_paid payments freight tip_amount bonus discount_amount tax_amount"
        " order_value contract_value deal_value gesamtpreis LineTotal AmountCharged spend ad_spend expenses"
        " debit credit income kwota bedrag budget"
    ),
    QUANTITY: (
        "quantity qty Qty order_qty orderqty menge bestellmenge anzahl quantite cantidad quantita aantal ilosc antal"
        " item_count items_cnt num_items number_of_guests no_of_pieces units_sold units clicks impressions downloads"
        " nb_articles distance_km nights passengers tokens parcels page_views pageviews api_calls reply_count"
    ),
    DURATION: "duration_minutes call_seconds hours_worked dauer duree minutes overtime_hours duracion",
}

NEVER_SUMMED = (
    # keys and codes
    "id order_id customer_no kundennummer invoice_number code account_code sku_id tax_id amount_id zip zipcode plz"
    " phone"
    # rates and shares
    " rate tax_rate discount_rate discount_pct conversion_rate steuersatz rabattsatz taux_tva share margin_percent"
    " ratio"
    " exchange_rate fx_rate wechselkurs probability win_probability score credit_score rating rank average_order_value"
    " avg_amount median_cost max_amount min_qty"
    # prices and costs of one unit, attributes of a period
    " price unit_price unitprice list_price preis einzelpreis prix prix_unitaire precio prezzo unit_cost cost_per_click"
    " standard_cost hourly_rate monthly_fee annual_revenue salary gehalt"
    # balances and stocks
    " balance account_balance acctbal saldo solde kontostand bestand lagerbestand units_in_stock on_hand qty_on_hand"
    " available_qty availqty outstanding_amount amount_due open_amount remaining_units opening_amount mrr arr"
    " lifetime_value cumulative_revenue revenue_ytd headcount credit_limit quota target_amount forecast_amount"
    " previous_amount last_payment_amount"
    # ordinals, times, measurements
    " line_number position sort_order sequence version priority step year month day week quarter fiscal_year age alter"
    " birth_year jahr latitude longitude lat lng height_cm weight temperature hours_to_close days_since_order"
    " days_overdue lead_time_days wait_seconds first_response_minutes resolution_hours idle_minutes page"
    # nothing says what it counts
    " value flag is_paid status x column_7 preferences"
)

NAMES = [(name, kind) for kind, names in SUMMED.items() for name in names.split()]
NAMES += [(name, None) for name in NEVER_SUMMED.split()]


@pytest.mark.table(("name", "kind"), NAMES)
def test_a_name_decides_what_is_summed(name: str, kind: str | None) -> None:
    found = additive(column(name), WIDE)
    assert (None if found is None else found.kind.value) == kind


def test_the_table_is_large() -> None:
    assert len(NAMES) > 160 and len({name for name, _ in NAMES}) == len(NAMES)


@pytest.mark.table(
    ("name", "seen", "summed"),
    [
        ("discount", profile(0.0, 0.25, 11), False),
        ("discount", profile(0, 25, 6, ValueKind.INTEGER), False),
        ("discount", profile(0.0, 812.5, 300), True),
        ("tax", profile(0.0, 19.0, 3), False),
        ("tax", profile(0.02, 61.4, 400), True),
        ("margin", profile(0.1, 0.6, 300), False),
        ("rabatt", profile(0.0, 450.0, 90), True),
        ("amount", profile(0.0, 1.0, 90), False),
        ("amount", profile(3, 3, 1, ValueKind.INTEGER), False),
        ("amount", profile("a", "b", 9, ValueKind.TEXT), False),
        ("amount", profile(None, None, 0, ValueKind.EMPTY), False),
        ("quantity", profile(1, 12, 12, ValueKind.INTEGER), True),
        ("amount", profile(-50.0, 900.0, 90), True),
    ],
)
def test_the_profile_decides_between_amounts_and_rates(name: str, seen: ColumnProfile, summed: bool) -> None:
    assert (additive(column(name), seen) is not None) is summed


@pytest.mark.table(
    ("name", "unit"),
    [
        ("amount_eur", "EUR"),
        ("revenue_usd", "USD"),
        ("cost_in_euros", "EUR"),
        ("duration_minutes", "minutes"),
        ("call_secs", "seconds"),
        ("distance_km", "km"),
        ("fee_cents", "cents"),
        ("amount", None),
    ],
)
def test_a_unit_is_what_the_name_states(name: str, unit: str | None) -> None:
    found = additive(column(name), WIDE)
    assert found is not None and found.unit == unit


@pytest.mark.table("type", [SemanticType.STRING, SemanticType.TIME, SemanticType.BOOLEAN])
def test_only_numbers_are_summed(type: SemanticType) -> None:
    assert additive(column("amount", type), None) is None


@pytest.mark.table(
    ("name", "type", "is_currency"),
    [
        ("currency", SemanticType.STRING, True),
        ("order_currency_code", SemanticType.STRING, True),
        ("waehrung", SemanticType.STRING, True),
        ("currency_id", SemanticType.NUMBER, False),
        ("country", SemanticType.STRING, False),
    ],
)
def test_currency_columns(name: str, type: SemanticType, is_currency: bool) -> None:
    assert is_currency_column(column(name, type)) is is_currency
