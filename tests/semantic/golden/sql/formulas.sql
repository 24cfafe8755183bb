-- {"measures": ["orders.per_order", "orders.paid_share", {"expr": "orders / buyers / 2", "name": "odd"}], "dimensions": ["customers.tier"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m2",
    COUNT(DISTINCT "orders"."customer_id") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    NULL AS "m2",
    NULL AS "m3"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "tier",
  CAST(COALESCE("combined"."m0", 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m1", 0), 0), 0) AS "per_order",
  CAST(100 * COALESCE("combined"."m2", 0) AS DOUBLE) / NULLIF(COALESCE("combined"."m0", 0), 0) AS "paid_share",
  CAST(CAST(COALESCE(COALESCE("combined"."m1", 0), 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m3", 0), 0), 0) AS DOUBLE) / 2 AS "odd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m2",
    COUNT(DISTINCT "orders"."customer_id") AS "m3"
  FROM "orders" AS "orders"
  LEFT JOIN "customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    NULL AS "m2",
    NULL AS "m3"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "tier",
  CAST(COALESCE("combined"."m0", 0) AS REAL) / NULLIF(COALESCE(COALESCE("combined"."m1", 0), 0), 0) AS "per_order",
  CAST(100 * COALESCE("combined"."m2", 0) AS REAL) / NULLIF(COALESCE("combined"."m0", 0), 0) AS "paid_share",
  CAST(CAST(COALESCE(COALESCE("combined"."m1", 0), 0) AS REAL) / NULLIF(COALESCE(COALESCE("combined"."m3", 0), 0), 0) AS REAL) / 2 AS "odd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m2",
    COUNT(DISTINCT "orders"."customer_id") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    NULL AS "m2",
    NULL AS "m3"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "tier",
  CAST(COALESCE("combined"."m0", 0) AS DOUBLE PRECISION) / NULLIF(COALESCE(COALESCE("combined"."m1", 0), 0), 0) AS "per_order",
  CAST(100 * COALESCE("combined"."m2", 0) AS DOUBLE PRECISION) / NULLIF(COALESCE("combined"."m0", 0), 0) AS "paid_share",
  CAST(CAST(COALESCE(COALESCE("combined"."m1", 0), 0) AS DOUBLE PRECISION) / NULLIF(COALESCE(COALESCE("combined"."m3", 0), 0), 0) AS DOUBLE PRECISION) / 2 AS "odd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`,
    SUM(CASE WHEN (
      `orders`.`status` IN ('paid', 'sent')
    ) THEN `orders`.`amount` END) AS `m2`,
    COUNT(DISTINCT `orders`.`customer_id`) AS `m3`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`,
    `orders__1`.`m2` AS `m2`,
    `orders__1`.`m3` AS `m3`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`,
    NULL AS `m2`,
    NULL AS `m3`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`,
    MAX(`stacked`.`m2`) AS `m2`,
    MAX(`stacked`.`m3`) AS `m3`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `tier`,
  CAST(COALESCE(`combined`.`m0`, 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m1`, 0), 0), 0) AS `per_order`,
  CAST(100 * COALESCE(`combined`.`m2`, 0) AS DOUBLE) / NULLIF(COALESCE(`combined`.`m0`, 0), 0) AS `paid_share`,
  CAST(CAST(COALESCE(COALESCE(`combined`.`m1`, 0), 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m3`, 0), 0), 0) AS DOUBLE) / 2 AS `odd`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m2",
    COUNT(DISTINCT "orders"."customer_id") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    NULL AS "m2",
    NULL AS "m3"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "tier",
  CAST(COALESCE("combined"."m0", 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m1", 0), 0), 0) AS "per_order",
  CAST(100 * COALESCE("combined"."m2", 0) AS DOUBLE) / NULLIF(COALESCE("combined"."m0", 0), 0) AS "paid_share",
  CAST(CAST(COALESCE(COALESCE("combined"."m1", 0), 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m3", 0), 0), 0) AS DOUBLE) / 2 AS "odd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    sum(`orders`.`amount`) AS `m0`,
    count(*) AS `m1`,
    sum(CASE WHEN (
      `orders`.`status` IN ('paid', 'sent')
    ) THEN `orders`.`amount` END) AS `m2`,
    count(DISTINCT `orders`.`customer_id`) AS `m3`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`,
    `orders__1`.`m2` AS `m2`,
    `orders__1`.`m3` AS `m3`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`,
    NULL AS `m2`,
    NULL AS `m3`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`,
    MAX(`stacked`.`m2`) AS `m2`,
    MAX(`stacked`.`m3`) AS `m3`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `tier`,
  CAST(COALESCE(`combined`.`m0`, 0) AS FLOAT64) / NULLIF(COALESCE(COALESCE(`combined`.`m1`, 0), 0), 0) AS `per_order`,
  CAST(100 * COALESCE(`combined`.`m2`, 0) AS FLOAT64) / NULLIF(COALESCE(`combined`.`m0`, 0), 0) AS `paid_share`,
  CAST(CAST(COALESCE(COALESCE(`combined`.`m1`, 0), 0) AS FLOAT64) / NULLIF(COALESCE(COALESCE(`combined`.`m3`, 0), 0), 0) AS FLOAT64) / 2 AS `odd`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [customers].[tier] AS [d0],
    SUM([orders].[amount]) AS [m0],
    COUNT(*) AS [m1],
    SUM(CASE WHEN (
      [orders].[status] IN ('paid', 'sent')
    ) THEN [orders].[amount] END) AS [m2],
    COUNT(DISTINCT [orders].[customer_id]) AS [m3]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [orders].[customer_id] = [customers].[id]
  GROUP BY
    [customers].[tier]
), [members] AS (
  SELECT DISTINCT
    [customers].[tier] AS [d0]
  FROM [shop].[customers] AS [customers]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [orders__1].[m1] AS [m1],
    [orders__1].[m2] AS [m2],
    [orders__1].[m3] AS [m3]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [orders__1].[m1] AS [m1],
    [orders__1].[m2] AS [m2],
    [orders__1].[m3] AS [m3]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    [members].[d0] AS [d0],
    NULL AS [m0],
    NULL AS [m1],
    NULL AS [m2],
    NULL AS [m3]
  FROM [members] AS [members]
), [combined] AS (
  SELECT
    [stacked].[d0] AS [d0],
    MAX([stacked].[m0]) AS [m0],
    MAX([stacked].[m1]) AS [m1],
    MAX([stacked].[m2]) AS [m2],
    MAX([stacked].[m3]) AS [m3]
  FROM [stacked] AS [stacked]
  GROUP BY
    [stacked].[d0]
)
SELECT
TOP 1001
  [combined].[d0] AS [tier],
  CAST(COALESCE([combined].[m0], 0) AS FLOAT) / NULLIF(COALESCE(COALESCE([combined].[m1], 0), 0), 0) AS [per_order],
  CAST(100 * COALESCE([combined].[m2], 0) AS FLOAT) / NULLIF(COALESCE([combined].[m0], 0), 0) AS [paid_share],
  CAST(CAST(COALESCE(COALESCE([combined].[m1], 0), 0) AS FLOAT) / NULLIF(COALESCE(COALESCE([combined].[m3], 0), 0), 0) AS FLOAT) / 2 AS [odd]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    sum("orders"."amount") AS "m0",
    count(*) AS "m1",
    sum(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m2",
    count(DISTINCT "orders"."customer_id") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    NULL AS "m2",
    NULL AS "m3"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "tier",
  CAST(COALESCE("combined"."m0", 0) AS Nullable(Float64)) / nullIf(COALESCE(COALESCE("combined"."m1", 0), 0), 0) AS "per_order",
  CAST(100 * COALESCE("combined"."m2", 0) AS Nullable(Float64)) / nullIf(COALESCE("combined"."m0", 0), 0) AS "paid_share",
  CAST(CAST(COALESCE(COALESCE("combined"."m1", 0), 0) AS Nullable(Float64)) / nullIf(COALESCE(COALESCE("combined"."m3", 0), 0), 0) AS Nullable(Float64)) / 2 AS "odd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m2",
    COUNT(DISTINCT "orders"."customer_id") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    NULL AS "m2",
    NULL AS "m3"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "tier",
  CAST(COALESCE("combined"."m0", 0) AS DOUBLE PRECISION) / NULLIF(COALESCE(COALESCE("combined"."m1", 0), 0), 0) AS "per_order",
  CAST(100 * COALESCE("combined"."m2", 0) AS DOUBLE PRECISION) / NULLIF(COALESCE("combined"."m0", 0), 0) AS "paid_share",
  CAST(CAST(COALESCE(COALESCE("combined"."m1", 0), 0) AS DOUBLE PRECISION) / NULLIF(COALESCE(COALESCE("combined"."m3", 0), 0), 0) AS DOUBLE PRECISION) / 2 AS "odd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`,
    SUM(CASE WHEN (
      `orders`.`status` IN ('paid', 'sent')
    ) THEN `orders`.`amount` END) AS `m2`,
    COUNT(DISTINCT `orders`.`customer_id`) AS `m3`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`,
    `orders__1`.`m2` AS `m2`,
    `orders__1`.`m3` AS `m3`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`,
    NULL AS `m2`,
    NULL AS `m3`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`,
    MAX(`stacked`.`m2`) AS `m2`,
    MAX(`stacked`.`m3`) AS `m3`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `tier`,
  CAST(COALESCE(`combined`.`m0`, 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m1`, 0), 0), 0) AS `per_order`,
  CAST(100 * COALESCE(`combined`.`m2`, 0) AS DOUBLE) / NULLIF(COALESCE(`combined`.`m0`, 0), 0) AS `paid_share`,
  CAST(CAST(COALESCE(COALESCE(`combined`.`m1`, 0), 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m3`, 0), 0), 0) AS DOUBLE) / 2 AS `odd`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m2",
    COUNT(DISTINCT "orders"."customer_id") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    NULL AS "m2",
    NULL AS "m3"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "tier",
  CAST(COALESCE("combined"."m0", 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m1", 0), 0), 0) AS "per_order",
  CAST(100 * COALESCE("combined"."m2", 0) AS DOUBLE) / NULLIF(COALESCE("combined"."m0", 0), 0) AS "paid_share",
  CAST(CAST(COALESCE(COALESCE("combined"."m1", 0), 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m3", 0), 0), 0) AS DOUBLE) / 2 AS "odd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`,
    SUM(CASE WHEN (
      `orders`.`status` IN ('paid', 'sent')
    ) THEN `orders`.`amount` END) AS `m2`,
    COUNT(DISTINCT `orders`.`customer_id`) AS `m3`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`,
    `orders__1`.`m2` AS `m2`,
    `orders__1`.`m3` AS `m3`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`,
    NULL AS `m2`,
    NULL AS `m3`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`,
    MAX(`stacked`.`m2`) AS `m2`,
    MAX(`stacked`.`m3`) AS `m3`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `tier`,
  CAST(COALESCE(`combined`.`m0`, 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m1`, 0), 0), 0) AS `per_order`,
  CAST(100 * COALESCE(`combined`.`m2`, 0) AS DOUBLE) / NULLIF(COALESCE(`combined`.`m0`, 0), 0) AS `paid_share`,
  CAST(CAST(COALESCE(COALESCE(`combined`.`m1`, 0), 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m3`, 0), 0), 0) AS DOUBLE) / 2 AS `odd`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m2",
    COUNT(DISTINCT "orders"."customer_id") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    NULL AS "m2",
    NULL AS "m3"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "tier",
  CAST(COALESCE("combined"."m0", 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m1", 0), 0), 0) AS "per_order",
  CAST(100 * COALESCE("combined"."m2", 0) AS DOUBLE) / NULLIF(COALESCE("combined"."m0", 0), 0) AS "paid_share",
  CAST(CAST(COALESCE(COALESCE("combined"."m1", 0), 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m3", 0), 0), 0) AS DOUBLE) / 2 AS "odd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
