"""A market in a DuckDB file, its Power BI model in TMDL, and what Power BI computes for each of its measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DATA: Final = """
CREATE TABLE dim_product (product_key INTEGER PRIMARY KEY, product_name VARCHAR, category VARCHAR, list_price DOUBLE,
  cost DOUBLE);
INSERT INTO dim_product VALUES (1, 'Apple', 'Fruit', 2.0, 1.0), (2, 'Pear', 'Fruit', 3.0, NULL),
  (3, 'Chard', 'Greens', 4.0, 2.5), (4, 'Broom', NULL, 12.0, 6.0), (5, 'Kiwi', 'Fruit', 1.0, 0.5);
CREATE TABLE dim_customer (customer_key INTEGER PRIMARY KEY, full_name VARCHAR, segment VARCHAR, since DATE);
INSERT INTO dim_customer VALUES (1, 'Ann', 'home', DATE '2022-05-01'), (2, 'Bob', 'business', DATE '2023-01-15'),
  (3, 'Cid', NULL, NULL), (4, 'Dee', 'home', DATE '2024-03-01');
CREATE TABLE dim_date (day DATE PRIMARY KEY, year INTEGER, month_number INTEGER, month_name VARCHAR);
INSERT INTO dim_date SELECT d::DATE, year(d), month(d), monthname(d)
  FROM range(TIMESTAMP '2023-01-01', TIMESTAMP '2025-01-01', INTERVAL 1 DAY) AS days(d);
CREATE TABLE fct_sales (line_id INTEGER PRIMARY KEY, customer_key INTEGER, product_key INTEGER, ordered_on DATE,
  shipped_on DATE, channel VARCHAR, qty INTEGER, unit_price DOUBLE, discount DOUBLE, is_gift BOOLEAN);
INSERT INTO fct_sales VALUES
  (1, 1, 1, DATE '2023-01-10', DATE '2023-01-12', 'web', 10, 2.0, 1.0, false),
  (2, 1, 2, DATE '2023-01-20', DATE '2023-02-02', 'shop', 2, 3.0, NULL, true),
  (3, 2, 3, DATE '2023-02-05', DATE '2023-02-07', 'web', 5, 4.0, 2.0, NULL),
  (4, NULL, 1, DATE '2023-03-15', NULL, NULL, 4, 2.5, 0.0, false),
  (5, 2, 4, DATE '2023-06-30', DATE '2023-07-04', 'shop', 1, 12.0, NULL, false),
  (6, 3, 1, DATE '2024-01-05', DATE '2024-01-09', 'web', 8, 2.0, 0.5, true),
  (7, 1, 3, DATE '2024-01-25', DATE '2024-02-01', 'web', NULL, 4.0, NULL, false),
  (8, 2, 2, DATE '2024-02-10', DATE '2024-02-11', 'shop', 3, 3.5, 1.5, NULL),
  (9, 1, 1, DATE '2024-03-01', DATE '2024-03-03', '', 6, 2.0, NULL, true),
  (10, NULL, 4, DATE '2024-03-31', NULL, 'web', 2, 11.0, 2.0, false),
  (11, 3, 3, DATE '2024-06-02', DATE '2024-06-05', 'shop', 7, 4.5, 0.0, false);
CREATE TABLE stock (day DATE, product_key INTEGER, on_hand INTEGER, PRIMARY KEY (day, product_key));
INSERT INTO stock SELECT d, k, (k * 3 + month(d) * 2 + year(d) % 10)::INTEGER
  FROM (SELECT last_day(m::DATE) AS d
        FROM range(TIMESTAMP '2023-01-01', TIMESTAMP '2024-07-01', INTERVAL 1 MONTH) AS months(m)),
  range(1, 4) AS keys(k);
