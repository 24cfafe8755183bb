"""Which decision points a scan proposes, and which it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import duckdb
import pytest

from ktx_cli.scan.decisions.proposals import propose_decisions
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.measures.proposals import propose_measures
from ktx_cli.scan.profile.profiler import TableProfile, count_sample
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.warehouses import (
    Column,
    Connector,
    ForeignKey,
    QueryResult,
    Sample,
    SampleMethod,
    Table,
    TableKind,
    TableRef,
    dialect_named,
)

Find = Callable[..., dict[str, FoundPoint]]
DIALECT = dialect_named("duckdb")


def table(made: str, rows: int = 200, /, **columns: str) -> str:
    """Return the statement that makes a table; each column: an expression over the number of the row `i`."""
    listed = ", ".join(f'{expr} AS "{column}"' for column, expr in columns.items())
    return f"CREATE TABLE {made} AS SELECT {listed} FROM range(1, {rows + 1}) AS t(i)"


@dataclass
class Memory:
    """A connector to a database in memory."""

    database: duckdb.DuckDBPyConnection
    dialect: str = "duckdb"
    asked: list[str] = field(default_factory=list)

    def query(self, sql: str, parameters: tuple[Any, ...] = (), *, max_rows: int = 1000) -> QueryResult:
        self.asked.append(sql)
        found = self.database.execute(sql).fetchmany(max_rows)
        return QueryResult((), tuple(map(tuple, found)))

    def tables(self, keys: dict[str, str], references: dict[str, str]) -> list[tuple[Table, TableProfile]]:
        """Return the tables with the profiles of all their rows; `references`: `table.column` -> table."""
        found = []
        listed = self.database.execute(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 1, 2"
        ).fetchall()
        for schema, name, kind in listed:
            asked = self.database.execute(f'SELECT * FROM "{schema}"."{name}"')
            types = [(str(each[0]), str(each[1])) for each in asked.description]
            values = list(map(list, zip(*asked.fetchall(), strict=True)))
            columns = tuple(Column(each, native, DIALECT.semantic_type(native)) for each, native in types)
            foreign = tuple(
                ForeignKey(
                    (each,), TableRef("main", references[f"{name}.{each}"]), (keys[references[f"{name}.{each}"]],)
                )
                for each, _ in types
                if f"{name}.{each}" in references
            )
            of_kind = TableKind.VIEW if kind == "VIEW" else TableKind.TABLE
            key = (keys[name],) if name in keys else ()
            made = Table(TableRef(schema, name), of_kind, columns, primary_key=key, foreign_keys=foreign)
            rows = len(values[0])
            sample = Sample(tuple(each for each, _ in types), tuple(values), rows, SampleMethod.ALL, rows, True)
            found.append((made, count_sample(made, sample, "duckdb").profile))
        return found


@pytest.fixture
def find() -> Find:
    """Return a function from statements to the points that a scan proposes: id by table's name -> point."""

    def run(
        *statements: str,
        keys: dict[str, str] | None = None,
        references: dict[str, str] | None = None,
        shows_values: bool = True,
        asked: list[str] | None = None,
    ) -> dict[str, FoundPoint]:
        with duckdb.connect() as database:
            for statement in statements:
                database.execute(statement)
            memory = Memory(database, asked=[] if asked is None else asked)
            known = memory.tables(keys or {}, references or {})
            tables, profiles = [each for each, _ in known], [each for _, each in known]
            record = RelationshipRecord()
            points, counter = propose_decisions(
                tables, record, profiles, propose_measures(tables, record, profiles, DIALECT),
                cast("Connector", memory), shows_values=shows_values,
            )  # fmt: skip
            assert counter.problems == []
            for point in points:  # the SQL of every reading runs
                path = f'"{point.table.schema}"."{point.table.name}"'
                for each in point.alternatives:
                    database.execute(f"SELECT {each.expr or 'count(*)'} FROM {path} WHERE {each.filter or '1 = 1'}")
        return {each.point_id(each.table.name): each for each in points}

    return run


