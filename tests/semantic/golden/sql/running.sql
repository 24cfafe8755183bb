-- {"measures": ["orders.revenue_so_far", "orders.revenue_28", "orders.revenue_fytd"], "dimensions": [{"field": "orders.placed_at", "granularity": "month"}]}

-- duckdb
WITH "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    NOT CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST("orders__periods"."period" + INTERVAL 1 MONTH AS DATE)
  GROUP BY
    "orders__periods"."period"
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST("orders__periods"."period" + INTERVAL 1 MONTH AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST("orders__periods"."period" + INTERVAL 1 MONTH AS DATE) + (
      -28
    )
  GROUP BY
    "orders__periods"."period"
), "orders__1_3" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST("orders__periods"."period" + INTERVAL 1 MONTH AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST(CAST(DATE_TRUNC('MONTH', CAST("orders__periods"."period" AS DATE)) AS DATE) + INTERVAL (
      -(
        (
          EXTRACT(MONTH FROM CAST("orders__periods"."period" AS DATE)) + 8
        ) % 12
      )
    ) MONTH AS DATE)
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1",
    NULL AS "m2"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1",
    NULL AS "m2"
  FROM "orders__1_2" AS "orders__1_2"
  UNION ALL
  SELECT
    "orders__1_3"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1_3" AS "orders__1_3"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."m0" AS "revenue_so_far",
  "combined"."m1" AS "revenue_28",
  "combined"."m2" AS "revenue_fytd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__periods" AS (
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
    NOT DATE(
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
), "orders__1" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m0"
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
    ) < MIN(
      DATE("orders__periods"."period", '+1 months'),
      DATE("orders__periods"."period", 'start of month', '+2 months', '-1 days')
    )
  GROUP BY
    "orders__periods"."period"
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
    ) < MIN(
      DATE("orders__periods"."period", '+1 months'),
      DATE("orders__periods"."period", 'start of month', '+2 months', '-1 days')
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
    ) >= DATE(
      MIN(
        DATE("orders__periods"."period", '+1 months'),
        DATE("orders__periods"."period", 'start of month', '+2 months', '-1 days')
      ),
      '-28 days'
    )
  GROUP BY
    "orders__periods"."period"
), "orders__1_3" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m2"
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
    ) < MIN(
      DATE("orders__periods"."period", '+1 months'),
      DATE("orders__periods"."period", 'start of month', '+2 months', '-1 days')
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
    ) >= DATE(
      DATE(
        DATE(
          CASE
            WHEN TYPEOF("orders__periods"."period") <> 'text'
            THEN DATE("orders__periods"."period", 'unixepoch')
            ELSE SUBSTR("orders__periods"."period", 1, 10)
          END
        ),
        'start of month'
      ),
      (
        -(
          (
            CAST(STRFTIME(
              '%m',
              DATE(
                CASE
                  WHEN TYPEOF("orders__periods"."period") <> 'text'
                  THEN DATE("orders__periods"."period", 'unixepoch')
                  ELSE SUBSTR("orders__periods"."period", 1, 10)
                END
              )
            ) AS INTEGER) + 8
          ) % 12
        )
      ) || ' months'
    )
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1",
    NULL AS "m2"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1",
    NULL AS "m2"
  FROM "orders__1_2" AS "orders__1_2"
  UNION ALL
  SELECT
    "orders__1_3"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1_3" AS "orders__1_3"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."m0" AS "revenue_so_far",
  "combined"."m1" AS "revenue_28",
  "combined"."m2" AS "revenue_fytd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    NOT CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST("orders__periods"."period" + INTERVAL '1 MONTH' AS DATE)
  GROUP BY
    "orders__periods"."period"
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST("orders__periods"."period" + INTERVAL '1 MONTH' AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST(CAST("orders__periods"."period" + INTERVAL '1 MONTH' AS DATE) + INTERVAL '-28 DAY' AS DATE)
  GROUP BY
    "orders__periods"."period"
), "orders__1_3" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST("orders__periods"."period" + INTERVAL '1 MONTH' AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST(CAST(DATE_TRUNC('MONTH', CAST("orders__periods"."period" AS DATE)) AS DATE) + (
      INTERVAL '1 MONTH' * (
        -(
          (
            CAST(EXTRACT(MONTH FROM CAST("orders__periods"."period" AS DATE)) AS INT) + 8
          ) % 12
        )
      )
    ) AS DATE)
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1_2"."m1" AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "orders__1_2" AS "orders__1_2"
  CROSS JOIN "orders__1_3" AS "orders__1_3"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1",
    NULL AS "m2"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1",
    NULL AS "m2"
  FROM "orders__1_2" AS "orders__1_2"
  UNION ALL
  SELECT
    "orders__1_3"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1_3" AS "orders__1_3"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."m0" AS "revenue_so_far",
  "combined"."m1" AS "revenue_28",
  "combined"."m2" AS "revenue_fytd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__periods` AS (
  SELECT DISTINCT
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    ) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    NOT DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`orders`.`placed_at` AS DATE))
      ) MONTH
    ) IS NULL
), `orders__1` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(`orders`.`placed_at` AS DATE) < DATE_ADD(`orders__periods`.`period`, INTERVAL 1 MONTH)
  GROUP BY
    `orders__periods`.`period`
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(`orders`.`placed_at` AS DATE) < DATE_ADD(`orders__periods`.`period`, INTERVAL 1 MONTH)
    AND CAST(`orders`.`placed_at` AS DATE) >= DATE_ADD(DATE_ADD(`orders__periods`.`period`, INTERVAL 1 MONTH), INTERVAL (
      -28
    ) DAY)
  GROUP BY
    `orders__periods`.`period`
), `orders__1_3` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(`orders`.`placed_at` AS DATE) < DATE_ADD(`orders__periods`.`period`, INTERVAL 1 MONTH)
    AND CAST(`orders`.`placed_at` AS DATE) >= DATE_ADD(
      CAST('0001-04-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST(`orders__periods`.`period` AS DATE)) DIV 12 * 12
      ) MONTH
    )
  GROUP BY
    `orders__periods`.`period`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`,
    NULL AS `m2`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`,
    NULL AS `m2`
  FROM `orders__1_2` AS `orders__1_2`
  UNION ALL
  SELECT
    `orders__1_3`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`,
    `orders__1_3`.`m2` AS `m2`
  FROM `orders__1_3` AS `orders__1_3`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`,
    MAX(`stacked`.`m2`) AS `m2`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `placed_at_month`,
  `combined`.`m0` AS `revenue_so_far`,
  `combined`.`m1` AS `revenue_28`,
  `combined`.`m2` AS `revenue_fytd`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__periods" AS (
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
    NOT DATEADD(
      MONTH,
      DATEDIFF(
        MONTH,
        CAST('0001-01-01' AS DATE),
        CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
      ),
      CAST('0001-01-01' AS DATE)
    ) IS NULL
), "orders__1" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) < DATEADD(MONTH, 1, "orders__periods"."period")
  GROUP BY
    "orders__periods"."period"
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) < DATEADD(MONTH, 1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) >= DATEADD(DAY, -28, DATEADD(MONTH, 1, "orders__periods"."period"))
  GROUP BY
    "orders__periods"."period"
), "orders__1_3" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) < DATEADD(MONTH, 1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) >= DATEADD(
      MONTH,
      FLOOR(
        DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST("orders__periods"."period" AS DATE)) / 12
      ) * 12,
      CAST('0001-04-01' AS DATE)
    )
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1",
    NULL AS "m2"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1",
    NULL AS "m2"
  FROM "orders__1_2" AS "orders__1_2"
  UNION ALL
  SELECT
    "orders__1_3"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1_3" AS "orders__1_3"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."m0" AS "revenue_so_far",
  "combined"."m1" AS "revenue_28",
  "combined"."m2" AS "revenue_fytd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__periods` AS (
  SELECT DISTINCT
    DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    NOT DATE_TRUNC(CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE), MONTH) IS NULL
), `orders__1` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) < DATE_ADD(`orders__periods`.`period`, INTERVAL 1 MONTH)
  GROUP BY
    `orders__periods`.`period`
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    sum(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) < DATE_ADD(`orders__periods`.`period`, INTERVAL 1 MONTH)
    AND CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) >= DATE_ADD(DATE_ADD(`orders__periods`.`period`, INTERVAL 1 MONTH), INTERVAL (
      -28
    ) DAY)
  GROUP BY
    `orders__periods`.`period`
), `orders__1_3` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    sum(`orders`.`amount`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) < DATE_ADD(`orders__periods`.`period`, INTERVAL 1 MONTH)
    AND CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) >= DATE_ADD(
      DATE_TRUNC(CAST(`orders__periods`.`period` AS DATE), MONTH),
      INTERVAL (
        -(
          MOD(EXTRACT(MONTH FROM CAST(`orders__periods`.`period` AS DATE)) + 8, 12)
        )
      ) MONTH
    )
  GROUP BY
    `orders__periods`.`period`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`,
    NULL AS `m2`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`,
    NULL AS `m2`
  FROM `orders__1_2` AS `orders__1_2`
  UNION ALL
  SELECT
    `orders__1_3`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`,
    `orders__1_3`.`m2` AS `m2`
  FROM `orders__1_3` AS `orders__1_3`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`,
    MAX(`stacked`.`m2`) AS `m2`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `placed_at_month`,
  `combined`.`m0` AS `revenue_so_far`,
  `combined`.`m1` AS `revenue_28`,
  `combined`.`m2` AS `revenue_fytd`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__periods] AS (
  SELECT DISTINCT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS [period]
  FROM [shop].[orders] AS [orders]
  WHERE
    NOT DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([orders].[placed_at] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) IS NULL
), [orders__1] AS (
  SELECT
    [orders__periods].[period] AS [d0],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  INNER JOIN [orders__periods] AS [orders__periods]
    ON CAST([orders].[placed_at] AS DATE) < DATEADD(MONTH, 1, [orders__periods].[period])
  GROUP BY
    [orders__periods].[period]
), [orders__1_2] AS (
  SELECT
    [orders__periods].[period] AS [d0],
    SUM([orders].[amount]) AS [m1]
  FROM [shop].[orders] AS [orders]
  INNER JOIN [orders__periods] AS [orders__periods]
    ON CAST([orders].[placed_at] AS DATE) < DATEADD(MONTH, 1, [orders__periods].[period])
    AND CAST([orders].[placed_at] AS DATE) >= DATEADD(DAY, -28, DATEADD(MONTH, 1, [orders__periods].[period]))
  GROUP BY
    [orders__periods].[period]
), [orders__1_3] AS (
  SELECT
    [orders__periods].[period] AS [d0],
    SUM([orders].[amount]) AS [m2]
  FROM [shop].[orders] AS [orders]
  INNER JOIN [orders__periods] AS [orders__periods]
    ON CAST([orders].[placed_at] AS DATE) < DATEADD(MONTH, 1, [orders__periods].[period])
    AND CAST([orders].[placed_at] AS DATE) >= DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST([orders__periods].[period] AS DATE)) / 12 * 12,
      CAST('0001-04-01' AS DATE)
    )
  GROUP BY
    [orders__periods].[period]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [orders__1_2].[m1] AS [m1],
    [orders__1_3].[m2] AS [m2]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [orders__1_2] AS [orders__1_2]
  CROSS JOIN [orders__1_3] AS [orders__1_3]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    NULL AS [m1],
    NULL AS [m2]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    [orders__1_2].[d0] AS [d0],
    NULL AS [m0],
    [orders__1_2].[m1] AS [m1],
    NULL AS [m2]
  FROM [orders__1_2] AS [orders__1_2]
  UNION ALL
  SELECT
    [orders__1_3].[d0] AS [d0],
    NULL AS [m0],
    NULL AS [m1],
    [orders__1_3].[m2] AS [m2]
  FROM [orders__1_3] AS [orders__1_3]
), [combined] AS (
  SELECT
    [stacked].[d0] AS [d0],
    MAX([stacked].[m0]) AS [m0],
    MAX([stacked].[m1]) AS [m1],
    MAX([stacked].[m2]) AS [m2]
  FROM [stacked] AS [stacked]
  GROUP BY
    [stacked].[d0]
)
SELECT
TOP 1001
  [combined].[d0] AS [placed_at_month],
  [combined].[m0] AS [revenue_so_far],
  [combined].[m1] AS [revenue_28],
  [combined].[m2] AS [revenue_fytd]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "orders__periods" AS (
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
    NOT (
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
), "orders__1" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  CROSS JOIN "orders__periods" AS "orders__periods"
  WHERE
    toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    ) < addMonths("orders__periods"."period", 1)
  GROUP BY
    "orders__periods"."period"
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    sum("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  CROSS JOIN "orders__periods" AS "orders__periods"
  WHERE
    toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    ) < addMonths("orders__periods"."period", 1)
    AND toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    ) >= addDays(addMonths("orders__periods"."period", 1), -28)
  GROUP BY
    "orders__periods"."period"
), "orders__1_3" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    sum("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  CROSS JOIN "orders__periods" AS "orders__periods"
  WHERE
    toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    ) < addMonths("orders__periods"."period", 1)
    AND toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    ) >= addMonths(
      toDate32('1900-04-01'),
      intDiv(
        dateDiff('month', toDate32('1900-04-01'), toDate32("orders__periods"."period")),
        12
      ) * 12
    )
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1",
    NULL AS "m2"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1",
    NULL AS "m2"
  FROM "orders__1_2" AS "orders__1_2"
  UNION ALL
  SELECT
    "orders__1_3"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1_3" AS "orders__1_3"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."m0" AS "revenue_so_far",
  "combined"."m1" AS "revenue_28",
  "combined"."m2" AS "revenue_fytd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__periods" AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    NOT CAST(DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)) AS DATE) IS NULL
), "orders__1" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST(DATEADD(MONTH, 1, "orders__periods"."period") AS DATE)
  GROUP BY
    "orders__periods"."period"
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST(DATEADD(MONTH, 1, "orders__periods"."period") AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST(DATEADD(DAY, -28, CAST(DATEADD(MONTH, 1, "orders__periods"."period") AS DATE)) AS DATE)
  GROUP BY
    "orders__periods"."period"
), "orders__1_3" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) < CAST(DATEADD(MONTH, 1, "orders__periods"."period") AS DATE)
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) >= CAST(DATEADD(
      MONTH,
      -(
        (
          CAST(EXTRACT(MONTH FROM CAST("orders__periods"."period" AS DATE)) AS INTEGER) + 8
        ) % 12
      ),
      CAST(DATE_TRUNC('MONTH', CAST("orders__periods"."period" AS DATE)) AS DATE)
    ) AS DATE)
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1_2"."m1" AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "orders__1_2" AS "orders__1_2"
  CROSS JOIN "orders__1_3" AS "orders__1_3"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1",
    NULL AS "m2"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1",
    NULL AS "m2"
  FROM "orders__1_2" AS "orders__1_2"
  UNION ALL
  SELECT
    "orders__1_3"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1_3" AS "orders__1_3"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."m0" AS "revenue_so_far",
  "combined"."m1" AS "revenue_28",
  "combined"."m2" AS "revenue_fytd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__periods` AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    NOT CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) IS NULL
), `orders__1` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) < ADD_MONTHS(`orders__periods`.`period`, 1)
  GROUP BY
    `orders__periods`.`period`
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) < ADD_MONTHS(`orders__periods`.`period`, 1)
    AND CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) >= DATE_ADD(ADD_MONTHS(`orders__periods`.`period`, 1), -28)
  GROUP BY
    `orders__periods`.`period`
), `orders__1_3` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) < ADD_MONTHS(`orders__periods`.`period`, 1)
    AND CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) >= ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`orders__periods`.`period` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`orders__periods`.`period` AS DATE)) + 8
        ) % 12
      )
    )
  GROUP BY
    `orders__periods`.`period`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`,
    NULL AS `m2`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`,
    NULL AS `m2`
  FROM `orders__1_2` AS `orders__1_2`
  UNION ALL
  SELECT
    `orders__1_3`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`,
    `orders__1_3`.`m2` AS `m2`
  FROM `orders__1_3` AS `orders__1_3`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`,
    MAX(`stacked`.`m2`) AS `m2`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `placed_at_month`,
  `combined`.`m0` AS `revenue_so_far`,
  `combined`.`m1` AS `revenue_28`,
  `combined`.`m2` AS `revenue_fytd`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__periods" AS (
  SELECT DISTINCT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    NOT DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) IS NULL
), "orders__1" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) < DATE_ADD('MONTH', 1, "orders__periods"."period")
  GROUP BY
    "orders__periods"."period"
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) < DATE_ADD('MONTH', 1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) >= DATE_ADD('DAY', -28, DATE_ADD('MONTH', 1, "orders__periods"."period"))
  GROUP BY
    "orders__periods"."period"
), "orders__1_3" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) < DATE_ADD('MONTH', 1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) >= DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("orders__periods"."period" AS DATE)) + 8
        ) % 12
      ),
      DATE_TRUNC('MONTH', CAST("orders__periods"."period" AS DATE))
    )
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1",
    NULL AS "m2"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1",
    NULL AS "m2"
  FROM "orders__1_2" AS "orders__1_2"
  UNION ALL
  SELECT
    "orders__1_3"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1_3" AS "orders__1_3"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."m0" AS "revenue_so_far",
  "combined"."m1" AS "revenue_28",
  "combined"."m2" AS "revenue_fytd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__periods` AS (
  SELECT DISTINCT
    CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) AS `period`
  FROM `shop`.`orders` AS `orders`
  WHERE
    NOT CAST(DATE_TRUNC('MONTH', CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)) AS DATE) IS NULL
), `orders__1` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) < ADD_MONTHS(`orders__periods`.`period`, 1)
  GROUP BY
    `orders__periods`.`period`
), `orders__1_2` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) < ADD_MONTHS(`orders__periods`.`period`, 1)
    AND CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) >= DATE_ADD(ADD_MONTHS(`orders__periods`.`period`, 1), -28)
  GROUP BY
    `orders__periods`.`period`
), `orders__1_3` AS (
  SELECT
    `orders__periods`.`period` AS `d0`,
    SUM(`orders`.`amount`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  INNER JOIN `orders__periods` AS `orders__periods`
    ON CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) < ADD_MONTHS(`orders__periods`.`period`, 1)
    AND CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) >= ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`orders__periods`.`period` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`orders__periods`.`period` AS DATE)) + 8
        ) % 12
      )
    )
  GROUP BY
    `orders__periods`.`period`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    NULL AS `m1`,
    NULL AS `m2`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `orders__1_2`.`d0` AS `d0`,
    NULL AS `m0`,
    `orders__1_2`.`m1` AS `m1`,
    NULL AS `m2`
  FROM `orders__1_2` AS `orders__1_2`
  UNION ALL
  SELECT
    `orders__1_3`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`,
    `orders__1_3`.`m2` AS `m2`
  FROM `orders__1_3` AS `orders__1_3`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`,
    MAX(`stacked`.`m2`) AS `m2`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `placed_at_month`,
  `combined`.`m0` AS `revenue_so_far`,
  `combined`.`m1` AS `revenue_28`,
  `combined`.`m2` AS `revenue_fytd`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__periods" AS (
  SELECT DISTINCT
    DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) AS "period"
  FROM "shop"."orders" AS "orders"
  WHERE
    NOT DATE_TRUNC('MONTH', CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)) IS NULL
), "orders__1" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) < DATE_ADD('MONTH', 1, "orders__periods"."period")
  GROUP BY
    "orders__periods"."period"
), "orders__1_2" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) < DATE_ADD('MONTH', 1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) >= DATE_ADD('DAY', -28, DATE_ADD('MONTH', 1, "orders__periods"."period"))
  GROUP BY
    "orders__periods"."period"
), "orders__1_3" AS (
  SELECT
    "orders__periods"."period" AS "d0",
    SUM("orders"."amount") AS "m2"
  FROM "shop"."orders" AS "orders"
  INNER JOIN "orders__periods" AS "orders__periods"
    ON CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) < DATE_ADD('MONTH', 1, "orders__periods"."period")
    AND CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) >= DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("orders__periods"."period" AS DATE)) + 8
        ) % 12
      ),
      DATE_TRUNC('MONTH', CAST("orders__periods"."period" AS DATE))
    )
  GROUP BY
    "orders__periods"."period"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    NULL AS "m1",
    NULL AS "m2"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "orders__1_2"."d0" AS "d0",
    NULL AS "m0",
    "orders__1_2"."m1" AS "m1",
    NULL AS "m2"
  FROM "orders__1_2" AS "orders__1_2"
  UNION ALL
  SELECT
    "orders__1_3"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1",
    "orders__1_3"."m2" AS "m2"
  FROM "orders__1_3" AS "orders__1_3"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1",
    MAX("stacked"."m2") AS "m2"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_month",
  "combined"."m0" AS "revenue_so_far",
  "combined"."m1" AS "revenue_28",
  "combined"."m2" AS "revenue_fytd"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
