-- {"measures": ["orders.revenue"], "dimensions": [{"field": "orders.placed_at", "granularity": "day"}], "time_range": {"start": "2024-03-28", "end": "2024-03-31T18:00:00"}, "comparison": {"offset": "1 month"}}

-- duckdb
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-31 18:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-31 18:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) = CAST(CAST("orders__periods"."period" + INTERVAL (
      -1
    ) MONTH AS DATE) AS DATE)
    AND (
      "orders__periods"."period" < CAST('2024-03-31' AS DATE)
      OR CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-29 18:00:00' AS TIMESTAMP)
    )
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-28 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
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
  "combined"."d0" AS "placed_at_day",
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
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
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
    ) >= '2024-03-28 00:00:00'
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
    ) < '2024-03-31 18:00:00'
  GROUP BY
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
    )
), "orders__periods" AS (
  SELECT DISTINCT
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
    ) AS "period"
  FROM "orders" AS "orders"
  WHERE
    (
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
      ) >= '2024-03-28 00:00:00'
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
      ) < '2024-03-31 18:00:00'
    )
    AND NOT DATE(
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
    ) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON DATE(
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
    ) = DATE(
      CASE
        WHEN TYPEOF(
          MIN(
            DATE("orders__periods"."period", '-1 months'),
            DATE("orders__periods"."period", 'start of month', '+0 months', '-1 days')
          )
        ) <> 'text'
        THEN DATE(
          MIN(
            DATE("orders__periods"."period", '-1 months'),
            DATE("orders__periods"."period", 'start of month', '+0 months', '-1 days')
          ),
          'unixepoch'
        )
        ELSE SUBSTR(
          MIN(
            DATE("orders__periods"."period", '-1 months'),
            DATE("orders__periods"."period", 'start of month', '+0 months', '-1 days')
          ),
          1,
          10
        )
      END
    )
    AND (
      "orders__periods"."period" < '2024-03-31'
      OR DATETIME(
        CASE
          WHEN TYPEOF("orders"."placed_at") <> 'text'
          THEN DATETIME("orders"."placed_at", 'unixepoch')
          WHEN SUBSTR("orders"."placed_at", 20, 1) <> '.'
          THEN "orders"."placed_at"
          WHEN "orders"."placed_at" GLOB '*[+-]??:??'
          THEN SUBSTR("orders"."placed_at", 1, 19) || SUBSTR("orders"."placed_at", -6)
          ELSE SUBSTR("orders"."placed_at", 1, 19)
        END
      ) < '2024-02-29 18:00:00'
    )
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
    ) >= '2024-02-28 00:00:00'
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
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
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
  "combined"."d0" AS "placed_at_day",
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
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-31 18:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-31 18:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) = CAST(CAST("orders__periods"."period" + INTERVAL '-1 MONTH' AS DATE) AS DATE)
    AND (
      "orders__periods"."period" < CAST('2024-03-31' AS DATE)
      OR CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-29 18:00:00' AS TIMESTAMP)
    )
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-28 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "orders__1_2" AS "orders__1_2"
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
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
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
  "combined"."d0" AS "placed_at_day",
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
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    CAST(`orders`.`placed_at` AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    `orders`.`placed_at` >= CAST('2024-03-28 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-03-31 18:00:00' AS DATETIME)
  GROUP BY
    CAST(`orders`.`placed_at` AS DATE)
), `orders__periods` AS (
  SELECT DISTINCT
    CAST(`orders`.`placed_at` AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      `orders`.`placed_at` >= CAST('2024-03-28 00:00:00' AS DATETIME)
      AND `orders`.`placed_at` < CAST('2024-03-31 18:00:00' AS DATETIME)
    )
    AND NOT CAST(`orders`.`placed_at` AS DATE) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(`orders`.`placed_at` AS DATE) = CAST(DATE_ADD(`orders__periods`.`period`, INTERVAL (
      -1
    ) MONTH) AS DATE)
    AND (
      `orders__periods`.`period` < CAST('2024-03-31' AS DATE)
      OR `orders`.`placed_at` < CAST('2024-02-29 18:00:00' AS DATETIME)
    )
  WHERE
    `orders`.`placed_at` >= CAST('2024-02-28 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-03-01 00:00:00' AS DATETIME)
  GROUP BY
    `orders__periods`.`period`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
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
  `combined`.`d0` AS `placed_at_day`,
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
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-03-28 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-03-31 18:00:00' AS TIMESTAMPNTZ)
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-03-28 00:00:00' AS TIMESTAMPNTZ)
      AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-03-31 18:00:00' AS TIMESTAMPNTZ)
    )
    AND NOT CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) = CAST(DATEADD(MONTH, -1, "orders__periods"."period") AS DATE)
    AND (
      "orders__periods"."period" < CAST('2024-03-31' AS DATE)
      OR CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-02-29 18:00:00' AS TIMESTAMPNTZ)
    )
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-02-28 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMPNTZ)
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
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
  "combined"."d0" AS "placed_at_day",
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
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) AS `d0`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-03-28 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-03-31 18:00:00' AS DATETIME)
  GROUP BY
    CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE)
), `orders__periods` AS (
  SELECT DISTINCT
    CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-03-28 00:00:00' AS DATETIME)
      AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-03-31 18:00:00' AS DATETIME)
    )
    AND NOT CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    sum(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) = CAST(DATE_ADD(`orders__periods`.`period`, INTERVAL (
      -1
    ) MONTH) AS DATE)
    AND (
      `orders__periods`.`period` < CAST('2024-03-31' AS DATE)
      OR CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-02-29 18:00:00' AS DATETIME)
    )
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-02-28 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-03-01 00:00:00' AS DATETIME)
  GROUP BY
    `orders__periods`.`period`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
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
  `combined`.`d0` AS `placed_at_day`,
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
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    CAST([orders].[placed_at] AS DATE) AS [d0],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  WHERE
    [orders].[placed_at] >= CAST('2024-03-28 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-03-31 18:00:00' AS DATETIME2)
  GROUP BY
    CAST([orders].[placed_at] AS DATE)
), [orders__periods] AS (
  SELECT DISTINCT
    CAST([orders].[placed_at] AS DATE) AS [period]
  FROM [shop].[orders] AS [orders]
  WHERE
    (
      [orders].[placed_at] >= CAST('2024-03-28 00:00:00' AS DATETIME2)
      AND [orders].[placed_at] < CAST('2024-03-31 18:00:00' AS DATETIME2)
    )
    AND NOT CAST([orders].[placed_at] AS DATE) IS NULL
), [orders__1_2] AS (
  SELECT
    [orders__periods].[period] AS [d0],
    SUM([orders].[amount]) AS [m1]
  FROM [shop].[orders] AS [orders]
  INNER JOIN [orders__periods] AS [orders__periods]
    ON CAST([orders].[placed_at] AS DATE) = CAST(DATEADD(MONTH, -1, [orders__periods].[period]) AS DATE)
    AND (
      [orders__periods].[period] < CAST('2024-03-31' AS DATE)
      OR [orders].[placed_at] < CAST('2024-02-29 18:00:00' AS DATETIME2)
    )
  WHERE
    [orders].[placed_at] >= CAST('2024-02-28 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-03-01 00:00:00' AS DATETIME2)
  GROUP BY
    [orders__periods].[period]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [orders__1_2].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [orders__1_2] AS [orders__1_2]
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
    [orders__1_2].[d0] AS [d0],
    NULL AS [m0],
    [orders__1_2].[m1] AS [m1]
  FROM [orders__1_2] AS [orders__1_2]
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
  [combined].[d0] AS [placed_at_day],
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
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    ) AS "d0",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-03-28 00:00:00', 0, 'UTC')
    AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-31 18:00:00', 0, 'UTC')
  GROUP BY
    toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    )
), "orders__periods" AS (
  SELECT DISTINCT
    toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    ) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-03-28 00:00:00', 0, 'UTC')
      AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-31 18:00:00', 0, 'UTC')
    )
    AND NOT (
      toDate32(
        CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
      ) IS NULL
    )
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    sum("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  CROSS JOIN "orders__periods" AS "orders__periods"
  WHERE
    (
      toDate32(
        CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
      ) = toDate32(addMonths("orders__periods"."period", -1))
      AND (
        "orders__periods"."period" < toDate32('2024-03-31')
        OR CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-02-29 18:00:00', 0, 'UTC')
      )
    )
    AND (
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-02-28 00:00:00', 0, 'UTC')
      AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-01 00:00:00', 0, 'UTC')
    )
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
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
  "combined"."d0" AS "placed_at_day",
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
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-31 18:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-31 18:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) = CAST(CAST(DATEADD(MONTH, -1, "orders__periods"."period") AS DATE) AS DATE)
    AND (
      "orders__periods"."period" < CAST('2024-03-31' AS DATE)
      OR CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-29 18:00:00' AS TIMESTAMP)
    )
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-28 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "orders__1_2" AS "orders__1_2"
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
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
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
  "combined"."d0" AS "placed_at_day",
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
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-31 18:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)
), `orders__periods` AS (
  SELECT DISTINCT
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP_NTZ)
      AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-31 18:00:00' AS TIMESTAMP_NTZ)
    )
    AND NOT CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) = CAST(ADD_MONTHS(`orders__periods`.`period`, -1) AS DATE)
    AND (
      `orders__periods`.`period` < CAST('2024-03-31' AS DATE)
      OR CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-02-29 18:00:00' AS TIMESTAMP_NTZ)
    )
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-02-28 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    `orders__periods`.`period`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
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
  `combined`.`d0` AS `placed_at_day`,
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
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-31 18:00:00' AS TIMESTAMP(12))
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP(12))
      AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-31 18:00:00' AS TIMESTAMP(12))
    )
    AND NOT CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) = CAST(DATE_ADD('MONTH', -1, "orders__periods"."period") AS DATE)
    AND (
      "orders__periods"."period" < CAST('2024-03-31' AS DATE)
      OR CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-02-29 18:00:00' AS TIMESTAMP(12))
    )
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-02-28 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-01 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
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
  "combined"."d0" AS "placed_at_day",
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
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-31 18:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)
), `orders__periods` AS (
  SELECT DISTINCT
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP_NTZ)
      AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-31 18:00:00' AS TIMESTAMP_NTZ)
    )
    AND NOT CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) = CAST(ADD_MONTHS(`orders__periods`.`period`, -1) AS DATE)
    AND (
      `orders__periods`.`period` < CAST('2024-03-31' AS DATE)
      OR CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-02-29 18:00:00' AS TIMESTAMP_NTZ)
    )
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-02-28 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    `orders__periods`.`period`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
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
  `combined`.`d0` AS `placed_at_day`,
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
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-31 18:00:00' AS TIMESTAMP(12))
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-03-28 00:00:00' AS TIMESTAMP(12))
      AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-31 18:00:00' AS TIMESTAMP(12))
    )
    AND NOT CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) = CAST(DATE_ADD('MONTH', -1, "orders__periods"."period") AS DATE)
    AND (
      "orders__periods"."period" < CAST('2024-03-31' AS DATE)
      OR CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-02-29 18:00:00' AS TIMESTAMP(12))
    )
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-02-28 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-01 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
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
  "combined"."d0" AS "placed_at_day",
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
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