"""

MANIFEST: Final = """\
tables:
  dim_product:
    table: main.dim_product
    columns:
      - {name: product_key, type: number, pk: true, nullable: false}
      - {name: product_name, type: string}
      - {name: category, type: string}
      - {name: list_price, type: number}
      - {name: cost, type: number}
  dim_customer:
    table: main.dim_customer
    columns:
      - {name: customer_key, type: number, pk: true, nullable: false}
      - {name: full_name, type: string}
      - {name: segment, type: string}
      - {name: since, type: time, natural_granularity: day}
  dim_date:
    table: main.dim_date
    columns:
      - {name: day, type: time, pk: true, nullable: false, natural_granularity: day}
      - {name: year, type: number}
      - {name: month_number, type: number}
      - {name: month_name, type: string}
  fct_sales:
    table: main.fct_sales
    columns:
      - {name: line_id, type: number, pk: true, nullable: false}
      - {name: customer_key, type: number}
      - {name: product_key, type: number, nullable: false}
      - {name: ordered_on, type: time, natural_granularity: day}
      - {name: shipped_on, type: time, natural_granularity: day}
      - {name: channel, type: string}
      - {name: qty, type: number}
      - {name: unit_price, type: number}
      - {name: discount, type: number}
      - {name: is_gift, type: boolean}
  stock:
    table: main.stock
    columns:
      - {name: day, type: time, pk: true, natural_granularity: day}
      - {name: product_key, type: number, pk: true}
      - {name: on_hand, type: number}
