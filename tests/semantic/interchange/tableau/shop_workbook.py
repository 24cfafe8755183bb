"""A shop in DuckDB, and a Tableau workbook about it with calculated fields and the SQL that states their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR, region VARCHAR, signed_up DATE, credit INTEGER);
INSERT INTO customers VALUES
  (1, 'Ann Lee', 'north', DATE '2023-12-01', 10), (2, 'Bob', 'south', DATE '2024-01-15', 20),
  (3, 'Cid Roy', 'north', DATE '2024-02-20', NULL), (4, 'Dee', NULL, DATE '2024-03-01', 5);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, ordered_at TIMESTAMP NOT NULL, shipped_on DATE,
  status VARCHAR, amount DECIMAL(10,2), cost DOUBLE, quantity INTEGER NOT NULL, is_gift BOOLEAN);
INSERT INTO orders VALUES
  (1, 1, '2024-01-05 10:00', '2024-01-08', 'paid', 100, 60, 3, false),
  (2, 1, '2024-01-20 11:15', '2024-01-20', 'paid', 50, 20, 2, true),
  (3, 2, '2024-02-04 09:30', NULL, 'open', 70, NULL, 7, NULL),
  (4, 2, '2024-02-10 23:00', '2024-03-02', 'paid', NULL, 30, 4, true),
  (5, 3, '2024-03-01 08:00', '2024-03-10', 'paid', 20, 20, 1, false),
  (6, NULL, '2024-12-31 08:00', '2025-01-02', 'open', 5, 7, 9, false),
  (7, 4, '2025-01-01 00:00', NULL, 'lost', NULL, 4, 2, NULL),
  (8, 1, '2025-02-14 18:45', '2025-02-15', NULL, 12.5, 0, 5, true);
CREATE TABLE items (order_id INTEGER, line INTEGER, sku VARCHAR, price DECIMAL(10,2), PRIMARY KEY (order_id, line));
INSERT INTO items VALUES
  (1, 1, 'a-1', 30), (1, 2, 'b-1', 40), (2, 1, 'a-2', 50), (3, 1, 'c-9', 10), (4, 1, 'a-1', 30), (5, 1, 'b-2', 10);
"""
MANIFEST = """\
tables:
  customers:
    table: main.customers
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: name, type: string}
      - {name: region, type: string}
      - {name: signed_up, type: time, natural_granularity: day}
      - {name: credit, type: number}
  orders:
    table: main.orders
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: customer_id, type: number}
      - {name: ordered_at, type: time, nullable: false}
      - {name: shipped_on, type: time, natural_granularity: day}
      - {name: status, type: string}
      - {name: amount, type: number}
      - {name: cost, type: number}
      - {name: quantity, type: number, nullable: false}
      - {name: is_gift, type: boolean}
  items:
    table: main.items
    columns:
      - {name: order_id, type: number, pk: true}
      - {name: line, type: number, pk: true}
      - {name: sku, type: string}
      - {name: price, type: number}
"""


@dataclass(frozen=True)
class Field:
    """A calculated field. `sql` is its value on DuckDB in words of Tableau: of a group of orders for an aggregate, of a
    row of orders (`o`) joined to its customer (`c`) otherwise. `why` is a part of the reason if it is not translated.
    `over` is the table that an aggregate counts.
    """

    caption: str
    formula: str
    sql: str = ""
    why: str = ""
    datatype: str = "real"
    over: str = "orders"

    @property
    def name(self) -> str:
        return f"Calculation_{abs(hash_of(self.caption)):010d}"


def hash_of(text: str) -> int:
    return sum(ord(char) * (index + 7) ** 3 for index, char in enumerate(text))


