"""Contact and payment data of persons in running text, and what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.privacy.personal import personal_data

EMAIL = "a person's e-mail address"
PHONE = "a phone number"
IBAN = "a bank account number (IBAN)"
CARD = "a payment card number"
STREET = "a street address"


@pytest.mark.table(
    ("text", "kind", "value"),
    [
        ("Ask jane.doe@acme.com about it.", EMAIL, "jane.doe@acme.com"),
        ("Owner: <m.mueller@acme.co.uk>", EMAIL, "m.mueller@acme.co.uk"),
        ("(jsmith@acme.io)", EMAIL, "jsmith@acme.io"),
        ("mailto:tom_baker@acme.de", EMAIL, "tom_baker@acme.de"),
        ("Jörg.Weiß@acme.de decides.", EMAIL, "Jörg.Weiß@acme.de"),
        ("o'neil@acme.com,", EMAIL, "o'neil@acme.com"),
        ("maria+erp@acme.com", EMAIL, "maria+erp@acme.com"),
        ("sarah.finance@acme.com", EMAIL, "sarah.finance@acme.com"),
        ("hr.mueller@acme.com", EMAIL, "hr.mueller@acme.com"),
        ("`kowalski@acme.pl`", EMAIL, "kowalski@acme.pl"),
        ("| anna@acme.com | 3 |", EMAIL, "anna@acme.com"),
        ("IBAN DE89 3704 0044 0532 0130 00", IBAN, "DE89 3704 0044 0532 0130 00"),
        ("DE89370400440532013000 BIC COBADEFF", IBAN, "DE89370400440532013000"),
        ("GB29 NWBK 6016 1331 9268 19.", IBAN, "GB29 NWBK 6016 1331 9268 19"),
        ("Pay to FR14 2004 1010 0505 0001 3M02 606", IBAN, "FR14 2004 1010 0505 0001 3M02 606"),
        ("NL91ABNA0417164300", IBAN, "NL91ABNA0417164300"),
        ("CH93-0076-2011-6238-5295-7", IBAN, "CH93-0076-2011-6238-5295-7"),
        ("Card 4111 1111 1111 1111 was", CARD, "4111 1111 1111 1111"),
        ("5500000000000004", CARD, "5500000000000004"),
        ("3782 822463 10005", CARD, "3782 822463 10005"),
        ("6011-1111-1111-1117", CARD, "6011-1111-1111-1117"),
        ("3056 930902 5904", CARD, "3056 930902 5904"),
        ("+49 30 1234567", PHONE, "+49 30 1234567"),
        ("Call +49 (0)171 123 45 67.", PHONE, "+49 (0)171 123 45 67"),
        ("+44 20 7946 0958", PHONE, "+44 20 7946 0958"),
        ("+1-415-555-0132", PHONE, "+1-415-555-0132"),
        ("+1 (415) 555-0132", PHONE, "+1 (415) 555-0132"),
        ("+491711234567", PHONE, "+491711234567"),
        ("tel:+33142685300", PHONE, "+33142685300"),
        ("+33 1 42 68 53 00", PHONE, "+33 1 42 68 53 00"),
        ("0049 30 1234567", PHONE, "0049 30 1234567"),
        ("(415) 555-0132", PHONE, "(415) 555-0132"),
        ("415-555-0132", PHONE, "415-555-0132"),
        ("415.555.0132", PHONE, "415.555.0132"),
        ("(030) 1234567", PHONE, "(030) 1234567"),
        ("0171/1234567", PHONE, "0171/1234567"),
        ("030 / 123 45 67", PHONE, "030 / 123 45 67"),
        ("0171 1234567", PHONE, "0171 1234567"),
        ("030-12345678", PHONE, "030-12345678"),
        ("020 7946 0958", PHONE, "020 7946 0958"),
        ("07700 900123", PHONE, "07700 900123"),
        ("01 42 68 53 00", PHONE, "01 42 68 53 00"),
        ("Tel. 12345-67", PHONE, "12345-67"),
        ("**Phone:** 555 0132", PHONE, "555 0132"),
        ("Fax: 9876 543210", PHONE, "9876 543210"),
        ("Bahnhofstraße 12", STREET, "Bahnhofstraße 12"),
        ("in der Hauptstr. 5a, Köln", STREET, "Hauptstr. 5a"),
        ("Lange Straße 7", STREET, "Lange Straße 7"),
        ("Berliner Allee 101", STREET, "Berliner Allee 101"),
        ("Marktplatz 4, 80331 München", STREET, "Marktplatz 4, 80331 München"),
        ("Am Lerchenweg 3\n12345 Berlin", STREET, "Lerchenweg 3\n12345 Berlin"),
        ("He lives at 221B Baker Street.", STREET, "221B Baker Street"),
        ("1600 Pennsylvania Avenue NW", STREET, "1600 Pennsylvania Avenue"),
        ("12 Main St, Springfield", STREET, "12 Main St"),
        ("48 N. Oak Grove Rd.", STREET, "48 N. Oak Grove Rd."),
        ("12 rue de Rivoli, Paris", STREET, "12 rue de Rivoli"),
        ("5 bis avenue des Champs", STREET, "5 bis avenue des Champs"),
        ("Calle Mayor 5", STREET, "Calle Mayor 5"),
        ("Prinsengracht 263", STREET, "Prinsengracht 263"),
    ],
)
def test_data_of_persons_is_found(text: str, kind: str, value: str) -> None:
    (spot,) = personal_data(text)
    assert (spot.code, spot.message, text[spot.at : spot.at + spot.length]) == ("personal_data", kind, value)


@pytest.mark.table(
    "text",
    [
        "finance@acme.com, support@acme.io and data-team@acme.com",
        "Write to it@acme.com, hr.emea@acme.com or ap-invoices@acme.de.",
        "no-reply@acme.com, postmaster@acme.com, git@github.com:acme/dbt.git",
        "jane.doe@example.com, ada@shop.example, bob@mail.example.org, x@localhost.local",
        "firstname.lastname@acme.com, <name>@acme.com, {first}.{last}@acme.com, *@acme.com, %@acme.com",
        "npm install pkg@1.2.3, actions/checkout@v4, @dbt.model, image@sha256:ab12",
        "https://user@host.acme.com/x and postgres://reader@db.acme.com/x",
        "90 days, 48 hours, 200 euros, WELCOME10, 900001-900060",
        "4,211 orders, 1,200,000 rows, 1.200.000 Zeilen, 12 345 678 rows",
        "2026-01-31, 31.01.2026, 01/31/2026, 01-02-2026 and 2026-01-31T10:45:00Z",
        "05 12 2026 1400, 01.02.2026 10:30, 2026/01/31",
        "Version 1.2.3, 10.15.7, v2026.1.31, 3.11.14",
        "Order 100000123456, order 4711-0815, SKU 0123-4567-89, invoice 001/2024",
        "10.0.0.1, 192.168.100.100, 255.255.255.0",
        "+12 %, +1,000,000, +1 000 000, +100 000 000 EUR, + 3.5 points",
        "Accounts 0400 0410 0420 0480, cost centres 0100-2000-3000",
        "0101 21 00 90 is a customs code; 01067 01069 01097 are postcodes.",
        "UTC+01:00, 09:30-17:45, 0900-1700",
        "978-3-16-148410-0, 0-306-40615-2",
        "550e8400-e29b-41d4-a716-446655440000, 04c408984469dd39",
        "1700000000, 1700000000000, 20260131104500, 1700000000000000",
        "4006381333931, 1234567812345678, 4111 1111 1111 1112, 0000 0000 0000 0000",
        "16 digits: 9999999999999999; #415-555-0132; amount 4111.1111",
        "DE12 3456 is a prefix, DE89 3704 0044 0532 0130 01 is none, AB12CDEF34567890ABCD",
        "DE2026Q1, US1234567890, FR99 ABCD",
        "0800 123 4567, +49 800 1234567, 1-800-555-0132, +1 888 555 0132",
        "phone 15000 orders, mobile 1200 4500, call 123456 times, WhatsApp: 1500000 messages",
        "Phone: 1.200.000 orders. Fax 2026-01-31. Tel. 2026",
        "columns phone_number, email, iban, street_address and `customers.email`",
        "between 100 and 200, 3-5-7, 1/2/3, 2024/25",
        "Top 5 Street markets; a two-way street; Wall Street analysts; 2025 High Street sales",
        "Platz 1 von 10, Vertriebsweg 10, Ring 3, Arbeitsplatz 2, der beste Weg 2",
        "Fertigungsstraße 3, Montagestraße 12, Instr. 12, Sackgasse 1",
        "5 Google Drive folders, 3 Chi Square tests, 2 Supreme Court rulings, 10 Month End Close",
        "2 Termine bei Dr. Meier, 3 Lines of Business, 12 St. Petersburg stores",
        "step 3 Drive growth; 1 Road map",
        "rue, avenue and boulevard are kinds of streets; in 2024 avenue sales",
        "Straße 3 ist ein Feld; Straßen 12; 12 Hauptstraßen",
        "SELECT * FROM a WHERE id BETWEEN 900001 AND 900060 AND price > 100.50",
        "[0171] 12, (2026) 12, 1 2 3 4 5 6 7 8 9 10",
        "0.123456789, -0.5, 1e-10, 00:00, 00123",
        "line 1\nline 2\n3\n4\n",
        "",
    ],
)
def test_what_only_looks_like_it_is_none(text: str) -> None:
    assert [(spot.message, text[spot.at : spot.at + spot.length]) for spot in personal_data(text)] == []


def test_several_are_found_in_their_order() -> None:
    text = "Jane: jane@acme.com, 0171 1234567\nOffice: Hauptstr. 5\n"
    assert [spot.message for spot in personal_data(text)] == [EMAIL, PHONE, STREET]
    assert [text.count("\n", 0, spot.at) for spot in personal_data(text)] == [0, 0, 1]


@given(st.text(alphabet=st.sampled_from("0123456789 +-/().@aeiM.ßStr\n"), max_size=200) | st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    end = 0
    for spot in personal_data(text):
        assert end <= spot.at < spot.at + spot.length <= len(text)
        end = spot.at + spot.length


@pytest.mark.table(
    "piece", ["0171 ", "1-", "a@", "a.", "(0", "+1 ", "4111 ", "DE89 ", "Hauptstr", "12 Main ", "Aa ", "A", "0"]
)
def test_long_texts_take_no_longer_than_they_should(piece: str) -> None:
    assert isinstance(list(personal_data(piece * (60_000 // len(piece)))), list)
