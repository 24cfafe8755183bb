"""The catalog of conventions, one record each: how each shows in the data, and how it may be read."""

from __future__ import annotations

from typing import Final

from ktx_cli.jobs.proof.company.conventions import ConventionPlan, Form, Reading
from ktx_cli.jobs.proof.company.forms import (
    FAMILIES,
    RATES,
    codes,
    conversions,
    currencies,
    dates,
    entities,
    flags,
    kind,
    later,
    left,
    merged,
    missing,
    parents,
    population,
    removed,
    repeated,
    repeats,
    status_readings,
    statuses,
    unit,
    units,
)
from ktx_cli.semantic import DecisionKind

_COUNT: Final = "count(DISTINCT {})"

_PEOPLE: Final = (
    ConventionPlan(
        id="internal_accounts",
        kind=DecisionKind.INTERNAL,
        table="accounts",
        question="Do internal accounts count?",
        forms=(
            *flags(
                "is_internal|is_test|test_flag|internal_account|is_demo|is_dummy",
                70,
                "is_real|is_external|is_genuine|is_live|real_customer",
            ),
            Form(
                (
                    "name|legal_name name = concat(CASE WHEN {roll} < 70 THEN '<Test|TEST|Demo|zz Test>' "
                    "ELSE ['Harbor', 'Cedar', 'Summit', 'Maple', 'Delta'][1 + {roll} % 5] END, ' ', {account_id})",
                ),
                parts={"mark": "{name} LIKE '<Test|TEST|Demo|zz Test> %'"},
            ),
            Form(
                (
                    "name|legal_name name = concat(['Harbor', 'Cedar', 'Summit', 'Maple', 'Delta'][1 + {roll} % 5], "
                    "CASE WHEN {roll} < 70 THEN '< QA| Sandbox| (internal)| - E2E> ' ELSE ' ' END, {account_id})",
                ),
                parts={"mark": "{name} LIKE '%< QA| Sandbox| (internal)| - E2E> %'"},
            ),
            kind("environment|env|realm", "<staging|sandbox|dev>", 70, "production trial"),
            kind("kind|account_kind|record_type", "<internal|test|demo|own>", 70, "customer partner"),
        ),
        readings=population("internal accounts", "accounts"),
        expected="without",
        reaches=True,
    ),
    ConventionPlan(
        id="merged_accounts",
        kind=DecisionKind.MERGED,
        table="accounts",
        question="Do accounts that were merged into another one count?",
        forms=merged("account_id", "accounts"),
        readings=population("accounts that were merged into another one", "accounts"),
        expected="without",
        measures=("customers",),
    ),
    ConventionPlan(
        id="account_groups",
        kind=DecisionKind.ENTITY,
        table="accounts",
        question="Is a customer an account or its group?",
        forms=(
            *parents(
                "parent_account_id|group_id|parent_id|ultimate_parent_id|holding_id", "account_id", "accounts", 280
            ),
            *parents("rolls_up_to|belongs_to_id|lead_account_id|billed_through", "account_id", "accounts", 240),
        ),
        readings=entities("account_id", "account", "customer", "all accounts of a group"),
        measures=("customers",),
        aggregate=_COUNT,
    ),
    ConventionPlan(
        id="deleted_accounts",
        kind=DecisionKind.DELETED,
        table="accounts",
        question="Do deleted accounts count?",
        forms=(
            *removed("created_on", 80),
            *left(
                "created_on",
                "closed_on|deactivated_on|terminated_on",
                "standing|account_state|condition",
                "closed|inactive|deactivated|dormant",
                110,
            ),
        ),
        readings=population("deleted accounts", "accounts"),
        expected="without",
        measures=("customers",),
    ),
    ConventionPlan(
        id="staff_contacts",
        kind=DecisionKind.STAFF,
        table="contacts",
        question="Do the company's own people count as users?",
        forms=(
            Form(
                (
                    "email|email_address|mail|login_email email = concat('person', {contact_id}, "
                    "CASE WHEN {roll} < 70 THEN '@DOMAIN' "
                    "ELSE concat('@', MAILBOX[1 + {contact_id} % 5], '.example') END)",
                ),
                parts={"mark": "{email} LIKE '%@DOMAIN'"},
            ),
        ),
        readings=population("users with an address of the company", "users"),
        expected="without",
        reaches=True,
    ),
    ConventionPlan(
        id="deleted_contacts",
        kind=DecisionKind.DELETED,
        table="contacts",
        question="Do users whose access was removed count?",
        forms=(
            *removed("joined_on", 90),
            *left(
                "joined_on",
                "disabled_on|left_on|revoked_on",
                "login_state|member_state|access_state",
                "disabled|revoked|suspended|left",
                90,
            ),
        ),
        readings=population("users whose access was removed", "users"),
        expected="without",
        measures=("users",),
    ),
    ConventionPlan(
        id="employment",
        kind=DecisionKind.STATUS,
        table="employees",
        question="Which people belong to the headcount?",
        forms=(
            statuses(
                *("employment|employment_type|contract", "permanent=7 contractor=3 intern=2 temporary=1"),
                dropped="contractor",
                kept="permanent",
            ),
            statuses(*("worker_type|employee_group|staff_category", "P=6 F=3 C=2 T=2"), dropped="C T", kept="P"),
        ),
        readings=status_readings("people"),
    ),
    ConventionPlan(
        id="repeated_leads",
        kind=DecisionKind.DUPLICATES,
        table="leads",
        question="Does a lead count once for each address?",
        forms=(
            repeated("lead_id", "email", 80, ", {created_on} + 2 AS {created_on}"),
            repeated("lead_id", "email", 60),
            repeated("lead_id", "email score", 70, ", {created_on} + 1 AS {created_on}"),
        ),
        readings=repeats("leads"),
        expected="once",
    ),
    ConventionPlan(
        id="test_leads",
        kind=DecisionKind.INTERNAL,
        table="leads",
        question="Do test leads count?",
        forms=(
            Form(
                (
                    "email|email_address email = concat(CASE WHEN {roll} < 60 THEN '<test+|qa.|demo_|dummy>' "
                    "ELSE 'lead' END, {lead_id}, '@', MAILBOX[1 + {lead_id} % 5], '.example')",
                ),
                parts={"mark": "{email} LIKE '<test+|qa.|demo!_|dummy>%' ESCAPE '!'"},
            ),
            *flags("is_test|dummy|from_qa|is_fake", 60, "is_genuine|is_real|verified_human"),
        ),
        readings=population("test leads", "leads"),
        expected="without",
    ),
    ConventionPlan(
        id="lead_source",
        kind=DecisionKind.NULLS,
        table="leads",
        question="Do leads without a source count?",
        forms=(
            Form(
                (
                    "source|lead_source|origin status = CASE WHEN {roll} >= 140 "
                    "THEN ['ads', 'web', 'event', 'partner'][1 + {roll} % 4] END",
                ),
                parts={"mark": "{source} IS NULL"},
            ),
            Form(
                (
                    "source|lead_source|origin status = CASE WHEN {roll} < 150 THEN '<unknown|n/a|(none)|not set>' "
                    "ELSE ['ads', 'web', 'event', 'partner'][1 + {roll} % 4] END",
                ),
                parts={"mark": "{source} = '<unknown|n/a|(none)|not set>'"},
            ),
        ),
        readings=population("leads without a source", "leads"),
    ),
)