MEASURES = (
    # Aggregations.
    Field("Sales", "SUM([amount])", "sum(amount)"),
    Field("Order Count", "COUNT([id])", "count(id)", datatype="integer"),
    Field("Buyers", "COUNTD([customer_id])", "count(DISTINCT customer_id)", datatype="integer"),
    Field("Average Sale", "AVG([amount])", "avg(amount)"),
    Field("Typical Quantity", "MEDIAN([quantity])", "median(quantity)"),
    Field("Ninth Decile", "PERCENTILE([amount], 0.9)", "quantile_cont(amount, 0.9)"),
    Field("Spread", "STDEV([quantity])", "stddev_samp(quantity)"),
    Field("Last Order", "MAX([ordered_at])", "max(ordered_at)", datatype="datetime"),
    Field("Order Rows", "COUNT([__tableau_internal_object_id__].[orders_1A])", "count(*)", datatype="integer"),
    # Ratios and NULL.
    Field("Margin", "(SUM([amount]) - SUM([cost])) / SUM([amount])", "(sum(amount) - sum(cost)) / sum(amount)"),
    Field("Margin Percent", "[Calculation_MARGIN] * 100", "(sum(amount) - sum(cost)) / sum(amount) * 100"),
    Field("Sales or Zero", "ZN(SUM([amount])) - ZN(SUM([cost]))", "coalesce(sum(amount), 0) - coalesce(sum(cost), 0)"),
    Field("Profit", "SUM([amount] - [cost])", "sum(amount - cost)"),
    Field("Per Buyer", "SUM([amount]) / COUNTD([customer_id])", "sum(amount) / nullif(count(DISTINCT customer_id), 0)"),
    Field("Whole Ratio", "SUM([quantity]) / COUNT([amount])", "sum(quantity)::DOUBLE / nullif(count(amount), 0)"),
    Field("Average of Ratios", "AVG([quantity] / 2)", "avg(quantity / 2.0)"),
    Field("Cost Share", "SUM([amount] / [cost])", "sum(amount / nullif(cost, 0))"),
    Field("Remainder", "SUM([quantity]) % 4", "sum(quantity) % 4", datatype="integer"),
    Field(
        "Verdict",
        "IF SUM([amount]) > 90 THEN 'good' ELSEIF SUM([amount]) > 10 THEN 'fair' ELSE 'poor' END",
        "CASE WHEN sum(amount) > 90 THEN 'good' WHEN sum(amount) > 10 THEN 'fair' ELSE 'poor' END",
        datatype="string",
    ),
    # Filters inside aggregates.
    Field("Paid Sales", "SUM(IF [status] = 'paid' THEN [amount] END)", "sum(amount) FILTER (status = 'paid')"),
    Field(
        "Paid Share",
        "SUM(IF [status] = 'paid' THEN [amount] END) / SUM([amount])",
        "sum(amount) FILTER (status = 'paid') / sum(amount)",
    ),
    Field(
        "Gift Buyers",
        "COUNTD(IF [is_gift] THEN [customer_id] END)",
        "count(DISTINCT customer_id) FILTER (is_gift)",
        datatype="integer",
    ),
    Field(
        "Small Orders",
        "SUM(IIF([amount] < 60, 1, 0))",
        "sum(CASE WHEN amount < 60 THEN 1 WHEN amount >= 60 THEN 0 END)",
        datatype="integer",
    ),
    Field(
        "Known or Small",
        "SUM(IIF([amount] < 60, 1, 0, 5))",
        "sum(CASE WHEN amount < 60 THEN 1 WHEN amount >= 60 THEN 0 ELSE 5 END)",
        datatype="integer",
    ),
    Field(
        "Weighted",
        "SUM(CASE [status] WHEN 'paid' THEN 2 WHEN 'open' THEN 1 ELSE 0 END)",
        "sum(CASE status WHEN 'paid' THEN 2 WHEN 'open' THEN 1 ELSE 0 END)",
        datatype="integer",
    ),
    Field(
        "Listed",
        "COUNT(IF [status] IN ('paid', 'lost') THEN [id] END)",
        "count(id) FILTER (status IN ('paid', 'lost'))",
        datatype="integer",
    ),
    Field(
        "Northern Sales",
        "SUM(IF [region] = 'north' THEN [amount] END)",
        "sum(amount) FILTER (customer_id IN (SELECT id FROM customers WHERE region = 'north'))",
    ),
    Field(
        "Big Orders",
        "SUM(IF [amount] >= [Parameters].[Parameter 1] THEN 1 ELSE 0 END)",
        "sum(CASE WHEN amount >= 50 THEN 1 ELSE 0 END)",
        datatype="integer",
    ),
    # Time.
    Field(
        "Sales of 2024",
        "SUM(IF YEAR([ordered_at]) = 2024 THEN [amount] END)",
        "sum(amount) FILTER (year(ordered_at) = 2024)",
    ),
    Field(
        "Days to Ship",
        "AVG(DATEDIFF('day', [ordered_at], [shipped_on]))",
        "avg(date_diff('day', ordered_at::DATE, shipped_on))",
    ),
    Field(
        "Months to Ship",
        "SUM(DATEDIFF('month', [ordered_at], [shipped_on]))",
        "sum(date_diff('month', ordered_at::DATE, shipped_on))",
        datatype="integer",
    ),
    Field(
        "Weeks to Ship",
        "SUM(DATEDIFF('week', [ordered_at], [shipped_on]))",
        "sum((SELECT sum((dayofweek(d) = 0)::INT) FROM"
        " generate_series(ordered_at::DATE, shipped_on, INTERVAL 1 DAY) AS t(d) WHERE d > ordered_at))",
        datatype="integer",
    ),
    Field(
        "Old Orders",
        "COUNT(IF [ordered_at] < DATEADD('month', -3, TODAY()) THEN [id] END)",
        "count(id) FILTER (ordered_at < today() - INTERVAL 3 MONTH)",
        datatype="integer",
    ),
    Field(
        "Late",
        "SUM(IF [shipped_on] > DATEADD('day', 2, [ordered_at]) THEN 1 ELSE 0 END)",
        "sum(CASE WHEN shipped_on > ordered_at + INTERVAL 2 DAY THEN 1 ELSE 0 END)",
        datatype="integer",
    ),
    Field(
        "Since New Year",
        "COUNT(IF [ordered_at] >= #2025-01-01# THEN [id] END)",
        "count(id) FILTER (ordered_at >= DATE '2025-01-01')",
        datatype="integer",
    ),
    # Other tables, and levels of detail.
    Field("Items Sold", "COUNT([sku])", "count(sku)", datatype="integer", over="items"),
    Field("Item Value", "SUM([price])", "sum(price)", over="items"),
    Field("Credit", "SUM([credit])", "sum(credit)", over="customers"),
    Field("Repeat Total", "SUM({FIXED [customer_id] : SUM([amount])})", "fixed"),
    Field("Average Customer", "AVG({FIXED [customer_id] : SUM([amount])})", "fixed"),
    Field("Average Region", "AVG({FIXED [region] : SUM([amount])})", "fixed"),
    Field("Best Quantity", "MAX({FIXED [quantity] : SUM([amount])})", "fixed"),
    Field("Average Buyer", "AVG({INCLUDE [customer_id] : SUM([amount])})", "include"),
    Field("Running Sales", "RUNNING_SUM(SUM([amount]))", why="table calculation, which depends on the rows of a view"),
    Field("Previous Sales", "LOOKUP(SUM([amount]), -1)", why="use a measure with `offset`"),
    Field("Sales Rank", "RANK(SUM([amount]))", why="sort the query with `order_by`"),
    Field("Share of Total", "SUM([amount]) / TOTAL(SUM([amount]))", why="use a measure with `percent_of`"),
    Field(
        "Share of All", "SUM([amount]) / MIN({FIXED : SUM([amount])})", why="for a share of a total, use `percent_of`"
    ),
    Field(
        "Without Status", "SUM({EXCLUDE [status] : SUM([amount])})", why="EXCLUDE expression depends on the dimensions"
    ),
    Field("Moving", "WINDOW_AVG(SUM([amount]), -2, 0)", why="for a moving period"),
    Field("Model", "SCRIPT_REAL('x', SUM([amount]))", why="it calls a service outside the database"),
    Field("Broken", "SUM([amount]", why="the formula is not valid at character 13"),
    Field("Mixed", "SUM([amount]) / [quantity]", why="it mixes values of rows and aggregates"),
    Field("Of a Moving", "[Calculation_MOVING] * 2", why="it uses `Moving`, which was not imported"),
)
DIMENSIONS = (
    Field("Order Month", "DATETRUNC('month', [ordered_at])", "date_trunc('month', o.ordered_at)", datatype="datetime"),
    Field(
        "Order Week",
        "DATETRUNC('week', [ordered_at])",
        "date_trunc('week', o.ordered_at::DATE + 1)::DATE - 1",
        datatype="date",
    ),
    Field(
        "Monday Week",
        "DATETRUNC('week', [ordered_at], 'monday')",
        "date_trunc('week', o.ordered_at::DATE)::DATE",
        datatype="date",
    ),
    Field("Weekday", "DATEPART('weekday', [ordered_at])", "dayofweek(o.ordered_at) + 1", datatype="integer"),
    Field(
        "Week Number",
        "WEEK([ordered_at])",
        "(SELECT count(*) FROM generate_series(date_trunc('year', o.ordered_at), o.ordered_at, INTERVAL 1 DAY) AS t(d)"
        " WHERE dayofweek(d) = 0 OR dayofyear(d) = 1)",
        datatype="integer",
    ),
    Field(
        "Quarter Label",
        "'Q' + STR(DATEPART('quarter', [ordered_at]))",
        "'Q' || quarter(o.ordered_at)",
        datatype="string",
    ),
    Field(
        "Due",
        "DATE(DATEADD('quarter', 1, [ordered_at]))",
        "CAST(o.ordered_at + INTERVAL 3 MONTH AS DATE)",
        datatype="date",
    ),
    Field(
        "State",
        "UPPER(LEFT([status], 1)) + MID([status], 2)",
        "upper(left(o.status, 1)) || substr(o.status, 2)",
        datatype="string",
    ),
    Field("Has Space", "CONTAINS([name], ' ')", "contains(c.name, ' ')", datatype="boolean"),
    Field(
        "Ends",
        "ENDSWITH([name], 'e') OR STARTSWITH([name], 'B')",
        "ends_with(c.name, 'e') OR starts_with(c.name, 'B')",
        datatype="boolean",
    ),
    Field("First Name", "SPLIT([name], ' ', 1)", "split_part(c.name, ' ', 1)", datatype="string"),
    Field(
        "Size Class",
        "IF [amount] > 60 THEN 'big' ELSEIF [amount] > 10 THEN 'middle' ELSE 'small or unknown' END",
        "CASE WHEN o.amount > 60 THEN 'big' WHEN o.amount > 10 THEN 'middle' ELSE 'small or unknown' END",
        datatype="string",
    ),
    Field("Unit Price", "[amount] / [quantity]", "o.amount::DOUBLE / nullif(o.quantity, 0)"),
    Field("Half", "[quantity] / 2", "o.quantity / 2.0"),
    Field("Whole Half", "DIV([quantity], 2)", "o.quantity // 2", datatype="integer"),
    Field("Whole Price", "INT([amount] / [quantity])", "trunc(o.amount::DOUBLE / o.quantity)", datatype="integer"),
    Field(
        "Smaller",
        "MIN([amount], [cost])",
        "CASE WHEN o.amount IS NOT NULL AND o.cost IS NOT NULL THEN least(o.amount::DOUBLE, o.cost) END",
    ),
    Field(
        "Region or None",
        "IFNULL([region], 'none') + '!'",
        "CASE WHEN c.id IS NOT NULL THEN coalesce(c.region, 'none') || '!' END",
        datatype="string",
    ),
    Field("Not a Gift", "NOT [is_gift]", "NOT o.is_gift", datatype="boolean"),
    Field("Power", "[quantity] ^ 2 + SQUARE([quantity])", "2 * o.quantity ** 2"),
    Field(
        "Customer Since",
        "DATEDIFF('year', [signed_up], [ordered_at])",
        "year(o.ordered_at) - year(c.signed_up)",
        datatype="integer",
    ),
    Field(
        "First Order",
        "{FIXED [customer_id] : MIN([ordered_at])}",
        "(SELECT min(p.ordered_at) FROM orders p WHERE p.customer_id = o.customer_id)",
        datatype="datetime",
    ),
    Field(
        "Is First",
        "[ordered_at] = {FIXED [customer_id] : MIN([ordered_at])}",
        "o.ordered_at = (SELECT min(p.ordered_at) FROM orders p WHERE p.customer_id = o.customer_id)",
        datatype="boolean",
    ),
    Field(
        "Region Total",
        "{FIXED [region] : SUM([amount] - [cost])}",
        "(SELECT sum(p.amount - p.cost) FROM orders p JOIN customers d ON d.id = p.customer_id"
        " WHERE d.region = c.region)",
    ),
    Field("Order Year", "YEAR([Calculation_MONTH])", "year(o.ordered_at)", datatype="integer"),
    Field("Weekday Name", "DATENAME('weekday', [ordered_at])", why="depends on the language", datatype="string"),
    Field("Mine", "[name] = USERNAME()", why="write a row policy", datatype="boolean"),
    Field("Distance", "DISTANCE([name], [region], 'km')", why="does not support the function `DISTANCE`"),
    Field("Fixed Month", "{FIXED MONTH([ordered_at]) : SUM([amount])}", why="is computed; ktx joins on columns"),
)
FIELDS = (*MEASURES, *DIMENSIONS)