RARE, HALF = "i % 20 = 0", "i % 2 = 0"
KEY = {"account_id": "i", "name": "'Firm ' || i"}
ACCOUNTS = {"accounts": "account_id"}


@pytest.mark.parametrize(
    ("column", "expr", "condition"),
    [
        ("is_internal", RARE, "NOT coalesce(is_internal, false)"),
        ("test_account", RARE, "NOT coalesce(test_account, false)"),
        ("internal_flag", f"CASE WHEN {RARE} THEN 'Y' ELSE 'N' END", "(internal_flag IS NULL OR internal_flag <> 'Y')"),
        ("isTest", f"CASE WHEN {RARE} THEN 1 ELSE 0 END", "coalesce(isTest, 0) = 0"),
        ("ist_testkunde", RARE, "NOT coalesce(ist_testkunde, false)"),
        ("interno", f"CASE WHEN {RARE} THEN true END", "NOT coalesce(interno, false)"),
        ("livemode", f"NOT {RARE}", "(livemode OR livemode IS NULL)"),
        ("is_live", f"NOT {RARE}", "(is_live OR is_live IS NULL)"),
        ("is_paying", f"CASE WHEN {RARE} THEN 0 ELSE 1 END", "(is_paying = 1 OR is_paying IS NULL)"),
        (
            "environment", f"CASE WHEN {RARE} THEN 'Sandbox' WHEN {HALF} THEN 'prod-eu' ELSE 'prod' END",
            "(environment IS NULL OR environment <> 'Sandbox')",
        ),
        (
            "account_type", f"CASE WHEN {RARE} THEN 'Internal' WHEN {HALF} THEN 'Partner' ELSE 'Customer' END",
            "(account_type IS NULL OR account_type <> 'Internal')",
        ),
        (
            "came_from", f"CASE WHEN {RARE} THEN 'staging' WHEN {HALF} THEN 'web' ELSE 'production' END",
            "(came_from IS NULL OR came_from <> 'staging')",
        ),
        ("is_vip", RARE, ""),
        ("is_internal_only", HALF, ""),
        ("had_demo", RARE, ""),
        ("test_group", RARE, ""),
    ],
)  # fmt: skip
def test_rows_of_tests_and_of_the_company(find: Find, column: str, expr: str, condition: str) -> None:
    found = find(table("accounts", **KEY, **{column: expr}))
    if not condition:
        assert found == {}
        return
    point = found[f"accounts.internal.{column}"]
    assert list(found.values()) == [point]
    assert [each.filter for each in point.alternatives] == [None, condition]
    assert point.evidence[0].endswith("in 10 of 200 rows.")


def test_internal_notes_and_settings_are_no_question(find: Find) -> None:
    ticket = table("tickets", ticket_id="i", subject="'s' || i")
    notes = table("ticket_notes", 400, note_id="i", ticket_id="1 + i % 200", is_internal=RARE, body="'text ' || i")
    assert find(ticket, notes, table("plans", 8, plan_id="i", is_internal="i = 8")) == {}


def test_names_that_say_test_are_counted_without_reading_them(find: Find) -> None:
    named = table("customers", customer_id="i", name=f"CASE WHEN {RARE} THEN 'TEST ' || i ELSE 'Firm ' || i END")
    orders = table("orders", 400, order_id="i", customer_id="1 + i % 200", ordered_on="DATE '2024-01-01' + i::INT")
    keys, references = {"customers": "customer_id"}, {"orders.customer_id": "customers"}
    (point,) = find(named, orders, keys=keys, references=references).values()
    assert (point.columns, point.evidence) == (("name",), ("name names a test in 10 of 200 rows.",))
    assert "TEST" not in str(point)
    quality = table("customers", customer_id="i", name=f"'Firm ' || i || CASE WHEN {RARE} THEN ' (QA)' ELSE '' END")
    (point,) = find(quality, orders, keys=keys, references=references).values()
    assert "%(qa)%" in (point.alternatives[1].filter or "") and "sandbox" not in (point.alternatives[1].filter or "")


