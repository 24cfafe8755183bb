-- {"measures": ["orders.share", "orders.share_of_status"], "dimensions": ["orders.status", "customers.tier"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    "customers"."tier" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "orders"."status",
    "customers"."tier"
), "orders__totals" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
), "orders__totals_2" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."d1" AS "tier",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE) / NULLIF("orders__totals"."m1", 0)
  ) AS "share",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE) / NULLIF("orders__totals_2"."m2", 0)
  ) AS "share_of_status"
FROM "orders__1" AS "orders__1"
CROSS JOIN "orders__totals" AS "orders__totals"
LEFT JOIN "orders__totals_2" AS "orders__totals_2"
  ON "orders__1"."d0" IS NOT DISTINCT FROM "orders__totals_2"."d0"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    "customers"."tier" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "orders" AS "orders"
  LEFT JOIN "customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "orders"."status",
    "customers"."tier"
), "orders__totals" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "orders" AS "orders"
), "orders__totals_2" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."d1" AS "tier",
  100.0 * (
    CAST("orders__1"."m0" AS REAL) / NULLIF("orders__totals"."m1", 0)
  ) AS "share",
  100.0 * (
    CAST("orders__1"."m0" AS REAL) / NULLIF("orders__totals_2"."m2", 0)
  ) AS "share_of_status"
FROM "orders__1" AS "orders__1"
CROSS JOIN "orders__totals" AS "orders__totals"
LEFT JOIN "orders__totals_2" AS "orders__totals_2"
  ON "orders__1"."d0" IS "orders__totals_2"."d0"
ORDER BY
  "orders__1"."d0" ASC NULLS LAST,
  "orders__1"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    "customers"."tier" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "orders"."status",
    "customers"."tier"
), "orders__totals" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
), "orders__totals_2" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."d1" AS "tier",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE PRECISION) / NULLIF("orders__totals"."m1", 0)
  ) AS "share",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE PRECISION) / NULLIF("orders__totals_2"."m2", 0)
  ) AS "share_of_status"
FROM "orders__1" AS "orders__1"
CROSS JOIN "orders__totals" AS "orders__totals"
LEFT JOIN "orders__totals_2" AS "orders__totals_2"
  ON "orders__1"."d0" IS NOT DISTINCT FROM "orders__totals_2"."d0"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `customers`.`tier` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `orders`.`status`,
    `customers`.`tier`
), `orders__totals` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
), `orders__totals_2` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(`orders`.`amount`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`d1` AS `tier`,
  100.0 * (
    CAST(`orders__1`.`m0` AS DOUBLE) / NULLIF(`orders__totals`.`m1`, 0)
  ) AS `share`,
  100.0 * (
    CAST(`orders__1`.`m0` AS DOUBLE) / NULLIF(`orders__totals_2`.`m2`, 0)
  ) AS `share_of_status`
FROM `orders__1` AS `orders__1`
CROSS JOIN `orders__totals` AS `orders__totals`
LEFT JOIN `orders__totals_2` AS `orders__totals_2`
  ON `orders__1`.`d0` <=> `orders__totals_2`.`d0`
ORDER BY
  CASE WHEN `orders__1`.`d0` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d0` ASC,
  CASE WHEN `orders__1`.`d1` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d1` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    "customers"."tier" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "orders"."status",
    "customers"."tier"
), "orders__totals" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
), "orders__totals_2" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."d1" AS "tier",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE) / NULLIF("orders__totals"."m1", 0)
  ) AS "share",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE) / NULLIF("orders__totals_2"."m2", 0)
  ) AS "share_of_status"