_COLUMNS = {
    "customers": {"id": "integer", "name": "string", "region": "string", "signed_up": "date", "credit": "integer"},
    "orders": {
        "id": "integer", "customer_id": "integer", "ordered_at": "datetime", "shipped_on": "date", "status": "string",
        "amount": "real", "cost": "real", "quantity": "integer", "is_gift": "boolean",
    },
    "items": {"order_id": "integer", "line": "integer", "sku": "string", "price": "real"},
}  # fmt: skip


def local_name(table: str, column: str) -> str:
    return "id (customers)" if (table, column) == ("customers", "id") else column


def _records() -> str:
    lines = []
    for table, columns in _COLUMNS.items():
        for column, kind in columns.items():
            lines.append(
                f"<metadata-record class='column'><remote-name>{column}</remote-name>"
                f"<local-name>[{local_name(table, column)}]</local-name><parent-name>[{table}]</parent-name>"
                f"<local-type>{kind}</local-type></metadata-record>"
            )
    return "\n".join(lines)


def calculated(field: Field) -> str:
    formula = field.formula
    for caption, mark in (("Margin", "MARGIN"), ("Moving", "MOVING"), ("Order Month", "MONTH")):
        name = next(each.name for each in FIELDS if each.caption == caption)
        formula = formula.replace(f"Calculation_{mark}", name)
    role = "measure" if field in MEASURES else "dimension"
    return (
        f"<column caption={quoteattr(field.caption)} datatype='{field.datatype}' name='[{field.name}]' role='{role}'>"
        f"<calculation class='tableau' formula={quoteattr(formula)} /></column>"
    )