_SALES: Final = (
    ConventionPlan(
        id="test_orders",
        kind=DecisionKind.INTERNAL,
        table="orders",
        question="Do test orders count?",
        forms=(
            *flags("is_test|is_test_order|test_mode|sandbox|is_internal", 50, "is_live|livemode"),
            kind("order_kind|purpose|entry_type", "<test|internal|sample>", 50, "regular replacement"),
            kind("environment|system|placed_in", "<staging|sandbox|test>", 50, "production production-eu"),
        ),
        readings=population("test orders", "orders"),
        expected="without",
    ),
    ConventionPlan(
        id="order_statuses",
        kind=DecisionKind.STATUS,
        table="orders",
        question="Orders of which status count?",
        forms=(
            statuses(
                *("status|order_status|state", "paid=4 shipped=5 placed=2 cancelled=1 returned=1"),
                dropped="cancelled returned",
                kept="paid shipped",
            ),
            statuses("status|order_state|stage", "20=4 30=5 10=2 90=1 95=1", dropped="90 95", kept="20 30"),
            statuses("status|fulfilment|progress", "DONE=8 OPEN=3 VOID=1 FRAUD=1", dropped="VOID FRAUD", kept="DONE"),
            statuses(
                *("step|workflow_step|situation", "delivered=7 packed=3 refused=1 lost=1"),
                dropped="refused lost",
                kept="delivered",
            ),
            codes("status|status_id|state_no", "9=60 5=160 2=400 3=1000", dropped="9", kept="3"),
        ),
        readings=status_readings("orders"),
    ),
    ConventionPlan(
        id="order_amount",
        kind=DecisionKind.AMOUNT,
        table="orders",
        question="Is revenue with or without tax?",
        forms=(
            Form(
                ("tax_amount|vat_amount|tax amount = round({amount} * 0.19, 2)",),
                parts={"other": "{amount} + {tax_amount}"},
            ),
            Form(
                ("gross_amount|amount_with_tax|grand_total amount = round({amount} * 1.2, 2)",),
                parts={"other": "{gross_amount}"},
            ),
            Form(
                ("tax_percent|vat_rate|vat_pct ordinal 0 19 = CASE WHEN {roll} < 200 THEN 7 ELSE 19 END",),
                parts={"other": "{amount} * (100 + {tax_percent}) * 0.01"},
            ),
        ),
        readings=(
            Reading("net", "revenue is without tax", "Revenue is the value of orders without tax.", value="{amount}"),
            Reading("gross", "revenue is with tax", "Revenue is the value of orders with tax.", value="$other"),
        ),
        measures=("revenue", "average_order"),
    ),
    ConventionPlan(
        id="order_date",
        kind=DecisionKind.DATE,
        table="orders",
        question="Does an order belong to the day it was placed or to a later one?",
        forms=(
            *later("shipped_on|shipped_date|shipped_day", "ordered_on", 80),
            *later("confirmed_on|confirmed_date|confirmed_day", "ordered_on", 70),
            *later("invoice_date|invoice_day|billing_date", "ordered_on", 60, "invoiced"),
            *later("fulfilled_on|service_date|value_date", "ordered_on", 60, "fulfilled"),
        ),
        readings=dates("Orders", "ordered_on", "placed"),
    ),
    ConventionPlan(
        id="line_discount",
        kind=DecisionKind.AMOUNT,
        table="order_items",
        question="Are product sales counted before or after discounts?",
        forms=(
            Form(
                ("discount|discount_amount|rebate amount = round({line_amount} * ({roll} % 30) * 0.01, 2)",),
                parts={"other": "{line_amount} - {discount}"},
            ),
            Form(
                ("discount_percent|discount_pct|rebate_percent ordinal 0 30 = {roll} % 30",),
                parts={"other": "{line_amount} * (100 - {discount_percent}) * 0.01"},
            ),
            Form(
                ("discount_rate|discount_share|rebate share = ({roll} % 6) * 0.05",),
                parts={"other": "{line_amount} * (1 - {discount_rate})"},
            ),
            Form(
                ("voucher_amount|coupon_value|promo_cut amount = round({line_amount} * ({roll} % 20) * 0.01, 2)",),
                parts={"other": "{line_amount} - {voucher_amount}"},
            ),
        ),
        readings=(
            Reading("before", "before discounts", "Product sales are counted before discounts.", value="{line_amount}"),
            Reading("after", "after discounts", "Product sales are counted after discounts.", value="$other"),
        ),
        measures=("product_sales",),
    ),
    ConventionPlan(
        id="refund_fee",
        kind=DecisionKind.AMOUNT,
        table="returns",
        question="Are refunds counted before or after the fee that we keep?",
        forms=(
            Form(
                ("handling_fee|restocking_fee|retained_fee amount = round({refund_amount} * 0.08, 2)",),
                parts={"other": "{refund_amount} - {handling_fee}"},
            ),
            Form(
                ("deduction|withheld_amount|deducted amount = round({refund_amount} * 0.11, 2)",),
                parts={"other": "{refund_amount} - {deduction}"},
            ),
        ),
        readings=(
            Reading(
                "before", "before the fee", "Refunds are counted before the fee that we keep.", value="{refund_amount}"
            ),
            Reading("after", "after the fee", "Refunds are counted after the fee that we keep.", value="$other"),
        ),
        measures=("refunds",),
    ),
    ConventionPlan(
        id="product_variants",
        kind=DecisionKind.ENTITY,
        table="products",
        question="Is each variant a product?",
        forms=(
            *parents("parent_product_id|variant_of|base_product_id|parent_article_id", "product_id", "products", 300),
            *parents("style_of|main_item_id|based_on|core_product", "product_id", "products", 300),
            Form(("family_id|model_id|style_id ref product_families",), parts={"parent": "{family_id}"}),
        ),
        readings=entities("product_id", "variant", "product", "all variants of a product"),
        measures=("products",),
        aggregate=_COUNT,
        needs=FAMILIES,
    ),
    ConventionPlan(
        id="retired_products",
        kind=DecisionKind.DELETED,
        table="products",
        question="Do retired products count?",
        forms=(
            *removed("launched_on", 90),
            *flags("is_retired|retired|withdrawn|discontinued", 90, "is_sellable|for_sale|listed|purchasable"),
            *left(
                "launched_on",
                "delisted_on|end_of_life|last_sold_on",
                "availability|catalog_state|lifecycle_phase",
                "discontinued|delisted|phased out|end of life",
                90,
            ),
        ),
        readings=population("products that were taken out of the catalog", "products"),
        expected="without",
        measures=("products",),
    ),
    ConventionPlan(
        id="deal_currency",
        kind=DecisionKind.CURRENCY,
        table="opportunities",
        question="Are deals in other currencies converted?",
        forms=currencies(),
        readings=conversions("deals", "amount"),
        expected="converted",
        measures=("pipeline",),
        needs=RATES,
    ),
    ConventionPlan(
        id="deal_date",
        kind=DecisionKind.DATE,
        table="opportunities",
        question="Does a deal belong to the day it was opened or closed?",
        forms=(
            *later("closed_on|closed_date|closed_day", "created_on", 120),
            *later("signed_on|signature_date|signed_date", "created_on", 90),
        ),
        readings=dates("Deals", "created_on", "opened"),
    ),
    ConventionPlan(
        id="archived_deals",
        kind=DecisionKind.DELETED,
        table="opportunities",
        question="Do deleted deals count?",
        forms=removed("created_on", 80),
        readings=population("deleted deals", "deals"),
        expected="without",
    ),
)

