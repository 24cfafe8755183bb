-- {"measures": ["orders.mean_of_customers"], "dimensions": [{"field": "orders.placed_at", "granularity": "month"}]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    "orders"."customer_id" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE),
    "orders"."customer_id"
), "orders__by_key" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "v0"
  FROM "orders__1" AS "orders__1"
), "orders__1_2" AS (
  SELECT
    "orders__by_key"."d0" AS "d0",
    AVG("orders__by_key"."v0") AS "m1"
  FROM "orders__by_key" AS "orders__by_key"
  GROUP BY
    "orders__by_key"."d0"
)
SELECT
  "orders__1_2"."d0" AS "placed_at_month",
  "orders__1_2"."m1" AS "mean_of_customers"
FROM "orders__1_2" AS "orders__1_2"
ORDER BY
  "orders__1_2"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    DATE(
      DATE(
        DATETIME(
          CASE
            WHEN TYPEOF("orders"."placed_at") <> 'text'
            THEN DATETIME("orders"."placed_at", 'unixepoch')
            WHEN SUBSTR("orders"."placed_at", 20, 1) <> '.'
            THEN "orders"."placed_at"
            WHEN "orders"."placed_at" GLOB '*[+-]??:??'
            THEN SUBSTR("orders"."placed_at", 1, 19) || SUBSTR("orders"."placed_at", -6)
            ELSE SUBSTR("orders"."placed_at", 1, 19)
          END
        )
      ),
      'start of month'
    ) AS "d0",
    "orders"."customer_id" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "orders" AS "orders"
  GROUP BY
    DATE(
      DATE(
        DATETIME(
          CASE
            WHEN TYPEOF("orders"."placed_at") <> 'text'
            THEN DATETIME("orders"."placed_at", 'unixepoch')
            WHEN SUBSTR("orders"."placed_at", 20, 1) <> '.'
            THEN "orders"."placed_at"
            WHEN "orders"."placed_at" GLOB '*[+-]??:??'
            THEN SUBSTR("orders"."placed_at", 1, 19) || SUBSTR("orders"."placed_at", -6)
            ELSE SUBSTR("orders"."placed_at", 1, 19)
          END
        )
      ),
      'start of month'
    ),
    "orders"."customer_id"
), "orders__by_key" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "v0"
  FROM "orders__1" AS "orders__1"
), "orders__1_2" AS (
  SELECT
    "orders__by_key"."d0" AS "d0",
    AVG("orders__by_key"."v0") AS "m1"
  FROM "orders__by_key" AS "orders__by_key"
  GROUP BY
    "orders__by_key"."d0"
)
SELECT
  "orders__1_2"."d0" AS "placed_at_month",
  "orders__1_2"."m1" AS "mean_of_customers"
FROM "orders__1_2" AS "orders__1_2"
ORDER BY
  "orders__1_2"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    "orders"."customer_id" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE),
    "orders"."customer_id"
), "orders__by_key" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "v0"
  FROM "orders__1" AS "orders__1"
), "orders__1_2" AS (
  SELECT
    "orders__by_key"."d0" AS "d0",
    AVG("orders__by_key"."v0") AS "m1"
  FROM "orders__by_key" AS "orders__by_key"
  GROUP BY
    "orders__by_key"."d0"
)
SELECT
  "orders__1_2"."d0" AS "placed_at_month",
  "orders__1_2"."m1" AS "mean_of_customers"
FROM "orders__1_2" AS "orders__1_2"
ORDER BY
  "orders__1_2"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    ) AS `d0`,
    `orders`.`customer_id` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    ),
    `orders`.`customer_id`
), `orders__by_key` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `v0`
  FROM `orders__1` AS `orders__1`
), `orders__1_2` AS (
  SELECT
    `orders__by_key`.`d0` AS `d0`,
    AVG(CAST(`orders__by_key`.`v0` AS DOUBLE)) AS `m1`
  FROM `orders__by_key` AS `orders__by_key`
  GROUP BY
    `orders__by_key`.`d0`
)
SELECT
  `orders__1_2`.`d0` AS `placed_at_month`,
  `orders__1_2`.`m1` AS `mean_of_customers`
FROM `orders__1_2` AS `orders__1_2`
ORDER BY
  CASE WHEN `orders__1_2`.`d0` IS NULL THEN 1 ELSE 0 END, `orders__1_2`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    ) AS "d0",
    "orders"."customer_id" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    ),
    "orders"."customer_id"
), "orders__by_key" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "v0"
  FROM "orders__1" AS "orders__1"
), "orders__1_2" AS (
  SELECT
    "orders__by_key"."d0" AS "d0",
    AVG(CAST("orders__by_key"."v0" AS DOUBLE)) AS "m1"
  FROM "orders__by_key" AS "orders__by_key"
  GROUP BY
    "orders__by_key"."d0"
)
SELECT
  "orders__1_2"."d0" AS "placed_at_month",
  "orders__1_2"."m1" AS "mean_of_customers"
FROM "orders__1_2" AS "orders__1_2"
ORDER BY
  "orders__1_2"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH) AS `d0`,
    `orders`.`customer_id` AS `d1`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH),
    `orders`.`customer_id`
), `orders__by_key` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `v0`
  FROM `orders__1` AS `orders__1`
), `orders__1_2` AS (
  SELECT
    `orders__by_key`.`d0` AS `d0`,
    avg(`orders__by_key`.`v0`) AS `m1`
  FROM `orders__by_key` AS `orders__by_key`
  GROUP BY
    `orders__by_key`.`d0`
)
SELECT
  `orders__1_2`.`d0` AS `placed_at_month`,
  `orders__1_2`.`m1` AS `mean_of_customers`