FROM "orders__1" AS "orders__1"
CROSS JOIN "orders__totals" AS "orders__totals"
LEFT JOIN "orders__totals_2" AS "orders__totals_2"
  ON "orders__1"."d0" IS NOT DISTINCT FROM "orders__totals_2"."d0"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `customers`.`tier` AS `d1`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `orders`.`status`,
    `customers`.`tier`
), `orders__totals` AS (
  SELECT
    sum(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
), `orders__totals_2` AS (
  SELECT
    `orders`.`status` AS `d0`,
    sum(`orders`.`amount`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`d1` AS `tier`,
  100.0 * (
    CAST(`orders__1`.`m0` AS FLOAT64) / NULLIF(`orders__totals`.`m1`, 0)
  ) AS `share`,
  100.0 * (
    CAST(`orders__1`.`m0` AS FLOAT64) / NULLIF(`orders__totals_2`.`m2`, 0)
  ) AS `share_of_status`
FROM `orders__1` AS `orders__1`
CROSS JOIN `orders__totals` AS `orders__totals`
LEFT JOIN `orders__totals_2` AS `orders__totals_2`
  ON `orders__1`.`d0` IS NOT DISTINCT FROM `orders__totals_2`.`d0`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [orders].[status] AS [d0],
    [customers].[tier] AS [d1],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [orders].[customer_id] = [customers].[id]
  GROUP BY
    [orders].[status],
    [customers].[tier]
), [orders__totals] AS (
  SELECT
    SUM([orders].[amount]) AS [m1]
  FROM [shop].[orders] AS [orders]
), [orders__totals_2] AS (
  SELECT
    [orders].[status] AS [d0],
    SUM([orders].[amount]) AS [m2]
  FROM [shop].[orders] AS [orders]
  GROUP BY
    [orders].[status]
)
SELECT
TOP 1001
  [orders__1].[d0] AS [status],
  [orders__1].[d1] AS [tier],
  100.0 * (
    CAST([orders__1].[m0] AS FLOAT) / NULLIF([orders__totals].[m1], 0)
  ) AS [share],
  100.0 * (
    CAST([orders__1].[m0] AS FLOAT) / NULLIF([orders__totals_2].[m2], 0)
  ) AS [share_of_status]
FROM [orders__1] AS [orders__1]
CROSS JOIN [orders__totals] AS [orders__totals]
LEFT JOIN [orders__totals_2] AS [orders__totals_2]
  ON (
    [orders__1].[d0] = [orders__totals_2].[d0]
    OR (
      [orders__1].[d0] IS NULL AND [orders__totals_2].[d0] IS NULL
    )
  )
ORDER BY
  CASE WHEN [orders__1].[d0] IS NULL THEN 1 ELSE 0 END, [orders__1].[d0] ASC,
  CASE WHEN [orders__1].[d1] IS NULL THEN 1 ELSE 0 END, [orders__1].[d1] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    "customers"."tier" AS "d1",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "orders"."status",
    "customers"."tier"
), "orders__totals" AS (
  SELECT
    sum("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
), "orders__totals_2" AS (
  SELECT
    "orders"."status" AS "d0",
    sum("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."d1" AS "tier",
  100.0 * (
    CAST("orders__1"."m0" AS Nullable(Float64)) / nullIf("orders__totals"."m1", 0)
  ) AS "share",
  100.0 * (
    CAST("orders__1"."m0" AS Nullable(Float64)) / nullIf("orders__totals_2"."m2", 0)
  ) AS "share_of_status"
FROM "orders__1" AS "orders__1"
CROSS JOIN "orders__totals" AS "orders__totals"
LEFT JOIN "orders__totals_2" AS "orders__totals_2"
  ON "orders__1"."d0" IS NOT DISTINCT FROM "orders__totals_2"."d0"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    "customers"."tier" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "orders"."status",
    "customers"."tier"
), "orders__totals" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
), "orders__totals_2" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."d1" AS "tier",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE PRECISION) / NULLIF("orders__totals"."m1", 0)
  ) AS "share",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE PRECISION) / NULLIF("orders__totals_2"."m2", 0)
  ) AS "share_of_status"
FROM "orders__1" AS "orders__1"
CROSS JOIN "orders__totals" AS "orders__totals"
LEFT JOIN "orders__totals_2" AS "orders__totals_2"
  ON (
    "orders__1"."d0" = "orders__totals_2"."d0"
    OR (
      "orders__1"."d0" IS NULL AND "orders__totals_2"."d0" IS NULL
    )
  )
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `customers`.`tier` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `orders`.`status`,
    `customers`.`tier`
), `orders__totals` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
), `orders__totals_2` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(`orders`.`amount`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`d1` AS `tier`,
  100.0 * (
    CAST(`orders__1`.`m0` AS DOUBLE) / NULLIF(`orders__totals`.`m1`, 0)
  ) AS `share`,
  100.0 * (
    CAST(`orders__1`.`m0` AS DOUBLE) / NULLIF(`orders__totals_2`.`m2`, 0)
  ) AS `share_of_status`
FROM `orders__1` AS `orders__1`
CROSS JOIN `orders__totals` AS `orders__totals`
LEFT JOIN `orders__totals_2` AS `orders__totals_2`
  ON `orders__1`.`d0` IS NOT DISTINCT FROM `orders__totals_2`.`d0`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    "customers"."tier" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "orders"."status",
    "customers"."tier"
), "orders__totals" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
), "orders__totals_2" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."d1" AS "tier",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE) / NULLIF("orders__totals"."m1", 0)
  ) AS "share",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE) / NULLIF("orders__totals_2"."m2", 0)
  ) AS "share_of_status"
FROM "orders__1" AS "orders__1"
CROSS JOIN "orders__totals" AS "orders__totals"
LEFT JOIN "orders__totals_2" AS "orders__totals_2"
  ON "orders__1"."d0" IS NOT DISTINCT FROM "orders__totals_2"."d0"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `customers`.`tier` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `orders`.`status`,
    `customers`.`tier`
), `orders__totals` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
), `orders__totals_2` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(`orders`.`amount`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`d1` AS `tier`,
  100.0 * (
    CAST(`orders__1`.`m0` AS DOUBLE) / NULLIF(`orders__totals`.`m1`, 0)
  ) AS `share`,
  100.0 * (
    CAST(`orders__1`.`m0` AS DOUBLE) / NULLIF(`orders__totals_2`.`m2`, 0)
  ) AS `share_of_status`
FROM `orders__1` AS `orders__1`
CROSS JOIN `orders__totals` AS `orders__totals`
LEFT JOIN `orders__totals_2` AS `orders__totals_2`
  ON `orders__1`.`d0` IS NOT DISTINCT FROM `orders__totals_2`.`d0`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    "customers"."tier" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "orders"."status",
    "customers"."tier"
), "orders__totals" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
), "orders__totals_2" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."d1" AS "tier",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE) / NULLIF("orders__totals"."m1", 0)
  ) AS "share",
  100.0 * (
    CAST("orders__1"."m0" AS DOUBLE) / NULLIF("orders__totals_2"."m2", 0)
  ) AS "share_of_status"
FROM "orders__1" AS "orders__1"
CROSS JOIN "orders__totals" AS "orders__totals"
LEFT JOIN "orders__totals_2" AS "orders__totals_2"
  ON "orders__1"."d0" IS NOT DISTINCT FROM "orders__totals_2"."d0"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;