@pytest.mark.parametrize(
    ("box", "rows"), [("test+", 10), ("qa_", 10), ("demo", 10), ("testa.", 0), ("democrat", 0), ("tester", 0)]
)
def test_addresses_that_say_test(find: Find, box: str, rows: int) -> None:
    leads = table("leads", lead_id="i", email=f"CASE WHEN {RARE} THEN '{box}' ELSE 'p' END || i || '@firm.com'")
    found = find(leads.replace(f"'{box}' ELSE 'p' END || i", f"'{box}' || i ELSE 'p' || i END"))
    assert [each.evidence[0] for each in found.values()] == [f"email names a test in {rows} of 200 rows."] * bool(rows)


@pytest.mark.parametrize(
    ("column", "expr", "condition"),
    [
        ("deleted_at", f"CASE WHEN {RARE} THEN TIMESTAMP '2024-05-01' END", "deleted_at IS NULL"),
        ("IsDeleted", RARE, "NOT coalesce(IsDeleted, false)"),
        ("_fivetran_deleted", RARE, "NOT coalesce(_fivetran_deleted, false)"),
        ("archived_on", f"CASE WHEN {RARE} THEN DATE '2024-05-01' END", "archived_on IS NULL"),
        ("geloescht", f"CASE WHEN {RARE} THEN 'J' ELSE 'N' END", "(geloescht IS NULL OR geloescht <> 'J')"),
        ("deleted_at", "CASE WHEN false THEN TIMESTAMP '2024-05-01' END", ""),
        ("is_deleted", "false", ""),
        ("deleted_by", f"CASE WHEN {RARE} THEN i END", ""),
        ("is_active", f"NOT {RARE}", "(is_active OR is_active IS NULL)"),
        ("in_use", f"CASE WHEN {RARE} THEN 0 ELSE 1 END", "(in_use = 1 OR in_use IS NULL)"),
        ("closed_on", f"CASE WHEN {RARE} THEN DATE '2024-05-01' END", "closed_on IS NULL"),
        ("standing", f"CASE WHEN {RARE} THEN 'dormant' ELSE 'good' END", "(standing IS NULL OR standing <> 'dormant')"),
        ("bucket", f"CASE WHEN {RARE} THEN 'churned' ELSE 'good' END", "(bucket IS NULL OR bucket <> 'churned')"),
        ("is_active", HALF, ""),
        ("is_public", f"NOT {RARE}", ""),
        ("visited_on", f"CASE WHEN {RARE} THEN DATE '2024-05-01' END", ""),
        ("side", f"CASE WHEN {RARE} THEN 'left' ELSE 'right' END", ""),
    ],
)
def test_deleted_rows(find: Find, column: str, expr: str, condition: str) -> None:
    found = find(table("accounts", **KEY, **{column: expr}))
    assert [each.alternatives[1].filter for each in found.values()] == ([condition] if condition else [])


@pytest.mark.parametrize(
    ("column", "expr", "condition"),
    [
        ("merged_into", f"CASE WHEN {RARE} THEN i - 1 END", "merged_into IS NULL"),
        ("master_record_id", f"CASE WHEN {RARE} THEN i - 1 END", "master_record_id IS NULL"),
        ("duplicate_of", f"CASE WHEN {RARE} THEN i - 1 END", "duplicate_of IS NULL"),
        (
            "canonical_id", f"CASE WHEN {RARE} THEN i - 1 ELSE i END",
            "coalesce(canonical_id, account_id) = account_id",
        ),
        ("absorbed_by", f"CASE WHEN {RARE} THEN i - 1 END", "absorbed_by IS NULL"),
        ("same_as", f"CASE WHEN {RARE} THEN i - 1 ELSE i END", "coalesce(same_as, account_id) = account_id"),
        ("referred_by", f"CASE WHEN {RARE} THEN i - 1 END", ""),
        ("succeeded_by", f"CASE WHEN {HALF} AND i > 2 THEN i - 2 END", ""),
    ],
)  # fmt: skip
def test_merged_rows(find: Find, column: str, expr: str, condition: str) -> None:
    found = find(table("accounts", **KEY, **{column: expr}), keys=ACCOUNTS)
    assert [each.alternatives[1].filter for each in found.values()] == ([condition] if condition else [])