"""


@dataclass(frozen=True)
class Case:
    """A measure. `sql`: an aggregate over the flat rows of a group with the value of Power BI, or None if it cannot be
    translated; `why`: then a part of the reason. `rows`: the flat rows, if not those of the sales. `by`: the groupings
    in which both have to agree.

    `monthly`: for time intelligence instead of `sql`: the value as a query by month.
    """

    name: str
    dax: str
    sql: str | None = None
    why: str = ""
    rows: str = "sales"
    by: tuple[str, ...] = ("", "category", "month")
    monthly: str | None = None


NET: Final = "sum(qty * unit_price)"
RED: Final = ("", "month")
"""The groupings by columns that the filter of a measure does not use."""

AGGREGATES: Final = (
    Case("Revenue", "SUMX(Sales, Sales[Quantity] * Sales[Unit Price])", NET),
    Case("Units", "SUM(Sales[Quantity])", "sum(qty)"),
    Case("Average Price", "AVERAGE(Sales[Unit Price])", "avg(unit_price)"),
    Case("Lowest Price", "MIN(Sales[Unit Price])", "min(unit_price)"),
    Case("Last Order", "MAX(Sales[Order Date])", "max(ordered_on)"),
    Case("Median Quantity", "MEDIAN(Sales[Quantity])", "median(qty)"),
    Case("Quantity 90", "PERCENTILE.INC(Sales[Quantity], 0.9)", "quantile_cont(qty, 0.9)"),
    Case("Quantity Spread", "STDEV.S(Sales[Quantity])", "stddev_samp(qty)"),
    Case("# Lines", "COUNTROWS(Sales)", "nullif(count(*), 0)"),
    Case("Filled Quantities", "COUNT(Sales[Quantity])", "nullif(count(qty), 0)"),
    Case("Filled Channels", "COUNTA(Sales[Channel])", "nullif(count(channel), 0)"),
    Case("Blank Channels", "COUNTBLANK(Sales[Channel])", "nullif(count_if(channel IS NULL OR channel = ''), 0)"),
    Case(
        "Customers", "DISTINCTCOUNT(Sales[CustomerKey])",
        "nullif(count(DISTINCT customer_key) + count(DISTINCT CASE WHEN customer_key IS NULL THEN 1 END), 0)",
    ),
    Case("Known Customers", "DISTINCTCOUNTNOBLANK(Sales[CustomerKey])", "nullif(count(DISTINCT customer_key), 0)"),
    Case("Products Sold", "DISTINCTCOUNT(Sales[ProductKey])", "nullif(count(DISTINCT product_key), 0)"),
    Case(
        "Channels", "COUNTROWS(VALUES(Sales[Channel]))",
        "nullif(count(DISTINCT channel) + count(DISTINCT CASE WHEN channel IS NULL THEN 1 END), 0)",
    ),
)  # fmt: skip
ITERATORS: Final = (
    Case(
        "Discounted Revenue", "SUMX(Sales, Sales[Quantity] * Sales[Unit Price] - Sales[Discount])",
        "sum(CASE WHEN qty IS NOT NULL OR discount IS NOT NULL"
        " THEN coalesce(qty * unit_price, 0) - coalesce(discount, 0) END)",
    ),
    Case("List Revenue", "SUMX(Sales, Sales[Quantity] * RELATED('Product'[List Price]))", "sum(qty * list_price)"),
    Case(
        "Average After Discount", "AVERAGEX(Sales, Sales[Unit Price] - Sales[Discount])",
        "avg(unit_price - coalesce(discount, 0))",
    ),
    Case("Largest Line", "MAXX(Sales, Sales[Quantity] * Sales[Unit Price])", "max(qty * unit_price)"),
    Case(
        "Web Units", 'SUMX(FILTER(Sales, Sales[Channel] = "web"), Sales[Quantity])',
        "sum(qty) FILTER (WHERE channel = 'web')",
    ),
    Case(
        "Large Lines", "COUNTROWS(FILTER(Sales, Sales[Quantity] > 5))", "nullif(count_if(qty > 5), 0)",
    ),
    Case(
        "Small Lines", "COUNTROWS(FILTER(Sales, Sales[Quantity] < 5))",
        "nullif(count_if(coalesce(qty, 0) < 5), 0)",
    ),
    Case(
        "Fee", "SUMX(Sales, IF(Sales[Is Gift], 1.5, IF(ISBLANK(Sales[Quantity]), 0, Sales[Quantity] * 0.1)))",
        "sum(CASE WHEN is_gift THEN 1.5 WHEN qty IS NULL THEN 0 ELSE qty * 0.1 END)",
    ),
    Case(
        "Shipping", 'SUMX(Sales, SWITCH(Sales[Channel], "web", 4, "shop", 1, 2))',
        "sum(CASE channel WHEN 'web' THEN 4 WHEN 'shop' THEN 1 ELSE 2 END)",
    ),
    Case(
        "Days To Ship", "AVERAGEX(Sales, DATEDIFF(Sales[Order Date], Sales[Ship Date], DAY))",
        "avg(shipped_on - ordered_on)",
    ),
    Case(
        "Margin", "VAR Cost = SUMX(Sales, Sales[Quantity] * RELATED('Product'[Cost])) RETURN [Revenue] - Cost",
        f"CASE WHEN {NET} IS NOT NULL OR sum(qty * cost) IS NOT NULL"
        f" THEN coalesce({NET}, 0) - coalesce(sum(qty * cost), 0) END",
    ),
    Case(
        "Revenue Of The Average Channel", "AVERAGEX(VALUES(Sales[Channel]), [Revenue])",
        "(SELECT avg(r) FROM (SELECT sum(x.q * x.p) AS r FROM (SELECT unnest(list({'c': channel, 'q': qty,"
        " 'p': unit_price})) AS x) GROUP BY x.c))",
    ),
)  # fmt: skip
RATIOS: Final = (
    Case("Price Per Unit", "DIVIDE([Revenue], [Units])", f"{NET} / nullif(sum(qty), 0)"),
    Case("Price Or Zero", "DIVIDE([Revenue], [Units] - [Units], 0)", "CASE WHEN count(*) > 0 THEN 0 END"),
    Case("Lines Per Customer", "[# Lines] / [Known Customers]", "count(*) / nullif(count(DISTINCT customer_key), 0)"),
    Case(
        "Margin %", "DIVIDE([Margin], [Revenue])",
        f"(coalesce({NET}, 0) - coalesce(sum(qty * cost), 0)) / nullif({NET}, 0)",
    ),
    Case("Price Gap", "[Average Price] - [Lowest Price]", "avg(unit_price) - min(unit_price)"),
    Case("Price Plus One", "[Average Cost] + 1", "coalesce(avg(cost), 0) + 1", by=("", "category")),
    Case("Average Cost", "AVERAGEX(Sales, RELATED('Product'[Cost]))", "avg(cost)"),
    Case("Web Share", "DIVIDE([Web Units], [Units])", "sum(qty) FILTER (WHERE channel = 'web') / nullif(sum(qty), 0)"),
    Case(
        "Share Of Selection", "DIVIDE([Revenue], CALCULATE([Revenue], ALLSELECTED()))",
        f"{NET} / (SELECT sum(qty * unit_price) FROM fct_sales)",
    ),
    Case("Size", 'IF([Units] > 20, "large", "small")', "CASE WHEN sum(qty) > 20 THEN 'large' ELSE 'small' END"),
    Case(
        "Grade", 'SWITCH(TRUE(), [Units] >= 25, "A", [Units] >= 10, "B", "C")',
        "CASE WHEN sum(qty) >= 25 THEN 'A' WHEN sum(qty) >= 10 THEN 'B' ELSE 'C' END",
    ),
    Case("Gift Units Or Nothing", "COALESCE([Gift Units], 0)", "coalesce(sum(qty) FILTER (WHERE is_gift), 0)"),
    Case(
        "Web Part", 'DIVIDE(CALCULATE([Revenue], Sales[Channel] = "web"), [Revenue])',
        f"sum(qty * unit_price) FILTER (WHERE channel = 'web') / nullif({NET}, 0)",
    ),
    Case("No Units", 'IF([Units] = BLANK() || [Units] == 5, "few", "some")',
         "CASE WHEN coalesce(sum(qty), 0) = 0 OR sum(qty) = 5 THEN 'few' ELSE 'some' END"),
    Case(
        "Revenue Per Piece", "DIVIDE([Revenue], SUM(Stock[On Hand]))",
        f"{NET} / (SELECT sum(on_hand) FROM stock AS t JOIN dim_product AS d USING (product_key)"
        " WHERE d.category = any_value(p.category))", by=("category",),
    ),
    Case("Guarded", "IF(HASONEVALUE('Product'[Category]), [Revenue])", NET, by=("category",)),
    Case("Rounded Price", "ROUND([Average Price], 1)", "round(avg(unit_price), 1)"),
)  # fmt: skip
FILTERS: Final = (
    Case(
        "Web Revenue", 'CALCULATE([Revenue], Sales[Channel] = "web")',
        "sum(qty * unit_price) FILTER (WHERE channel = 'web')",
    ),
    Case(
        "Other Channels", 'CALCULATE([# Lines], Sales[Channel] <> "web")',
        "nullif(count_if(coalesce(channel, '') <> 'web'), 0)",
    ),
    Case("Gift Units", "CALCULATE(SUM(Sales[Quantity]), Sales[Is Gift] = TRUE())", "sum(qty) FILTER (WHERE is_gift)"),
    Case(
        "No Gifts", "CALCULATE(COUNTROWS(Sales), NOT Sales[Is Gift])",
        "nullif(count_if(NOT coalesce(is_gift, FALSE)), 0)",
    ),
    Case(
        "Fruit Revenue", "CALCULATE([Revenue], 'Product'[Category] = \"Fruit\")",
        "sum(qty * unit_price) FILTER (WHERE category = 'Fruit')", by=RED,
    ),
    Case(
        "Home Or Business", "CALCULATE([Units], Customer[Segment] IN {\"home\", \"business\"})",
        "sum(qty) FILTER (WHERE segment IN ('home', 'business'))",
    ),
    Case(
        "No Segment", "CALCULATE([Units], NOT Customer[Segment] IN {\"home\", \"business\"})",
        "sum(qty) FILTER (WHERE segment IS NULL OR segment NOT IN ('home', 'business'))",
    ),
    Case(
        "Kept Fruit", "CALCULATE([Revenue], KEEPFILTERS('Product'[Category] = \"Fruit\"))",
        "sum(qty * unit_price) FILTER (WHERE category = 'Fruit')",
    ),
    Case(
        "Cheap Web", 'CALCULATE([Units], Sales[Channel] = "web", Sales[Unit Price] < 3)',
        "sum(qty) FILTER (WHERE channel = 'web' AND unit_price < 3)",
    ),
    Case(
        "Web Or Gift", 'CALCULATE([Units], FILTER(Sales, Sales[Channel] = "web" || Sales[Is Gift]))',
        "sum(qty) FILTER (WHERE channel = 'web' OR is_gift)",
    ),
    Case(
        "Zero Discount", "CALCULATE([# Lines], Sales[Discount] = 0)",
        "nullif(count_if(coalesce(discount, 0) = 0), 0)",
    ),
    Case(
        "All Fruit", "CALCULATE([Revenue], FILTER(ALL('Product'), 'Product'[Category] = \"Fruit\"))",
        "sum(qty * unit_price) FILTER (WHERE category = 'Fruit')", by=RED,
    ),
    Case(
        "Recent Units", "CALCULATE([Units], Sales[Ship Date] >= DATE(2024, 1, 1))",
        "sum(qty) FILTER (WHERE shipped_on >= DATE '2024-01-01')",
    ),
    Case(
        "Unshipped Or Early", "CALCULATE([# Lines], Sales[Ship Date] < DATE(2023, 2, 1))",
        "nullif(count_if(shipped_on < DATE '2023-02-01' OR shipped_on IS NULL), 0)",
    ),
    Case(
        "Limit", "VAR Least = 5 RETURN CALCULATE([# Lines], Sales[Quantity] >= Least)",
        "nullif(count_if(qty >= 5), 0)",
    ),
)  # fmt: skip

_MONTHS: Final = "(SELECT DISTINCT date_trunc('month', ordered_on)::DATE AS m FROM fct_sales) AS months"


def _by_month(value: str) -> str:
    return f"SELECT m, ({value}) FROM {_MONTHS} ORDER BY m"


def _sum_between(start: str, end: str, value: str = "qty * unit_price") -> str:
    return _by_month(f"SELECT sum({value}) FROM fct_sales WHERE ordered_on >= {start} AND ordered_on < {end}")


_NEXT: Final = "m + INTERVAL 1 MONTH"
TIMES: Final = (
    Case("Revenue YTD", "TOTALYTD([Revenue], 'Date'[Date])", monthly=_sum_between("date_trunc('year', m)", _NEXT)),
    Case(
        "Revenue QTD", "CALCULATE([Revenue], DATESQTD('Date'[Date]))",
        monthly=_sum_between("date_trunc('quarter', m)", _NEXT),
    ),
    Case(
        "Revenue LY", "CALCULATE([Revenue], SAMEPERIODLASTYEAR('Date'[Date]))",
        monthly=_sum_between("m - INTERVAL 1 YEAR", "m - INTERVAL 11 MONTH"),
    ),
    Case(
        "Revenue 2 Months Ago", "CALCULATE([Revenue], DATEADD('Date'[Date], -2, MONTH))",
        monthly=_sum_between("m - INTERVAL 2 MONTH", "m - INTERVAL 1 MONTH"),
    ),
    Case(
        "Growth %", "VAR Before = [Revenue LY] RETURN DIVIDE([Revenue] - Before, Before)",
        monthly=_by_month(
            "SELECT (coalesce(sum(qty * unit_price) FILTER (WHERE ordered_on >= m), 0) - b) / nullif(b, 0) FROM"
            " (SELECT *, sum(qty * unit_price) FILTER (WHERE ordered_on < m - INTERVAL 11 MONTH) OVER () AS b"
            " FROM fct_sales WHERE (ordered_on >= m - INTERVAL 1 YEAR AND ordered_on < m - INTERVAL 11 MONTH)"
            " OR (ordered_on >= m AND ordered_on < m + INTERVAL 1 MONTH)) GROUP BY b"
        ),
    ),
    Case(
        "Running Revenue",
        "CALCULATE([Revenue], FILTER(ALL('Date'[Date]), 'Date'[Date] <= MAX('Date'[Date])))",
        monthly=_sum_between("DATE '2000-01-01'", _NEXT),
    ),
    Case(
        "Units Of 3 Months",
        "VAR LastDay = MAX('Date'[Date]) RETURN"
        " CALCULATE([Units], DATESINPERIOD('Date'[Date], LastDay, -3, MONTH))",
        monthly=_sum_between("m - INTERVAL 2 MONTH", _NEXT, "qty"),
    ),
    Case(
        "Web YTD", "TOTALYTD([Web Revenue], 'Date'[Date])",
        monthly=_by_month(
            "SELECT sum(qty * unit_price) FROM fct_sales WHERE channel = 'web'"
            " AND ordered_on >= date_trunc('year', m) AND ordered_on < m + INTERVAL 1 MONTH"
        ),
    ),
    Case(
        "YTD LY", "CALCULATE([Revenue YTD], SAMEPERIODLASTYEAR('Date'[Date]))",
        monthly=_sum_between("date_trunc('year', m) - INTERVAL 1 YEAR", "m - INTERVAL 11 MONTH"),
    ),
    Case(
        "Stock", "CALCULATE(SUM(Stock[On Hand]), LASTDATE('Date'[Date]))",
        "(sum(on_hand) FILTER (WHERE day = last))",
        rows="stock", by=("", "month"),
    ),
)  # fmt: skip
REFUSED: Final = (
    Case("All Share", "DIVIDE([Revenue], CALCULATE([Revenue], ALL('Product')))", why="`ALL` removes filters"),
    Case("Everything", "CALCULATE([Revenue], REMOVEFILTERS())", why="`REMOVEFILTERS` removes filters"),
    Case("Rank", "RANKX(ALL('Product'), [Revenue])", why="`RANKX` depends on the rows"),
    Case("Chosen", "SELECTEDVALUE('Product'[Category])", why="`SELECTEDVALUE` depends on"),
    Case("By Ship Date", "CALCULATE([Revenue], USERELATIONSHIP(Sales[Ship Date], 'Date'[Date]))", why="inactive"),
    Case("Month Before", "CALCULATE([Revenue], PREVIOUSMONTH('Date'[Date]))", why="a whole period"),
    Case("Best Products", "SUMX(TOPN(3, 'Product', [Revenue]), [Revenue])", why="`TOPN` depends on the rows"),
    Case("As Text", 'FORMAT([Revenue], "0.0")', why="formats numbers as text"),
    Case("Names", "CONCATENATEX('Product', 'Product'[Product], \", \")", why="a list of values"),
    Case("Row Measures", "SUMX('Product', [Revenue])", why="evaluates the measure `[Revenue]` for each row"),
    Case("Fiscal YTD", "TOTALYTD([Revenue], 'Date'[Date], \"30/6\")", why="does not end on 31 December"),
    Case("Contradiction", "CALCULATE([Web Revenue], Sales[Channel] = \"shop\")", why="replaces that filter"),
    Case("Late Variable", "VAR x = [Revenue] RETURN CALCULATE(x, Sales[Is Gift])", why="computed before CALCULATE"),
    Case("Above Average", "CALCULATE([# Lines], FILTER(Sales, Sales[Quantity] > AVERAGE(Sales[Quantity])))",
         why="depends on the query"),
    Case("Broken", "SUM(Sales[Quantity]", why="ends too early"),
    Case("Fixed", "42", why="it aggregates nothing"),
)  # fmt: skip
CASES: Final = (*AGGREGATES, *ITERATORS, *RATIOS, *FILTERS, *TIMES, *REFUSED)


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _table(name: str, table: str, columns: str, more: str = "") -> str:
    lines = [f"table {_quoted(name)}", "\tlineageTag: 0-0-0-0-0", ""]
    for column in columns.split(", "):
        shown, source, kind = column.split(":")
        lines += [f"\tcolumn {_quoted(shown)}", f"\t\tdataType: {kind}", "\t\tsummarizeBy: none"]
        lines += [f"\t\tsourceColumn: {source}", ""]
    lines += [
        f"\tpartition {_quoted(name)} = m", "\t\tmode: import", "\t\tsource =", "\t\t\t\tlet",
        '\t\t\t\t    Source = Sql.Database(Server, "market"),',
        f'\t\t\t\t    Data = Source{{[Schema="main",Item="{table}"]}}[Data]', "\t\t\t\tin", "\t\t\t\t    Data", "",
    ]  # fmt: skip
    return "\n".join(lines) + more


def tmdl() -> dict[str, str]:
    """Return the files of the model."""
    measures = ["table _Measures", ""]
    for case in CASES:
        dax = case.dax.replace(" RETURN ", "\n\t\t\tRETURN ")
        measures += [f"\tmeasure {_quoted(case.name)} =", f"\t\t\t{dax}", "\t\tformatString: 0.00", ""]
    measures += ["\tcolumn Nothing", "\t\tisHidden", "\t\tsourceColumn: Nothing", ""]
    calculated = '\tpartition _Measures = calculated\n\t\tmode: import\n\t\tsource = ROW("Nothing", 1)\n'
    relationships = [
        ("a", "Sales.CustomerKey", "Customer.CustomerKey", ""), ("b", "Sales.ProductKey", "'Product'.ProductKey", ""),
        ("c", "Sales.'Order Date'", "'Date'.Date", ""), ("d", "Sales.'Ship Date'", "'Date'.Date", "\tisActive: false"),
        ("e", "Stock.Day", "'Date'.Date", ""), ("f", "Stock.ProductKey", "'Product'.ProductKey", ""),
    ]  # fmt: skip
    shown = "\n".join(
        f"relationship {name}\n\tfromColumn: {own}\n\ttoColumn: {other}\n{more}\n"
        for name, own, other, more in relationships
    )
    hierarchy = "\thierarchy Goods\n\n\t\tlevel Category\n\t\t\tcolumn: Category\n"
    return {
        "Market.SemanticModel/definition/model.tmdl": "model Model\n\tculture: en-US\n\nref table Sales\n",
        "Market.SemanticModel/definition/expressions.tmdl": (
            'expression Server = "db.example.com" meta [IsParameterQuery=true, Type="Text"]\n'
        ),
        "Market.SemanticModel/definition/relationships.tmdl": shown,
        "Market.SemanticModel/definition/roles/Fruit.tmdl": (
            "role Fruit\n\tmodelPermission: read\n\n\ttablePermission Product = 'Product'[Category] = \"Fruit\"\n"
        ),
        "Market.SemanticModel/definition/tables/Sales.tmdl": _table(
            "Sales", "fct_sales",
            "Line:line_id:int64, CustomerKey:customer_key:int64, ProductKey:product_key:int64, Order Date:ordered_on:"
            "dateTime, Ship Date:shipped_on:dateTime, Channel:channel:string, Quantity:qty:int64, Unit Price:unit_price"
            ":double, Discount:discount:double, Is Gift:is_gift:boolean",
            "\n\tcolumn Amount = Sales[Quantity] * Sales[Unit Price] - Sales[Discount]\n\t\tdataType: double\n",
        ),
        "Market.SemanticModel/definition/tables/Product.tmdl": _table(
            "Product", "dim_product",
            "ProductKey:product_key:int64, Product:product_name:string, Category:category:string, "
            "List Price:list_price:double, Cost:cost:double", hierarchy,
        ),
        "Market.SemanticModel/definition/tables/Customer.tmdl": "/// Who buys\n" + _table(
            "Customer", "dim_customer",
            "CustomerKey:customer_key:int64, Name:full_name:string, Segment:segment:string, Since:since:dateTime",
        ),
        "Market.SemanticModel/definition/tables/Date.tmdl": _table(
            "Date", "dim_date", "Date:day:dateTime, Year:year:int64, Month:month_name:string"
        ),
        "Market.SemanticModel/definition/tables/Stock.tmdl": _table(
            "Stock", "stock", "Day:day:dateTime, ProductKey:product_key:int64, On Hand:on_hand:int64"
        ),
        "Market.SemanticModel/definition/tables/_Measures.tmdl": "\n".join(measures) + calculated,
    }  # fmt: skip
