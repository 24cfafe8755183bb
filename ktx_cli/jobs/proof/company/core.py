"""The tables that the questions are about, and a company's plan: those tables, columns for conventions, and others.

The text is written as in `tables.py`; ` = ` is followed by SQL that computes a column from the others (see
`warehouse.resolve`). A column or table of the text that a convention needs is in the plan only while it is switched on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ktx_cli.jobs.demo.people import Dice
from ktx_cli.jobs.proof.company.tables import TABLES
from ktx_cli.jobs.proof.company.warehouse import MadeUpCompany, concept_of, plan_company

CORE: Final = """
# crm.accounts|crm.customers|crm.clients|crm.organizations entity 220
account_id|customer_id|client_id|organization_id|id  key
name|legal_name                   name
industry                          status retail=5 software=3 logistics=2 health=2
country|country_code              status DE=5 FR=3 NL=2 PL=1
vip|is_key_account                flag 0.2
created_on|signed_on|customer_since  date

# crm.contacts|crm.users|crm.members|crm.logins entity 480
contact_id|user_id|member_id|login_id|id  key
country|country_code              status DE=5 FR=3 NL=2 PL=1
email|email_address|mail          email = concat('person', {contact_id}, '@', MAILBOX[1 + {contact_id} % 5], '.example')
access|access_level               status admin=1 editor=3 viewer=6
subscribed|newsletter_opt_in      flag 0.4
joined_on|registered_on|created_at  date

# sales.products|sales.articles|sales.items entity 150
product_id|article_id|item_id|id  key
category_id                       ref categories
name|title                        name
list_price|price                  price 2 400
launched_on                       date

# sales.product_families|sales.models|sales.styles entity 60
family_id|model_id|style_id|id    key
name|title                        name
launched_on                       date

# sales.orders|sales.purchases|sales.bookings fact 1100
order_id|purchase_id|booking_id|id  key
account_id|customer_id|client_id|organization_id  ref accounts
channel|sales_channel             status web=6 app=4 phone=1
amount|order_amount|subtotal      amount 20 900
is_gift|gift_wrapped              flag 0.1
ordered_on|order_date|placed_on   date

# sales.order_items|sales.order_lines fact 2200
order_item_id|line_id|id          key
order_id|purchase_id|booking_id   ref orders
product_id|article_id|item_id     ref products
quantity|qty                      quantity 1 8
line_amount|line_total            amount 20 600

# sales.returns|sales.refunds fact 320
return_id|refund_id|id            key
product_id|article_id|item_id     ref products
reason|reason_code                status damaged=3 wrong=2 late=1 other=1
refund_amount|amount_refunded     amount 30 400
returned_on|refunded_on           date

# billing.payments|billing.transactions|billing.receipts fact 1200
payment_id|transaction_id|receipt_id|id  key
store_id                          ref stores
method|payment_method             status card=6 transfer=2 wallet=3
amount|paid_amount|value          amount 20 900
paid_on|received_on|booked_on     date

# billing.subscriptions|billing.contracts|billing.memberships fact 420
subscription_id|contract_id|membership_id|id  key
account_id|customer_id|client_id|organization_id  ref accounts
plan_id                           ref plans
monthly_amount|monthly_fee|mrr    amount 9 900
seats                             quantity 1 60
started_on|start_date             date

# billing.invoices|billing.bills fact 1200
invoice_id|bill_id|id             key
subscription_id|contract_id|membership_id  ref subscriptions
invoice_number|document_no        code 100000 999999
amount|invoiced_amount|total      amount 30 2400
issued_on|invoice_date            date

# billing.usage_records|billing.usage|billing.readings fact 1400
usage_id|reading_id|id            key
subscription_id|contract_id|membership_id  ref subscriptions
units|request_count|api_calls     quantity 1 900
used_on|usage_date|measured_on    date

# crm.opportunities|crm.deals fact 460
opportunity_id|deal_id|id         key
account_id|customer_id|client_id|organization_id  ref accounts
owner_id                          ref employees
deal_type|opportunity_type        status new=5 renewal=3 expansion=2
amount|deal_value                 amount 500 40000
created_on|opened_on              date

# crm.leads|crm.enquiries|crm.prospects fact 620
lead_id|enquiry_id|prospect_id|id  key
source|lead_source                status ads=5 web=4 event=2 partner=1
email|email_address               email = concat('lead', {lead_id}, '@', MAILBOX[1 + {lead_id} % 5], '.example')
score                             score 1 100
created_on|received_on            date

# support.tickets|support.cases|support.requests fact 820
ticket_id|case_id|request_id|id   key
contact_id|user_id|member_id|login_id  ref contacts
category|topic                    status billing=3 bug=4 howto=5
replies|reply_count               quantity 1 12
satisfaction|csat                 score 1 5
opened_on|created_on              date