def _object(table: str, number: str) -> str:
    return (
        f"<object caption='{table}' id='{table}_{number}'><properties context=''>"
        f"<relation connection='c' name='{table}' table='[main].[{table}]' type='table' /></properties></object>"
    )


def _relationship(one: str, other: str, first: str, second: str) -> str:
    return (
        f"<relationship><expression op='='><expression op='[{one}]' /><expression op='[{other}]' /></expression>"
        f"<first-end-point object-id='{first}' /><second-end-point object-id='{second}' /></relationship>"
    )


EXTRA = """\
<column caption='Amount' datatype='real' name='[amount]' role='measure' aggregation='Sum'
  default-format='c&quot;$&quot;#,##0.00'>
  <desc><formatted-text><run>What the customer </run><run>pays.</run></formatted-text></desc></column>
<column caption='Status Group' datatype='string' name='[status (group)]' role='dimension'>
  <calculation class='categorical-bin' column='[status]'><bin value='&quot;Open or lost&quot;'>
    <value>&quot;open&quot;</value><value>&quot;lost&quot;</value></bin></calculation></column>
<column datatype='integer' name='[quantity (bin)]' role='dimension'>
  <calculation class='bin' formula='[quantity]' peg='1' size='3' /></column>
<group caption='Good' name='[Good]' name-style='unqualified'>
  <groupfilter function='union'><groupfilter function='member' level='[status]' member='&quot;paid&quot;' />
    <groupfilter function='member' level='[status]' member='&quot;open&quot;' /></groupfilter></group>
<group caption='Top' name='[Top]' name-style='unqualified'>
  <groupfilter count='3' end='top' function='end' units='records'><groupfilter function='order' expression='1' />
  </groupfilter></group>
<filter class='categorical' column='[none:region:nk]'>
  <groupfilter function='member' level='[none:region:nk]' member='&quot;north&quot;' /></filter>
"""
PARAMETERS = """\
<datasource hasconnection='false' inline='true' name='Parameters' version='18.1'>
<column caption='Big From' datatype='real' name='[Parameter 1]' param-domain-type='range' role='measure' value='50.0'>
  <calculation class='tableau' formula='50.0' /></column></datasource>
"""


