-- {"measures": ["orders.revenue"], "time_range": {"start": "2024-02-01", "end": "2024-03-01"}, "comparison": {"offset": "previous_period"}}

-- duckdb
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
), "orders__1_2" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-01 00:00:00' AS TIMESTAMP)
), "stacked" AS (
  SELECT
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
)
SELECT
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_previous",
  (
    "combined"."m0"
  ) - (
    "combined"."m1"
  ) AS "revenue_change",
  CAST(100.0 * (
    (
      "combined"."m0"
    ) - (
      "combined"."m1"
    )
  ) AS DOUBLE) / NULLIF("combined"."m1", 0) AS "revenue_change_pct"
FROM "combined" AS "combined"
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0"
  FROM "orders" AS "orders"
  WHERE
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
    ) >= '2024-02-01 00:00:00'
    AND DATETIME(
      CASE
        WHEN TYPEOF("orders"."placed_at") <> 'text'
        THEN DATETIME("orders"."placed_at", 'unixepoch')
        WHEN SUBSTR("orders"."placed_at", 20, 1) <> '.'
        THEN "orders"."placed_at"
        WHEN "orders"."placed_at" GLOB '*[+-]??:??'
        THEN SUBSTR("orders"."placed_at", 1, 19) || SUBSTR("orders"."placed_at", -6)
        ELSE SUBSTR("orders"."placed_at", 1, 19)
      END
    ) < '2024-03-01 00:00:00'
), "orders__1_2" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "orders" AS "orders"
  WHERE
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
    ) >= '2024-01-01 00:00:00'
    AND DATETIME(
      CASE
        WHEN TYPEOF("orders"."placed_at") <> 'text'
        THEN DATETIME("orders"."placed_at", 'unixepoch')
        WHEN SUBSTR("orders"."placed_at", 20, 1) <> '.'
        THEN "orders"."placed_at"
        WHEN "orders"."placed_at" GLOB '*[+-]??:??'
        THEN SUBSTR("orders"."placed_at", 1, 19) || SUBSTR("orders"."placed_at", -6)
        ELSE SUBSTR("orders"."placed_at", 1, 19)
      END
    ) < '2024-02-01 00:00:00'
), "stacked" AS (
  SELECT
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
)
SELECT
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_previous",
  (
    "combined"."m0"
  ) - (
    "combined"."m1"
  ) AS "revenue_change",
  CAST(100.0 * (
    (
      "combined"."m0"
    ) - (
      "combined"."m1"
    )
  ) AS REAL) / NULLIF("combined"."m1", 0) AS "revenue_change_pct"
FROM "combined" AS "combined"
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
), "orders__1_2" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-01 00:00:00' AS TIMESTAMP)
), "stacked" AS (
  SELECT
    "orders__1"."m0" AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "orders__1_2" AS "orders__1_2"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
)
SELECT
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_previous",
  (
    "combined"."m0"
  ) - (
    "combined"."m1"
  ) AS "revenue_change",
  CAST(100.0 * (
    (
      "combined"."m0"
    ) - (
      "combined"."m1"
    )
  ) AS DOUBLE PRECISION) / NULLIF("combined"."m1", 0) AS "revenue_change_pct"
FROM "combined" AS "combined"
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    `orders`.`placed_at` >= CAST('2024-02-01 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-03-01 00:00:00' AS DATETIME)
), `orders__1_2` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  WHERE
    `orders`.`placed_at` >= CAST('2024-01-01 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-02-01 00:00:00' AS DATETIME)
), `stacked` AS (
  SELECT
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
), `combined` AS (
  SELECT
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
)
SELECT
  `combined`.`m0` AS `revenue`,
  `combined`.`m1` AS `revenue_previous`,
  (
    `combined`.`m0`
  ) - (
    `combined`.`m1`
  ) AS `revenue_change`,
  CAST(100.0 * (
    (
      `combined`.`m0`
    ) - (
      `combined`.`m1`
    )
  ) AS DOUBLE) / NULLIF(`combined`.`m1`, 0) AS `revenue_change_pct`
FROM `combined` AS `combined`
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-02-01 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMPNTZ)
), "orders__1_2" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-02-01 00:00:00' AS TIMESTAMPNTZ)
), "stacked" AS (
  SELECT
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
)
SELECT
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_previous",
  (
    "combined"."m0"
  ) - (
    "combined"."m1"
  ) AS "revenue_change",
  CAST(100.0 * (
    (
      "combined"."m0"
    ) - (
      "combined"."m1"
    )
  ) AS DOUBLE) / NULLIF("combined"."m1", 0) AS "revenue_change_pct"