@pytest.mark.parametrize(
    ("name", "column", "expr", "expected"),
    [
        ("contacts", "email", "'p' || (i % 190) || '@x.com'", "count(distinct lower(email))"),
        ("customers", "external_id", "1000 + i % 195", "count(distinct external_id)"),
        ("contacts", "email", "'p' || i || '@x.com'", None),
        ("contacts", "city", "'c' || (i % 190)", None),
        ("contacts", "email_status", "'p' || (i % 190)", None),
    ],
)
def test_repeated_rows(find: Find, name: str, column: str, expr: str, expected: str | None) -> None:
    found = find(table(name, id="i", **{column: expr}))
    assert [each.alternatives[1].expr for each in found.values()] == ([expected] if expected else [])


def test_people_with_an_address_of_the_company_itself(find: Find) -> None:
    employees = table("employees", 40, employee_id="i", email="'e' || i || '@acme.io'")
    domain = "CASE WHEN i % 25 = 0 THEN 'Acme.io' WHEN i % 3 = 0 THEN 'gmail.com' ELSE 'firm' || i || '.com' END"
    users = table("users", user_id="i", email=f"'u' || i || '@' || {domain}")
    (point,) = find(employees, users).values()
    assert point.point_id("users") == "users.staff.email"
    assert point.alternatives[1].filter == "(email IS NULL OR lower(email) NOT LIKE '%@acme.io')"
    assert point.evidence == (
        "email has the domain acme.io in 8 of 200 rows.", "acme.io is the domain of most rows of employees.",
    )  # fmt: skip
    assert find(employees, users, shows_values=False) == {}


def test_a_domain_of_internal_rows_is_the_companys(find: Find) -> None:
    flagged = "CASE WHEN i % 10 = 0 THEN 'acme.io' ELSE 'firm' || i || '.com' END"
    users = table("users", user_id="i", email=f"'u' || i || '@' || {flagged}", is_internal="i % 20 = 0")
    assert set(find(users)) == {"users.internal.is_internal", "users.staff.email"}


ORDER = {"order_id": "i", "ordered_at": "TIMESTAMP '2024-01-01' + i * INTERVAL 1 DAY", "amount": "i * 1.25 + i % 7"}
STATUS = "CASE WHEN i % 10 = 0 THEN 'cancelled' WHEN i % 10 = 1 THEN 'pending' ELSE 'paid' END"


def test_statuses_that_came_to_nothing(find: Find) -> None:
    (point,) = find(table("orders", **ORDER, status=STATUS)).values()
    assert [each.filter for each in point.alternatives] == [
        None,
        "(status IS NULL OR status <> 'cancelled')",
        "(status IS NULL OR status NOT IN ('cancelled', 'pending'))",
    ]
    assert find(table("tickets", ticket_id="i", opened_at="TIMESTAMP '2024-01-01'", status=STATUS)) == {}
    assert find(table("orders", **ORDER, status=STATUS), shows_values=False) == {}
    (point,) = find(table("orders", **ORDER, is_void=RARE)).values()
    assert point.alternatives[1].filter == "NOT coalesce(is_void, false)"
    (point,) = find(table("orders", **ORDER, cancelled_at=f"CASE WHEN {RARE} THEN DATE '2024-05-01' END")).values()
    assert point.alternatives[1].filter == "cancelled_at IS NULL"


