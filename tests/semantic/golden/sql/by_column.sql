-- {"measures": ["orders.revenue"], "dimensions": ["orders.status"], "order_by": ["revenue desc"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."m0" DESC,
  "orders__1"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."m0" DESC,
  "orders__1"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."m0" DESC NULLS LAST,
  "orders__1"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`m0` DESC,
  CASE WHEN `orders__1`.`d0` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."m0" DESC NULLS LAST,
  "orders__1"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`m0` DESC,
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [orders].[status] AS [d0],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  GROUP BY
    [orders].[status]
)
SELECT
TOP 1001
  [orders__1].[d0] AS [status],
  [orders__1].[m0] AS [revenue]
FROM [orders__1] AS [orders__1]
ORDER BY
  [orders__1].[m0] DESC,
  CASE WHEN [orders__1].[d0] IS NULL THEN 1 ELSE 0 END, [orders__1].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."m0" DESC,
  "orders__1"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."m0" DESC NULLS LAST,
  "orders__1"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`m0` DESC,
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."m0" DESC,
  "orders__1"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`m0` DESC,
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."m0" DESC,
  "orders__1"."d0" ASC
LIMIT 1001;