FROM "combined" AS "combined"
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-02-01 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-03-01 00:00:00' AS DATETIME)
), `orders__1_2` AS (
  SELECT
    sum(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-01-01 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-02-01 00:00:00' AS DATETIME)
), `stacked` AS (
  SELECT
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
), `combined` AS (
  SELECT
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
)
SELECT
  `combined`.`m0` AS `revenue`,
  `combined`.`m1` AS `revenue_previous`,
  (
    `combined`.`m0`
  ) - (
    `combined`.`m1`
  ) AS `revenue_change`,
  CAST(100.0 * (
    (
      `combined`.`m0`
    ) - (
      `combined`.`m1`
    )
  ) AS FLOAT64) / NULLIF(`combined`.`m1`, 0) AS `revenue_change_pct`
FROM `combined` AS `combined`
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  WHERE
    [orders].[placed_at] >= CAST('2024-02-01 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-03-01 00:00:00' AS DATETIME2)
), [orders__1_2] AS (
  SELECT
    SUM([orders].[amount]) AS [m1]
  FROM [shop].[orders] AS [orders]
  WHERE
    [orders].[placed_at] >= CAST('2024-01-01 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-02-01 00:00:00' AS DATETIME2)
), [stacked] AS (
  SELECT
    [orders__1].[m0] AS [m0],
    [orders__1_2].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [orders__1_2] AS [orders__1_2]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[m0] AS [m0],
    NULL AS [m1]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    NULL AS [m0],
    [orders__1_2].[m1] AS [m1]
  FROM [orders__1_2] AS [orders__1_2]
), [combined] AS (
  SELECT
    MAX([stacked].[m0]) AS [m0],
    MAX([stacked].[m1]) AS [m1]
  FROM [stacked] AS [stacked]
)
SELECT
TOP 1001
  [combined].[m0] AS [revenue],
  [combined].[m1] AS [revenue_previous],
  (
    [combined].[m0]
  ) - (
    [combined].[m1]
  ) AS [revenue_change],
  CAST(100.0 * (
    (
      [combined].[m0]
    ) - (
      [combined].[m1]
    )
  ) AS FLOAT) / NULLIF([combined].[m1], 0) AS [revenue_change_pct]
FROM [combined] AS [combined];

-- clickhouse
WITH "orders__1" AS (
  SELECT
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-02-01 00:00:00', 0, 'UTC')
    AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-01 00:00:00', 0, 'UTC')
), "orders__1_2" AS (
  SELECT
    sum("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-01-01 00:00:00', 0, 'UTC')
    AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-02-01 00:00:00', 0, 'UTC')
), "stacked" AS (
  SELECT
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
)
SELECT
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_previous",
  (
    "combined"."m0"
  ) - (
    "combined"."m1"
  ) AS "revenue_change",
  CAST(100.0 * (
    (
      "combined"."m0"
    ) - (
      "combined"."m1"
    )
  ) AS Nullable(Float64)) / nullIf("combined"."m1", 0) AS "revenue_change_pct"
FROM "combined" AS "combined"
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
), "orders__1_2" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-01 00:00:00' AS TIMESTAMP)
), "stacked" AS (
  SELECT
    "orders__1"."m0" AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "orders__1_2" AS "orders__1_2"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
)
SELECT
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_previous",
  (
    "combined"."m0"
  ) - (
    "combined"."m1"
  ) AS "revenue_change",
  CAST(100.0 * (
    (
      "combined"."m0"
    ) - (
      "combined"."m1"
    )
  ) AS DOUBLE PRECISION) / NULLIF("combined"."m1", 0) AS "revenue_change_pct"
FROM "combined" AS "combined"
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-02-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMP_NTZ)
), `orders__1_2` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-02-01 00:00:00' AS TIMESTAMP_NTZ)
), `stacked` AS (
  SELECT
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
), `combined` AS (
  SELECT
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
)
SELECT
  `combined`.`m0` AS `revenue`,
  `combined`.`m1` AS `revenue_previous`,
  (
    `combined`.`m0`
  ) - (
    `combined`.`m1`
  ) AS `revenue_change`,
  CAST(100.0 * (
    (
      `combined`.`m0`
    ) - (
      `combined`.`m1`
    )
  ) AS DOUBLE) / NULLIF(`combined`.`m1`, 0) AS `revenue_change_pct`
FROM `combined` AS `combined`
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-02-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-01 00:00:00' AS TIMESTAMP(12))
), "orders__1_2" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-02-01 00:00:00' AS TIMESTAMP(12))
), "stacked" AS (
  SELECT
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
)
SELECT
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_previous",
  (
    "combined"."m0"
  ) - (
    "combined"."m1"
  ) AS "revenue_change",
  CAST(100.0 * (
    (
      "combined"."m0"
    ) - (
      "combined"."m1"
    )
  ) AS DOUBLE) / NULLIF("combined"."m1", 0) AS "revenue_change_pct"
FROM "combined" AS "combined"
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-02-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMP_NTZ)
), `orders__1_2` AS (
  SELECT
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-02-01 00:00:00' AS TIMESTAMP_NTZ)
), `stacked` AS (
  SELECT
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
), `combined` AS (
  SELECT
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
)
SELECT
  `combined`.`m0` AS `revenue`,
  `combined`.`m1` AS `revenue_previous`,
  (
    `combined`.`m0`
  ) - (
    `combined`.`m1`
  ) AS `revenue_change`,
  CAST(100.0 * (
    (
      `combined`.`m0`
    ) - (
      `combined`.`m1`
    )
  ) AS DOUBLE) / NULLIF(`combined`.`m1`, 0) AS `revenue_change_pct`
FROM `combined` AS `combined`
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-02-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-01 00:00:00' AS TIMESTAMP(12))
), "orders__1_2" AS (
  SELECT
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-02-01 00:00:00' AS TIMESTAMP(12))
), "stacked" AS (
  SELECT
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
)
SELECT
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_previous",
  (
    "combined"."m0"
  ) - (
    "combined"."m1"
  ) AS "revenue_change",
  CAST(100.0 * (
    (
      "combined"."m0"
    ) - (
      "combined"."m1"
    )
  ) AS DOUBLE) / NULLIF("combined"."m1", 0) AS "revenue_change_pct"
FROM "combined" AS "combined"
LIMIT 1001;