def test_a_parent_of_the_counted_thing(find: Find) -> None:
    accounts = table("accounts", **KEY, parent_id=f"CASE WHEN {RARE} THEN i - 1 END")
    (point,) = find(accounts, keys=ACCOUNTS, references={"accounts.parent_id": "accounts"}).values()
    assert point.alternatives[1].expr == "count(distinct coalesce(parent_id, account_id))"
    tree = table("categories", 60, category_id="i", parent_id="CASE WHEN i > 5 THEN i % 5 + 1 END")
    assert find(tree, keys={"categories": "category_id"}, references={"categories.parent_id": "categories"}) == {}


@pytest.mark.parametrize(
    ("column", "expr", "value"),
    [
        ("rolls_up_to", "CASE WHEN i > 40 AND i % 3 = 0 THEN 1 + i % 40 END", "coalesce(rolls_up_to, account_id)"),
        ("billing_unit", "CASE WHEN i > 40 AND i % 3 = 0 THEN 1 + i % 40 ELSE i END", "billing_unit"),
        ("rolls_up_to", "CASE WHEN i % 3 = 0 THEN i - 1 - i % 2 END", ""),
        ("employees", "1 + i * 7 % 199", ""),
    ],
)
def test_a_parent_that_only_the_rows_show(find: Find, column: str, expr: str, value: str) -> None:
    found = find(table("accounts", **KEY, **{column: expr}), keys=ACCOUNTS)
    assert [each.alternatives[1].expr for each in found.values()] == ([f"count(distinct {value})"] if value else [])


def test_families_of_products_and_not_their_categories(find: Find) -> None:
    families = table("product_families", 60, family_id="i", title="'t' || i")
    groups = table("product_categories", 60, category_id="i", title="'t' || i")
    products = table("products", product_id="i", title="'p' || i", family_id="1 + i % 60", category_id="1 + i * 7 % 60")
    keys = {"product_families": "family_id", "product_categories": "category_id", "products": "product_id"}
    references = {"products.family_id": "product_families", "products.category_id": "product_categories"}
    (point,) = find(families, groups, products, keys=keys, references=references).values()
    assert point.alternatives[1].expr == "count(distinct family_id)"


def test_a_household_of_customers(find: Find) -> None:
    homes = table("households", 120, household_id="i", street="'s' || i")
    people = table("customers", customer_id="i", household_id="1 + i % 120", born="DATE '1980-01-01' + i::INT")
    keys = {"households": "household_id", "customers": "customer_id"}
    (point,) = find(homes, people, keys=keys, references={"customers.household_id": "households"}).values()
    assert point.alternatives[1].expr == "count(distinct household_id)"


@pytest.mark.parametrize(
    ("columns", "exprs"),
    [
        (("gross_amount", "net_amount"), ["sum(gross_amount)", "sum(net_amount)"]),
        (("total_amount", "subtotal", "tax_amount"), ["sum(total_amount)", "sum(subtotal)"]),
        (("brutto_betrag", "netto_betrag"), ["sum(brutto_betrag)", "sum(netto_betrag)"]),
        (
            ("total_amount", "tax_amount"),
            [
                "sum(total_amount)",
                "sum(total_amount - coalesce(tax_amount, 0))",
                "sum(total_amount + coalesce(tax_amount, 0))",
            ],
        ),
        (("amount", "shipping_cost"), None),
        (("amount", "voucher_value"), ["sum(amount)", "sum(amount - coalesce(voucher_value, 0))"]),
    ],
)
def test_amounts_beside_each_other(find: Find, columns: tuple[str, ...], exprs: list[str] | None) -> None:
    drawn = {name: f"i * 1.37 + i % {place + 7} * 30.5" for place, name in enumerate(columns)}
    base = {"invoice_id": "i", "issued_at": "TIMESTAMP '2024-01-01' + i * INTERVAL 1 DAY"}
    found = find(table("invoices", **base, **drawn))
    assert [[each.expr for each in point.alternatives] for point in found.values()] == ([exprs] if exprs else [])
    assert find(table("payslips", **base, **drawn)) == {}


