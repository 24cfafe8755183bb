"""The queries of TPC-H as questions to the semantic layer, each with the same query written by hand.

Constants are those of the specification's validation run where they leave rows in tables this small, and weaker ones
where they do not; Q16 is grouped by brand alone, as a brand, type and size is one part here. Columns come in the order
of the question: dimensions, then measures.

What the layer cannot say, and what stands here in its place:

* Q13 groups by an aggregate (customers by how many orders they have), Q17 compares a row with an aggregate over its
  group. A dimension is a column, so the aggregate is a source of its own with `sql` (`customer_orders`,
  `part_quantity`).
* Q15 keeps the suppliers whose revenue is the highest of all. There is no maximum over the result: the highest value
  is a two-level measure (`per`), the supplier the first row by revenue, which shows one of several equal ones.
* Q20 lists suppliers with some part in excess stock. A condition on a result is at the grain of the result, so the
  answer is one row a part and supplier, and the list of suppliers is left to the reader.
* Q21 asks for orders with another line of another supplier: a self-join on an inequality. No `on` says it; it needs a
  source with `sql` whose author writes the query, so it is not among the questions.
* Q22 compares with a mean over all customers, which is a question of its own; its answer goes into the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Case(NamedTuple):
    """A question, and the SQL that is right; `ordered`: the order of the rows is asked for, and unique."""

    question: Mapping[str, Any]
    sql: str
    ordered: bool = False


def _year(field: str, name: str) -> dict[str, str]:
    return {"field": field, "granularity": "year", "name": name}


_NATION = "customer_nation.n_name"
_LINES: Final = "FROM lineitem JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey"
_CUSTOMER_NATION: Final = "JOIN nation cn ON cn.n_nationkey = c_nationkey"
_SUPPLIER_NATION: Final = "JOIN supplier ON s_suppkey = l_suppkey JOIN nation sn ON sn.n_nationkey = s_nationkey"
_VOLUME: Final = "sum(l_extendedprice * (1 - l_discount))"

CASES: Final[Mapping[str, Case]] = {
    "Q1 pricing summary": Case(
        {
            "measures": [
                *("sum_qty", "sum_base_price", "revenue", "sum_charge", "avg_qty", "avg_price", "avg_disc"),
                "lineitem.line_count",
            ],
            "dimensions": ["l_returnflag", "l_linestatus"],
            "filters": ["l_shipdate <= DATE '1998-09-02'"],
            "order_by": ["l_returnflag", "l_linestatus"],
        },
        f"""SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), {_VOLUME},
              sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice),
              avg(l_discount), count(*)
            FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY ALL ORDER BY 1, 2""",
        ordered=True,
    ),
    "Q2 suppliers with the lowest cost": Case(
        {
            "measures": ["lowest_cost", "cost_over_lowest"],
            "dimensions": ["partsupp.ps_partkey", "supplier.s_name", "supplier_nation.n_name"],
            "filters": ["supplier_nation.region.r_name = 'EUROPE'", "part.p_size <= 15", "part.p_type LIKE '%BRASS'"],
            "having": ["cost_over_lowest < 100.000001"],
        },
        """SELECT ps_partkey, s_name, n_name, ps_supplycost, CAST(100 AS DOUBLE)
           FROM partsupp p JOIN part ON p_partkey = ps_partkey JOIN supplier ON s_suppkey = ps_suppkey
             JOIN nation ON n_nationkey = s_nationkey JOIN region ON r_regionkey = n_regionkey
           WHERE r_name = 'EUROPE' AND p_size <= 15 AND p_type LIKE '%BRASS' AND ps_supplycost =
             (SELECT min(ps_supplycost) FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey
                JOIN nation ON n_nationkey = s_nationkey JOIN region ON r_regionkey = n_regionkey
              WHERE r_name = 'EUROPE' AND ps_partkey = p.ps_partkey)""",
    ),
    "Q3 shipping priority": Case(
        {
            "measures": ["lineitem.revenue"],
            "dimensions": ["orders.o_orderkey", "orders.o_orderdate", "orders.o_shippriority"],
            "filters": [
                "customer.c_mktsegment = 'BUILDING'",
                "orders.o_orderdate < DATE '1995-03-15'",
                "l_shipdate > DATE '1995-03-15'",
            ],
            "order_by": ["revenue desc", "o_orderdate"],
            "limit": 10,
        },
        f"""SELECT o_orderkey, o_orderdate, o_shippriority, {_VOLUME} {_LINES}
            WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
            GROUP BY ALL ORDER BY 4 DESC, 2 LIMIT 10""",
        ordered=True,
    ),
    "Q4 orders with a late line": Case(
        {
            "measures": ["orders.order_count"],
            "dimensions": ["orders.o_orderpriority"],
            "filters": ["lineitem.l_commitdate < lineitem.l_receiptdate"],
            "time_range": {"start": "1993-07-01", "end": "1993-10-01"},
        },
        """SELECT o_orderpriority, count(*) FROM orders
           WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01' AND EXISTS
             (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
           GROUP BY 1""",
    ),
    "Q5 local supplier volume": Case(
        {
            "measures": ["lineitem.revenue"],
            "dimensions": [_NATION],
            "filters": ["customer.c_nationkey = supplier.s_nationkey", "customer_nation.region.r_name = 'ASIA'"],
            "time_range": {"field": "orders.o_orderdate", "start": "1994-01-01", "end": "1997-01-01"},
            "order_by": ["revenue desc"],
            "include_empty": False,
        },
        f"""SELECT cn.n_name, {_VOLUME} {_LINES} {_CUSTOMER_NATION} JOIN supplier ON s_suppkey = l_suppkey
              JOIN region ON r_regionkey = cn.n_regionkey
            WHERE c_nationkey = s_nationkey AND r_name = 'ASIA'
              AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1997-01-01'
            GROUP BY ALL ORDER BY 2 DESC""",
        ordered=True,
    ),
    "Q6 forecast of revenue": Case(
        {
            "measures": ["lineitem.saved"],
            "filters": ["l_discount BETWEEN 0.05 AND 0.07", "l_quantity < 24"],
            "time_range": {"start": "1994-01-01", "end": "1995-01-01"},
        },
        """SELECT sum(l_extendedprice * l_discount) FROM lineitem
           WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
             AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    ),
    "Q7 volume between two nations": Case(
        {
            "measures": ["lineitem.revenue"],
            "dimensions": ["supplier_nation.n_name", _NATION, _year("l_shipdate", "ship_year")],
            "filters": [
                "(supplier_nation.n_name = 'FRANCE' AND customer_nation.n_name = 'GERMANY')"
                " OR (supplier_nation.n_name = 'GERMANY' AND customer_nation.n_name = 'FRANCE')"
            ],
        },
        f"""SELECT sn.n_name, cn.n_name, date_trunc('year', l_shipdate), {_VOLUME}
            {_LINES} {_CUSTOMER_NATION} {_SUPPLIER_NATION}
            WHERE (sn.n_name = 'FRANCE' AND cn.n_name = 'GERMANY') OR (sn.n_name = 'GERMANY' AND cn.n_name = 'FRANCE')
            GROUP BY ALL""",
    ),
    "Q8 market share": Case(
        {
            "measures": ["brazilian_share"],
            "dimensions": [_year("orders.o_orderdate", "order_year")],
            "filters": ["customer_nation.region.r_name = 'AMERICA'", "part.p_type LIKE 'ECONOMY%'"],
        },
        f"""SELECT date_trunc('year', o_orderdate),
              sum(CASE WHEN sn.n_name = 'BRAZIL' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) / {_VOLUME}
            {_LINES} {_CUSTOMER_NATION} {_SUPPLIER_NATION} JOIN region ON r_regionkey = cn.n_regionkey
              JOIN part ON p_partkey = l_partkey
            WHERE r_name = 'AMERICA' AND p_type LIKE 'ECONOMY%' GROUP BY ALL""",
    ),
    "Q9 profit by nation and year": Case(
        {
            "measures": ["lineitem.profit"],
            "dimensions": ["supplier_nation.n_name", _year("orders.o_orderdate", "order_year")],
            "filters": ["part.p_name LIKE '%green%'"],
            "order_by": ["n_name", "order_year desc"],
        },
        f"""SELECT sn.n_name, date_trunc('year', o_orderdate),
              sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity)
            {_LINES} {_SUPPLIER_NATION} JOIN part ON p_partkey = l_partkey
              JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
            WHERE p_name LIKE '%green%' GROUP BY ALL ORDER BY 1, 2 DESC""",
        ordered=True,
    ),
    "Q10 customers who returned goods": Case(
        {
            "measures": ["lineitem.revenue"],
            "dimensions": ["customer.c_custkey", "customer.c_name", "customer.c_acctbal", _NATION],
            "segments": ["lineitem.returned"],
            "time_range": {"field": "orders.o_orderdate", "start": "1993-10-01", "end": "1994-01-01"},
            "having": ["revenue > 0"],
            "order_by": ["revenue desc"],
            "limit": 20,
        },
        f"""SELECT c_custkey, c_name, c_acctbal, cn.n_name, {_VOLUME} {_LINES} {_CUSTOMER_NATION}
            WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
            GROUP BY ALL ORDER BY 5 DESC LIMIT 20""",
        ordered=True,
    ),
    "Q11 important stock": Case(
        {
            "measures": ["partsupp.stock"],
            "dimensions": ["partsupp.ps_partkey"],
            "filters": ["supplier_nation.n_name = 'GERMANY'"],
            "having": ["stock_share > 2"],
            "order_by": ["stock desc"],
        },
        """WITH held AS (
             SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
             FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey
             WHERE n_name = 'GERMANY' GROUP BY 1)
           SELECT * FROM held WHERE value > 0.02 * (SELECT sum(value) FROM held) ORDER BY value DESC""",
        ordered=True,
    ),
    "Q12 shipping modes": Case(
        {
            "measures": ["high_lines", "low_lines"],
            "dimensions": ["l_shipmode"],
            "filters": ["l_shipmode IN ('MAIL', 'SHIP')", "l_commitdate < l_receiptdate AND l_shipdate < l_commitdate"],
            "time_range": {"field": "lineitem.l_receiptdate", "start": "1994-01-01", "end": "1995-01-01"},
        },
        """SELECT l_shipmode, count(*) FILTER (o_orderpriority IN ('1-URGENT', '2-HIGH')),
             count(*) FILTER (o_orderpriority NOT IN ('1-URGENT', '2-HIGH'))
           FROM lineitem JOIN orders ON o_orderkey = l_orderkey
           WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
             AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01' GROUP BY 1""",
    ),
    "Q13 customers by orders, from a source with sql": Case(
        {
            "measures": ["customers_by_orders"],
            "dimensions": ["customer_orders.order_count"],
            "order_by": ["customers_by_orders desc", "order_count desc"],
        },
        """SELECT orders, count(*) FROM (
             SELECT c_custkey, count(o_orderkey) AS orders FROM customer
               LEFT JOIN orders ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY 1)
           GROUP BY 1 ORDER BY 2 DESC, 1 DESC""",
        ordered=True,
    ),
    "Q14 promotion effect": Case(
        {"measures": ["promo_share"], "time_range": {"start": "1995-09-01", "end": "1995-10-01"}},
        f"""SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
              / {_VOLUME}
            FROM lineitem JOIN part ON p_partkey = l_partkey
            WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'""",
    ),
    "Q15 the highest revenue of a supplier": Case(
        {"measures": ["best_supplier_revenue"], "time_range": {"start": "1996-01-01", "end": "1996-04-01"}},
        f"""SELECT max(revenue) FROM (
              SELECT {_VOLUME} AS revenue FROM lineitem
              WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey)""",
    ),
    "Q15 the supplier who has it": Case(
        {
            "measures": ["lineitem.revenue"],
            "dimensions": ["supplier.s_suppkey", "supplier.s_name"],
            "time_range": {"start": "1996-01-01", "end": "1996-04-01"},
            "order_by": ["revenue desc"],
            "limit": 1,
        },
        f"""SELECT s_suppkey, s_name, {_VOLUME} AS revenue FROM lineitem JOIN supplier ON s_suppkey = l_suppkey
            WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'
            GROUP BY ALL ORDER BY revenue DESC LIMIT 1""",
    ),
    "Q16 suppliers of parts": Case(
        {
            "measures": ["suppliers"],
            "dimensions": ["part.p_brand"],
            "filters": [
                "part.p_brand <> 'Brand#45' AND NOT part.p_type LIKE 'MEDIUM POLISHED%'",
                "part.p_size IN (49, 14, 23, 45, 19, 3, 36, 9)",
                "NOT supplier.s_comment LIKE '%Customer%Complaints%'",
            ],
            "order_by": ["suppliers desc", "p_brand"],
            "include_empty": False,
        },
        """SELECT p_brand, count(DISTINCT ps_suppkey)
           FROM partsupp JOIN part ON p_partkey = ps_partkey
           WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
             AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
             AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
           GROUP BY ALL ORDER BY 2 DESC, 1""",
        ordered=True,
    ),
    "Q17 small quantities, from a source with sql": Case(
        {
            "measures": [{"expr": "sum(lineitem.l_extendedprice) / 7.0", "name": "yearly"}],
            "filters": ["part.p_container LIKE 'MED %'", "lineitem.l_quantity < 0.2 * part_quantity.mean_quantity"],
        },
        """SELECT sum(l_extendedprice) / 7.0 FROM lineitem l JOIN part ON p_partkey = l_partkey
           WHERE p_container LIKE 'MED %'
             AND l_quantity < 0.2 * (SELECT avg(l_quantity) FROM lineitem WHERE l_partkey = l.l_partkey)""",
    ),
    "Q18 large orders": Case(
        {
            "measures": ["sum_qty"],
            "dimensions": ["customer.c_name", "orders.o_orderkey", "orders.o_orderdate"],
            "having": ["sum_qty > 250"],
            "order_by": ["sum_qty desc", "o_orderkey"],
        },
        f"""SELECT c_name, o_orderkey, o_orderdate, sum(l_quantity) {_LINES}
            WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY 1 HAVING sum(l_quantity) > 250)
            GROUP BY ALL ORDER BY 4 DESC, 2""",
        ordered=True,
    ),
    "Q19 discounted revenue": Case(
        {
            "measures": ["lineitem.revenue"],
            "filters": [
                "(part.p_brand LIKE 'Brand#1%' AND part.p_container LIKE 'SM %' AND l_quantity BETWEEN 1 AND 11"
                " AND part.p_size BETWEEN 1 AND 25)"
                " OR (part.p_brand LIKE 'Brand#2%' AND part.p_container LIKE 'MED %' AND l_quantity BETWEEN 10 AND 20)"
                " OR (part.p_brand LIKE 'Brand#3%' AND part.p_container LIKE 'LG %' AND l_quantity BETWEEN 20 AND 30)",
                "l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON'",
            ],
        },
        f"""SELECT {_VOLUME} FROM lineitem, part WHERE p_partkey = l_partkey
              AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON' AND (
                (p_brand LIKE 'Brand#1%' AND p_container LIKE 'SM %' AND l_quantity BETWEEN 1 AND 11
                  AND p_size BETWEEN 1 AND 25)
                OR (p_brand LIKE 'Brand#2%' AND p_container LIKE 'MED %' AND l_quantity BETWEEN 10 AND 20)
                OR (p_brand LIKE 'Brand#3%' AND p_container LIKE 'LG %' AND l_quantity BETWEEN 20 AND 30))""",
    ),
    "Q20 excess stock, by part and supplier": Case(
        {
            "measures": ["partsupp.available", "lineitem.sum_qty"],
            "dimensions": ["partsupp.ps_partkey", "supplier.s_name"],
            "filters": [
                "part.p_name LIKE 'forest%'",
                "supplier_nation.region.r_name = 'AMERICA'",
                {"expr": "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'", "facts": ["lineitem"]},
            ],
            "having": ["sum_qty > 0 AND available > 0.5 * sum_qty"],
        },
        """SELECT ps_partkey, s_name, ps_availqty, sold FROM partsupp
             JOIN part ON p_partkey = ps_partkey JOIN supplier ON s_suppkey = ps_suppkey
             JOIN nation ON n_nationkey = s_nationkey JOIN region ON r_regionkey = n_regionkey
             JOIN (SELECT l_partkey, l_suppkey, sum(l_quantity) AS sold FROM lineitem
                   WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' GROUP BY ALL)
               ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
           WHERE p_name LIKE 'forest%' AND r_name = 'AMERICA' AND ps_availqty > 0.5 * sold""",
    ),
}

