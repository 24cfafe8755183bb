-- {"measures": ["orders.revenue"], "dimensions": [{"field": "orders.placed_at", "granularity": "week"}], "timezone": "America/New_York", "time_range": {"start": "2024-03-01", "end": "2024-03-31"}}

-- duckdb
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CAST("orders"."placed_at" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' AS DATE)
    ) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' >= CAST('2024-03-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' < CAST('2024-03-31 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CAST("orders"."placed_at" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' AS DATE)
    ) AS DATE)
)
SELECT
  "orders__1"."d0" AS "placed_at_week",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    DATE(
      DATE(
        (
          SELECT
            DATETIME(
              ktx_moment,
              (
                CASE
                  WHEN ktx_moment < '1970-01-01 00:00:00'
                  THEN -18000
                  WHEN ktx_moment < '1974-01-01 00:00:00'
                  THEN CASE
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+24 days', 'weekday 0')
                    THEN -18000
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                    THEN -14400
                    ELSE -18000
                  END
                  WHEN ktx_moment < '1974-01-06 07:00:00'
                  THEN -18000
                  WHEN ktx_moment < '1974-10-27 06:00:00'
                  THEN -14400
                  WHEN ktx_moment < '1975-02-23 07:00:00'
                  THEN -18000
                  WHEN ktx_moment < '1975-10-26 06:00:00'
                  THEN -14400
                  WHEN ktx_moment < '1987-01-01 00:00:00'
                  THEN CASE
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+23 days', 'weekday 0')
                    THEN -18000
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                    THEN -14400
                    ELSE -18000
                  END
                  WHEN ktx_moment < '2007-01-01 00:00:00'
                  THEN CASE
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+0 days', 'weekday 0')
                    THEN -18000
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                    THEN -14400
                    ELSE -18000
                  END
                  ELSE CASE
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+2 months', '+7 days', 'weekday 0')
                    THEN -18000
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+10 months', '+0 days', 'weekday 0')
                    THEN -14400
                    ELSE -18000
                  END
                END
              ) || ' seconds'
            )
          FROM (
            SELECT
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
              ) AS ktx_moment
          ) AS ktx_moment
        )
      ),
      '-6 days',
      'weekday 1'
    ) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "orders" AS "orders"
  WHERE
    (
      SELECT
        DATETIME(
          ktx_moment,
          (
            CASE
              WHEN ktx_moment < '1970-01-01 00:00:00'
              THEN -18000
              WHEN ktx_moment < '1974-01-01 00:00:00'
              THEN CASE
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+24 days', 'weekday 0')
                THEN -18000
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                THEN -14400
                ELSE -18000
              END
              WHEN ktx_moment < '1974-01-06 07:00:00'
              THEN -18000
              WHEN ktx_moment < '1974-10-27 06:00:00'
              THEN -14400
              WHEN ktx_moment < '1975-02-23 07:00:00'
              THEN -18000
              WHEN ktx_moment < '1975-10-26 06:00:00'
              THEN -14400
              WHEN ktx_moment < '1987-01-01 00:00:00'
              THEN CASE
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+23 days', 'weekday 0')
                THEN -18000
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                THEN -14400
                ELSE -18000
              END
              WHEN ktx_moment < '2007-01-01 00:00:00'
              THEN CASE
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+0 days', 'weekday 0')
                THEN -18000
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                THEN -14400
                ELSE -18000
              END
              ELSE CASE
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+2 months', '+7 days', 'weekday 0')
                THEN -18000
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+10 months', '+0 days', 'weekday 0')
                THEN -14400
                ELSE -18000
              END
            END
          ) || ' seconds'
        )
      FROM (
        SELECT
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
          ) AS ktx_moment
      ) AS ktx_moment
    ) >= '2024-03-01 00:00:00'
    AND (
      SELECT
        DATETIME(
          ktx_moment,
          (
            CASE
              WHEN ktx_moment < '1970-01-01 00:00:00'
              THEN -18000
              WHEN ktx_moment < '1974-01-01 00:00:00'
              THEN CASE
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+24 days', 'weekday 0')
                THEN -18000
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                THEN -14400
                ELSE -18000
              END
              WHEN ktx_moment < '1974-01-06 07:00:00'
              THEN -18000
              WHEN ktx_moment < '1974-10-27 06:00:00'
              THEN -14400
              WHEN ktx_moment < '1975-02-23 07:00:00'
              THEN -18000
              WHEN ktx_moment < '1975-10-26 06:00:00'
              THEN -14400
              WHEN ktx_moment < '1987-01-01 00:00:00'
              THEN CASE
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+23 days', 'weekday 0')
                THEN -18000
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                THEN -14400
                ELSE -18000
              END
              WHEN ktx_moment < '2007-01-01 00:00:00'
              THEN CASE
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+0 days', 'weekday 0')
                THEN -18000
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                THEN -14400
                ELSE -18000
              END
              ELSE CASE
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+2 months', '+7 days', 'weekday 0')
                THEN -18000
                WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+10 months', '+0 days', 'weekday 0')
                THEN -14400
                ELSE -18000
              END
            END
          ) || ' seconds'
        )
      FROM (
        SELECT
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
          ) AS ktx_moment
      ) AS ktx_moment
    ) < '2024-03-31 00:00:00'
  GROUP BY
    DATE(
      DATE(
        (
          SELECT
            DATETIME(
              ktx_moment,
              (
                CASE
                  WHEN ktx_moment < '1970-01-01 00:00:00'
                  THEN -18000
                  WHEN ktx_moment < '1974-01-01 00:00:00'
                  THEN CASE
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+24 days', 'weekday 0')
                    THEN -18000
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                    THEN -14400
                    ELSE -18000
                  END
                  WHEN ktx_moment < '1974-01-06 07:00:00'
                  THEN -18000
                  WHEN ktx_moment < '1974-10-27 06:00:00'
                  THEN -14400
                  WHEN ktx_moment < '1975-02-23 07:00:00'
                  THEN -18000
                  WHEN ktx_moment < '1975-10-26 06:00:00'
                  THEN -14400
                  WHEN ktx_moment < '1987-01-01 00:00:00'
                  THEN CASE
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+23 days', 'weekday 0')
                    THEN -18000
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                    THEN -14400
                    ELSE -18000
                  END
                  WHEN ktx_moment < '2007-01-01 00:00:00'
                  THEN CASE
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+3 months', '+0 days', 'weekday 0')
                    THEN -18000
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+9 months', '+24 days', 'weekday 0')
                    THEN -14400
                    ELSE -18000
                  END
                  ELSE CASE
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 07:00:00', ktx_moment, 'start of year', '+2 months', '+7 days', 'weekday 0')
                    THEN -18000
                    WHEN ktx_moment < STRFTIME('%Y-%m-%d 06:00:00', ktx_moment, 'start of year', '+10 months', '+0 days', 'weekday 0')
                    THEN -14400
                    ELSE -18000
                  END
                END
              ) || ' seconds'
            )
          FROM (
            SELECT
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
              ) AS ktx_moment
          ) AS ktx_moment
        )
      ),
      '-6 days',
      'weekday 1'
    )
)
SELECT
  "orders__1"."d0" AS "placed_at_week",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CAST("orders"."placed_at" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' AS DATE)
    ) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST("orders"."placed_at" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' >= CAST('2024-03-01 00:00:00' AS TIMESTAMP)
    AND CAST("orders"."placed_at" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' < CAST('2024-03-31 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CAST("orders"."placed_at" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' AS DATE)
    ) AS DATE)
)
SELECT
  "orders__1"."d0" AS "placed_at_week",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        DATEDIFF(
          CAST(DATE_ADD(
            `orders`.`placed_at`,
            INTERVAL (
              CASE
                WHEN `orders`.`placed_at` < CAST('1970-01-01 00:00:00' AS DATETIME)
                THEN -18000
                WHEN `orders`.`placed_at` < CAST('1974-01-01 00:00:00' AS DATETIME)
                THEN CASE
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 07:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-25') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -18000
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 06:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -14400
                  ELSE -18000
                END
                WHEN `orders`.`placed_at` < CAST('1974-01-06 07:00:00' AS DATETIME)
                THEN -18000
                WHEN `orders`.`placed_at` < CAST('1974-10-27 06:00:00' AS DATETIME)
                THEN -14400
                WHEN `orders`.`placed_at` < CAST('1975-02-23 07:00:00' AS DATETIME)
                THEN -18000
                WHEN `orders`.`placed_at` < CAST('1975-10-26 06:00:00' AS DATETIME)
                THEN -14400
                WHEN `orders`.`placed_at` < CAST('1987-01-01 00:00:00' AS DATETIME)
                THEN CASE
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 07:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-24') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -18000
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 06:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -14400
                  ELSE -18000
                END
                WHEN `orders`.`placed_at` < CAST('2007-01-01 00:00:00' AS DATETIME)
                THEN CASE
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 07:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-01') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -18000
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 06:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -14400
                  ELSE -18000
                END
                ELSE CASE
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 07:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-03-08') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -18000
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 06:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-11-01') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -14400
                  ELSE -18000
                END
              END
            ) SECOND
          ) AS DATE),
          CAST('0001-01-01' AS DATE)
        ) DIV 7 * 7
      ) DAY
    ) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    DATE_ADD(
      `orders`.`placed_at`,
      INTERVAL (
        CASE
          WHEN `orders`.`placed_at` < CAST('1970-01-01 00:00:00' AS DATETIME)
          THEN -18000
          WHEN `orders`.`placed_at` < CAST('1974-01-01 00:00:00' AS DATETIME)
          THEN CASE
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 07:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-25') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -18000
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 06:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -14400
            ELSE -18000
          END
          WHEN `orders`.`placed_at` < CAST('1974-01-06 07:00:00' AS DATETIME)
          THEN -18000
          WHEN `orders`.`placed_at` < CAST('1974-10-27 06:00:00' AS DATETIME)
          THEN -14400
          WHEN `orders`.`placed_at` < CAST('1975-02-23 07:00:00' AS DATETIME)
          THEN -18000
          WHEN `orders`.`placed_at` < CAST('1975-10-26 06:00:00' AS DATETIME)
          THEN -14400
          WHEN `orders`.`placed_at` < CAST('1987-01-01 00:00:00' AS DATETIME)
          THEN CASE
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 07:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-24') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -18000
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 06:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -14400
            ELSE -18000
          END
          WHEN `orders`.`placed_at` < CAST('2007-01-01 00:00:00' AS DATETIME)
          THEN CASE
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 07:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-01') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -18000
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 06:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -14400
            ELSE -18000
          END
          ELSE CASE
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 07:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-03-08') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -18000
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 06:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-11-01') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -14400
            ELSE -18000
          END
        END
      ) SECOND
    ) >= CAST('2024-03-01 00:00:00' AS DATETIME)
    AND DATE_ADD(
      `orders`.`placed_at`,
      INTERVAL (
        CASE
          WHEN `orders`.`placed_at` < CAST('1970-01-01 00:00:00' AS DATETIME)
          THEN -18000
          WHEN `orders`.`placed_at` < CAST('1974-01-01 00:00:00' AS DATETIME)
          THEN CASE
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 07:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-25') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -18000
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 06:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -14400
            ELSE -18000
          END
          WHEN `orders`.`placed_at` < CAST('1974-01-06 07:00:00' AS DATETIME)
          THEN -18000
          WHEN `orders`.`placed_at` < CAST('1974-10-27 06:00:00' AS DATETIME)
          THEN -14400
          WHEN `orders`.`placed_at` < CAST('1975-02-23 07:00:00' AS DATETIME)
          THEN -18000
          WHEN `orders`.`placed_at` < CAST('1975-10-26 06:00:00' AS DATETIME)
          THEN -14400
          WHEN `orders`.`placed_at` < CAST('1987-01-01 00:00:00' AS DATETIME)
          THEN CASE
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 07:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-24') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -18000
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 06:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -14400
            ELSE -18000
          END
          WHEN `orders`.`placed_at` < CAST('2007-01-01 00:00:00' AS DATETIME)
          THEN CASE
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 07:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-01') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -18000
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 06:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -14400
            ELSE -18000
          END
          ELSE CASE
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 07:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-03-08') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -18000
            WHEN `orders`.`placed_at` < DATE_ADD(
              CAST('1900-01-07 06:00:00' AS DATETIME),
              INTERVAL (
                DATEDIFF(
                  CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-11-01') AS DATE),
                  CAST('1900-01-01' AS DATE)
                ) DIV 7 * 7
              ) DAY
            )
            THEN -14400
            ELSE -18000
          END
        END
      ) SECOND
    ) < CAST('2024-03-31 00:00:00' AS DATETIME)
  GROUP BY
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        DATEDIFF(
          CAST(DATE_ADD(
            `orders`.`placed_at`,
            INTERVAL (
              CASE
                WHEN `orders`.`placed_at` < CAST('1970-01-01 00:00:00' AS DATETIME)
                THEN -18000
                WHEN `orders`.`placed_at` < CAST('1974-01-01 00:00:00' AS DATETIME)
                THEN CASE
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 07:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-25') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -18000
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 06:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -14400
                  ELSE -18000
                END
                WHEN `orders`.`placed_at` < CAST('1974-01-06 07:00:00' AS DATETIME)
                THEN -18000
                WHEN `orders`.`placed_at` < CAST('1974-10-27 06:00:00' AS DATETIME)
                THEN -14400
                WHEN `orders`.`placed_at` < CAST('1975-02-23 07:00:00' AS DATETIME)
                THEN -18000
                WHEN `orders`.`placed_at` < CAST('1975-10-26 06:00:00' AS DATETIME)
                THEN -14400
                WHEN `orders`.`placed_at` < CAST('1987-01-01 00:00:00' AS DATETIME)
                THEN CASE
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 07:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-24') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -18000
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 06:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -14400
                  ELSE -18000
                END
                WHEN `orders`.`placed_at` < CAST('2007-01-01 00:00:00' AS DATETIME)
                THEN CASE
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 07:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-04-01') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -18000
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 06:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-10-25') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -14400
                  ELSE -18000
                END
                ELSE CASE
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 07:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-03-08') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -18000
                  WHEN `orders`.`placed_at` < DATE_ADD(
                    CAST('1900-01-07 06:00:00' AS DATETIME),
                    INTERVAL (
                      DATEDIFF(
                        CAST(CONCAT(EXTRACT(YEAR FROM `orders`.`placed_at`), '-11-01') AS DATE),
                        CAST('1900-01-01' AS DATE)
                      ) DIV 7 * 7
                    ) DAY
                  )
                  THEN -14400
                  ELSE -18000
                END
              END
            ) SECOND
          ) AS DATE),
          CAST('0001-01-01' AS DATE)
        ) DIV 7 * 7
      ) DAY
    )
)
SELECT
  `orders__1`.`d0` AS `placed_at_week`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  CASE WHEN `orders__1`.`d0` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d0` ASC
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
          CAST(CONVERT_TIMEZONE('UTC', 'America/New_York', CAST("orders"."placed_at" AS TIMESTAMPNTZ)) AS DATE)
        ) / 7
      ) * 7,
      CAST('0001-01-01' AS DATE)
    ) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CONVERT_TIMEZONE('UTC', 'America/New_York', CAST("orders"."placed_at" AS TIMESTAMPNTZ)) >= CAST('2024-03-01 00:00:00' AS TIMESTAMPNTZ)
    AND CONVERT_TIMEZONE('UTC', 'America/New_York', CAST("orders"."placed_at" AS TIMESTAMPNTZ)) < CAST('2024-03-31 00:00:00' AS TIMESTAMPNTZ)
  GROUP BY
    DATEADD(
      DAY,
      FLOOR(
        DATEDIFF(
          DAY,
          CAST('0001-01-01' AS DATE),
          CAST(CONVERT_TIMEZONE('UTC', 'America/New_York', CAST("orders"."placed_at" AS TIMESTAMPNTZ)) AS DATE)
        ) / 7
      ) * 7,
      CAST('0001-01-01' AS DATE)
    )
)
SELECT
  "orders__1"."d0" AS "placed_at_week",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    DATE_TRUNC(
      CAST(DATETIME(TIMESTAMP(CAST(`orders`.`placed_at` AS DATETIME), 'UTC'), 'America/New_York') AS DATE),
      WEEK(MONDAY)
    ) AS `d0`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    DATETIME(TIMESTAMP(CAST(`orders`.`placed_at` AS DATETIME), 'UTC'), 'America/New_York') >= CAST('2024-03-01 00:00:00' AS DATETIME)
    AND DATETIME(TIMESTAMP(CAST(`orders`.`placed_at` AS DATETIME), 'UTC'), 'America/New_York') < CAST('2024-03-31 00:00:00' AS DATETIME)
  GROUP BY
    DATE_TRUNC(
      CAST(DATETIME(TIMESTAMP(CAST(`orders`.`placed_at` AS DATETIME), 'UTC'), 'America/New_York') AS DATE),
      WEEK(MONDAY)
    )
)
SELECT
  `orders__1`.`d0` AS `placed_at_week`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    DATEADD(
      DAY,
      DATEDIFF(
        DAY,
        CAST('0001-01-01' AS DATE),
        CAST(DATEADD(
          SECOND,
          CASE
            WHEN [orders].[placed_at] < CAST('1970-01-01 00:00:00' AS DATETIME2)
            THEN -18000
            WHEN [orders].[placed_at] < CAST('1974-01-01 00:00:00' AS DATETIME2)
            THEN CASE
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 25)
                ) / 7 * 7,
                CAST('1900-01-07 07:00:00' AS DATETIME2)
              )
              THEN -18000
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
                ) / 7 * 7,
                CAST('1900-01-07 06:00:00' AS DATETIME2)
              )
              THEN -14400
              ELSE -18000
            END
            WHEN [orders].[placed_at] < CAST('1974-01-06 07:00:00' AS DATETIME2)
            THEN -18000
            WHEN [orders].[placed_at] < CAST('1974-10-27 06:00:00' AS DATETIME2)
            THEN -14400
            WHEN [orders].[placed_at] < CAST('1975-02-23 07:00:00' AS DATETIME2)
            THEN -18000
            WHEN [orders].[placed_at] < CAST('1975-10-26 06:00:00' AS DATETIME2)
            THEN -14400
            WHEN [orders].[placed_at] < CAST('1987-01-01 00:00:00' AS DATETIME2)
            THEN CASE
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 24)
                ) / 7 * 7,
                CAST('1900-01-07 07:00:00' AS DATETIME2)
              )
              THEN -18000
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
                ) / 7 * 7,
                CAST('1900-01-07 06:00:00' AS DATETIME2)
              )
              THEN -14400
              ELSE -18000
            END
            WHEN [orders].[placed_at] < CAST('2007-01-01 00:00:00' AS DATETIME2)
            THEN CASE
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 1)
                ) / 7 * 7,
                CAST('1900-01-07 07:00:00' AS DATETIME2)
              )
              THEN -18000
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
                ) / 7 * 7,
                CAST('1900-01-07 06:00:00' AS DATETIME2)
              )
              THEN -14400
              ELSE -18000
            END
            ELSE CASE
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 3, 8)
                ) / 7 * 7,
                CAST('1900-01-07 07:00:00' AS DATETIME2)
              )
              THEN -18000
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 11, 1)
                ) / 7 * 7,
                CAST('1900-01-07 06:00:00' AS DATETIME2)
              )
              THEN -14400
              ELSE -18000
            END
          END,
          CAST([orders].[placed_at] AS DATETIME2)
        ) AS DATE)
      ) / 7 * 7,
      CAST('0001-01-01' AS DATE)
    ) AS [d0],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  WHERE
    DATEADD(
      SECOND,
      CASE
        WHEN [orders].[placed_at] < CAST('1970-01-01 00:00:00' AS DATETIME2)
        THEN -18000
        WHEN [orders].[placed_at] < CAST('1974-01-01 00:00:00' AS DATETIME2)
        THEN CASE
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 25)
            ) / 7 * 7,
            CAST('1900-01-07 07:00:00' AS DATETIME2)
          )
          THEN -18000
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
            ) / 7 * 7,
            CAST('1900-01-07 06:00:00' AS DATETIME2)
          )
          THEN -14400
          ELSE -18000
        END
        WHEN [orders].[placed_at] < CAST('1974-01-06 07:00:00' AS DATETIME2)
        THEN -18000
        WHEN [orders].[placed_at] < CAST('1974-10-27 06:00:00' AS DATETIME2)
        THEN -14400
        WHEN [orders].[placed_at] < CAST('1975-02-23 07:00:00' AS DATETIME2)
        THEN -18000
        WHEN [orders].[placed_at] < CAST('1975-10-26 06:00:00' AS DATETIME2)
        THEN -14400
        WHEN [orders].[placed_at] < CAST('1987-01-01 00:00:00' AS DATETIME2)
        THEN CASE
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 24)
            ) / 7 * 7,
            CAST('1900-01-07 07:00:00' AS DATETIME2)
          )
          THEN -18000
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
            ) / 7 * 7,
            CAST('1900-01-07 06:00:00' AS DATETIME2)
          )
          THEN -14400
          ELSE -18000
        END
        WHEN [orders].[placed_at] < CAST('2007-01-01 00:00:00' AS DATETIME2)
        THEN CASE
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 1)
            ) / 7 * 7,
            CAST('1900-01-07 07:00:00' AS DATETIME2)
          )
          THEN -18000
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
            ) / 7 * 7,
            CAST('1900-01-07 06:00:00' AS DATETIME2)
          )
          THEN -14400
          ELSE -18000
        END
        ELSE CASE
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 3, 8)
            ) / 7 * 7,
            CAST('1900-01-07 07:00:00' AS DATETIME2)
          )
          THEN -18000
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 11, 1)
            ) / 7 * 7,
            CAST('1900-01-07 06:00:00' AS DATETIME2)
          )
          THEN -14400
          ELSE -18000
        END
      END,
      CAST([orders].[placed_at] AS DATETIME2)
    ) >= CAST('2024-03-01 00:00:00' AS DATETIME2)
    AND DATEADD(
      SECOND,
      CASE
        WHEN [orders].[placed_at] < CAST('1970-01-01 00:00:00' AS DATETIME2)
        THEN -18000
        WHEN [orders].[placed_at] < CAST('1974-01-01 00:00:00' AS DATETIME2)
        THEN CASE
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 25)
            ) / 7 * 7,
            CAST('1900-01-07 07:00:00' AS DATETIME2)
          )
          THEN -18000
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
            ) / 7 * 7,
            CAST('1900-01-07 06:00:00' AS DATETIME2)
          )
          THEN -14400
          ELSE -18000
        END
        WHEN [orders].[placed_at] < CAST('1974-01-06 07:00:00' AS DATETIME2)
        THEN -18000
        WHEN [orders].[placed_at] < CAST('1974-10-27 06:00:00' AS DATETIME2)
        THEN -14400
        WHEN [orders].[placed_at] < CAST('1975-02-23 07:00:00' AS DATETIME2)
        THEN -18000
        WHEN [orders].[placed_at] < CAST('1975-10-26 06:00:00' AS DATETIME2)
        THEN -14400
        WHEN [orders].[placed_at] < CAST('1987-01-01 00:00:00' AS DATETIME2)
        THEN CASE
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 24)
            ) / 7 * 7,
            CAST('1900-01-07 07:00:00' AS DATETIME2)
          )
          THEN -18000
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
            ) / 7 * 7,
            CAST('1900-01-07 06:00:00' AS DATETIME2)
          )
          THEN -14400
          ELSE -18000
        END
        WHEN [orders].[placed_at] < CAST('2007-01-01 00:00:00' AS DATETIME2)
        THEN CASE
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 1)
            ) / 7 * 7,
            CAST('1900-01-07 07:00:00' AS DATETIME2)
          )
          THEN -18000
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
            ) / 7 * 7,
            CAST('1900-01-07 06:00:00' AS DATETIME2)
          )
          THEN -14400
          ELSE -18000
        END
        ELSE CASE
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 3, 8)
            ) / 7 * 7,
            CAST('1900-01-07 07:00:00' AS DATETIME2)
          )
          THEN -18000
          WHEN [orders].[placed_at] < DATEADD(
            DAY,
            DATEDIFF(
              DAY,
              CAST('1900-01-01' AS DATE),
              DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 11, 1)
            ) / 7 * 7,
            CAST('1900-01-07 06:00:00' AS DATETIME2)
          )
          THEN -14400
          ELSE -18000
        END
      END,
      CAST([orders].[placed_at] AS DATETIME2)
    ) < CAST('2024-03-31 00:00:00' AS DATETIME2)
  GROUP BY
    DATEADD(
      DAY,
      DATEDIFF(
        DAY,
        CAST('0001-01-01' AS DATE),
        CAST(DATEADD(
          SECOND,
          CASE
            WHEN [orders].[placed_at] < CAST('1970-01-01 00:00:00' AS DATETIME2)
            THEN -18000
            WHEN [orders].[placed_at] < CAST('1974-01-01 00:00:00' AS DATETIME2)
            THEN CASE
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 25)
                ) / 7 * 7,
                CAST('1900-01-07 07:00:00' AS DATETIME2)
              )
              THEN -18000
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
                ) / 7 * 7,
                CAST('1900-01-07 06:00:00' AS DATETIME2)
              )
              THEN -14400
              ELSE -18000
            END
            WHEN [orders].[placed_at] < CAST('1974-01-06 07:00:00' AS DATETIME2)
            THEN -18000
            WHEN [orders].[placed_at] < CAST('1974-10-27 06:00:00' AS DATETIME2)
            THEN -14400
            WHEN [orders].[placed_at] < CAST('1975-02-23 07:00:00' AS DATETIME2)
            THEN -18000
            WHEN [orders].[placed_at] < CAST('1975-10-26 06:00:00' AS DATETIME2)
            THEN -14400
            WHEN [orders].[placed_at] < CAST('1987-01-01 00:00:00' AS DATETIME2)
            THEN CASE
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 24)
                ) / 7 * 7,
                CAST('1900-01-07 07:00:00' AS DATETIME2)
              )
              THEN -18000
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
                ) / 7 * 7,
                CAST('1900-01-07 06:00:00' AS DATETIME2)
              )
              THEN -14400
              ELSE -18000
            END
            WHEN [orders].[placed_at] < CAST('2007-01-01 00:00:00' AS DATETIME2)
            THEN CASE
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 4, 1)
                ) / 7 * 7,
                CAST('1900-01-07 07:00:00' AS DATETIME2)
              )
              THEN -18000
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 10, 25)
                ) / 7 * 7,
                CAST('1900-01-07 06:00:00' AS DATETIME2)
              )
              THEN -14400
              ELSE -18000
            END
            ELSE CASE
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 3, 8)
                ) / 7 * 7,
                CAST('1900-01-07 07:00:00' AS DATETIME2)
              )
              THEN -18000
              WHEN [orders].[placed_at] < DATEADD(
                DAY,
                DATEDIFF(
                  DAY,
                  CAST('1900-01-01' AS DATE),
                  DATEFROMPARTS(DATEPART(YEAR, [orders].[placed_at]), 11, 1)
                ) / 7 * 7,
                CAST('1900-01-07 06:00:00' AS DATETIME2)
              )
              THEN -14400
              ELSE -18000
            END
          END,
          CAST([orders].[placed_at] AS DATETIME2)
        ) AS DATE)
      ) / 7 * 7,
      CAST('0001-01-01' AS DATE)
    )
)
SELECT
TOP 1001
  [orders__1].[d0] AS [placed_at_week],
  [orders__1].[m0] AS [revenue]
FROM [orders__1] AS [orders__1]
ORDER BY
  CASE WHEN [orders__1].[d0] IS NULL THEN 1 ELSE 0 END, [orders__1].[d0] ASC;

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
            CAST(formatDateTime(
              CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))),
              '%Y-%m-%d %H:%i:%S',
              'America/New_York'
            ) AS Nullable(DateTime64(0, 'UTC')))
          )
        ),
        7
      ) * 7
    ) AS "d0",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(formatDateTime(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))),
      '%Y-%m-%d %H:%i:%S',
      'America/New_York'
    ) AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-03-01 00:00:00', 0, 'UTC')
    AND CAST(formatDateTime(
      CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))),
      '%Y-%m-%d %H:%i:%S',
      'America/New_York'
    ) AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-31 00:00:00', 0, 'UTC')
  GROUP BY
    addDays(
      toDate32('1900-01-01'),
      intDiv(
        dateDiff(
          'day',
          toDate32('1900-01-01'),
          toDate32(
            CAST(formatDateTime(
              CAST(formatDateTime("orders"."placed_at", '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))),
              '%Y-%m-%d %H:%i:%S',
              'America/New_York'
            ) AS Nullable(DateTime64(0, 'UTC')))
          )
        ),
        7
      ) * 7
    )
)
SELECT
  "orders__1"."d0" AS "placed_at_week",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CONVERT_TIMEZONE('UTC', 'America/New_York', CAST("orders"."placed_at" AS TIMESTAMP)) AS DATE)
    ) AS DATE) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CONVERT_TIMEZONE('UTC', 'America/New_York', CAST("orders"."placed_at" AS TIMESTAMP)) >= CAST('2024-03-01 00:00:00' AS TIMESTAMP)
    AND CONVERT_TIMEZONE('UTC', 'America/New_York', CAST("orders"."placed_at" AS TIMESTAMP)) < CAST('2024-03-31 00:00:00' AS TIMESTAMP)
  GROUP BY
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CONVERT_TIMEZONE('UTC', 'America/New_York', CAST("orders"."placed_at" AS TIMESTAMP)) AS DATE)
    ) AS DATE)
)
SELECT
  "orders__1"."d0" AS "placed_at_week",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CONVERT_TIMEZONE('UTC', 'America/New_York', CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ)) AS DATE)
    ) AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CONVERT_TIMEZONE('UTC', 'America/New_York', CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ)) >= CAST('2024-03-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CONVERT_TIMEZONE('UTC', 'America/New_York', CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ)) < CAST('2024-03-31 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CONVERT_TIMEZONE('UTC', 'America/New_York', CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ)) AS DATE)
    ) AS DATE)
)
SELECT
  `orders__1`.`d0` AS `placed_at_week`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    DATE_TRUNC(
      'WEEK',
      CAST(CAST(AT_TIMEZONE(
        WITH_TIMEZONE(CAST("orders"."placed_at" AS TIMESTAMP(12)), 'UTC'),
        'America/New_York'
      ) AS TIMESTAMP(12)) AS DATE)
    ) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(AT_TIMEZONE(
      WITH_TIMEZONE(CAST("orders"."placed_at" AS TIMESTAMP(12)), 'UTC'),
      'America/New_York'
    ) AS TIMESTAMP(12)) >= CAST('2024-03-01 00:00:00' AS TIMESTAMP(12))
    AND CAST(AT_TIMEZONE(
      WITH_TIMEZONE(CAST("orders"."placed_at" AS TIMESTAMP(12)), 'UTC'),
      'America/New_York'
    ) AS TIMESTAMP(12)) < CAST('2024-03-31 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    DATE_TRUNC(
      'WEEK',
      CAST(CAST(AT_TIMEZONE(
        WITH_TIMEZONE(CAST("orders"."placed_at" AS TIMESTAMP(12)), 'UTC'),
        'America/New_York'
      ) AS TIMESTAMP(12)) AS DATE)
    )
)
SELECT
  "orders__1"."d0" AS "placed_at_week",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CONVERT_TIMEZONE('UTC', 'America/New_York', CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ)) AS DATE)
    ) AS DATE) AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  WHERE
    CONVERT_TIMEZONE('UTC', 'America/New_York', CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ)) >= CAST('2024-03-01 00:00:00' AS TIMESTAMP_NTZ)
    AND CONVERT_TIMEZONE('UTC', 'America/New_York', CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ)) < CAST('2024-03-31 00:00:00' AS TIMESTAMP_NTZ)
  GROUP BY
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CONVERT_TIMEZONE('UTC', 'America/New_York', CAST(`orders`.`placed_at` AS TIMESTAMP_NTZ)) AS DATE)
    ) AS DATE)
)
SELECT
  `orders__1`.`d0` AS `placed_at_week`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    DATE_TRUNC(
      'WEEK',
      CAST(CAST(AT_TIMEZONE(
        WITH_TIMEZONE(CAST("orders"."placed_at" AS TIMESTAMP(12)), 'UTC'),
        'America/New_York'
      ) AS TIMESTAMP(12)) AS DATE)
    ) AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  WHERE
    CAST(AT_TIMEZONE(
      WITH_TIMEZONE(CAST("orders"."placed_at" AS TIMESTAMP(12)), 'UTC'),
      'America/New_York'
    ) AS TIMESTAMP(12)) >= CAST('2024-03-01 00:00:00' AS TIMESTAMP(12))
    AND CAST(AT_TIMEZONE(
      WITH_TIMEZONE(CAST("orders"."placed_at" AS TIMESTAMP(12)), 'UTC'),
      'America/New_York'
    ) AS TIMESTAMP(12)) < CAST('2024-03-31 00:00:00' AS TIMESTAMP(12))
  GROUP BY
    DATE_TRUNC(
      'WEEK',
      CAST(CAST(AT_TIMEZONE(
        WITH_TIMEZONE(CAST("orders"."placed_at" AS TIMESTAMP(12)), 'UTC'),
        'America/New_York'
      ) AS TIMESTAMP(12)) AS DATE)
    )
)
SELECT
  "orders__1"."d0" AS "placed_at_week",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;