@pytest.mark.parametrize(
    ("columns", "exprs"),
    [
        ({"discount_pct": "i % 6 * 5"}, ["sum(amount)", "sum(amount * (100.0 - coalesce(discount_pct, 0)) / 100.0)"]),
        ({"discount": "i % 4 * 0.05"}, ["sum(amount)", "sum(amount * (1 - coalesce(discount, 0)))"]),
        (
            {"vat_rate": "CASE WHEN i % 3 = 0 THEN 0.07 ELSE 0.19 END"},
            ["sum(amount)", "sum(amount / (1 + coalesce(vat_rate, 0)))", "sum(amount * (1 + coalesce(vat_rate, 0)))"],
        ),
        ({"kickback": "round(amount * 0.08, 2)"}, ["sum(amount)", "sum(amount - coalesce(kickback, 0))"]),
        ({"margin": "round(amount * 0.08, 2)"}, None),
        ({"insurance": "i * 31 % 170 * 1.05"}, None),
        ({"conversion_rate": "i % 6 * 0.05"}, None),
    ],
)
def test_rates_and_parts_of_an_amount(find: Find, columns: dict[str, str], exprs: list[str] | None) -> None:
    made = table(
        "orders", **ORDER, **{name: expr.replace("amount", f"({ORDER['amount']})") for name, expr in columns.items()}
    )
    found = find(made)
    assert [[each.expr for each in point.alternatives] for point in found.values()] == ([exprs] if exprs else [])


def test_lines_of_a_price_and_a_quantity(find: Find) -> None:
    lines = table(
        "order_lines", order_line_id="i", unit_price="i * 1.25", quantity="1 + i % 40", discount="i % 4 * 0.05"
    )
    (point,) = find(table("orders", **ORDER), lines).values()
    assert [each.expr for each in point.alternatives] == [
        "sum(unit_price * quantity)", "sum(unit_price * quantity * (1 - coalesce(discount, 0)))",
    ]  # fmt: skip


def test_units_by_name_and_by_size(find: Find) -> None:
    paid = {"payment_id": "i", "paid_at": "TIMESTAMP '2024-01-01'"}
    (point,) = find(table("payments", **paid, amount_cents="i * 137")).values()
    assert [each.expr for each in point.alternatives] == ["sum(amount_cents)", "sum(amount_cents) / 100.0"]
    orders = table("orders", order_id="i", ordered_at="TIMESTAMP '2024-01-01'", amount="i * 1.37")
    payments = table("payments", **paid, order_id="i", amount="i * 137")
    found = find(orders, payments, keys={"orders": "order_id"}, references={"payments.order_id": "orders"})
    assert set(found) == {"payments.unit.amount"}


def test_currencies_that_are_added_up(find: Find) -> None:
    mixed = "CASE WHEN i % 4 = 0 THEN 'USD' ELSE 'EUR' END"
    (point,) = find(table("orders", **ORDER, currency=mixed, fx_rate="1.0 + i % 3 * 0.05")).values()
    assert [each.expr for each in point.alternatives] == [
        "sum(amount)", "sum(amount * fx_rate)", "sum(case when currency = 'EUR' then amount end)",
    ]  # fmt: skip
    assert find(table("orders", **ORDER, currency="'EUR'")) == {}


def test_dates_that_fall_in_different_months(find: Find) -> None:
    late = "TIMESTAMP '2024-01-01' + (i + {days}) * INTERVAL 1 DAY"
    (point,) = find(table("orders", **ORDER, shipped_at=late.format(days=12), updated_at=late.format(days=40))).values()
    assert [each.time for each in point.alternatives] == ["ordered_at", "shipped_at"]
    assert find(table("orders", **ORDER, shipped_at=late.format(days=0))) == {}


