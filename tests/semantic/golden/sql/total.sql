-- {"measures": ["orders.revenue", "orders.orders"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
)
SELECT
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "orders"
FROM "orders__1" AS "orders__1"
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "orders" AS "orders"
)
SELECT
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "orders"
FROM "orders__1" AS "orders__1"
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
)
SELECT
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "orders"
FROM "orders__1" AS "orders__1"
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `shop`.`orders` AS `orders`
)
SELECT
  `orders__1`.`m0` AS `revenue`,
  COALESCE(`orders__1`.`m1`, 0) AS `orders`
FROM `orders__1` AS `orders__1`
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
)
SELECT
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "orders"
FROM "orders__1" AS "orders__1"
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    sum(`orders`.`amount`) AS `m0`,
    count(*) AS `m1`
  FROM `shop`.`orders` AS `orders`
)
SELECT
  `orders__1`.`m0` AS `revenue`,
  COALESCE(`orders__1`.`m1`, 0) AS `orders`
FROM `orders__1` AS `orders__1`
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    SUM([orders].[amount]) AS [m0],
    COUNT(*) AS [m1]
  FROM [shop].[orders] AS [orders]
)
SELECT
TOP 1001
  [orders__1].[m0] AS [revenue],
  COALESCE([orders__1].[m1], 0) AS [orders]
FROM [orders__1] AS [orders__1];

-- clickhouse
WITH "orders__1" AS (
  SELECT
    sum("orders"."amount") AS "m0",
    count(*) AS "m1"
  FROM "shop"."orders" AS "orders"
)
SELECT
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "orders"
FROM "orders__1" AS "orders__1"
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
)
SELECT
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "orders"
FROM "orders__1" AS "orders__1"
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `shop`.`orders` AS `orders`
)
SELECT
  `orders__1`.`m0` AS `revenue`,
  COALESCE(`orders__1`.`m1`, 0) AS `orders`
FROM `orders__1` AS `orders__1`
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
)
SELECT
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "orders"
FROM "orders__1" AS "orders__1"
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `shop`.`orders` AS `orders`
)
SELECT
  `orders__1`.`m0` AS `revenue`,
  COALESCE(`orders__1`.`m1`, 0) AS `orders`
FROM `orders__1` AS `orders__1`
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
)
SELECT
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "orders"
FROM "orders__1" AS "orders__1"
LIMIT 1001;
