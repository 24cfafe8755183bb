-- {"measures": ["orders.revenue"], "dimensions": [{"field": "orders.placed_at", "granularity": "week"}], "time_range": {"start": "2024-02-26", "end": "2024-03-20"}, "comparison": {"offset": "1 month"}}

-- duckdb
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-20 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-20 00:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST("orders__periods"."period" + INTERVAL (
      -1
    ) MONTH AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST((
      "orders__periods"."period" + 7
    ) + INTERVAL (
      -1
    ) MONTH AS DATE)
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-26 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-20 00:00:00' AS TIMESTAMP)
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
  "combined"."d0" AS "placed_at_week",
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
      '-6 days',
      'weekday 1'
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
    ) >= '2024-02-26 00:00:00'
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
    ) < '2024-03-20 00:00:00'
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
      '-6 days',
      'weekday 1'
    )
), "orders__periods" AS (
  SELECT DISTINCT
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
      '-6 days',
      'weekday 1'
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
      ) >= '2024-02-26 00:00:00'
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
      ) < '2024-03-20 00:00:00'
    )
    AND NOT DATE(
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
      '-6 days',
      'weekday 1'
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
    ) >= MIN(
      DATE("orders__periods"."period", '-1 months'),
      DATE("orders__periods"."period", 'start of month', '+0 months', '-1 days')
    )
    AND DATE(
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
    ) < MIN(
      DATE(DATE("orders__periods"."period", '+7 days'), '-1 months'),
      DATE(DATE("orders__periods"."period", '+7 days'), 'start of month', '+0 months', '-1 days')
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
    ) >= '2024-01-26 00:00:00'
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
    ) < '2024-02-20 00:00:00'
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
  "combined"."d0" AS "placed_at_week",
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
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-20 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-20 00:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST("orders__periods"."period" + INTERVAL '-1 MONTH' AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST(CAST("orders__periods"."period" + INTERVAL '7 DAY' AS DATE) + INTERVAL '-1 MONTH' AS DATE)
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-26 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-20 00:00:00' AS TIMESTAMP)
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
  "combined"."d0" AS "placed_at_week",
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
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        DATEDIFF(CAST(`orders`.`placed_at` AS DATE), CAST('0001-01-01' AS DATE)) DIV 7 * 7
      ) DAY
    ) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    `orders`.`placed_at` >= CAST('2024-02-26 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-03-20 00:00:00' AS DATETIME)
  GROUP BY
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        DATEDIFF(CAST(`orders`.`placed_at` AS DATE), CAST('0001-01-01' AS DATE)) DIV 7 * 7
      ) DAY
    )
), `orders__periods` AS (
  SELECT DISTINCT
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        DATEDIFF(CAST(`orders`.`placed_at` AS DATE), CAST('0001-01-01' AS DATE)) DIV 7 * 7
      ) DAY
    ) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      `orders`.`placed_at` >= CAST('2024-02-26 00:00:00' AS DATETIME)
      AND `orders`.`placed_at` < CAST('2024-03-20 00:00:00' AS DATETIME)
    )
    AND NOT DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        DATEDIFF(CAST(`orders`.`placed_at` AS DATE), CAST('0001-01-01' AS DATE)) DIV 7 * 7
      ) DAY
    ) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(`orders`.`placed_at` AS DATE) >= DATE_ADD(`orders__periods`.`period`, INTERVAL (
      -1
    ) MONTH)
    AND CAST(`orders`.`placed_at` AS DATE) < DATE_ADD(DATE_ADD(`orders__periods`.`period`, INTERVAL 7 DAY), INTERVAL (
      -1
    ) MONTH)
  WHERE
    `orders`.`placed_at` >= CAST('2024-01-26 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-02-20 00:00:00' AS DATETIME)
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
  `combined`.`d0` AS `placed_at_week`,
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
    DATEADD(
      DAY,
      FLOOR(
        DATEDIFF(
          DAY,
          CAST('0001-01-01' AS DATE),
          CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
        ) / 7
      ) * 7,
      CAST('0001-01-01' AS DATE)
    ) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-02-26 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-03-20 00:00:00' AS TIMESTAMPNTZ)
  GROUP BY
    DATEADD(
      DAY,
      FLOOR(
        DATEDIFF(
          DAY,
          CAST('0001-01-01' AS DATE),
          CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
        ) / 7
      ) * 7,
      CAST('0001-01-01' AS DATE)
    )
), "orders__periods" AS (
  SELECT DISTINCT
    DATEADD(
      DAY,
      FLOOR(
        DATEDIFF(
          DAY,
          CAST('0001-01-01' AS DATE),
          CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
        ) / 7
      ) * 7,
      CAST('0001-01-01' AS DATE)
    ) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-02-26 00:00:00' AS TIMESTAMPNTZ)
      AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-03-20 00:00:00' AS TIMESTAMPNTZ)
    )
    AND NOT DATEADD(
      DAY,
      FLOOR(
        DATEDIFF(
          DAY,
          CAST('0001-01-01' AS DATE),
          CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
        ) / 7
      ) * 7,
      CAST('0001-01-01' AS DATE)
    ) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) >= DATEADD(MONTH, -1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) < DATEADD(MONTH, -1, DATEADD(DAY, 7, "orders__periods"."period"))
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-01-26 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-02-20 00:00:00' AS TIMESTAMPNTZ)
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
  "combined"."d0" AS "placed_at_week",
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
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), WEEK(MONDAY)) AS `d0`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-02-26 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-03-20 00:00:00' AS DATETIME)
  GROUP BY
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), WEEK(MONDAY))
), `orders__periods` AS (
  SELECT DISTINCT
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), WEEK(MONDAY)) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-02-26 00:00:00' AS DATETIME)
      AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-03-20 00:00:00' AS DATETIME)
    )
    AND NOT DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), WEEK(MONDAY)) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    sum(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) >= DATE_ADD(`orders__periods`.`period`, INTERVAL (
      -1
    ) MONTH)
    AND CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) < DATE_ADD(DATE_ADD(`orders__periods`.`period`, INTERVAL 7 DAY), INTERVAL (
      -1
    ) MONTH)
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-01-26 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-02-20 00:00:00' AS DATETIME)
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
  `combined`.`d0` AS `placed_at_week`,
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
    DATEADD(
      DAY,
      DATEDIFF(DAY, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)) / 7 * 7,
      CAST('0001-01-01' AS DATE)
    ) AS [d0],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  WHERE
    [orders].[placed_at] >= CAST('2024-02-26 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-03-20 00:00:00' AS DATETIME2)
  GROUP BY
    DATEADD(
      DAY,
      DATEDIFF(DAY, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)) / 7 * 7,
      CAST('0001-01-01' AS DATE)
    )
), [orders__periods] AS (
  SELECT DISTINCT
    DATEADD(
      DAY,
      DATEDIFF(DAY, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)) / 7 * 7,
      CAST('0001-01-01' AS DATE)
    ) AS [period]
  FROM [shop].[orders] AS [orders]
  WHERE
    (
      [orders].[placed_at] >= CAST('2024-02-26 00:00:00' AS DATETIME2)
      AND [orders].[placed_at] < CAST('2024-03-20 00:00:00' AS DATETIME2)
    )
    AND NOT DATEADD(
      DAY,
      DATEDIFF(DAY, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)) / 7 * 7,
      CAST('0001-01-01' AS DATE)
    ) IS NULL
), [orders__1_2] AS (
  SELECT
    [orders__periods].[period] AS [d0],
    SUM([orders].[amount]) AS [m1]
  FROM [shop].[orders] AS [orders]
  INNER JOIN [orders__periods] AS [orders__periods]
    ON CAST([orders].[placed_at] AS DATE) >= DATEADD(MONTH, -1, [orders__periods].[period])
    AND CAST([orders].[placed_at] AS DATE) < DATEADD(MONTH, -1, DATEADD(DAY, 7, [orders__periods].[period]))
  WHERE
    [orders].[placed_at] >= CAST('2024-01-26 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-02-20 00:00:00' AS DATETIME2)
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
  [combined].[d0] AS [placed_at_week],
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
    addDays(
      toDate32('1900-01-01'),
      intDiv(
        dateDiff(
          'day',
          toDate32('1900-01-01'),
          toDate32(
            CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
          )
        ),
        7
      ) * 7
    ) AS "d0",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-02-26 00:00:00', 0, 'UTC')
    AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-20 00:00:00', 0, 'UTC')
  GROUP BY
    addDays(
      toDate32('1900-01-01'),
      intDiv(
        dateDiff(
          'day',
          toDate32('1900-01-01'),
          toDate32(
            CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
          )
        ),
        7
      ) * 7
    )
), "orders__periods" AS (
  SELECT DISTINCT
    addDays(
      toDate32('1900-01-01'),
      intDiv(
        dateDiff(
          'day',
          toDate32('1900-01-01'),
          toDate32(
            CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
          )
        ),
        7
      ) * 7
    ) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-02-26 00:00:00', 0, 'UTC')
      AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-20 00:00:00', 0, 'UTC')
    )
    AND NOT (
      addDays(
        toDate32('1900-01-01'),
        intDiv(
          dateDiff(
            'day',
            toDate32('1900-01-01'),
            toDate32(
              CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
            )
          ),
          7
        ) * 7
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
      ) >= addMonths("orders__periods"."period", -1)
      AND toDate32(
        CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
      ) < addMonths(addDays("orders__periods"."period", 7), -1)
    )
    AND (
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-01-26 00:00:00', 0, 'UTC')
      AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-02-20 00:00:00', 0, 'UTC')
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
  "combined"."d0" AS "placed_at_week",
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
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-20 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE)
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-20 00:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST(DATEADD(MONTH, -1, "orders__periods"."period") AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST(DATEADD(MONTH, -1, CAST(DATEADD(DAY, 7, "orders__periods"."period") AS DATE)) AS DATE)
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-26 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-02-20 00:00:00' AS TIMESTAMP)
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
  "combined"."d0" AS "placed_at_week",
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
    CAST(DATE_TRUNC('WEEK', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-20 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(DATE_TRUNC('WEEK', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE)
), `orders__periods` AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('WEEK', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP_NTZ)
      AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-20 00:00:00' AS TIMESTAMP_NTZ)
    )
    AND NOT CAST(DATE_TRUNC('WEEK', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) >= ADD_MONTHS(`orders__periods`.`period`, -1)
    AND CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) < ADD_MONTHS(DATE_ADD(`orders__periods`.`period`, 7), -1)
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-26 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-02-20 00:00:00' AS TIMESTAMP_NTZ)
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
  `combined`.`d0` AS `placed_at_week`,
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
    DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-20 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE))
), "orders__periods" AS (
  SELECT DISTINCT
    DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP(12))
      AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-20 00:00:00' AS TIMESTAMP(12))
    )
    AND NOT DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) >= DATE_ADD('MONTH', -1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) < DATE_ADD('MONTH', -1, DATE_ADD('DAY', 7, "orders__periods"."period"))
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-26 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-02-20 00:00:00' AS TIMESTAMP(12))
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
  "combined"."d0" AS "placed_at_week",
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
    CAST(DATE_TRUNC('WEEK', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-20 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(DATE_TRUNC('WEEK', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE)
), `orders__periods` AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('WEEK', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP_NTZ)
      AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-20 00:00:00' AS TIMESTAMP_NTZ)
    )
    AND NOT CAST(DATE_TRUNC('WEEK', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) >= ADD_MONTHS(`orders__periods`.`period`, -1)
    AND CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) < ADD_MONTHS(DATE_ADD(`orders__periods`.`period`, 7), -1)
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-26 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-02-20 00:00:00' AS TIMESTAMP_NTZ)
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
  `combined`.`d0` AS `placed_at_week`,
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
    DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-20 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE))
), "orders__periods" AS (
  SELECT DISTINCT
    DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-02-26 00:00:00' AS TIMESTAMP(12))
      AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-20 00:00:00' AS TIMESTAMP(12))
    )
    AND NOT DATE_TRUNC('WEEK', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) >= DATE_ADD('MONTH', -1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) < DATE_ADD('MONTH', -1, DATE_ADD('DAY', 7, "orders__periods"."period"))
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-26 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-02-20 00:00:00' AS TIMESTAMP(12))
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
  "combined"."d0" AS "placed_at_week",
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
