-- {"measures": ["customers.balance_total", "customers.customers"], "dimensions": ["orders.status"]}

-- duckdb
WITH "customers__rows" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0",
    "customers"."balance" AS "c0",
    "customers"."id" AS "g0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "customers"."id" = "orders"."customer_id"
), "customers__1" AS (
  SELECT
    "customers__rows"."d0" AS "d0",
    SUM("c0") AS "m0",
    COUNT(*) AS "m1"
  FROM "customers__rows" AS "customers__rows"
  GROUP BY
    "customers__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0"
  FROM "shop"."orders" AS "orders"
), "stacked" AS (
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "status",
  "combined"."m0" AS "balance_total",
  COALESCE("combined"."m1", 0) AS "customers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "customers__rows" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0",
    "customers"."balance" AS "c0",
    "customers"."id" AS "g0"
  FROM "customers" AS "customers"
  LEFT JOIN "orders" AS "orders"
    ON "customers"."id" = "orders"."customer_id"
), "customers__1" AS (
  SELECT
    "customers__rows"."d0" AS "d0",
    SUM("c0") AS "m0",
    COUNT(*) AS "m1"
  FROM "customers__rows" AS "customers__rows"
  GROUP BY
    "customers__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0"
  FROM "orders" AS "orders"
), "stacked" AS (
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "status",
  "combined"."m0" AS "balance_total",
  COALESCE("combined"."m1", 0) AS "customers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "customers__rows" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0",
    "customers"."balance" AS "c0",
    "customers"."id" AS "g0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "customers"."id" = "orders"."customer_id"
), "customers__1" AS (
  SELECT
    "customers__rows"."d0" AS "d0",
    SUM("c0") AS "m0",
    COUNT(*) AS "m1"
  FROM "customers__rows" AS "customers__rows"
  GROUP BY
    "customers__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0"
  FROM "shop"."orders" AS "orders"
), "stacked" AS (
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "status",
  "combined"."m0" AS "balance_total",
  COALESCE("combined"."m1", 0) AS "customers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `customers__rows` AS (
  SELECT DISTINCT
    `orders`.`status` AS `d0`,
    `customers`.`balance` AS `c0`,
    `customers`.`id` AS `g0`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`orders` AS `orders`
    ON `customers`.`id` = `orders`.`customer_id`
), `customers__1` AS (
  SELECT
    `customers__rows`.`d0` AS `d0`,
    SUM(`c0`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `customers__rows` AS `customers__rows`
  GROUP BY
    `customers__rows`.`d0`
), `members` AS (
  SELECT DISTINCT
    `orders`.`status` AS `d0`
  FROM `shop`.`orders` AS `orders`
), `stacked` AS (
  SELECT
    `customers__1`.`d0` AS `d0`,
    `customers__1`.`m0` AS `m0`,
    `customers__1`.`m1` AS `m1`
  FROM `customers__1` AS `customers__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `status`,
  `combined`.`m0` AS `balance_total`,
  COALESCE(`combined`.`m1`, 0) AS `customers`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "customers__rows" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0",
    "customers"."balance" AS "c0",
    "customers"."id" AS "g0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "customers"."id" = "orders"."customer_id"
), "customers__1" AS (
  SELECT
    "customers__rows"."d0" AS "d0",
    SUM("c0") AS "m0",
    COUNT(*) AS "m1"
  FROM "customers__rows" AS "customers__rows"
  GROUP BY
    "customers__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0"
  FROM "shop"."orders" AS "orders"
), "stacked" AS (
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "status",
  "combined"."m0" AS "balance_total",
  COALESCE("combined"."m1", 0) AS "customers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `customers__rows` AS (
  SELECT DISTINCT
    `orders`.`status` AS `d0`,
    `customers`.`balance` AS `c0`,
    `customers`.`id` AS `g0`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`orders` AS `orders`
    ON `customers`.`id` = `orders`.`customer_id`
), `customers__1` AS (
  SELECT
    `customers__rows`.`d0` AS `d0`,
    sum(`c0`) AS `m0`,
    count(*) AS `m1`
  FROM `customers__rows` AS `customers__rows`
  GROUP BY
    `customers__rows`.`d0`
), `members` AS (
  SELECT DISTINCT
    `orders`.`status` AS `d0`
  FROM `shop`.`orders` AS `orders`
), `stacked` AS (
  SELECT
    `customers__1`.`d0` AS `d0`,
    `customers__1`.`m0` AS `m0`,
    `customers__1`.`m1` AS `m1`
  FROM `customers__1` AS `customers__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `status`,
  `combined`.`m0` AS `balance_total`,
  COALESCE(`combined`.`m1`, 0) AS `customers`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [customers__rows] AS (
  SELECT DISTINCT
    [orders].[status] AS [d0],
    [customers].[balance] AS [c0],
    [customers].[id] AS [g0]
  FROM [shop].[customers] AS [customers]
  LEFT JOIN [shop].[orders] AS [orders]
    ON [customers].[id] = [orders].[customer_id]
), [customers__1] AS (
  SELECT
    [customers__rows].[d0] AS [d0],
    SUM([c0]) AS [m0],
    COUNT(*) AS [m1]
  FROM [customers__rows] AS [customers__rows]
  GROUP BY
    [customers__rows].[d0]
), [members] AS (
  SELECT DISTINCT
    [orders].[status] AS [d0]
  FROM [shop].[orders] AS [orders]
), [stacked] AS (
  SELECT
    [customers__1].[d0] AS [d0],
    [customers__1].[m0] AS [m0],
    [customers__1].[m1] AS [m1]
  FROM [customers__1] AS [customers__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [customers__1].[d0] AS [d0],
    [customers__1].[m0] AS [m0],
    [customers__1].[m1] AS [m1]
  FROM [customers__1] AS [customers__1]
  UNION ALL
  SELECT
    [members].[d0] AS [d0],
    NULL AS [m0],
    NULL AS [m1]
  FROM [members] AS [members]
), [combined] AS (
  SELECT
    [stacked].[d0] AS [d0],
    MAX([stacked].[m0]) AS [m0],
    MAX([stacked].[m1]) AS [m1]
  FROM [stacked] AS [stacked]
  GROUP BY
    [stacked].[d0]
)
SELECT
TOP 1001
  [combined].[d0] AS [status],
  [combined].[m0] AS [balance_total],
  COALESCE([combined].[m1], 0) AS [customers]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "customers__rows" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0",
    "customers"."balance" AS "c0",
    "customers"."id" AS "g0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "customers"."id" = "orders"."customer_id"
), "customers__1" AS (
  SELECT
    "customers__rows"."d0" AS "d0",
    sum("c0") AS "m0",
    count(*) AS "m1"
  FROM "customers__rows" AS "customers__rows"
  GROUP BY
    "customers__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0"
  FROM "shop"."orders" AS "orders"
), "stacked" AS (
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "status",
  "combined"."m0" AS "balance_total",
  COALESCE("combined"."m1", 0) AS "customers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "customers__rows" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0",
    "customers"."balance" AS "c0",
    "customers"."id" AS "g0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "customers"."id" = "orders"."customer_id"
), "customers__1" AS (
  SELECT
    "customers__rows"."d0" AS "d0",
    SUM("c0") AS "m0",
    COUNT(*) AS "m1"
  FROM "customers__rows" AS "customers__rows"
  GROUP BY
    "customers__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0"
  FROM "shop"."orders" AS "orders"
), "stacked" AS (
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "status",
  "combined"."m0" AS "balance_total",
  COALESCE("combined"."m1", 0) AS "customers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `customers__rows` AS (
  SELECT DISTINCT
    `orders`.`status` AS `d0`,
    `customers`.`balance` AS `c0`,
    `customers`.`id` AS `g0`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`orders` AS `orders`
    ON `customers`.`id` = `orders`.`customer_id`
), `customers__1` AS (
  SELECT
    `customers__rows`.`d0` AS `d0`,
    SUM(`c0`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `customers__rows` AS `customers__rows`
  GROUP BY
    `customers__rows`.`d0`
), `members` AS (
  SELECT DISTINCT
    `orders`.`status` AS `d0`
  FROM `shop`.`orders` AS `orders`
), `stacked` AS (
  SELECT
    `customers__1`.`d0` AS `d0`,
    `customers__1`.`m0` AS `m0`,
    `customers__1`.`m1` AS `m1`
  FROM `customers__1` AS `customers__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `status`,
  `combined`.`m0` AS `balance_total`,
  COALESCE(`combined`.`m1`, 0) AS `customers`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "customers__rows" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0",
    "customers"."balance" AS "c0",
    "customers"."id" AS "g0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "customers"."id" = "orders"."customer_id"
), "customers__1" AS (
  SELECT
    "customers__rows"."d0" AS "d0",
    SUM("c0") AS "m0",
    COUNT(*) AS "m1"
  FROM "customers__rows" AS "customers__rows"
  GROUP BY
    "customers__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0"
  FROM "shop"."orders" AS "orders"
), "stacked" AS (
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "status",
  "combined"."m0" AS "balance_total",
  COALESCE("combined"."m1", 0) AS "customers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `customers__rows` AS (
  SELECT DISTINCT
    `orders`.`status` AS `d0`,
    `customers`.`balance` AS `c0`,
    `customers`.`id` AS `g0`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`orders` AS `orders`
    ON `customers`.`id` = `orders`.`customer_id`
), `customers__1` AS (
  SELECT
    `customers__rows`.`d0` AS `d0`,
    SUM(`c0`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `customers__rows` AS `customers__rows`
  GROUP BY
    `customers__rows`.`d0`
), `members` AS (
  SELECT DISTINCT
    `orders`.`status` AS `d0`
  FROM `shop`.`orders` AS `orders`
), `stacked` AS (
  SELECT
    `customers__1`.`d0` AS `d0`,
    `customers__1`.`m0` AS `m0`,
    `customers__1`.`m1` AS `m1`
  FROM `customers__1` AS `customers__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `status`,
  `combined`.`m0` AS `balance_total`,
  COALESCE(`combined`.`m1`, 0) AS `customers`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "customers__rows" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0",
    "customers"."balance" AS "c0",
    "customers"."id" AS "g0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "customers"."id" = "orders"."customer_id"
), "customers__1" AS (
  SELECT
    "customers__rows"."d0" AS "d0",
    SUM("c0") AS "m0",
    COUNT(*) AS "m1"
  FROM "customers__rows" AS "customers__rows"
  GROUP BY
    "customers__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "orders"."status" AS "d0"
  FROM "shop"."orders" AS "orders"
), "stacked" AS (
  SELECT
    "customers__1"."d0" AS "d0",
    "customers__1"."m0" AS "m0",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "status",
  "combined"."m0" AS "balance_total",
  COALESCE("combined"."m1", 0) AS "customers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