def data_source(fields: Sequence[Field] = FIELDS) -> str:
    """Return the data source of the shop with calculated fields."""
    relations = "".join(
        f"<relation connection='c' name='{table}' table='[main].[{table}]' type='table' />" for table in _COLUMNS
    )
    objects = _object("orders", "1A") + _object("customers", "2B") + _object("items", "3C")
    related = _relationship("customer_id", "id (customers)", "orders_1A", "customers_2B")
    related += _relationship("id", "order_id", "orders_1A", "items_3C")
    return (
        "<datasource caption='Shop' inline='true' name='federated.1' version='18.1'>\n"
        "<connection class='federated'><named-connections><named-connection name='c'>"
        "<connection class='postgres' dbname='shop' server='db' /></named-connection></named-connections>\n"
        f"<_.fcp.ObjectModelEncapsulateLegacy.false...relation name='orders' table='[main].[orders]' type='table' />\n"
        f"<_.fcp.ObjectModelEncapsulateLegacy.true...relation type='collection'>{relations}"
        "</_.fcp.ObjectModelEncapsulateLegacy.true...relation>\n"
        f"<metadata-records>{_records()}</metadata-records></connection>\n"
        + "\n".join(map(calculated, fields))
        + f"\n{EXTRA}<_.fcp.ObjectModelEncapsulateLegacy.true...object-graph><objects>{objects}</objects>"
        f"<relationships>{related}</relationships></_.fcp.ObjectModelEncapsulateLegacy.true...object-graph>\n"
        "</datasource>"
    )


def workbook(sources: str | None = None) -> str:
    """Return the workbook, or one with other data sources."""
    inner = data_source() if sources is None else sources
    return (
        "<?xml version='1.0' encoding='utf-8' ?>\n"
        "<workbook version='18.1' xmlns:user='http://www.tableausoftware.com/xml/user'>\n"
        f"<datasources>{PARAMETERS}{inner}</datasources>\n"
        "<worksheets><worksheet name='Sheet 1' /></worksheets></workbook>"
    )
