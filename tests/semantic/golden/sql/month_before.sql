-- {"measures": ["orders.revenue", "orders.revenue_before"], "dimensions": [{"field": "orders.placed_at", "granularity": "month"}, "orders.gift"], "time_range": {"start": "2024-01-01", "end": "2024-04-01"}}

-- duckdb
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE),
    "orders"."gift"
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) = CAST(DATE_TRUNC(
      'MONTH',
      CAST(CAST("orders__periods"."period" + INTERVAL (
        -1
      ) MONTH AS DATE) AS DATE)
    ) AS DATE)
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    "orders__periods"."period",
    "orders"."gift"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    "orders__1_2"."d1" AS "d1",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."d1" AS "gift",
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_before"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
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
    "orders"."gift" AS "d1",
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
    ),
    "orders"."gift"
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
      'start of month'
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
      ) < '2024-04-01 00:00:00'
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
      'start of month'
    ) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m1"
  FROM "orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON DATE(
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
    ) = DATE(
      DATE(
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
      ),
      'start of month'
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
    ) < '2024-03-01 00:00:00'
  GROUP BY
    "orders__periods"."period",
    "orders"."gift"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    "orders__1_2"."d1" AS "d1",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."d1" AS "gift",
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_before"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST,
  "combined"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE),
    "orders"."gift"
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) = CAST(DATE_TRUNC(
      'MONTH',
      CAST(CAST("orders__periods"."period" + INTERVAL '-1 MONTH' AS DATE) AS DATE)
    ) AS DATE)
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    "orders__periods"."period",
    "orders"."gift"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "orders__1_2" AS "orders__1_2"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    "orders__1_2"."d1" AS "d1",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."d1" AS "gift",
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_before"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
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
    `orders`.`gift` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    `orders`.`placed_at` >= CAST('2024-01-01 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-04-01 00:00:00' AS DATETIME)
  GROUP BY
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    ),
    `orders`.`gift`
), `orders__periods` AS (
  SELECT DISTINCT
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    ) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      `orders`.`placed_at` >= CAST('2024-01-01 00:00:00' AS DATETIME)
      AND `orders`.`placed_at` < CAST('2024-04-01 00:00:00' AS DATETIME)
    )
    AND NOT DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    ) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    `orders`.`gift` AS `d1`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    ) = DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(
          MONTH,
          CAST('0001-01-01' AS DATE),
          CAST(DATE_ADD(`orders__periods`.`period`, INTERVAL (
            -1
          ) MONTH) AS DATE)
        )
      ) MONTH
    )
  WHERE
    `orders`.`placed_at` >= CAST('2023-12-01 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-03-01 00:00:00' AS DATETIME)
  GROUP BY
    `orders__periods`.`period`,
    `orders`.`gift`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`d1` AS `d1`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    `orders__1_2`.`d1` AS `d1`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    `stacked`.`d1` AS `d1`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`,
    `stacked`.`d1`
)
SELECT
  `combined`.`d0` AS `placed_at_month`,
  `combined`.`d1` AS `gift`,
  `combined`.`m0` AS `revenue`,
  `combined`.`m1` AS `revenue_before`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC,
  CASE WHEN `combined`.`d1` IS NULL THEN 1 ELSE 0 END, `combined`.`d1` ASC
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
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMPNTZ)
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
    ),
    "orders"."gift"
), "orders__periods" AS (
  SELECT DISTINCT
    DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    ) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMPNTZ)
      AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-04-01 00:00:00' AS TIMESTAMPNTZ)
    )
    AND NOT DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    ) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    ) = DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(DATEADD(MONTH, -1, "orders__periods"."period") AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    )
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2023-12-01 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMPNTZ)
  GROUP BY
    "orders__periods"."period",
    "orders"."gift"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    "orders__1_2"."d1" AS "d1",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."d1" AS "gift",
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_before"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH) AS `d0`,
    `orders`.`gift` AS `d1`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-01-01 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-04-01 00:00:00' AS DATETIME)
  GROUP BY
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH),
    `orders`.`gift`
), `orders__periods` AS (
  SELECT DISTINCT
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-01-01 00:00:00' AS DATETIME)
      AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-04-01 00:00:00' AS DATETIME)
    )
    AND NOT DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    `orders`.`gift` AS `d1`,
    sum(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH) = DATE_TRUNC(CAST(DATE_ADD(`orders__periods`.`period`, INTERVAL (
      -1
    ) MONTH) AS DATE), MONTH)
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2023-12-01 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-03-01 00:00:00' AS DATETIME)
  GROUP BY
    `orders__periods`.`period`,
    `orders`.`gift`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`d1` AS `d1`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    `orders__1_2`.`d1` AS `d1`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    `stacked`.`d1` AS `d1`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`,
    `stacked`.`d1`
)
SELECT
  `combined`.`d0` AS `placed_at_month`,
  `combined`.`d1` AS `gift`,
  `combined`.`m0` AS `revenue`,
  `combined`.`m1` AS `revenue_before`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS [d0],
    [orders].[gift] AS [d1],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  WHERE
    [orders].[placed_at] >= CAST('2024-01-01 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-04-01 00:00:00' AS DATETIME2)
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ),
    [orders].[gift]
), [orders__periods] AS (
  SELECT DISTINCT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS [period]
  FROM [shop].[orders] AS [orders]
  WHERE
    (
      [orders].[placed_at] >= CAST('2024-01-01 00:00:00' AS DATETIME2)
      AND [orders].[placed_at] < CAST('2024-04-01 00:00:00' AS DATETIME2)
    )
    AND NOT DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) IS NULL
), [orders__1_2] AS (
  SELECT
    [orders__periods].[period] AS [d0],
    [orders].[gift] AS [d1],
    SUM([orders].[amount]) AS [m1]
  FROM [shop].[orders] AS [orders]
  INNER JOIN [orders__periods] AS [orders__periods]
    ON DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) = DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(DATEADD(MONTH, -1, [orders__periods].[period]) AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    )
  WHERE
    [orders].[placed_at] >= CAST('2023-12-01 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-03-01 00:00:00' AS DATETIME2)
  GROUP BY
    [orders__periods].[period],
    [orders].[gift]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[d1] AS [d1],
    [orders__1].[m0] AS [m0],
    [orders__1_2].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [orders__1_2] AS [orders__1_2]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[d1] AS [d1],
    [orders__1].[m0] AS [m0],
    NULL AS [m1]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    [orders__1_2].[d0] AS [d0],
    [orders__1_2].[d1] AS [d1],
    NULL AS [m0],
    [orders__1_2].[m1] AS [m1]
  FROM [orders__1_2] AS [orders__1_2]
), [combined] AS (
  SELECT
    [stacked].[d0] AS [d0],
    [stacked].[d1] AS [d1],
    MAX([stacked].[m0]) AS [m0],
    MAX([stacked].[m1]) AS [m1]
  FROM [stacked] AS [stacked]
  GROUP BY
    [stacked].[d0],
    [stacked].[d1]
)
SELECT
TOP 1001
  [combined].[d0] AS [placed_at_month],
  [combined].[d1] AS [gift],
  [combined].[m0] AS [revenue],
  [combined].[m1] AS [revenue_before]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC,
  CASE WHEN [combined].[d1] IS NULL THEN 1 ELSE 0 END, [combined].[d1] ASC;

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
    "orders"."gift" AS "d1",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-01-01 00:00:00', 0, 'UTC')
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
    ),
    "orders"."gift"
), "orders__periods" AS (
  SELECT DISTINCT
    addMonths(
      toDate32('1900-01-01'),
      dateDiff(
        'month',
        toDate32('1900-01-01'),
        toDate32(
          CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
        )
      )
    ) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-01-01 00:00:00', 0, 'UTC')
      AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-04-01 00:00:00', 0, 'UTC')
    )
    AND NOT (
      addMonths(
        toDate32('1900-01-01'),
        dateDiff(
          'month',
          toDate32('1900-01-01'),
          toDate32(
            CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
          )
        )
      ) IS NULL
    )
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    "orders"."gift" AS "d1",
    sum("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  CROSS JOIN "orders__periods" AS "orders__periods"
  WHERE
    addMonths(
      toDate32('1900-01-01'),
      dateDiff(
        'month',
        toDate32('1900-01-01'),
        toDate32(
          CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
        )
      )
    ) = addMonths(
      toDate32('1900-01-01'),
      dateDiff('month', toDate32('1900-01-01'), toDate32(addMonths("orders__periods"."period", -1)))
    )
    AND (
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2023-12-01 00:00:00', 0, 'UTC')
      AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-01 00:00:00', 0, 'UTC')
    )
  GROUP BY
    "orders__periods"."period",
    "orders"."gift"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    "orders__1_2"."d1" AS "d1",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."d1" AS "gift",
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_before"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE),
    "orders"."gift"
), "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
      AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
    )
    AND NOT CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) = CAST(DATE_TRUNC(
      'MONTH',
      CAST(CAST(DATEADD(MONTH, -1, "orders__periods"."period") AS DATE) AS DATE)
    ) AS DATE)
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-03-01 00:00:00' AS TIMESTAMP)
  GROUP BY
    "orders__periods"."period",
    "orders"."gift"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "orders__1_2" AS "orders__1_2"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    "orders__1_2"."d1" AS "d1",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."d1" AS "gift",
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_before"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `d0`,
    `orders`.`gift` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-04-01 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE),
    `orders`.`gift`
), `orders__periods` AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
      AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-04-01 00:00:00' AS TIMESTAMP_NTZ)
    )
    AND NOT CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    `orders`.`gift` AS `d1`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) = CAST(DATE_TRUNC('MONTH', CAST(ADD_MONTHS(`orders__periods`.`period`, -1) AS DATE)) AS DATE)
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    `orders__periods`.`period`,
    `orders`.`gift`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`d1` AS `d1`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    `orders__1_2`.`d1` AS `d1`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    `stacked`.`d1` AS `d1`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`,
    `stacked`.`d1`
)
SELECT
  `combined`.`d0` AS `placed_at_month`,
  `combined`.`d1` AS `gift`,
  `combined`.`m0` AS `revenue`,
  `combined`.`m1` AS `revenue_before`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-04-01 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)),
    "orders"."gift"
), "orders__periods" AS (
  SELECT DISTINCT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP(12))
      AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-04-01 00:00:00' AS TIMESTAMP(12))
    )
    AND NOT DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) = DATE_TRUNC('MONTH', CAST(DATE_ADD('MONTH', -1, "orders__periods"."period") AS DATE))
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-01 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    "orders__periods"."period",
    "orders"."gift"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    "orders__1_2"."d1" AS "d1",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."d1" AS "gift",
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_before"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `d0`,
    `orders`.`gift` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-04-01 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE),
    `orders`.`gift`
), `orders__periods` AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    (
      CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
      AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-04-01 00:00:00' AS TIMESTAMP_NTZ)
    )
    AND NOT CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) IS NULL
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    `orders`.`gift` AS `d1`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) = CAST(DATE_TRUNC('MONTH', CAST(ADD_MONTHS(`orders__periods`.`period`, -1) AS DATE)) AS DATE)
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-03-01 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    `orders__periods`.`period`,
    `orders`.`gift`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`d1` AS `d1`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    `orders__1_2`.`d1` AS `d1`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`
  FROM `orders__1_2` AS `orders__1_2`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    `stacked`.`d1` AS `d1`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`,
    `stacked`.`d1`
)
SELECT
  `combined`.`d0` AS `placed_at_month`,
  `combined`.`d1` AS `gift`,
  `combined`.`m0` AS `revenue`,
  `combined`.`m1` AS `revenue_before`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-04-01 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)),
    "orders"."gift"
), "orders__periods" AS (
  SELECT DISTINCT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    (
      CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP(12))
      AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-04-01 00:00:00' AS TIMESTAMP(12))
    )
    AND NOT DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) IS NULL
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    "orders"."gift" AS "d1",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) = DATE_TRUNC('MONTH', CAST(DATE_ADD('MONTH', -1, "orders__periods"."period") AS DATE))
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2023-12-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-03-01 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    "orders__periods"."period",
    "orders"."gift"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    "orders__1_2"."d1" AS "d1",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1"
  FROM "orders__1_2" AS "orders__1_2"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."d1" AS "gift",
  "combined"."m0" AS "revenue",
  "combined"."m1" AS "revenue_before"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;