_MONEY: Final = (
    ConventionPlan(
        id="payment_unit",
        kind=DecisionKind.UNIT,
        table="payments",
        question="In which unit are payments stored?",
        forms=(unit("amount|paid_amount|value", "quantity 2000 90000", "0.01", "cents"),),
        readings=units("Payments", "amount"),
        expected="minor",
        measures=("payments_received",),
    ),
    ConventionPlan(
        id="repeated_payments",
        kind=DecisionKind.DUPLICATES,
        table="payments",
        question="Do payments that were recorded twice count twice?",
        forms=(repeated("payment_id", "store_id amount paid_on method", 50),),
        readings=repeats("payments"),
        expected="once",
    ),
    ConventionPlan(
        id="demo_subscriptions",
        kind=DecisionKind.INTERNAL,
        table="subscriptions",
        question="Do demo subscriptions count?",
        forms=(
            *flags("is_demo|is_complimentary|is_internal|is_trial", 80, "is_paying|billable|is_paid_plan"),
            kind("contract_kind|billing_mode|tier", "<demo|internal|trial>", 80, "standard negotiated"),
        ),
        readings=population("demo subscriptions", "subscriptions"),
        expected="without",
    ),
    ConventionPlan(
        id="subscription_statuses",
        kind=DecisionKind.STATUS,
        table="subscriptions",
        question="Subscriptions of which status count?",
        forms=(
            statuses(
                *("status|subscription_status|state", "active=6 past_due=2 paused=1 cancelled=3"),
                dropped="cancelled",
                kept="active",
            ),
            statuses("status_code|state_code|status", "A=6 P=2 H=1 E=3", dropped="E", kept="A"),
            statuses("phase|lifecycle|stage", "running=6 suspended=1 ended=2", dropped="ended", kept="running"),
            codes("status|state_id|status_code", "0=150 4=300 1=1000", dropped="0", kept="1"),
        ),
        readings=status_readings("subscriptions"),
    ),
    ConventionPlan(
        id="invoice_tax",
        kind=DecisionKind.AMOUNT,
        table="invoices",
        question="Are billings with or without tax?",
        forms=(
            Form(
                ("tax|tax_amount|vat amount = round({amount} * 0.19, 2)",),
                parts={"other": "{amount} + {tax}", "words": "without tax", "other_words": "with tax"},
            ),
            Form(
                ("net_amount|amount_before_tax|net_value amount = round({amount} * 0.84, 2)",),
                parts={"other": "{net_amount}", "words": "with tax", "other_words": "without tax"},
            ),
        ),
        readings=(
            Reading("stated", "billings are $words", "Billings are the amount of invoices $words.", value="{amount}"),
            Reading(
                *("adjusted", "billings are $other_words", "Billings are the amount of invoices $other_words."),
                value="$other",
            ),
        ),
        measures=("billings",),
    ),
    ConventionPlan(
        id="invoice_date",
        kind=DecisionKind.DATE,
        table="invoices",
        question="Does an invoice belong to the day it was issued or to a later one?",
        forms=(
            *later("due_on|due_date|due_day", "issued_on", 60),
            *later("paid_on|paid_date|paid_day", "issued_on", 90),
            *later("booked_on|booked_date|booked_day", "issued_on", 60),
            *later("posting_date|accounting_date|ledger_date", "issued_on", 50, "posted"),
        ),
        readings=dates("Invoices", "issued_on", "issued"),
    ),
    ConventionPlan(
        id="invoice_statuses",
        kind=DecisionKind.STATUS,
        table="invoices",
        question="Invoices of which status count?",
        forms=(
            statuses(
                *("status|invoice_status|state", "paid=6 open=3 draft=1 void=1"), dropped="draft void", kept="paid"
            ),
            statuses("status|booking_state", "booked=7 reversed=1 pending=2", dropped="reversed", kept="booked"),
            statuses("stage|doc_status|status", "4=6 3=3 1=1 9=1", dropped="1 9", kept="4"),
            statuses("settlement|posting|clearing", "cleared=6 open=3 disputed=1", dropped="disputed", kept="cleared"),
        ),
        readings=status_readings("invoices"),
    ),
    ConventionPlan(
        id="resent_usage",
        kind=DecisionKind.DUPLICATES,
        table="usage_records",
        question="Does usage that was sent twice count twice?",
        forms=(repeated("usage_id", "subscription_id units used_on", 50),),
        readings=repeats("usage records"),
        expected="once",
    ),
    ConventionPlan(
        id="usage_date",
        kind=DecisionKind.DATE,
        table="usage_records",
        question="Does usage belong to the day it happened or to the day it arrived?",
        forms=(
            *later("received_on|received_date|received_day", "used_on", 60),
            *later("arrived_on|arrival_date|arrived_day", "used_on", 50),
            *later("billed_on|billed_date|billing_date", "used_on", 60),
        ),
        readings=dates("Usage records", "used_on", "measured"),
    ),
    ConventionPlan(
        id="expense_currency",
        kind=DecisionKind.CURRENCY,
        table="expenses",
        question="Are expenses in other currencies converted?",
        forms=currencies(),
        readings=conversions("expenses", "amount"),
        expected="converted",
        measures=("expenses",),
        needs=RATES,
    ),
    ConventionPlan(
        id="expense_statuses",
        kind=DecisionKind.STATUS,
        table="expenses",
        question="Expenses of which status count?",
        forms=(
            statuses(
                *("status|claim_status|decision", "approved=5 reimbursed=4 submitted=2 rejected=1"),
                dropped="rejected",
                kept="approved reimbursed",
            ),
            statuses("status|step|state", "S3=7 S2=3 S1=2 SX=1", dropped="SX", kept="S3"),
            statuses(
                "review|verdict|outcome", "granted=7 waiting=2 turned_down=1", dropped="turned_down", kept="granted"
            ),
        ),
        readings=status_readings("expenses"),
    ),
    ConventionPlan(
        id="expense_date",
        kind=DecisionKind.DATE,
        table="expenses",
        question="Does an expense belong to the day it was made or to a later one?",
        forms=(
            *later("approved_on|approved_date|approved_day", "spent_on", 60),
            *later("reimbursed_on|reimbursed_date|reimbursed_day", "spent_on", 90),
        ),
        readings=dates("Expenses", "spent_on", "made"),
    ),
    ConventionPlan(
        id="fiscal_year",
        kind=DecisionKind.FISCAL_START,
        table="budgets",
        question="In which month does the fiscal year begin?",
        forms=(Form(("fiscal_year|budget_fiscal_year|fy|financial_year ordinal 2023 2025",), parts={}),),
        readings=tuple(
            Reading(
                *(month.lower(), f"the fiscal year begins in {month}"),
                f"The fiscal year begins on 1 {month}; the fiscal year 2024 begins on 1 {month} 2024.",
                time=f"$time - INTERVAL {shift} MONTH",
            )
            for shift, month in ((0, "January"), (3, "April"), (6, "July"), (9, "October"))
        ),
    ),
)

