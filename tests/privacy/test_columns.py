"""Which columns may be listed value by value, and which hold what nobody should see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.privacy.columns import ValueKind, refusal, sign_of_name, split_name
from ktx_cli.privacy.signs import Sign, is_card, is_iban, sign_of

KEPT = [
    ("orders", "status", ["paid", "open", "cancelled"]),
    ("orders", "order_status", ["PAID", "OPEN"]),
    ("orders", "status_code", ["A", "B", "X9"]),
    ("orders", "channel", ["web", "store", "phone"]),
    ("orders", "payment_method", ["card", "invoice", "Apple Pay"]),
    ("orders", "currency", ["EUR", "USD", "JPY"]),
    ("orders", "priority", ["1-URGENT", "2-HIGH", "5-LOW"]),
    ("customers", "country", ["Germany", "United States", "Jordan", "Côte d'Ivoire"]),
    ("customers", "country_code", ["DE", "US"]),
    ("customers", "city", ["Berlin", "New York", "San Francisco", "Victoria", "Paris", "St. Louis"]),
    ("customers", "segment", ["BUILDING", "AUTOMOBILE", "HOUSEHOLD"]),
    ("customers", "plan", ["free", "pro", "enterprise (annual)"]),
    ("customers", "email_status", ["verified", "bounced"]),
    ("customers", "email_domain", ["example.com", "example.org"]),
    ("customers", "phone_type", ["home", "mobile"]),
    ("customers", "address_type", ["billing", "shipping"]),
    ("customers", "company_size", ["1-10", "11-50", "51-200", "201-500", "501-1000", "1001-5000", "10,000+"]),
    ("customers", "age_band", ["<18", "18-24", "[25-34)", "65+", ">80"]),
    ("customers", "preferred_language", ["de", "pt-BR"]),
    ("customers", "card_type", ["Visa", "Mastercard"]),
    ("customers", "card_type_code", ["VI", "MC"]),
    ("customers", "newsletter_opt_in", ["yes", "no"]),
    ("products", "category", ["Books", "Home & Garden", "Sports"]),
    ("products", "category_name", ["Books", "Home & Garden"]),
    ("products", "product_name", ["Desk lamp 40 W", "Chair Mark II", "Chair Mark III"]),
    ("products", "colour", ["red", "Rose", "Amber", "navy blue"]),
    ("products", "size", ["S", "M", "XXL", "42", "30x40 cm"]),
    ("products", "brand", ["Acme", "Jack & Co", "Dr. Oetker"]),
    ("products", "model", ["A-100", "B-200/5", "2024 V2"]),
    ("products", "version", ["1.0", "2.3.1", "10.2"]),
    ("categories", "name", ["Rock", "Jazz", "Hip Hop/Rap", "R&B/Soul"]),
    ("genres", "Name", ["Drama", "Sci Fi & Fantasy", "TV Shows"]),
    ("employees", "department", ["Human Resources", "R&D", "Sales EMEA"]),
    ("employees", "job_title", ["Sales Support Agent", "IT Manager", "General Manager"]),
    ("employees", "team", ["north", "south"]),
    ("regions", "region_name", ["North", "Rhine-Ruhr", "Nouvelle-Aquitaine"]),
    ("calendar", "weekday_name", ["Monday", "Tuesday"]),
    ("calendar", "month_name", ["January", "April", "May", "June", "August"]),
    ("calendar", "fiscal_quarter", ["2024-Q1", "2024-Q2"]),
    ("calendar", "fiscal_year", ["2023-2024", "2024-2025", "2024/25"]),
    ("calendar", "month", ["2024-01", "2024-12"]),
    ("flights", "airport_code", ["TXL", "JFK"]),
    ("stations", "line", ["U8", "S41", "M10"]),
    ("incoterms", "code", ["DAP", "FOB"]),
    ("incoterms", "meaning", ["Delivered at place", "Free on board"]),
    ("tickets", "resolution", ["Waiting for the customer's reply", "Solved by support"]),
    ("tickets", "topic", ["delivery", "billing", "login problem"]),
    ("tickets", "reason", ["damaged in transit", "wrong item"]),
    ("logs", "level", ["INFO", "WARN"]),
    ("logs", "event_type", ["OrderPlacedV2EventHandler", "customer_registration_completed"]),
    ("logs", "mime", ["text/html", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"]),
    ("logs", "http_status", ["200", "404", "503"]),
    ("devices", "os", ["Windows 10", "macOS 14.2", "Android"]),
    ("devices", "ip_version", ["4", "6"]),
    ("auth", "token_type", ["bearer", "refresh"]),
    ("auth", "hash_algorithm", ["argon2", "bcrypt"]),
    ("bestellungen", "Zahlungsart", ["Rechnung", "Lastschrift"]),
    ("kunden", "Kundengruppe", ["Privat", "Gewerbe"]),
    ("kunden", "Adressart", ["Rechnung", "Lieferung"]),
    ("artikel", "Farbe", ["rot", "grün", "weiß"]),
    ("clients", "statut", ["actif", "résilié"]),
    ("clients", "type_adresse", ["facturation", "livraison"]),
    ("categories", "nom", ["Livres", "Maison"]),
    ("clientes", "tipo_telefono", ["fijo", "móvil"]),
    ("clientes", "pais", ["España", "México"]),
    ("clienti", "stato_ordine", ["aperto", "chiuso"]),
    ("pedidos", "situacao", ["aberto", "fechado"]),
    ("klanten", "soort_adres", ["werk", "thuis"]),
    ("zamowienia", "rodzaj_platnosci", ["karta", "przelew"]),
    ("заказы", "статус", ["оплачен", "новый"]),
    ("订单", "状态", ["已付款", "未付款"]),
]  # fmt: skip

BY_NAME = [
    ("customers", "email", Sign.EMAIL),
    ("customers", "EmailAddress", Sign.EMAIL),
    ("kunden", "E-Mail", Sign.EMAIL),
    ("clients", "courriel", Sign.EMAIL),
    ("clientes", "correo_electronico", Sign.EMAIL),
    ("clienti", "indirizzo_email", Sign.EMAIL),
    ("klienci", "poczta", Sign.EMAIL),
    ("пользователи", "почта", Sign.EMAIL),
    ("users", "メール", Sign.EMAIL),
    ("users", "邮箱", Sign.EMAIL),
    ("customers", "phone", Sign.PHONE),
    ("customers", "work_tel", Sign.PHONE),
    ("customers", "MobileNumber", Sign.PHONE),
    ("kunden", "Telefonnummer", Sign.PHONE),
    ("clients", "téléphone", Sign.PHONE),
    ("clientes", "teléfono_móvil", Sign.PHONE),
    ("clienti", "telefono", Sign.PHONE),
    ("clientes", "celular", Sign.PHONE),
    ("klanten", "telefoonnummer", Sign.PHONE),
    ("klienci", "telefon", Sign.PHONE),
    ("клиенты", "телефон", Sign.PHONE),
    ("customers", "first_name", Sign.NAME),
    ("customers", "LASTNAME", Sign.NAME),
    ("customers", "name", Sign.NAME),
    ("Employees", "Name", Sign.NAME),
    ("orders", "customer_name", Sign.NAME),
    ("orders", "nameOfCustomer", Sign.NAME),
    ("orders", "sales_rep", Sign.NAME),
    ("orders", "created_by", Sign.NAME),
    ("orders", "assigned_to", Sign.NAME),
    ("books", "author", Sign.NAME),
    ("users", "username", Sign.NAME),
    ("kunden", "Nachname", Sign.NAME),
    ("bestellungen", "Kunden_Name", Sign.NAME),
    ("clients", "prénom", Sign.NAME),
    ("commandes", "nom_client", Sign.NAME),
    ("pedidos", "nombre_del_cliente", Sign.NAME),
    ("clientes", "apellidos", Sign.NAME),
    ("clienti", "cognome", Sign.NAME),
    ("clientes", "sobrenome", Sign.NAME),
    ("klanten", "achternaam", Sign.NAME),
    ("klienci", "nazwisko", Sign.NAME),
    ("клиенты", "фамилия", Sign.NAME),
    ("客户", "姓名", Sign.NAME),
    ("customers", "street", Sign.ADDRESS),
    ("customers", "address_line_2", Sign.ADDRESS),
    ("customers", "postal_code", Sign.ADDRESS),
    ("customers", "BillingZip", Sign.ADDRESS),
    ("kunden", "Straße", Sign.ADDRESS),
    ("kunden", "PLZ", Sign.ADDRESS),
    ("clients", "code_postal", Sign.ADDRESS),
    ("clientes", "dirección", Sign.ADDRESS),
    ("clienti", "indirizzo", Sign.ADDRESS),
    ("clientes", "endereço", Sign.ADDRESS),
    ("klanten", "straatnaam", Sign.ADDRESS),
    ("klienci", "ulica", Sign.ADDRESS),
    ("patients", "date_of_birth", Sign.BIRTH),
    ("patients", "DOB", Sign.BIRTH),
    ("patients", "birthYear", Sign.BIRTH),
    ("patienten", "Geburtsdatum", Sign.BIRTH),
    ("patients", "date_naissance", Sign.BIRTH),
    ("pacientes", "fecha_nacimiento", Sign.BIRTH),
    ("pazienti", "data_di_nascita", Sign.BIRTH),
    ("pacientes", "data_nascimento", Sign.BIRTH),
    ("patienten", "geboortedatum", Sign.BIRTH),
    ("pacjenci", "data_urodzenia", Sign.BIRTH),
    ("accounts", "IBAN", Sign.BANK),
    ("payments", "credit_card_number", Sign.BANK),
    ("konten", "Kontonummer", Sign.BANK),
    ("pagos", "numero_tarjeta", Sign.BANK),
    ("employees", "ssn", Sign.NATIONAL),
    ("companies", "tax_id", Sign.NATIONAL),
    ("mitarbeiter", "Steuernummer", Sign.NATIONAL),
    ("employes", "numero_securite_sociale", Sign.NATIONAL),
    ("clientes", "DNI", Sign.NATIONAL),
    ("clienti", "codice_fiscale", Sign.NATIONAL),
    ("clientes", "cpf", Sign.NATIONAL),
    ("klanten", "bsn", Sign.NATIONAL),
    ("klienci", "PESEL", Sign.NATIONAL),
    ("travellers", "passport_no", Sign.NATIONAL),
    ("users", "password_hash", Sign.SECRET),
    ("benutzer", "Passwort", Sign.SECRET),
    ("utilisateurs", "mot_de_passe", Sign.SECRET),
    ("usuarios", "contraseña", Sign.SECRET),
    ("uzytkownicy", "hasło", Sign.SECRET),
    ("sessions", "refreshToken", Sign.SECRET),
    ("integrations", "api_key", Sign.SECRET),
    ("sessions", "ip", Sign.NETWORK),
    ("sessions", "client_ip_address", Sign.NETWORK),
    ("orders", "ShipAddress", Sign.ADDRESS),
    ("sessions", "user_agent", Sign.NETWORK),
    ("stores", "lat", Sign.PLACE),
    ("stores", "geo_longitude", Sign.PLACE),
    ("pages", "url", Sign.URL),
    ("customers", "homepage", Sign.URL),
    ("tickets", "comment", Sign.TEXT),
    ("tickets", "user_status_comment", Sign.TEXT),
    ("tickets", "Bemerkung", Sign.TEXT),
    ("tickets", "notas", Sign.TEXT),
    ("tickets", "commentaire", Sign.TEXT),
    ("orders", "id", Sign.IDENTIFIER),
    ("orders", "customer_id", Sign.IDENTIFIER),
    ("orders", "CustomerID", Sign.IDENTIFIER),
    ("orders", "date_key", Sign.IDENTIFIER),
    ("orders", "status_id", Sign.IDENTIFIER),
    ("pedidos", "id_producto", Sign.IDENTIFIER),
]

BY_VALUE = [
    ("ada@example.com", Sign.EMAIL),
    ("Ada Lovelace <ada@example.co.uk>", Sign.EMAIL),
    ("https://example.com/u/7", Sign.URL),
    ("www.example.com", Sign.URL),
    ("+49 30 1234567", Sign.PHONE),
    ("(415) 555-0123", Sign.PHONE),
    ("415.555.0123", Sign.PHONE),
    ("555-0123", Sign.PHONE),
    ("06 12 34 56 78", Sign.PHONE),
    ("030/1234567", Sign.PHONE),
    ("4111 1111 1111 1111", Sign.BANK),
    ("378282246310005", Sign.BANK),
    ("DE89 3704 0044 0532 0130 00", Sign.BANK),
    ("GB82WEST12345698765432", Sign.BANK),
    ("078-05-1120", Sign.NATIONAL),
    ("123.456.789-09", Sign.NATIONAL),
    ("RSSMRA85T10A562S", Sign.NATIONAL),
    ("12345678Z", Sign.NATIONAL),
    ("AB 12 34 56 C", Sign.NATIONAL),
    ("C01234567", Sign.NATIONAL),
    ("192.168.2.14", Sign.NETWORK),
    ("10.0.0.0/8", Sign.NETWORK),
    ("2001:db8::8a2e:370:7334", Sign.NETWORK),
    ("00:1B:44:11:3A:B7", Sign.NETWORK),
    ("123e4567-e89b-12d3-a456-426614174000", Sign.IDENTIFIER),
    ("98481123", Sign.IDENTIFIER),
    ("order 4711234", Sign.IDENTIFIER),
    ("52.5200, 13.4050", Sign.PLACE),
    ("1980-02-29", Sign.DATE),
    ("29.02.1980", Sign.DATE),
    ("1980-02-29T10:00:00Z", Sign.DATE),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", Sign.SECRET),
    ("d41d8cd98f00b204e9800998ecf8427e", Sign.SECRET),
    ("sk-" + "proj-" + "abcdefghijklmnop", Sign.SECRET),
    ("kX9vT2mQ7pL4wZ8r", Sign.SECRET),
    ("$2b$12$abcdefghijklmnopqrstuu", Sign.SECRET),
    ("12 Baker Street", Sign.ADDRESS),
    ("Hauptstraße 5a", Sign.ADDRESS),
    ("3 bis, rue de la Paix", Sign.ADDRESS),
    ("Calle Mayor 12", Sign.ADDRESS),
    ("Via Roma, 7", Sign.ADDRESS),
    ("ul. Długa 3", Sign.ADDRESS),
    ("Keizersgracht 120", Sign.ADDRESS),
    ("please call back\ntomorrow", Sign.TEXT),
    ('{"name": "Ada"}', Sign.TEXT),
    ("[1, 2]", Sign.TEXT),
    ("<p>Ada</p>", Sign.TEXT),
    ("x" * 101, Sign.TEXT),
    ("the parcel was left with a neighbour who does not know the man at all", Sign.TEXT),
]


@pytest.mark.table(("table", "column", "values"), KEPT)
def test_an_honest_lookup_is_kept(table: str, column: str, values: list[str]) -> None:
    assert refusal(table, column, ValueKind.TEXT, values) is None


@pytest.mark.table(("table", "column", "sign"), BY_NAME)
def test_a_name_tells(table: str, column: str, sign: Sign) -> None:
    assert sign_of_name(table, column) is sign
    assert str(refusal(table, column, ValueKind.TEXT, ["x"])) == f"{sign.value} (by name)"


@pytest.mark.table(("value", "sign"), BY_VALUE)
def test_one_value_drops_the_column(value: str, sign: Sign) -> None:
    found = refusal("orders", "channel", ValueKind.TEXT, ["web", "store", value, "other"])
    assert str(found) == f"{sign.value} (by value)"


@pytest.mark.table(
    "values",
    [
        ["Anna Schmidt", "Ben Ode", "Maria Rossi"],
        ["SMITH, JOHN", "DOE, MARY"],
        ["anna schmidt", "maria rossi", "web"],
        ["John", "Mary", "Peter", "Zed"],
        ["Katarzyna Nowak", "Piotr Kowalski"],
        ["José García", "Carmen Ruiz"],
    ],
)
def test_names_of_persons_are_told_by_several_of_them(values: list[str]) -> None:
    assert str(refusal("orders", "handled", ValueKind.TEXT, values)) == "name of a person (by value)"


def test_texts_of_many_words_are_free_text() -> None:
    values = ["he called us twice about the lamp", "she never got the second parcel at all"]
    assert str(refusal("tickets", "summary", ValueKind.TEXT, values)) == "free text (by value)"


def test_dates_are_told_only_where_nothing_else_is() -> None:
    found = refusal("orders", "placed", ValueKind.TEXT, ["2024-01-31", "2024-02-29", "ada@example.com"])
    assert str(found) == "e-mail address (by value)"
    assert found is not None
    assert found.personal
    dates = refusal("orders", "placed", ValueKind.TEXT, ["2024-01-31", "2024-02-29"])
    assert dates is not None
    assert not dates.personal


@pytest.mark.table(
    ("column", "kind", "values", "kept"),
    [
        ("email_verified", ValueKind.BOOLEAN, [True, False], True),
        ("phone", ValueKind.BOOLEAN, [True, False], True),
        ("floor", ValueKind.INTEGER, [1, 2, 3], True),
        ("revenue", ValueKind.INTEGER, [1234567, 200, 99999999], True),
        ("caller", ValueKind.INTEGER, [4930123456, 4930123457], False),
        ("amount", ValueKind.NUMBER, [1.5, 10.0], True),
        ("lat", ValueKind.NUMBER, [52.5, 13.4], False),
        ("email", ValueKind.EMPTY, [], True),
        ("caller", ValueKind.MIXED, [1, "ada@example.com"], False),
    ],
)
def test_other_kinds(column: str, kind: ValueKind, values: list[object], kept: bool) -> None:
    assert (refusal("calls", column, kind, values) is None) is kept


@pytest.mark.table("text", ["4111 1111 1111 1112", "411111111111111", "DE89 3704 0044 0532 0130 01", "DE"])
def test_a_wrong_check_digit_is_no_card_and_no_iban(text: str) -> None:
    assert not is_card(text)
    assert not is_iban(text)


@pytest.mark.table(
    ("name", "words"),
    [
        ("Kunden-E-Mail", ("kunden", "e", "mail")),
        ("billingZIPCode", ("billing", "zip", "code")),
        ("Prénom", ("prenom",)),
        ("HASŁO", ("haslo",)),
        ("Straße", ("strasse",)),
        ("", ()),
        ("___", ()),
    ],
)
def test_names_are_split_into_plain_words(name: str, words: tuple[str, ...]) -> None:
    assert split_name(name) == words


@given(st.text(max_size=200), st.text(max_size=40), st.text(max_size=40))
def test_any_text_gets_an_answer(value: str, table: str, column: str) -> None:
    assert sign_of(value) in {None, *Sign}
    assert sign_of_name(table, column) in {None, *Sign}


@given(st.from_regex(r"[a-z]{1,10}@[a-z]{1,10}\.(com|org|de)", fullmatch=True), st.sampled_from(["", "to ", "<"]))
def test_every_address_is_found(address: str, before: str) -> None:
    assert sign_of(before + address) is Sign.EMAIL


@given(st.integers(min_value=10**11, max_value=10**17))
def test_every_number_with_its_check_digit_is_a_card(number: int) -> None:
    assert sum(is_card(f"{number}{last}") for last in range(10)) == 1


@given(st.lists(st.one_of(st.text(max_size=30), st.dates().map(str), st.datetimes().map(str)), max_size=8))
def test_values_that_are_known_to_be_impersonal_are_only_compared_with_dates(values: list[str]) -> None:
    full = refusal("orders", "state", ValueKind.TEXT, values)
    if full is None or not full.personal:
        assert refusal("orders", "state", ValueKind.TEXT, values, is_impersonal=True) == full
