-- {"measures": ["orders.orders"], "dimensions": [{"field": "orders.placed_at", "granularity": "day"}], "time_range": {"start": "2024-01-01", "end": "2024-01-15"}, "fill": true}

-- duckdb
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-01-15 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)
), "shown_periods" AS (
  SELECT
    "orders__1"."d0" AS "period"
  FROM "orders__1" AS "orders__1"
  WHERE
    NOT "orders__1"."d0" IS NULL
), "periods" AS (
  SELECT
    ends.first_period + CAST(d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit AS INT) AS "period"
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    ends.first_period + CAST(d5.digit * 10000 AS INT) <= ends.last_period
    AND ends.first_period + CAST(d5.digit * 10000 + d4.digit * 1000 AS INT) <= ends.last_period
    AND ends.first_period + CAST(d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 AS INT) <= ends.last_period
    AND ends.first_period + CAST(d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 AS INT) <= ends.last_period
    AND ends.first_period + CAST(d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit AS INT) <= ends.last_period
), "every_period" AS (
  SELECT
    "periods"."period" AS "d0"
  FROM "periods"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "every_period"."d0" AS "d0",
    NULL AS "m0"
  FROM "every_period" AS "every_period"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_day",
  COALESCE("combined"."m0", 0) AS "orders"
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
    COUNT(*) AS "m0"
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
    ) < '2024-01-15 00:00:00'
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
), "shown_periods" AS (
  SELECT
    "orders__1"."d0" AS "period"
  FROM "orders__1" AS "orders__1"
  WHERE
    NOT "orders__1"."d0" IS NULL
), "periods" AS (
  SELECT
    DATE(
      ends.first_period,
      (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
      ) || ' days'
    ) AS "period"
  FROM (
    SELECT
      '2024-01-01' AS first_period,
      '2024-01-14' AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATE(ends.first_period, (
      d5.digit * 10000
    ) || ' days') <= ends.last_period
    AND DATE(ends.first_period, (
      d5.digit * 10000 + d4.digit * 1000
    ) || ' days') <= ends.last_period
    AND DATE(
      ends.first_period,
      (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100
      ) || ' days'
    ) <= ends.last_period
    AND DATE(
      ends.first_period,
      (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10
      ) || ' days'
    ) <= ends.last_period
    AND DATE(
      ends.first_period,
      (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
      ) || ' days'
    ) <= ends.last_period
), "every_period" AS (
  SELECT
    "periods"."period" AS "d0"
  FROM "periods"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "every_period"."d0" AS "d0",
    NULL AS "m0"
  FROM "every_period" AS "every_period"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_day",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-01-15 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)
), "shown_periods" AS (
  SELECT
    "orders__1"."d0" AS "period"
  FROM "orders__1" AS "orders__1"
  WHERE
    NOT "orders__1"."d0" IS NULL
), "periods" AS (
  SELECT
    CAST(ends.first_period + (
      INTERVAL '1 DAY' * (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
      )
    ) AS DATE) AS "period"
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    CAST(ends.first_period + (
      INTERVAL '1 DAY' * (
        d5.digit * 10000
      )
    ) AS DATE) <= ends.last_period
    AND CAST(ends.first_period + (
      INTERVAL '1 DAY' * (
        d5.digit * 10000 + d4.digit * 1000
      )
    ) AS DATE) <= ends.last_period
    AND CAST(ends.first_period + (
      INTERVAL '1 DAY' * (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100
      )
    ) AS DATE) <= ends.last_period
    AND CAST(ends.first_period + (
      INTERVAL '1 DAY' * (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10
      )
    ) AS DATE) <= ends.last_period
    AND CAST(ends.first_period + (
      INTERVAL '1 DAY' * (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
      )
    ) AS DATE) <= ends.last_period
), "every_period" AS (
  SELECT
    "periods"."period" AS "d0"
  FROM "periods"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "every_period" AS "every_period"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "every_period"."d0" AS "d0",
    NULL AS "m0"
  FROM "every_period" AS "every_period"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_day",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    CAST(`orders`.`placed_at` AS DATE) AS `d0`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    `orders`.`placed_at` >= CAST('2024-01-01 00:00:00' AS DATETIME)
    AND `orders`.`placed_at` < CAST('2024-01-15 00:00:00' AS DATETIME)
  GROUP BY
    CAST(`orders`.`placed_at` AS DATE)
), `shown_periods` AS (
  SELECT
    `orders__1`.`d0` AS `period`
  FROM `orders__1` AS `orders__1`
  WHERE
    NOT `orders__1`.`d0` IS NULL
), `periods` AS (
  SELECT
    DATE_ADD(
      ends.first_period,
      INTERVAL (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
      ) DAY
    ) AS `period`
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATE_ADD(ends.first_period, INTERVAL (
      d5.digit * 10000
    ) DAY) <= ends.last_period
    AND DATE_ADD(ends.first_period, INTERVAL (
      d5.digit * 10000 + d4.digit * 1000
    ) DAY) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      INTERVAL (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100
      ) DAY
    ) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      INTERVAL (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10
      ) DAY
    ) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      INTERVAL (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
      ) DAY
    ) <= ends.last_period
), `every_period` AS (
  SELECT
    `periods`.`period` AS `d0`
  FROM `periods`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `every_period`.`d0` AS `d0`,
    NULL AS `m0`
  FROM `every_period` AS `every_period`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `placed_at_day`,
  COALESCE(`combined`.`m0`, 0) AS `orders`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE) AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMPNTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMPNTZ)
    AND CAST("orders"."placed_at" AS TIMESTAMPNTZ) < CAST('2024-01-15 00:00:00' AS TIMESTAMPNTZ)
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMPNTZ) AS DATE)
), "shown_periods" AS (
  SELECT
    "orders__1"."d0" AS "period"
  FROM "orders__1" AS "orders__1"
  WHERE
    NOT "orders__1"."d0" IS NULL
), "periods" AS (
  SELECT
    DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) AS "period"
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATEADD(DAY, d5.digit * 10000, ends.first_period) <= ends.last_period
    AND DATEADD(DAY, d5.digit * 10000 + d4.digit * 1000, ends.first_period) <= ends.last_period
    AND DATEADD(DAY, d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100, ends.first_period) <= ends.last_period
    AND DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10,
      ends.first_period
    ) <= ends.last_period
    AND DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) <= ends.last_period
), "every_period" AS (
  SELECT
    "periods"."period" AS "d0"
  FROM "periods"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "every_period"."d0" AS "d0",
    NULL AS "m0"
  FROM "every_period" AS "every_period"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_day",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE) AS `d0`,
    count(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS DATETIME) >= CAST('2024-01-01 00:00:00' AS DATETIME)
    AND CAST(`orders`.`placed_at` AS DATETIME) < CAST('2024-01-15 00:00:00' AS DATETIME)
  GROUP BY
    CAST(CAST(`orders`.`placed_at` AS DATETIME) AS DATE)
), `shown_periods` AS (
  SELECT
    `orders__1`.`d0` AS `period`
  FROM `orders__1` AS `orders__1`
  WHERE
    NOT `orders__1`.`d0` IS NULL
), `periods` AS (
  SELECT
    DATE_ADD(
      ends.first_period,
      INTERVAL (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
      ) DAY
    ) AS `period`
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATE_ADD(ends.first_period, INTERVAL (
      d5.digit * 10000
    ) DAY) <= ends.last_period
    AND DATE_ADD(ends.first_period, INTERVAL (
      d5.digit * 10000 + d4.digit * 1000
    ) DAY) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      INTERVAL (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100
      ) DAY
    ) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      INTERVAL (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10
      ) DAY
    ) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      INTERVAL (
        d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
      ) DAY
    ) <= ends.last_period
), `every_period` AS (
  SELECT
    `periods`.`period` AS `d0`
  FROM `periods`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `every_period`.`d0` AS `d0`,
    NULL AS `m0`
  FROM `every_period` AS `every_period`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `placed_at_day`,
  COALESCE(`combined`.`m0`, 0) AS `orders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    CAST([orders].[placed_at] AS DATE) AS [d0],
    COUNT(*) AS [m0]
  FROM [shop].[orders] AS [orders]
  WHERE
    [orders].[placed_at] >= CAST('2024-01-01 00:00:00' AS DATETIME2)
    AND [orders].[placed_at] < CAST('2024-01-15 00:00:00' AS DATETIME2)
  GROUP BY
    CAST([orders].[placed_at] AS DATE)
), [shown_periods] AS (
  SELECT
    [orders__1].[d0] AS [period]
  FROM [orders__1] AS [orders__1]
  WHERE
    NOT [orders__1].[d0] IS NULL
), [periods] AS (
  SELECT
    DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) AS [period]
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATEADD(DAY, d5.digit * 10000, ends.first_period) <= ends.last_period
    AND DATEADD(DAY, d5.digit * 10000 + d4.digit * 1000, ends.first_period) <= ends.last_period
    AND DATEADD(DAY, d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100, ends.first_period) <= ends.last_period
    AND DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10,
      ends.first_period
    ) <= ends.last_period
    AND DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) <= ends.last_period
), [every_period] AS (
  SELECT
    [periods].[period] AS [d0]
  FROM [periods]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [every_period] AS [every_period]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    [every_period].[d0] AS [d0],
    NULL AS [m0]
  FROM [every_period] AS [every_period]
), [combined] AS (
  SELECT
    [stacked].[d0] AS [d0],
    MAX([stacked].[m0]) AS [m0]
  FROM [stacked] AS [stacked]
  GROUP BY
    [stacked].[d0]
)
SELECT
TOP 1001
  [combined].[d0] AS [placed_at_day],
  COALESCE([combined].[m0], 0) AS [orders]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    ) AS "d0",
    count(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-01-01 00:00:00', 0, 'UTC')
    AND CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-01-15 00:00:00', 0, 'UTC')
  GROUP BY
    toDate32(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))
    )
), "shown_periods" AS (
  SELECT
    "orders__1"."d0" AS "period"
  FROM "orders__1" AS "orders__1"
  WHERE
    NOT (
      "orders__1"."d0" IS NULL
    )
), "periods" AS (
  SELECT
    addDays(ends.first_period, numbers.number) AS "period"
  FROM (
    SELECT
      toDate32('2024-01-01') AS first_period,
      toDate32('2024-01-14') AS last_period
  ) AS ends
  CROSS JOIN numbers(100000) AS numbers
  WHERE
    numbers.number <= dateDiff('day', ends.first_period, ends.last_period)
), "every_period" AS (
  SELECT
    "periods"."period" AS "d0"
  FROM "periods"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "every_period"."d0" AS "d0",
    NULL AS "m0"
  FROM "every_period" AS "every_period"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_day",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE) AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) < CAST('2024-01-15 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP) AS DATE)
), "shown_periods" AS (
  SELECT
    "orders__1"."d0" AS "period"
  FROM "orders__1" AS "orders__1"
  WHERE
    NOT "orders__1"."d0" IS NULL
), "periods" AS (
  SELECT
    CAST(DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) AS DATE) AS "period"
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    CAST(DATEADD(DAY, d5.digit * 10000, ends.first_period) AS DATE) <= ends.last_period
    AND CAST(DATEADD(DAY, d5.digit * 10000 + d4.digit * 1000, ends.first_period) AS DATE) <= ends.last_period
    AND CAST(DATEADD(DAY, d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100, ends.first_period) AS DATE) <= ends.last_period
    AND CAST(DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10,
      ends.first_period
    ) AS DATE) <= ends.last_period
    AND CAST(DATEADD(
      DAY,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) AS DATE) <= ends.last_period
), "every_period" AS (
  SELECT
    "periods"."period" AS "d0"
  FROM "periods"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "every_period" AS "every_period"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "every_period"."d0" AS "d0",
    NULL AS "m0"
  FROM "every_period" AS "every_period"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_day",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) AS `d0`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-01-15 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)
), `shown_periods` AS (
  SELECT
    `orders__1`.`d0` AS `period`
  FROM `orders__1` AS `orders__1`
  WHERE
    NOT `orders__1`.`d0` IS NULL
), `periods` AS (
  SELECT
    DATE_ADD(
      ends.first_period,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
    ) AS `period`
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATE_ADD(ends.first_period, d5.digit * 10000) <= ends.last_period
    AND DATE_ADD(ends.first_period, d5.digit * 10000 + d4.digit * 1000) <= ends.last_period
    AND DATE_ADD(ends.first_period, d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10
    ) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
    ) <= ends.last_period
), `every_period` AS (
  SELECT
    `periods`.`period` AS `d0`
  FROM `periods`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `every_period`.`d0` AS `d0`,
    NULL AS `m0`
  FROM `every_period` AS `every_period`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `placed_at_day`,
  COALESCE(`combined`.`m0`, 0) AS `orders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-01-15 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)
), "shown_periods" AS (
  SELECT
    "orders__1"."d0" AS "period"
  FROM "orders__1" AS "orders__1"
  WHERE
    NOT "orders__1"."d0" IS NULL
), "periods" AS (
  SELECT
    DATE_ADD(
      'DAY',
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) AS "period"
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATE_ADD('DAY', d5.digit * 10000, ends.first_period) <= ends.last_period
    AND DATE_ADD('DAY', d5.digit * 10000 + d4.digit * 1000, ends.first_period) <= ends.last_period
    AND DATE_ADD('DAY', d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100, ends.first_period) <= ends.last_period
    AND DATE_ADD(
      'DAY',
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10,
      ends.first_period
    ) <= ends.last_period
    AND DATE_ADD(
      'DAY',
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) <= ends.last_period
), "every_period" AS (
  SELECT
    "periods"."period" AS "d0"
  FROM "periods"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "every_period"."d0" AS "d0",
    NULL AS "m0"
  FROM "every_period" AS "every_period"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_day",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE) AS `d0`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) < CAST('2024-01-15 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ) AS DATE)
), `shown_periods` AS (
  SELECT
    `orders__1`.`d0` AS `period`
  FROM `orders__1` AS `orders__1`
  WHERE
    NOT `orders__1`.`d0` IS NULL
), `periods` AS (
  SELECT
    DATE_ADD(
      ends.first_period,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
    ) AS `period`
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATE_ADD(ends.first_period, d5.digit * 10000) <= ends.last_period
    AND DATE_ADD(ends.first_period, d5.digit * 10000 + d4.digit * 1000) <= ends.last_period
    AND DATE_ADD(ends.first_period, d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10
    ) <= ends.last_period
    AND DATE_ADD(
      ends.first_period,
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit
    ) <= ends.last_period
), `every_period` AS (
  SELECT
    `periods`.`period` AS `d0`
  FROM `periods`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `every_period`.`d0` AS `d0`,
    NULL AS `m0`
  FROM `every_period` AS `every_period`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `placed_at_day`,
  COALESCE(`combined`.`m0`, 0) AS `orders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE) AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP(12)) >= CAST('2024-01-01 00:00:00' AS TIMESTAMP(12))
    AND CAST("orders"."placed_at" AS TIMESTAMP(12)) < CAST('2024-01-15 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    CAST(CAST("orders"."placed_at" AS TIMESTAMP(12)) AS DATE)
), "shown_periods" AS (
  SELECT
    "orders__1"."d0" AS "period"
  FROM "orders__1" AS "orders__1"
  WHERE
    NOT "orders__1"."d0" IS NULL
), "periods" AS (
  SELECT
    DATE_ADD(
      'DAY',
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) AS "period"
  FROM (
    SELECT
      CAST('2024-01-01' AS DATE) AS first_period,
      CAST('2024-01-14' AS DATE) AS last_period
  ) AS ends
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d5
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d4
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d3
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d2
  CROSS JOIN (
    SELECT
      0 AS digit
    UNION ALL
    SELECT
      1 AS digit
    UNION ALL
    SELECT
      2 AS digit
    UNION ALL
    SELECT
      3 AS digit
    UNION ALL
    SELECT
      4 AS digit
    UNION ALL
    SELECT
      5 AS digit
    UNION ALL
    SELECT
      6 AS digit
    UNION ALL
    SELECT
      7 AS digit
    UNION ALL
    SELECT
      8 AS digit
    UNION ALL
    SELECT
      9 AS digit
  ) AS d1
  WHERE
    DATE_ADD('DAY', d5.digit * 10000, ends.first_period) <= ends.last_period
    AND DATE_ADD('DAY', d5.digit * 10000 + d4.digit * 1000, ends.first_period) <= ends.last_period
    AND DATE_ADD('DAY', d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100, ends.first_period) <= ends.last_period
    AND DATE_ADD(
      'DAY',
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10,
      ends.first_period
    ) <= ends.last_period
    AND DATE_ADD(
      'DAY',
      d5.digit * 10000 + d4.digit * 1000 + d3.digit * 100 + d2.digit * 10 + d1.digit,
      ends.first_period
    ) <= ends.last_period
), "every_period" AS (
  SELECT
    "periods"."period" AS "d0"
  FROM "periods"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "every_period"."d0" AS "d0",
    NULL AS "m0"
  FROM "every_period" AS "every_period"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "placed_at_day",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