# web.sessions|web.visits fact 1500
session_id|visit_id|id            key
contact_id|user_id|member_id|login_id  ref contacts
device                            status desktop=5 mobile=6 tablet=1
page_views|pages                  quantity 1 40
started_on|visit_date             date

# hr.employees|hr.staff|hr.personnel entity 140
employee_id|staff_id|id           key
manager_id                        ref employees 0.1
department_id                     ref departments
name|full_name                    name
email|work_email                  email = concat('staff', {employee_id}, '@DOMAIN')
hired_on|start_date               date

# finance.expenses|finance.expense_claims fact 520
expense_id|claim_id|id            key
employee_id|staff_id              ref employees
category                          status travel=4 meals=3 hardware=2
amount|claimed_amount             amount 5 900
spent_on|expense_date             date

# inventory.shipments|inventory.deliveries fact 900
shipment_id|delivery_id|id        key
warehouse_id                      ref warehouses
carrier_id                        ref carriers
parcels|parcel_count              quantity 1 5
freight_cost|shipping_cost        amount 3 90
shipped_on|dispatched_on          date

# inventory.purchase_orders|inventory.supplier_orders fact 320
purchase_order_id|po_id|id        key
supplier_id                       ref suppliers
order_value|total_cost            amount 100 9000
ordered_on|po_date                date

# marketing.ad_spend|marketing.ad_costs fact 900
ad_spend_id|row_id|id             key
campaign_id                       ref campaigns
clicks                            quantity 1 4000
spend|cost                        amount 5 900
day|spend_date                    date

# finance.exchange_rates|finance.fx_rates|finance.currency_rates lookup 4
rate_id|id                        key
currency|currency_code            name = ['EUR', 'USD', 'GBP', 'CHF'][{rate_id}]
rate|rate_to_eur|eur_rate         price 1 2 = [1.00, 0.92, 1.17, 1.04][{rate_id}]
"""

_BACKDROP: Final[Mapping[str, Sequence[str]]] = {
    "activities": (),
    "categories": (),
    "coupons": (),
    "coupon_redemptions": (),
    "stores": (),
    "price_history": (),
    "plans": (),
    "messages": (),
    "calls": (),
    "sla_policies": (),
    "departments": (),
    "timesheets": (),
    "projects": (),
    "absences": ("approved",),
    "reviews": (),
    "gl_entries": ("is_reversal",),
    "gl_accounts": (),
    "account_balances": (),
    "budgets": ("year",),
    "bank_transactions": ("reconciled",),
    "bank_accounts": (),
    "warehouses": (),
    "stock_levels": (),
    "stock_movements": (),
    "suppliers": (),
    "carriers": (),
    "campaigns": (),
    "email_sends": ("bounced",),
    "experiments": (),
    "experiment_assignments": (),
    "dim_date": ("fiscal_quarter",),
    "account_contacts": (),
}
"""The tables in `tables.py` around the core, and the columns that would be conventions of their own."""

_DECOYS: Final[Mapping[str, Sequence[str]]] = {
    "accounts": (
        "referred_by_id|introduced_by|recommended_by ref accounts 0.7",
        "legacy_number|old_number code 1000 99999",
        "updated_at|modified_at time",
    ),
    "contacts": (
        "email_confirmed|is_verified flag 0.9",
        "extension|phone_extension code 100 999",
        "updated_at|modified_at time",
    ),
    "products": (
        "is_returnable|returnable flag 0.9",
        "successor_id|replacement_hint ref products 0.7",
        "is_bestseller|bestseller flag 0.05",
        "sort_order|position ordinal 1 90",
    ),
    "orders": (
        "is_express|rush_order|same_day flag 0.05",
        "is_online|from_app flag 0.85",
        "next_contact_on|review_due date",
        "priority|urgency ordinal 1 3",
        "loaded_at|synced_at|etl_loaded_at time",
    ),
    "order_items": ("is_gift_wrapped|engraved flag 0.06", "line_number|position ordinal 1 9"),
    "payments": (
        "via_terminal|contactless flag 0.85",
        "loaded_at|synced_at|etl_loaded_at time",
        "terminal_no|terminal code 100 999",
    ),
    "subscriptions": ("renewal_of|previous_contract_id ref subscriptions 0.8", "auto_renew|renews flag 0.9"),
    "invoices": (
        "delivery_format|sent_by status pdf=6 post=2 portal=2",
        "reminder_count|dunning_level ordinal 0 3",
        "updated_at|modified_at time",
    ),
    "usage_records": ("schema_version|format_version ordinal 1 3",),
    "opportunities": ("currency|currency_code currency EUR=1", "is_strategic|strategic flag 0.06"),
    "leads": ("opted_in|has_consent flag 0.8", "is_hot|hot flag 0.07"),
    "tickets": (
        "follow_up_of|related_ticket_id ref tickets 0.7",
        "solved_in_time|within_sla flag 0.9",
        "is_escalated|escalated flag 0.05",
        "priority|urgency ordinal 1 4",
    ),
    "sessions": (
        "viewport|screen_class status wide=6 narrow=3 tiny=1",
        "is_first_visit|new_visitor flag 0.08",
        "landing_page_no|page_no code 1 60",
    ),
    "employees": ("deputy_id|substitute_id ref employees 0.8", "is_first_aider|first_aider flag 0.06"),
    "expenses": ("currency|currency_code currency EUR=1", "updated_at|modified_at time"),
    "shipments": ("is_fragile|fragile flag 0.04", "updated_at|modified_at time"),
    "purchase_orders": ("loaded_at|synced_at|etl_loaded_at time",),
    "ad_spend": ("loaded_at|synced_at|etl_loaded_at time",),
}
"""Columns that look like conventions but are not; the seed adds some of them."""

_SCHEMAS: Final = (
    ("shop", "finance", "operations"),
    ("app", "billing", "backoffice"),
    ("product", "ledger", "ops"),
    ("core", "money", "internal"),
)
_FRONT: Final = ("crm", "sales", "support", "web", "marketing")
_MONEY: Final = ("billing", "finance")
_BEHIND: Final = ("hr", "inventory", "analytics")
_BACKDROP_ROWS: Final = 0.08
"""The size of the tables around the core, relative to the benchmark's."""

