-- {"measures": ["orders.revenue", "tickets.tickets"], "dimensions": [{"field": "metric_time", "granularity": "month"}], "time_range": {"start": "2023-12-01", "end": "2024-04-01"}}

-- duckdb
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE)
), "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  WHERE
    CAST("tickets"."opened_on" AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST("tickets"."opened_on" AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE)
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "tickets__1"."d0" AS "d0",
    NULL AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "tickets__1" AS "tickets__1"
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
  "combined"."d0" AS "metric_time_month",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
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
    ) >= '2023-12-01 00:00:00'
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
    ) < '2024-04-01 00:00:00'
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
    )
), "tickets__allowed" AS (
  SELECT
    *
  FROM "tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  LIMIT -1
), "tickets__1" AS (
  SELECT
    DATE(
      DATE(
        CASE
          WHEN TYPEOF("tickets"."opened_on") <> 'text'
          THEN DATE("tickets"."opened_on", 'unixepoch')
          ELSE SUBSTR("tickets"."opened_on", 1, 10)
        END
      ),
      'start of month'
    ) AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  WHERE
    DATE(
      CASE
        WHEN TYPEOF("tickets"."opened_on") <> 'text'
        THEN DATE("tickets"."opened_on", 'unixepoch')
        ELSE SUBSTR("tickets"."opened_on", 1, 10)
      END
    ) >= '2023-12-01'
    AND DATE(
      CASE
        WHEN TYPEOF("tickets"."opened_on") <> 'text'
        THEN DATE("tickets"."opened_on", 'unixepoch')
        ELSE SUBSTR("tickets"."opened_on", 1, 10)
      END
    ) < '2024-04-01'
  GROUP BY
    DATE(
      DATE(
        CASE
          WHEN TYPEOF("tickets"."opened_on") <> 'text'
          THEN DATE("tickets"."opened_on", 'unixepoch')
          ELSE SUBSTR("tickets"."opened_on", 1, 10)
        END
      ),
      'start of month'
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "tickets__1"."d0" AS "d0",
    NULL AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "tickets__1" AS "tickets__1"
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
  "combined"."d0" AS "metric_time_month",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE)
), "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  OFFSET 0
), "tickets__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  WHERE
    CAST("tickets"."opened_on" AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST("tickets"."opened_on" AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE)
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "tickets__1" AS "tickets__1"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "tickets__1"."d0" AS "d0",
    NULL AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "tickets__1" AS "tickets__1"
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
  "combined"."d0" AS "metric_time_month",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
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
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    `orders`.`placed_at` >= CAST('2023-12-01 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-04-01 00:00:00' AS DATETIME)
  GROUP BY
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    )
), `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
  LIMIT 18446744073709551615
), `tickets__1` AS (
  SELECT
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`tickets`.`opened_on` AS DATE))
      ) MONTH
    ) AS `d0`,
    COUNT(*) AS `m1`
  FROM `tickets__allowed` AS `tickets`
  WHERE
    CAST(`tickets`.`opened_on` AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST(`tickets`.`opened_on` AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`tickets`.`opened_on` AS DATE))
      ) MONTH
    )
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `tickets__1`.`d0` AS `d0`,
    NULL AS `m0`,
    `tickets__1`.`m1` AS `m1`
  FROM `tickets__1` AS `tickets__1`
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
  `combined`.`d0` AS `metric_time_month`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `tickets`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
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
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2023-12-01 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-04-01 00:00:00' AS TIMESTAMPNTZ)
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    )
), "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST("tickets"."opened_on" AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  WHERE
    CAST("tickets"."opened_on" AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST("tickets"."opened_on" AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST("tickets"."opened_on" AS DATE)),
      CAST('0001-01-01' AS DATE)
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "tickets__1"."d0" AS "d0",
    NULL AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "tickets__1" AS "tickets__1"
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
  "combined"."d0" AS "metric_time_month",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH) AS `d0`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2023-12-01 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-04-01 00:00:00' AS DATETIME)
  GROUP BY
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH)
), `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `tickets__1` AS (
  SELECT
    DATE_TRUNC(CAST(`tickets`.`opened_on` AS DATE), MONTH) AS `d0`,
    count(*) AS `m1`
  FROM `tickets__allowed` AS `tickets`
  WHERE
    CAST(`tickets`.`opened_on` AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST(`tickets`.`opened_on` AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    DATE_TRUNC(CAST(`tickets`.`opened_on` AS DATE), MONTH)
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `tickets__1`.`d0` AS `d0`,
    NULL AS `m0`,
    `tickets__1`.`m1` AS `m1`
  FROM `tickets__1` AS `tickets__1`
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
  `combined`.`d0` AS `metric_time_month`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `tickets`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS [d0],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  WHERE
    [orders].[placed_at] >= CAST('2023-12-01 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-04-01 00:00:00' AS DATETIME2)
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    )
), [tickets__allowed] AS (
  SELECT
    *
  FROM [shop].[tickets] AS [tickets]
  WHERE
    (
      [tickets].[grade] <= 2
    )
), [tickets__1] AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([tickets].[opened_on] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS [d0],
    COUNT(*) AS [m1]
  FROM [tickets__allowed] AS [tickets]
  WHERE
    CAST([tickets].[opened_on] AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST([tickets].[opened_on] AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([tickets].[opened_on] AS DATE)),
      CAST('0001-01-01' AS DATE)
    )
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [tickets__1].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [tickets__1] AS [tickets__1]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    NULL AS [m1]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    [tickets__1].[d0] AS [d0],
    NULL AS [m0],
    [tickets__1].[m1] AS [m1]
  FROM [tickets__1] AS [tickets__1]
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
  [combined].[d0] AS [metric_time_month],
  [combined].[m0] AS [revenue],
  COALESCE([combined].[m1], 0) AS [tickets]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

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
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2023-12-01 00:00:00', 0, 'UTC')
    AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-04-01 00:00:00', 0, 'UTC')
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
    )
), "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    addMonths(
      toDate32('1900-01-01'),
      dateDiff('month', toDate32('1900-01-01'), toDate32("tickets"."opened_on"))
    ) AS "d0",
    count(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  WHERE
    toDate32("tickets"."opened_on") >= toDate32('2023-12-01')
    AND toDate32("tickets"."opened_on") < toDate32('2024-04-01')
  GROUP BY
    addMonths(
      toDate32('1900-01-01'),
      dateDiff('month', toDate32('1900-01-01'), toDate32("tickets"."opened_on"))
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "tickets__1"."d0" AS "d0",
    NULL AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "tickets__1" AS "tickets__1"
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
  "combined"."d0" AS "metric_time_month",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE)
), "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  OFFSET 0
), "tickets__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  WHERE
    CAST("tickets"."opened_on" AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST("tickets"."opened_on" AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE)
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "tickets__1" AS "tickets__1"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "tickets__1"."d0" AS "d0",
    NULL AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "tickets__1" AS "tickets__1"
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
  "combined"."d0" AS "metric_time_month",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-04-01 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE)
), `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `tickets__1` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE) AS `d0`,
    COUNT(*) AS `m1`
  FROM `tickets__allowed` AS `tickets`
  WHERE
    CAST(`tickets`.`opened_on` AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST(`tickets`.`opened_on` AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE)
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `tickets__1`.`d0` AS `d0`,
    NULL AS `m0`,
    `tickets__1`.`m1` AS `m1`
  FROM `tickets__1` AS `tickets__1`
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
  `combined`.`d0` AS `metric_time_month`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `tickets`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-04-01 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE))
), "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  WHERE
    CAST("tickets"."opened_on" AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST("tickets"."opened_on" AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "tickets__1"."d0" AS "d0",
    NULL AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "tickets__1" AS "tickets__1"
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
  "combined"."d0" AS "metric_time_month",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-04-01 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE)
), `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `tickets__1` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE) AS `d0`,
    COUNT(*) AS `m1`
  FROM `tickets__allowed` AS `tickets`
  WHERE
    CAST(`tickets`.`opened_on` AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST(`tickets`.`opened_on` AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE)
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `tickets__1`.`d0` AS `d0`,
    NULL AS `m0`,
    `tickets__1`.`m1` AS `m1`
  FROM `tickets__1` AS `tickets__1`
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
  `combined`.`d0` AS `metric_time_month`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `tickets`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-04-01 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE))
), "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  WHERE
    CAST("tickets"."opened_on" AS DATE) >= CAST('2023-12-01' AS DATE)
    AND CAST("tickets"."opened_on" AS DATE) < CAST('2024-04-01' AS DATE)
  GROUP BY
    DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "tickets__1"."d0" AS "d0",
    NULL AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "tickets__1" AS "tickets__1"
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
  "combined"."d0" AS "metric_time_month",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