def test_fiscal_years_of_a_calendar(find: Find) -> None:
    day = "DATE '2022-01-01' + i::INT"
    fiscal = f"year({day}) + CASE WHEN month({day}) >= {{start}} THEN 1 ELSE 0 END"
    (point,) = find(table("calendar", 900, day=day, fiscal_year=fiscal.format(start=4))).values()
    assert [each.id for each in point.alternatives] == ["1", "4"]
    assert find(table("calendar", 900, day=day, fiscal_year=f"year({day})")) == {}
    assert set(find(table("targets", fiscal_year="2020 + i % 4", amount="i"))) == {"targets.fiscal_start.fiscal_year"}


def test_missing_values_that_a_rate_depends_on(find: Find) -> None:
    won = f"CASE WHEN i % 5 = 0 THEN NULL ELSE {HALF} END"
    calls = {"call_id": "i", "called_at": "TIMESTAMP '2024-01-01' + i * INTERVAL 1 DAY"}
    (point,) = find(table("calls", **calls, was_answered=won)).values()
    assert [each.expr for each in point.alternatives] == [
        "avg(case when was_answered then 1.0 else 0.0 end)",
        "avg(case when was_answered then 1.0 when NOT was_answered then 0.0 end)",
    ]


def test_statuses_of_unknown_codes_and_kinds_of_staff(find: Find) -> None:
    coded = "CASE WHEN i % 10 = 0 THEN '90' WHEN i % 3 = 0 THEN '20' ELSE '30' END"
    (point,) = find(table("orders", **ORDER, order_state=coded)).values()
    assert [each.filter for each in point.alternatives] == [
        None, "(order_state IS NULL OR order_state <> '90')", "order_state = '30'",
    ]  # fmt: skip
    numbered = "CASE WHEN i % 10 = 0 THEN 90 WHEN i % 3 = 0 THEN 20 ELSE 30 END"
    (point,) = find(table("orders", **ORDER, status_id=numbered)).values()
    assert [each.filter for each in point.alternatives] == [
        None, "(status_id IS NULL OR status_id <> 90)", "status_id = 30",
    ]  # fmt: skip
    hired = "CASE WHEN i % 10 = 0 THEN 'intern' WHEN i % 3 = 0 THEN 'contractor' ELSE 'permanent' END"
    assert set(find(table("employees", employee_id="i", employment_type=hired))) == {"employees.status.employment_type"}


@pytest.mark.parametrize(
    ("column", "values", "ended"),
    [
        ("workflow_step", ("refused", "packed", "done"), "refused"),
        ("where_it_is", ("refused", "packed", "done"), "refused"),
        ("situation", ("mislaid", "packed", "done"), "mislaid"),
        ("stage", ("closed lost", "closed won", "closed won"), "closed lost"),
        ("reason", ("refused", "packed", "done"), None),
        ("colour", ("red", "green", "blue"), None),
        ("state", ("NY", "TX", "CA"), None),
    ],
)
def test_statuses_by_their_values(find: Find, column: str, values: tuple[str, ...], ended: str | None) -> None:
    rare, other, usual = values
    drawn = f"CASE WHEN {RARE} THEN '{rare}' WHEN i % 3 = 0 THEN '{other}' ELSE '{usual}' END"
    found = find(table("orders", **ORDER, city="'c' || i", **{column: drawn}))
    excluded = f"({column} IS NULL OR {column} <> '{ended}')"
    assert [each.alternatives[1].filter for each in found.values()] == ([excluded] if ended else [])


def test_a_source_that_is_unknown(find: Find) -> None:
    came = "CASE WHEN i % 5 = 0 THEN 'n/a' WHEN i % 2 = 0 THEN 'web' ELSE 'event' END"
    (point,) = find(table("leads", lead_id="i", source=came)).values()
    assert point.alternatives[1].filter == "(source IS NULL OR source <> 'n/a')"


def test_numbers_that_repeat_by_chance_are_no_duplicates(find: Find) -> None:
    drawn = "abs(hash(i * 7919)) % 6000"
    assert find(table("customers", 400, customer_id="i", legacy_number=f"({drawn})::BIGINT")) == {}