_COUNTRIES: Final = "country_code IN ('13', '31', '23', '29', '30', '18', '17')"
MEAN_BALANCE: Final[Mapping[str, Any]] = {
    "measures": ["mean_balance"],
    "segments": ["customer.in_credit"],
    "filters": [_COUNTRIES],
}
"""Q22, the first question."""


def without_orders(least: float) -> dict[str, Any]:
    """Return the second question of Q22: customers without orders who have more than the mean."""
    return {
        "measures": ["customers", "balance"],
        "dimensions": ["country_code"],
        "filters": [_COUNTRIES, "orders.o_orderkey IS NULL", f"c_acctbal > {least!r}"],
    }


WITHOUT_ORDERS: Final = """
    SELECT code, count(*), sum(c_acctbal) FROM (
      SELECT substring(c_phone, 1, 2) AS code, c_acctbal FROM customer
      WHERE code IN ('13', '31', '23', '29', '30', '18', '17')
        AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0
                         AND substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey))
    GROUP BY code"""

UNSAID: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "Q13, a measure as dimension": (
        {"measures": ["customer.customers"], "dimensions": ["orders.order_count"]},
        "unknown_name",
    ),
    "Q17, a row against a measure of its group": (
        {"measures": ["lineitem.revenue"], "filters": ["l_quantity < 0.2 * avg_qty"]},
        "unknown_name",
    ),
    "Q21, another line of the same order": (
        {
            "measures": ["lineitem.line_count"],
            "filters": ["EXISTS (SELECT 1 FROM main.lineitem AS l WHERE l.l_suppkey <> l_suppkey)"],
        },
        "query",
    ),
    "Q22, a query in a condition": (
        {"measures": ["customers"], "filters": ["c_acctbal > (SELECT avg(c_acctbal) FROM main.customer)"]},
        "query",
    ),
}
"""What is refused, never answered in part: query -> (question, code of the error)."""