_MAILBOX: Final = "['brightmail', 'northpost', 'letterbox', 'inboxly', 'mailhaus']"

_FIRST_WORDS: Final = (
    "Alder",
    "Basalt",
    "Cobalt",
    "Dunlin",
    "Ember",
    "Fathom",
    "Garnet",
    "Hollin",
    "Isthmus",
    "Juniper",
)
_SECOND_WORDS: Final = ("Works", "Systems", "Trading", "Supply", "Labs", "Goods", "Freight", "Networks")


def company_name(seed: int) -> str:
    """Return the company name for a seed."""
    dice = Dice(seed, "company name")
    return f"{dice.pick(_FIRST_WORDS)} {dice.pick(_SECOND_WORDS)}"


def company_domain(seed: int) -> str:
    """Return the domain of the company's own addresses."""
    return f"{company_name(seed).lower().replace(' ', '')}.example"


def plan_core(seed: int, added: Mapping[str, Sequence[str]], without: Iterable[str] = ()) -> MadeUpCompany:
    """Return the plan of the company for a seed.

    `added`: column lines by their table's concept; a line whose concept the table already has replaces that column.
    `without`: omitted tables, or columns (`table.column`).
    """
    dice = Dice(seed, "plan")
    front, money, behind = dice.pick(_SCHEMAS)
    schemas = {**dict.fromkeys(_FRONT, front), **dict.fromkeys(_MONEY, money), **dict.fromkeys(_BEHIND, behind)}
    unwanted = set(without)
    blocks = [each for each in _blocks(CORE) if concept_of(each[0]) not in unwanted]
    for lines in blocks:
        concept = concept_of(lines[0])
        lines[1:] = [line for line in lines[1:] if f"{concept}.{_column(line)}" not in unwanted]
        for line in added.get(concept, ()):
            place = next((n for n, each in enumerate(lines) if n and _column(each) == _column(line)), None)
            if place is None:
                lines.insert(dice.between(2, len(lines)), line)
            else:
                lines[place] = line
        for line in _DECOYS.get(concept, ()):
            if dice.chance(0.5) and not any(_column(each) == _column(line) for each in lines[1:]):
                lines.insert(dice.between(2, len(lines)), line)
    for lines in _blocks(TABLES):
        concept = concept_of(lines[0])
        if concept in _BACKDROP:
            heading = lines[0].rpartition(" ")
            rows = max(20, round(int(heading[2]) * _BACKDROP_ROWS)) if int(heading[2]) > 60 else int(heading[2])
            kept = [line for line in lines[1:] if _column(line) not in _BACKDROP[concept]]
            blocks.append([f"{heading[0]} {rows}", *kept, *added.get(concept, ())])
    text = "\n\n".join("\n".join(lines) for lines in blocks)
    text = text.replace("DOMAIN", company_domain(seed)).replace("MAILBOX", _MAILBOX)
    return plan_company(seed, 1, text, is_clean=True, schemas=schemas)


def _blocks(text: str) -> list[list[str]]:
    return [block.strip().splitlines() for block in text.split("\n\n") if block.strip()]


def _column(line: str) -> str:
    """Return the concept of a column from its line."""
    return line.split()[0].split("|")[0]