FROM `orders__1_2` AS `orders__1_2`
ORDER BY
  `orders__1_2`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS [d0],
    [orders].[customer_id] AS [d1],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ),
    [orders].[customer_id]
), [orders__by_key] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [v0]
  FROM [orders__1] AS [orders__1]
), [orders__1_2] AS (
  SELECT
    [orders__by_key].[d0] AS [d0],
    AVG(CAST([orders__by_key].[v0] AS FLOAT)) AS [m1]
  FROM [orders__by_key] AS [orders__by_key]
  GROUP BY
    [orders__by_key].[d0]
)
SELECT
TOP 1001
  [orders__1_2].[d0] AS [placed_at_month],
  [orders__1_2].[m1] AS [mean_of_customers]
FROM [orders__1_2] AS [orders__1_2]
ORDER BY
  CASE WHEN [orders__1_2].[d0] IS NULL THEN 1 ELSE 0 END, [orders__1_2].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    addMonths(
      toDate32('1900-01-01'),
      dateDiff(
        'month',
        toDate32('1900-01-01'),
        toDate32(
          CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
        )
      )
    ) AS "d0",
    "orders"."customer_id" AS "d1",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    addMonths(
      toDate32('1900-01-01'),
      dateDiff(
        'month',
        toDate32('1900-01-01'),
        toDate32(
          CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
        )
      )
    ),
    "orders"."customer_id"
), "orders__by_key" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "v0"
  FROM "orders__1" AS "orders__1"
), "orders__1_2" AS (
  SELECT
    "orders__by_key"."d0" AS "d0",
    avg("orders__by_key"."v0") AS "m1"
  FROM "orders__by_key" AS "orders__by_key"
  GROUP BY
    "orders__by_key"."d0"
)
SELECT
  "orders__1_2"."d0" AS "placed_at_month",
  "orders__1_2"."m1" AS "mean_of_customers"
FROM "orders__1_2" AS "orders__1_2"
ORDER BY
  "orders__1_2"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    "orders"."customer_id" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE),
    "orders"."customer_id"
), "orders__by_key" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "v0"
  FROM "orders__1" AS "orders__1"
), "orders__1_2" AS (
  SELECT
    "orders__by_key"."d0" AS "d0",
    AVG(CAST("orders__by_key"."v0" AS DOUBLE PRECISION)) AS "m1"
  FROM "orders__by_key" AS "orders__by_key"
  GROUP BY
    "orders__by_key"."d0"
)
SELECT
  "orders__1_2"."d0" AS "placed_at_month",
  "orders__1_2"."m1" AS "mean_of_customers"
FROM "orders__1_2" AS "orders__1_2"
ORDER BY
  "orders__1_2"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `d0`,
    `orders`.`customer_id` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE),
    `orders`.`customer_id`
), `orders__by_key` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `v0`
  FROM `orders__1` AS `orders__1`
), `orders__1_2` AS (
  SELECT
    `orders__by_key`.`d0` AS `d0`,
    AVG(CAST(`orders__by_key`.`v0` AS DOUBLE)) AS `m1`
  FROM `orders__by_key` AS `orders__by_key`
  GROUP BY
    `orders__by_key`.`d0`
)
SELECT
  `orders__1_2`.`d0` AS `placed_at_month`,
  `orders__1_2`.`m1` AS `mean_of_customers`
FROM `orders__1_2` AS `orders__1_2`
ORDER BY
  `orders__1_2`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "d0",
    "orders"."customer_id" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)),
    "orders"."customer_id"
), "orders__by_key" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "v0"
  FROM "orders__1" AS "orders__1"
), "orders__1_2" AS (
  SELECT
    "orders__by_key"."d0" AS "d0",
    AVG(CAST("orders__by_key"."v0" AS DOUBLE)) AS "m1"
  FROM "orders__by_key" AS "orders__by_key"
  GROUP BY
    "orders__by_key"."d0"
)
SELECT
  "orders__1_2"."d0" AS "placed_at_month",
  "orders__1_2"."m1" AS "mean_of_customers"
FROM "orders__1_2" AS "orders__1_2"
ORDER BY
  "orders__1_2"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `d0`,
    `orders`.`customer_id` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE),
    `orders`.`customer_id`
), `orders__by_key` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `v0`
  FROM `orders__1` AS `orders__1`
), `orders__1_2` AS (
  SELECT
    `orders__by_key`.`d0` AS `d0`,
    AVG(CAST(`orders__by_key`.`v0` AS DOUBLE)) AS `m1`
  FROM `orders__by_key` AS `orders__by_key`
  GROUP BY
    `orders__by_key`.`d0`
)
SELECT
  `orders__1_2`.`d0` AS `placed_at_month`,
  `orders__1_2`.`m1` AS `mean_of_customers`
FROM `orders__1_2` AS `orders__1_2`
ORDER BY
  `orders__1_2`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "d0",
    "orders"."customer_id" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)),
    "orders"."customer_id"
), "orders__by_key" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "v0"
  FROM "orders__1" AS "orders__1"
), "orders__1_2" AS (
  SELECT
    "orders__by_key"."d0" AS "d0",
    AVG(CAST("orders__by_key"."v0" AS DOUBLE)) AS "m1"
  FROM "orders__by_key" AS "orders__by_key"
  GROUP BY
    "orders__by_key"."d0"
)
SELECT
  "orders__1_2"."d0" AS "placed_at_month",
  "orders__1_2"."m1" AS "mean_of_customers"
FROM "orders__1_2" AS "orders__1_2"
ORDER BY
  "orders__1_2"."d0" ASC
LIMIT 1001;
