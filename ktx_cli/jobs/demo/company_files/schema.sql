-- The tables of the demo warehouse. No keys and no unique constraints, as in many real warehouses:
-- what identifies a row, and what refers to what, has to be found in the data and the documents.
CREATE SCHEMA shop;
CREATE SCHEMA finance;

CREATE TABLE shop.regions (
  region_code VARCHAR NOT NULL,
  region_name VARCHAR NOT NULL,
  sales_lead_id INTEGER
);
CREATE TABLE shop.employees (
  employee_id INTEGER NOT NULL,
  full_name VARCHAR NOT NULL,
  email VARCHAR,
  team VARCHAR,
  job_title VARCHAR,
  manager_id INTEGER,
  hired_on DATE
);
CREATE TABLE shop.customers (
  customer_id INTEGER NOT NULL,
  full_name VARCHAR,
  email VARCHAR,
  segment VARCHAR,
  signed_up_on DATE,
  referred_by_customer_id INTEGER,
  newsletter BOOLEAN,
  preferences VARCHAR
);
CREATE TABLE shop.addresses (
  address_id INTEGER NOT NULL,
  customer_id INTEGER NOT NULL,
  street VARCHAR,
  town VARCHAR,
  postal_code VARCHAR,
  region_code VARCHAR
);
CREATE TABLE shop.categories (
  category_id INTEGER NOT NULL,
  category_name VARCHAR NOT NULL,
  department VARCHAR
);
CREATE TABLE shop.products (
  product_id INTEGER NOT NULL,
  sku VARCHAR NOT NULL,
  product_name VARCHAR,
  category_id INTEGER,
  list_price DECIMAL(10, 2),
  unit_cost DECIMAL(10, 2),
  launched_on DATE,
  withdrawn_on DATE,
  attributes VARCHAR
);
CREATE TABLE shop.tags (
  tag_id INTEGER NOT NULL,
  tag_name VARCHAR NOT NULL
);
CREATE TABLE shop.product_tags (
  product_id INTEGER NOT NULL,
  tag_id INTEGER NOT NULL
);
CREATE TABLE shop.orders (
  order_id INTEGER NOT NULL,
  customer_id INTEGER NOT NULL,
  order_date_key INTEGER NOT NULL,
  due_date_key INTEGER NOT NULL,
  ship_date_key INTEGER,
  billing_address_id INTEGER,
  shipping_address_id INTEGER,
  sales_rep_id INTEGER,
  channel VARCHAR,
  status VARCHAR NOT NULL,
  coupon_code VARCHAR
);
CREATE TABLE shop.order_lines (
  order_id INTEGER NOT NULL,
  line_number INTEGER NOT NULL,
  product_id INTEGER NOT NULL,
  quantity INTEGER NOT NULL,
  unit_price DECIMAL(10, 2) NOT NULL,
  discount_amount DECIMAL(10, 2) NOT NULL
);
CREATE TABLE shop.inventory_snapshots (
  snapshot_date_key INTEGER NOT NULL,
  product_id INTEGER NOT NULL,
  on_hand INTEGER,
  reserved INTEGER
);
CREATE TABLE shop.support_tickets (
  ticket_id INTEGER NOT NULL,
  customer_id INTEGER,
  order_id INTEGER,
  agent_id INTEGER,
  opened_at TIMESTAMP,
  closed_at TIMESTAMP,
  status VARCHAR,
  topic VARCHAR,
  message VARCHAR
);
CREATE TABLE finance.calendar (
  date_key INTEGER NOT NULL,
  full_date DATE NOT NULL,
  calendar_year INTEGER,
  calendar_quarter INTEGER,
  calendar_month INTEGER,
  month_start DATE,
  weekday_name VARCHAR,
  is_weekend BOOLEAN,
  fiscal_year INTEGER,
  fiscal_quarter INTEGER,
  fiscal_month INTEGER
);
CREATE TABLE finance.payments (
  payment_id VARCHAR NOT NULL,
  order_id INTEGER NOT NULL,
  customer_id INTEGER,
  payment_date_key INTEGER,
  method VARCHAR,
  status VARCHAR,
  amount DECIMAL(10, 2)
);
CREATE TABLE finance.refunds (
  refund_id INTEGER NOT NULL,
  order_id INTEGER NOT NULL,
  line_number INTEGER NOT NULL,
  refund_date_key INTEGER,
  reason VARCHAR,
  amount DECIMAL(10, 2)
);
CREATE TABLE finance.sales_targets (
  month_start_key INTEGER NOT NULL,
  region_code VARCHAR NOT NULL,
  target_amount DECIMAL(12, 2)
);

COMMENT ON TABLE shop.customers IS 'People and businesses with an account; one row each';
COMMENT ON TABLE shop.orders IS 'One row per order; the amounts are in order_lines';
COMMENT ON TABLE shop.order_lines IS 'What was ordered, one row per order and line number';
COMMENT ON TABLE shop.inventory_snapshots IS 'Stock counted every Sunday, one row per count and product';
COMMENT ON TABLE finance.calendar IS 'One row per day, with the fiscal calendar';
COMMENT ON TABLE finance.payments IS 'Attempts to pay; only settled ones are money';
COMMENT ON TABLE finance.refunds IS 'Money given back for an order line';
COMMENT ON COLUMN shop.customers.email IS 'Personal data';
COMMENT ON COLUMN shop.customers.preferences IS 'Answers of the sign-up form as JSON text';
COMMENT ON COLUMN shop.employees.manager_id IS 'The employee this one reports to; empty for the founder';
COMMENT ON COLUMN shop.orders.ship_date_key IS 'Day it left the greenhouse; empty until then';
COMMENT ON COLUMN shop.orders.due_date_key IS 'Day it was promised to leave the greenhouse';
COMMENT ON COLUMN shop.orders.sales_rep_id IS 'Who took the order; empty for web and app';
COMMENT ON COLUMN shop.order_lines.discount_amount IS 'For the whole line, not for one piece';
COMMENT ON COLUMN shop.order_lines.unit_price IS 'Price on the day of the order, in euros without tax';
COMMENT ON COLUMN finance.payments.customer_id IS 'Customer, or a guest card number at fairs';
COMMENT ON COLUMN finance.calendar.fiscal_year IS 'Named after the calendar year it begins in; begins on 1 February';