def test_a_table_is_asked_once_for_all_that_is_counted(find: Find) -> None:
    asked: list[str] = []
    late = "TIMESTAMP '2024-01-01' + (i + 12) * INTERVAL 1 DAY"
    made = table(
        "customers", **{**ORDER, "customer_id": "i"}, name="'Firm ' || i", email="'p' || i || '@x.com'", paid_at=late
    )
    orders = table("orders", 400, order_id="i", customer_id="1 + i % 200")
    find(made, orders, keys={"customers": "customer_id"}, references={"orders.customer_id": "customers"}, asked=asked)
    assert sum("customers" in each for each in asked) == 1, asked


def test_rows_that_are_there_twice_under_another_key(find: Find) -> None:
    paid = {"store_id": "n % 60", "amount": "n * 1.37 + n % 13", "paid_on": "DATE '2024-01-01' + (n * 7 % 900)::INT"}
    columns = ", ".join(f"{expr} AS {name}" for name, expr in paid.items())
    rows = "(SELECT i, i % 390 AS n FROM range(1, 401) AS t(i))"
    twice = f"CREATE TABLE payments AS SELECT i AS payment_id, {columns} FROM {rows}"
    (point,) = find(twice, keys={"payments": "payment_id"}).values()
    assert point.evidence == ("10 of 400 rows differ from another row only in payment_id.",)
    once = twice.replace("i % 390", "i")
    assert find(once, keys={"payments": "payment_id"}) == {}


def test_record_states_variants_and_codes_of_deleted_rows(find: Find) -> None:
    gone = f"CASE WHEN {RARE} THEN 'D' ELSE 'A' END"
    (point,) = find(table("accounts", **KEY, record_state=gone)).values()
    assert point.alternatives[1].filter == "(record_state IS NULL OR record_state <> 'D')"
    variants = table("products", product_id="i", variant_of=f"CASE WHEN {RARE} THEN i - 1 END")
    (point,) = find(variants, keys={"products": "product_id"}).values()
    assert point.alternatives[1].expr == "count(distinct coalesce(variant_of, product_id))"


def test_whole_numbers_among_amounts_with_decimals(find: Find) -> None:
    others = [table(name, **{**ORDER, "amount": "i * 1.37"}) for name in ("orders", "invoices")]
    spend = table("ad_spend", spend_id="i", spent_on="DATE '2024-01-01'", spend="i * 1000000")
    (point,) = find(*others, spend).values()
    assert [each.id for each in point.alternatives] == ["as_stored", "hundredths", "millionths"]


def test_averages_and_counts_that_depend_on_missing_values(find: Find) -> None:
    asked = {"ticket_id": "i", "opened_at": "TIMESTAMP '2024-01-01'"}
    (point,) = find(table("tickets", **asked, csat="CASE WHEN i % 3 = 0 THEN 1 + i % 5 END")).values()
    assert [each.expr for each in point.alternatives] == ["avg(csat)", "avg(coalesce(csat, 0))"]
    came = "CASE WHEN i % 4 <> 0 THEN 'web' || i % 5 END"
    (point,) = find(table("leads", lead_id="i", lead_source=came)).values()
    assert point.alternatives[1].filter == "lead_source IS NOT NULL"


def test_a_question_is_asked_once_of_the_table_that_has_it(find: Find) -> None:
    accounts = table("accounts", **KEY, is_internal=RARE)
    statements = (
        accounts,
        table("orders", 400, **{**ORDER, "account_id": "1 + i % 200", "is_internal": "(1 + i % 200) % 20 = 0"}),
        "CREATE VIEW account_overview AS SELECT * FROM accounts",
        "CREATE SCHEMA staging",
        "CREATE TABLE staging.stg_accounts AS SELECT * FROM accounts",
    )
    found = find(*statements, keys=ACCOUNTS, references={"orders.account_id": "accounts"})
    assert list(found) == ["accounts.internal.is_internal"]