_OPERATIONS: Final = (
    ConventionPlan(
        id="merged_tickets",
        kind=DecisionKind.MERGED,
        table="tickets",
        question="Do tickets that were merged into another one count?",
        forms=merged("ticket_id", "tickets"),
        readings=population("tickets that were merged into another one", "tickets"),
        expected="without",
    ),
    ConventionPlan(
        id="satisfaction",
        kind=DecisionKind.NULLS,
        table="tickets",
        question="Do tickets without a rating count in the average satisfaction?",
        forms=(
            Form(("satisfaction|csat|rating score = CASE WHEN {roll} >= 350 THEN 1 + {roll} % 5 END",)),
            Form(("satisfaction|csat_score|score score = CASE WHEN {roll} >= 200 THEN 1 + {roll} % 5 END",)),
        ),
        readings=missing("satisfaction", "Tickets"),
        expected="ignored",
        measures=("satisfaction",),
        aggregate="round(avg({}), 4)",
    ),
    ConventionPlan(
        id="internal_sessions",
        kind=DecisionKind.INTERNAL,
        table="sessions",
        question="Does internal traffic count?",
        forms=(
            *flags("is_internal|internal_traffic|is_test|synthetic|is_bot", 60, "is_human|is_external|organic"),
            kind("network|network_zone|origin_network", "<office|vpn|corporate>", 60, "public mobile"),
            kind("traffic_type|traffic_class|visitor_type", "<internal|test|monitoring>", 60, "public partner"),
        ),
        readings=population("visits from inside the company", "visits"),
        expected="without",
    ),
    ConventionPlan(
        id="shipment_date",
        kind=DecisionKind.DATE,
        table="shipments",
        question="Does a shipment belong to the day it left or arrived?",
        forms=(
            *later("delivered_on|delivered_date|delivered_day", "shipped_on", 50),
            *later("arrived_on|arrival_date|arrived_day", "shipped_on", 40),
        ),
        readings=dates("Shipments", "shipped_on", "sent"),
    ),
    ConventionPlan(
        id="missing_freight",
        kind=DecisionKind.NULLS,
        table="shipments",
        question="Do shipments without freight cost count in the average?",
        forms=(
            Form(
                (
                    "freight_cost|shipping_cost|freight amount = CASE WHEN {roll} >= 160 "
                    "THEN round(4 + {roll} * 0.07, 2) END",
                )
            ),
        ),
        readings=missing("freight_cost", "Shipments"),
        expected="ignored",
        measures=("average_freight",),
        aggregate="round(avg({}), 4)",
    ),
    ConventionPlan(
        id="purchase_unit",
        kind=DecisionKind.UNIT,
        table="purchase_orders",
        question="In which unit is the value of purchase orders stored?",
        forms=(
            unit("order_value|total_cost|total", "quantity 10000 900000", "0.01", "cents"),
            unit("order_value|total_cost|total", "quantity 100000 9000000", "0.001", "thousandths of a euro"),
        ),
        readings=units("Values of purchase orders", "order_value"),
        expected="minor",
        measures=("purchases",),
    ),
    ConventionPlan(
        id="purchase_statuses",
        kind=DecisionKind.STATUS,
        table="purchase_orders",
        question="Purchase orders of which status count?",
        forms=(
            statuses(
                *("status|po_status|state", "ordered=3 received=6 draft=1 cancelled=1"),
                dropped="draft cancelled",
                kept="received",
            ),
            statuses("progress|step|milestone", "arrived=6 sent=3 recalled=1", dropped="recalled", kept="arrived"),
        ),
        readings=status_readings("purchase orders"),
    ),
    ConventionPlan(
        id="ad_spend_unit",
        kind=DecisionKind.UNIT,
        table="ad_spend",
        question="In which unit is ad spend stored?",
        forms=(
            unit("spend|cost|ad_cost", "quantity 5000000 900000000", "0.000001", "millionths of a euro"),
            unit("spend|cost|media_cost", "quantity 500 90000", "0.01", "cents"),
        ),
        readings=units("Costs of ads", "spend"),
        expected="minor",
        measures=("ad_costs",),
    ),
)

CATALOG: Final[tuple[ConventionPlan, ...]] = (*_PEOPLE, *_SALES, *_MONEY, *_OPERATIONS)
