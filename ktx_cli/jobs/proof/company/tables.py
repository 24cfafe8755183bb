"""The company's tables: the meaning of each column, its possible names, and how its values are drawn.

A line is a column: its names (the seed chooses one), its kind, and what the kind needs. A heading is a table: its
names, its role and its rows. `warehouse.py` explains the roles and kinds.
"""

from __future__ import annotations

from typing import Final

TABLES: Final = """
# crm.accounts|crm.companies entity 320
account_id|company_id|id        key
name                            name
parent_account_id|parent_id     ref accounts 0.9
industry                        status retail=5 software=3 logistics=2 health=2
country_code                    status DE=5 FR=3 NL=2 PL=1
zip|postal_code                 code 10000 99999
employees|employee_count        measure 1 5000
annual_revenue                  state 100000 90000000
credit_limit                    state 0 50000
is_test|is_internal             flag 0.03
vip|is_key_account              flag 0.2
created_at                      time
updated_at                      time

# crm.contacts|crm.people entity 700
contact_id|id                   key
account_id|company_id           ref accounts
email                           email
phone                           code 1000000 9999999
first_name                      name
lead_score|score                score 0 100
newsletter_opt_in|is_subscribed flag 0.4
birth_year                      ordinal 1950 2004
created_at                      time

# crm.leads fact 900
lead_id|id                      key
contact_id                      ref contacts 0.3
source|lead_source              status ads=5 web=4 event=2 partner=1
status|lead_status              enum new=4 working=3 qualified=2 disqualified=2
score                           score 0 100
probability                     share
expected_value|estimated_value  state 100 20000
is_duplicate                    flag 0.06
created_at|received_at          time
first_touch_at                  time

# crm.opportunities|crm.deals fact 640
opportunity_id|deal_id|id       key
account_id|company_id           ref accounts
owner_id                        ref employees
stage                           check prospecting=4 proposal=3 negotiation=2 won=3 lost=4
amount|deal_value               amount 500 90000
win_probability|probability     percent
stage_number                    ordinal 1 6
discount_pct                    percent
currency                        status EUR=1
created_at                      time
closed_on|close_date            date

# crm.activities fact 1500
activity_id|id                  key
opportunity_id|deal_id          ref opportunities 0.2
employee_id                     ref employees
type|activity_type              status call=5 mail=6 meeting=2
duration_minutes|minutes        duration 1 90
priority                        ordinal 1 5
completed|is_done               flag 0.7
happened_at|occurred_at         time

# sales.products|sales.articles entity 260
product_id|article_id|id        key
category_id                     ref categories
sku                             code 100000 999999
name                            name
list_price|price                price 2 400
unit_cost|standard_cost         price 1 200
weight_kg|weight                measure 0.1 40
height_cm                       measure 2 200
min_order_qty                   state 1 12
rating|avg_rating               score 1 5
sort_order                      ordinal 1 260
discontinued|is_discontinued    flag 0.1
attributes                      json
launched_on                     date

# sales.categories lookup 24
category_id                     key
name                            name
level                           ordinal 1 3
tax_rate                        share

# sales.orders|sales.fct_orders|sales.order_headers fact 2200
order_id|id                     key
customer_id|account_id          ref accounts
ordered_by|contact_id           ref contacts 0.1
store_id                        ref stores 0.4
channel                         status web=6 app=4 phone=1 store=3
status|order_status             check placed=1 paid=3 shipped=4 cancelled=1 returned=1
subtotal|net_amount             amount 10 900
tax_amount|vat_amount           amount 2 180
tax_rate|vat_rate               share
shipping_cost|shipping_fee      amount 0 30
total_amount|grand_total        amount 12 1100
item_count|num_items            quantity 1 12
exchange_rate|fx_rate           rate 0.8 1.3
is_gift                         flag 0.1
is_test_order|is_test           flag 0.02
ordered_at|placed_at|order_date time
shipped_at                      time
order_year                      ordinal 2023 2025
updated_at                      time

# sales.order_items|sales.order_lines fact 4800
order_item_id|line_id|id        key
order_id                        ref orders
product_id|article_id           ref products
line_number|position            ordinal 1 12
quantity|qty                    quantity 1 8
unit_price                      price 2 400
discount|discount_amount        amount 0 60
discount_percent|discount_rate  percent
line_total|line_amount          amount 4 2000
returned|is_returned            flag 0.08

# sales.returns fact 240
return_id|id                    key
order_id                        ref orders
reason|reason_code              status damaged=3 wrong=2 late=1 other=1
refund_amount                   amount 5 400
restocking_fee                  amount 0 25
quantity|units_returned         quantity 1 4
returned_at                     time

# sales.payments|sales.transactions fact 2300
payment_id|transaction_id|id    key
order_id                        ref orders
method|payment_method           enum card=6 transfer=2 wallet=3 cash=1
status                          check settled=8 failed=1 pending=1
amount_cents|amount_in_cents    amount 500 90000
fee_cents                       amount 10 900
attempt|attempt_no              ordinal 1 4
card_last4                      code 1000 9999
risk_score                      score 0 1000
paid_at|processed_at            time

# sales.coupons entity 80
coupon_id|id                    key
code                            name
percent_off                     percent
max_uses                        state 10 1000
times_used                      running 0 400
active|is_active                flag 0.6
expires_on                      date

# sales.coupon_redemptions fact 400
redemption_id|id                key
coupon_id                       ref coupons
order_id                        ref orders
discount_amount|discount_value  amount 1 80
redeemed_at                     time

# sales.stores|sales.shops entity 60
store_id|id                     key
name                            name
latitude|lat                    place 47 54
longitude|lng                   place 6 14
floor_area_sqm                  measure 40 900
opened_year                     ordinal 1998 2024
monthly_rent                    state 900 9000
is_flagship                     flag 0.1
opened_on                       date

# sales.exchange_rates|sales.fx_rates states 600
id                              key
currency                        status EUR=1 USD=1 GBP=1
rate                            rate 0.7 1.4
valid_on                        date

# sales.price_history states 700
id                              key
product_id                      ref products
price                           price 2 400
valid_from                      period_start
valid_to                        period_end

# billing.plans lookup 12
plan_id                         key
name                            name
monthly_price                   price 9 300
seats_included                  state 1 50
trial_days                      state 0 30

# billing.subscriptions|billing.contracts fact 520
subscription_id|contract_id|id  key
account_id|company_id           ref accounts
plan_id                         ref plans
status                          enum trialing=1 active=6 past_due=1 canceled=3
mrr|monthly_amount              state 9 2000
seats                           state 1 60
billing_day                     ordinal 1 28
auto_renew                      flag 0.8
started_on|start_date           date
canceled_at                     time

# billing.invoices fact 1700
invoice_id|id                   key
subscription_id|contract_id     ref subscriptions
invoice_number|invoice_no       code 100000 999999
status                          check draft=1 open=2 paid=8 void=1
amount_due|amount_billed        amount 9 3000
tax                             amount 1 570
amount_remaining|balance_due    balance 0 3000
days_overdue                    measure 0 120
fiscal_year                     ordinal 2023 2025
period|period_month             ordinal 1 12
issued_on|invoice_date          date
due_on|due_date                 date

# billing.credit_notes fact 160
credit_note_id|id               key
invoice_id                      ref invoices
credit_amount|amount            amount 5 900
issued_at                       time

# billing.usage_records|billing.usage fact 2600
usage_id|id                     key
subscription_id|contract_id     ref subscriptions
api_calls|request_count         quantity 1 9000
storage_gb                      state 1 500
bytes_transferred               quantity 1000 9000000
meter_reading                   running 0 90000
recorded_at|measured_at         time

# billing.subscription_events fact 900
event_id|id                     key
subscription_id|contract_id     ref subscriptions
event_type                      status created=3 upgraded=2 downgraded=1 canceled=2
previous_mrr                    state 0 2000
new_mrr                         state 0 2000
mrr_delta|mrr_change            amount -500 800
occurred_at                     time

# billing.mrr_snapshots|billing.mrr_daily states 800
id                              key
subscription_id|contract_id     ref subscriptions
mrr                             state 9 2000
active_seats                    state 1 60
snapshot_date                   date

# support.tickets|support.cases fact 1100
ticket_id|case_id|id            key
contact_id                      ref contacts
agent_id                        ref employees 0.1
status                          check open=2 pending=2 solved=6 closed=4
priority                        status low=3 normal=6 high=2 urgent=1
satisfaction_score|csat         score 1 5
first_response_minutes          measure 1 2000
resolution_hours                measure 1 300
reply_count|num_replies         quantity 0 20
reopened|was_reopened           flag 0.1
escalated|is_escalated          flag 0.07
opened_at|created_at            time
solved_at|closed_at             time

# support.messages|support.ticket_messages fact 3000
message_id|id                   key
ticket_id|case_id               ref tickets
is_public                       flag 0.8
sentiment                       score -1 1
word_count                      quantity 1 400
sent_at                         time

# support.calls fact 700
call_id|id                      key
agent_id                        ref employees
caller_number                   code 1000000 9999999
talk_seconds|talk_time_seconds  duration 5 2400
wait_seconds                    wait 0 600
answered|was_answered           flag 0.9
called_at                       time

# support.sla_policies lookup 6
policy_id                       key
name                            name
target_hours                    state 1 72

# hr.employees|hr.staff entity 180
employee_id|id                  key
manager_id                      ref employees 0.1
department_id                   ref departments
first_name                      name
email                           email
salary|annual_salary            state 24000 150000
age                             measure 18 66
fte|employment_rate             share
vacation_days_left              balance 0 30
is_contractor                   flag 0.1
hired_on                        date

# hr.departments lookup 14
department_id                   key
name                            name
cost_center                     code 1000 9999
headcount                       state 3 40
budget                          state 50000 900000

# hr.timesheets|hr.time_entries fact 2600
timesheet_id|entry_id|id        key
employee_id                     ref employees
project_id                      ref projects
hours|hours_worked              duration 1 9
hourly_rate                     price 40 150
billable|is_billable            flag 0.7
week|week_number                ordinal 1 53
work_date|worked_on             date

# hr.projects entity 60
project_id                      key
account_id|company_id           ref accounts
name                            name
budget                          amount 5000 200000
completion_pct                  percent
started_on                      date

# hr.payroll_runs|hr.payslips fact 1600
payslip_id|id                   key
employee_id                     ref employees
gross_pay|gross_amount          amount 1800 9000
net_pay|net_amount              amount 1200 6000
bonus                           amount 0 3000
tax_class                       ordinal 1 6
ytd_gross                       running 1800 90000
paid_on|pay_date                date

# hr.absences|hr.leave_requests fact 480
absence_id|id                   key
employee_id                     ref employees
type                            status vacation=6 sick=4 parental=1
days                            quantity 1 15
approved|is_approved            flag 0.9
started_on|start_date           date

# hr.salary_history states 300
id                              key
employee_id                     ref employees
salary                          state 24000 150000
effective_from                  period_start
effective_to                    period_end

# hr.reviews|hr.performance_reviews fact 320
review_id|id                    key
employee_id                     ref employees
rating                          score 1 5
percentile                      percent
reviewed_on                     date

# finance.gl_entries|finance.journal_lines|finance.ledger_entries fact 5200
entry_id|line_id|id             key
gl_account_id                   ref gl_accounts
journal_no|document_number      code 100000 999999
debit|debit_amount              amount 0 9000
credit|credit_amount            amount 0 9000
running_balance|balance_after   balance -90000 90000
fiscal_period                   ordinal 1 12
is_reversal                     flag 0.03
posted_on|posting_date          date

# finance.gl_accounts|finance.chart_of_accounts lookup 70
gl_account_id                   key
account_number                  code 1000 9999
name                            name
opening_balance                 balance -90000 90000

# finance.account_balances|finance.monthly_balances states 840
id                              key
gl_account_id                   ref gl_accounts
closing_balance|balance         balance -90000 90000
month                           date

# finance.budgets|finance.budget_targets states 400
id                              key
department_id                   ref departments
target_amount|planned_amount    state 1000 90000
year                            ordinal 2023 2025
month                           ordinal 1 12
valid_for                       date

# finance.expenses|finance.expense_claims fact 900
expense_id|claim_id|id          key
employee_id                     ref employees
category                        status travel=4 meals=3 hardware=2
amount                          mixed 5 900
currency                        currency EUR=6 USD=2 GBP=1
reimbursed|is_reimbursed        flag 0.8
mileage_rate                    price 0.3 0.5
distance_km                     quantity 1 600
spent_on|expense_date           date

# finance.bank_transactions fact 1500
transaction_id|id               key
bank_account_id                 ref bank_accounts
amount                          amount -9000 9000
balance|balance_after           balance 1000 900000
reconciled|is_reconciled        flag 0.9
booked_on|value_date            date

# finance.bank_accounts lookup 55
bank_account_id                 key
iban_suffix                     code 1000 9999
current_balance|balance         balance 1000 900000

# inventory.warehouses lookup 8
warehouse_id                    key
name                            name
capacity                        state 1000 90000

# inventory.stock_levels|inventory.stock states 1300
id                              key
product_id|article_id           ref products
warehouse_id                    ref warehouses
on_hand|quantity_on_hand        balance 0 500
reserved                        balance 0 90
reorder_level                   state 5 80
counted_on                      date

# inventory.stock_movements|inventory.movements fact 3400
movement_id|id                  key
product_id|article_id           ref products
warehouse_id                    ref warehouses
quantity|quantity_moved         quantity -60 60
unit_cost                       price 1 200
stock_after                     balance 0 500
moved_at|movement_date          time

# inventory.purchase_orders fact 460
purchase_order_id|po_id|id      key
supplier_id                     ref suppliers
status                          check ordered=2 received=6 cancelled=1
total_cost|order_value          amount 100 40000
lead_time_days                  measure 1 60
approved|is_approved            flag 0.85
ordered_on                      date

# inventory.suppliers entity 70
supplier_id                     key
name                            name
on_time_rate|reliability        share
payment_terms_days              state 7 60
quality_score                   score 1 10
onboarded_on                    date

# inventory.shipments|inventory.deliveries fact 1400
shipment_id|delivery_id|id      key
order_id                        ref orders
carrier_id                      ref carriers
tracking_number                 code 1000000 9999999
weight_kg                       measure 0.1 60
freight_cost|shipping_cost      amount 3 90
parcels|parcel_count            quantity 1 5
temperature_c                   measure -20 30
delivered_late|is_late          flag 0.12
shipped_at|dispatched_at        time

# inventory.carriers lookup 30
carrier_id                      key
name                            name
rating                          score 1 5

# marketing.campaigns entity 90
campaign_id                     key
name                            name
channel                         status search=4 social=4 mail=2
budget|planned_budget           amount 500 40000
target_cpa                      price 3 90
is_active|active                flag 0.5
started_on                      date

# marketing.ad_spend|marketing.ad_performance fact 2400
id|row_id                       key
campaign_id                     ref campaigns
impressions                     quantity 100 90000
clicks                          quantity 1 4000
conversions                     quantity 0 200
spend|cost                      amount 5 900
ctr                             share
cpc|avg_cpc                     price 0.1 4
quality_score                   score 1 10
day|spend_date                  date

# marketing.email_sends|marketing.emails fact 2800
send_id|id                      key
campaign_id                     ref campaigns
contact_id                      ref contacts
opened|was_opened               flag 0.35
clicked|was_clicked             flag 0.08
bounced|is_bounced              flag 0.03
open_count                      quantity 0 9
sent_at                         time

# web.sessions|web.visits fact 3600
session_id|visit_id|id          key
contact_id                      ref contacts 0.6
device                          status desktop=5 mobile=6 tablet=1
page_views|pageviews            quantity 1 40
duration_seconds|session_seconds duration 1 3600
scroll_depth                    share
converted|has_converted         flag 0.05
is_bot                          flag 0.08
bounce                          flag 0.4
started_at                      time

# web.events|web.page_events fact 6000
event_id|id                     key
session_id|visit_id             ref sessions
event_name                      status view=8 click=4 submit=1
x_position                      measure 0 1900
load_ms|load_time_ms            measure 20 9000
sequence_number|event_index     ordinal 1 40
payload|properties              json
schema_version|version          ordinal 1 4
occurred_at|event_time          time

# web.experiments lookup 16
experiment_id                   key
name                            name
traffic_share                   share

# web.experiment_assignments fact 1500
assignment_id|id                key
experiment_id                   ref experiments
session_id|visit_id             ref sessions
variant                         status control=1 treatment=1
weight                          share
converted                       flag 0.1
assigned_at                     time

# analytics.dim_date|analytics.calendar lookup 1100
date_key                        key
day                             date
day_of_year                     ordinal 1 366
week_number|iso_week            ordinal 1 53
fiscal_quarter                  ordinal 1 4
is_holiday                      flag 0.04

# analytics.dim_customer_versions|analytics.dim_account_scd states 520
version_key                     key
account_id|company_id           ref accounts
segment                         status small=5 mid=3 large=1
credit_limit                    state 0 50000
is_current                      flag 0.6
valid_from                      period_start
valid_to                        period_end

# analytics.account_contacts|analytics.account_contact_map bridge 600
account_id|company_id           ref accounts
contact_id                      ref contacts

# analytics.audit_log|analytics.change_audit states 1500
id                              key
table_name                      status orders=3 invoices=2
record_id                       code 1 5000
old_value                       state 0 900
new_value                       state 0 900
changed_at                      time

# staging.stg_orders|staging.raw_orders copy 900
order_id                        key
customer_id|account_id          ref accounts
total_amount|amount             amount 12 1100
quantity                        quantity 1 9
ordered_at                      time

# staging.stg_payments|staging.tmp_payments copy 900
payment_id                      key
order_id                        ref orders
amount_cents                    amount 500 90000
paid_at                         time

# staging.invoices_backup|staging.old_invoices copy 500
invoice_id                      key
amount_due                      amount 9 3000
issued_on                       date
"""
