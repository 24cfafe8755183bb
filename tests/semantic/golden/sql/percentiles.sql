-- {"measures": ["orders.typical", {"expr": "percentile(amount, 0.9)", "name": "p90"}, "orders.mean_customer"], "dimensions": ["orders.status"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    QUANTILE_CONT(CAST("orders"."amount" AS DOUBLE), 0.5
    ORDER BY
      CAST("orders"."amount" AS DOUBLE) ASC) AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
), "orders__1_2" AS (
  SELECT
    "orders"."status" AS "d0",
    QUANTILE_CONT(CAST("orders"."amount" AS DOUBLE), 0.9
    ORDER BY
      CAST("orders"."amount" AS DOUBLE) ASC) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
), "orders__1_3" AS (
  SELECT
    "orders"."status" AS "d0",
    AVG("orders"."customer_id") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
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
  "combined"."d0" AS "status",
  "combined"."m0" AS "typical",
  "combined"."m1" AS "p90",
  "combined"."m2" AS "mean_customer"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__rows" AS (
  SELECT
    "orders"."status" AS "d0",
    "orders"."amount" AS "c0"
  FROM "orders" AS "orders"
), "orders__ranks" AS (
  SELECT
    "orders__rows"."d0" AS "d0",
    "c0" AS "x",
    ROW_NUMBER() OVER (
      PARTITION BY "orders__rows"."d0"
      ORDER BY CASE WHEN "c0" IS NULL THEN 1 ELSE 0 END ASC NULLS LAST, "c0" ASC NULLS LAST
    ) AS "r",
    COUNT("c0") OVER (PARTITION BY "orders__rows"."d0") AS "n"
  FROM "orders__rows"
), "orders__1" AS (
  SELECT
    "orders__ranks"."d0" AS "d0",
    SUM(
      CASE
        WHEN "orders__ranks"."r" = CAST((
          0.5
        ) * (
          "orders__ranks"."n" - 1
        ) AS INTEGER) + 1
        THEN "orders__ranks"."x" * (
          1.0 - (
            (
              0.5
            ) * (
              "orders__ranks"."n" - 1
            ) - CAST((
              0.5
            ) * (
              "orders__ranks"."n" - 1
            ) AS INTEGER)
          )
        )
        WHEN "orders__ranks"."r" = CAST((
          0.5
        ) * (
          "orders__ranks"."n" - 1
        ) AS INTEGER) + 2
        THEN "orders__ranks"."x" * (
          (
            0.5
          ) * (
            "orders__ranks"."n" - 1
          ) - CAST((
            0.5
          ) * (
            "orders__ranks"."n" - 1
          ) AS INTEGER)
        )
      END
    ) AS "m0"
  FROM "orders__ranks" AS "orders__ranks"
  GROUP BY
    "orders__ranks"."d0"
), "orders__rows_2" AS (
  SELECT
    "orders"."status" AS "d0",
    "orders"."amount" AS "c0"
  FROM "orders" AS "orders"
), "orders__ranks_2" AS (
  SELECT
    "orders__rows_2"."d0" AS "d0",
    "c0" AS "x",
    ROW_NUMBER() OVER (
      PARTITION BY "orders__rows_2"."d0"
      ORDER BY CASE WHEN "c0" IS NULL THEN 1 ELSE 0 END ASC NULLS LAST, "c0" ASC NULLS LAST
    ) AS "r",
    COUNT("c0") OVER (PARTITION BY "orders__rows_2"."d0") AS "n"
  FROM "orders__rows_2"
), "orders__1_2" AS (
  SELECT
    "orders__ranks_2"."d0" AS "d0",
    SUM(
      CASE
        WHEN "orders__ranks_2"."r" = CAST((
          0.9
        ) * (
          "orders__ranks_2"."n" - 1
        ) AS INTEGER) + 1
        THEN "orders__ranks_2"."x" * (
          1.0 - (
            (
              0.9
            ) * (
              "orders__ranks_2"."n" - 1
            ) - CAST((
              0.9
            ) * (
              "orders__ranks_2"."n" - 1
            ) AS INTEGER)
          )
        )
        WHEN "orders__ranks_2"."r" = CAST((
          0.9
        ) * (
          "orders__ranks_2"."n" - 1
        ) AS INTEGER) + 2
        THEN "orders__ranks_2"."x" * (
          (
            0.9
          ) * (
            "orders__ranks_2"."n" - 1
          ) - CAST((
            0.9
          ) * (
            "orders__ranks_2"."n" - 1
          ) AS INTEGER)
        )
      END
    ) AS "m1"
  FROM "orders__ranks_2" AS "orders__ranks_2"
  GROUP BY
    "orders__ranks_2"."d0"
), "orders__1_3" AS (
  SELECT
    "orders"."status" AS "d0",
    AVG("orders"."customer_id") AS "m2"
  FROM "orders" AS "orders"
  GROUP BY
    "orders"."status"
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
  "combined"."d0" AS "status",
  "combined"."m0" AS "typical",
  "combined"."m1" AS "p90",
  "combined"."m2" AS "mean_customer"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY
      "orders"."amount" ASC) AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
), "orders__1_2" AS (
  SELECT
    "orders"."status" AS "d0",
    PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY
      "orders"."amount" ASC) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
), "orders__1_3" AS (
  SELECT
    "orders"."status" AS "d0",
    AVG("orders"."customer_id") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
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
  "combined"."d0" AS "status",
  "combined"."m0" AS "typical",
  "combined"."m1" AS "p90",
  "combined"."m2" AS "mean_customer"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__rows` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `orders`.`amount` AS `c0`
  FROM `shop`.`orders` AS `orders`
), `orders__ranks` AS (
  SELECT
    `orders__rows`.`d0` AS `d0`,
    `c0` AS `x`,
    ROW_NUMBER() OVER (
      PARTITION BY `orders__rows`.`d0`
      ORDER BY CASE WHEN CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END IS NULL THEN 1 ELSE 0 END, CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END ASC, CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END, `c0` ASC
    ) AS `r`,
    COUNT(`c0`) OVER (PARTITION BY `orders__rows`.`d0`) AS `n`
  FROM `orders__rows`
), `orders__1` AS (
  SELECT
    `orders__ranks`.`d0` AS `d0`,
    SUM(
      CASE
        WHEN `orders__ranks`.`r` = FLOOR((
          0.5
        ) * (
          `orders__ranks`.`n` - 1
        )) + 1
        THEN `orders__ranks`.`x` * (
          1.0 - (
            (
              0.5
            ) * (
              `orders__ranks`.`n` - 1
            ) - FLOOR((
              0.5
            ) * (
              `orders__ranks`.`n` - 1
            ))
          )
        )
        WHEN `orders__ranks`.`r` = FLOOR((
          0.5
        ) * (
          `orders__ranks`.`n` - 1
        )) + 2
        THEN `orders__ranks`.`x` * (
          (
            0.5
          ) * (
            `orders__ranks`.`n` - 1
          ) - FLOOR((
            0.5
          ) * (
            `orders__ranks`.`n` - 1
          ))
        )
      END
    ) AS `m0`
  FROM `orders__ranks` AS `orders__ranks`
  GROUP BY
    `orders__ranks`.`d0`
), `orders__rows_2` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `orders`.`amount` AS `c0`
  FROM `shop`.`orders` AS `orders`
), `orders__ranks_2` AS (
  SELECT
    `orders__rows_2`.`d0` AS `d0`,
    `c0` AS `x`,
    ROW_NUMBER() OVER (
      PARTITION BY `orders__rows_2`.`d0`
      ORDER BY CASE WHEN CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END IS NULL THEN 1 ELSE 0 END, CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END ASC, CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END, `c0` ASC
    ) AS `r`,
    COUNT(`c0`) OVER (PARTITION BY `orders__rows_2`.`d0`) AS `n`
  FROM `orders__rows_2`
), `orders__1_2` AS (
  SELECT
    `orders__ranks_2`.`d0` AS `d0`,
    SUM(
      CASE
        WHEN `orders__ranks_2`.`r` = FLOOR((
          0.9
        ) * (
          `orders__ranks_2`.`n` - 1
        )) + 1
        THEN `orders__ranks_2`.`x` * (
          1.0 - (
            (
              0.9
            ) * (
              `orders__ranks_2`.`n` - 1
            ) - FLOOR((
              0.9
            ) * (
              `orders__ranks_2`.`n` - 1
            ))
          )
        )
        WHEN `orders__ranks_2`.`r` = FLOOR((
          0.9
        ) * (
          `orders__ranks_2`.`n` - 1
        )) + 2
        THEN `orders__ranks_2`.`x` * (
          (
            0.9
          ) * (
            `orders__ranks_2`.`n` - 1
          ) - FLOOR((
            0.9
          ) * (
            `orders__ranks_2`.`n` - 1
          ))
        )
      END
    ) AS `m1`
  FROM `orders__ranks_2` AS `orders__ranks_2`
  GROUP BY
    `orders__ranks_2`.`d0`
), `orders__1_3` AS (
  SELECT
    `orders`.`status` AS `d0`,
    AVG(CAST(`orders`.`customer_id` AS DOUBLE)) AS `m2`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
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
  `combined`.`d0` AS `status`,
  `combined`.`m0` AS `typical`,
  `combined`.`m1` AS `p90`,
  `combined`.`m2` AS `mean_customer`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY
      CAST("orders"."amount" AS DOUBLE) ASC) AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
), "orders__1_2" AS (
  SELECT
    "orders"."status" AS "d0",
    PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY
      CAST("orders"."amount" AS DOUBLE) ASC) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
), "orders__1_3" AS (
  SELECT
    "orders"."status" AS "d0",
    AVG(CAST("orders"."customer_id" AS DOUBLE)) AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
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
  "combined"."d0" AS "status",
  "combined"."m0" AS "typical",
  "combined"."m1" AS "p90",
  "combined"."m2" AS "mean_customer"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__rows` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `orders`.`amount` AS `c0`
  FROM `shop`.`orders` AS `orders`
), `orders__ranks` AS (
  SELECT
    `orders__rows`.`d0` AS `d0`,
    `c0` AS `x`,
    ROW_NUMBER() OVER (
      PARTITION BY `orders__rows`.`d0`
      ORDER BY CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END ASC NULLS LAST, `c0` ASC NULLS LAST
    ) AS `r`,
    COUNT(`c0`) OVER (PARTITION BY `orders__rows`.`d0`) AS `n`
  FROM `orders__rows`
), `orders__1` AS (
  SELECT
    `orders__ranks`.`d0` AS `d0`,
    SUM(
      CASE
        WHEN `orders__ranks`.`r` = FLOOR((
          0.5
        ) * (
          `orders__ranks`.`n` - 1
        )) + 1
        THEN `orders__ranks`.`x` * (
          1.0 - (
            (
              0.5
            ) * (
              `orders__ranks`.`n` - 1
            ) - FLOOR((
              0.5
            ) * (
              `orders__ranks`.`n` - 1
            ))
          )
        )
        WHEN `orders__ranks`.`r` = FLOOR((
          0.5
        ) * (
          `orders__ranks`.`n` - 1
        )) + 2
        THEN `orders__ranks`.`x` * (
          (
            0.5
          ) * (
            `orders__ranks`.`n` - 1
          ) - FLOOR((
            0.5
          ) * (
            `orders__ranks`.`n` - 1
          ))
        )
      END
    ) AS `m0`
  FROM `orders__ranks` AS `orders__ranks`
  GROUP BY
    `orders__ranks`.`d0`
), `orders__rows_2` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `orders`.`amount` AS `c0`
  FROM `shop`.`orders` AS `orders`
), `orders__ranks_2` AS (
  SELECT
    `orders__rows_2`.`d0` AS `d0`,
    `c0` AS `x`,
    ROW_NUMBER() OVER (
      PARTITION BY `orders__rows_2`.`d0`
      ORDER BY CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END ASC NULLS LAST, `c0` ASC NULLS LAST
    ) AS `r`,
    COUNT(`c0`) OVER (PARTITION BY `orders__rows_2`.`d0`) AS `n`
  FROM `orders__rows_2`
), `orders__1_2` AS (
  SELECT
    `orders__ranks_2`.`d0` AS `d0`,
    SUM(
      CASE
        WHEN `orders__ranks_2`.`r` = FLOOR((
          0.9
        ) * (
          `orders__ranks_2`.`n` - 1
        )) + 1
        THEN `orders__ranks_2`.`x` * (
          1.0 - (
            (
              0.9
            ) * (
              `orders__ranks_2`.`n` - 1
            ) - FLOOR((
              0.9
            ) * (
              `orders__ranks_2`.`n` - 1
            ))
          )
        )
        WHEN `orders__ranks_2`.`r` = FLOOR((
          0.9
        ) * (
          `orders__ranks_2`.`n` - 1
        )) + 2
        THEN `orders__ranks_2`.`x` * (
          (
            0.9
          ) * (
            `orders__ranks_2`.`n` - 1
          ) - FLOOR((
            0.9
          ) * (
            `orders__ranks_2`.`n` - 1
          ))
        )
      END
    ) AS `m1`
  FROM `orders__ranks_2` AS `orders__ranks_2`
  GROUP BY
    `orders__ranks_2`.`d0`
), `orders__1_3` AS (
  SELECT
    `orders`.`status` AS `d0`,
    avg(`orders`.`customer_id`) AS `m2`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
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
  `combined`.`d0` AS `status`,
  `combined`.`m0` AS `typical`,
  `combined`.`m1` AS `p90`,
  `combined`.`m2` AS `mean_customer`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__rows] AS (
  SELECT
    [orders].[status] AS [d0],
    [orders].[amount] AS [c0]
  FROM [shop].[orders] AS [orders]
), [orders__ranks] AS (
  SELECT
    [orders__rows].[d0] AS [d0],
    [c0] AS [x],
    ROW_NUMBER() OVER (
      PARTITION BY [orders__rows].[d0]
      ORDER BY CASE WHEN CASE WHEN [c0] IS NULL THEN 1 ELSE 0 END IS NULL THEN 1 ELSE 0 END, CASE WHEN [c0] IS NULL THEN 1 ELSE 0 END ASC, CASE WHEN [c0] IS NULL THEN 1 ELSE 0 END, [c0] ASC
    ) AS [r],
    COUNT_BIG([c0]) OVER (PARTITION BY [orders__rows].[d0]) AS [n]
  FROM [orders__rows]
), [orders__1] AS (
  SELECT
    [orders__ranks].[d0] AS [d0],
    SUM(
      CASE
        WHEN [orders__ranks].[r] = FLOOR((
          0.5
        ) * (
          [orders__ranks].[n] - 1
        )) + 1
        THEN [orders__ranks].[x] * (
          1.0 - (
            (
              0.5
            ) * (
              [orders__ranks].[n] - 1
            ) - FLOOR((
              0.5
            ) * (
              [orders__ranks].[n] - 1
            ))
          )
        )
        WHEN [orders__ranks].[r] = FLOOR((
          0.5
        ) * (
          [orders__ranks].[n] - 1
        )) + 2
        THEN [orders__ranks].[x] * (
          (
            0.5
          ) * (
            [orders__ranks].[n] - 1
          ) - FLOOR((
            0.5
          ) * (
            [orders__ranks].[n] - 1
          ))
        )
      END
    ) AS [m0]
  FROM [orders__ranks] AS [orders__ranks]
  GROUP BY
    [orders__ranks].[d0]
), [orders__rows_2] AS (
  SELECT
    [orders].[status] AS [d0],
    [orders].[amount] AS [c0]
  FROM [shop].[orders] AS [orders]
), [orders__ranks_2] AS (
  SELECT
    [orders__rows_2].[d0] AS [d0],
    [c0] AS [x],
    ROW_NUMBER() OVER (
      PARTITION BY [orders__rows_2].[d0]
      ORDER BY CASE WHEN CASE WHEN [c0] IS NULL THEN 1 ELSE 0 END IS NULL THEN 1 ELSE 0 END, CASE WHEN [c0] IS NULL THEN 1 ELSE 0 END ASC, CASE WHEN [c0] IS NULL THEN 1 ELSE 0 END, [c0] ASC
    ) AS [r],
    COUNT_BIG([c0]) OVER (PARTITION BY [orders__rows_2].[d0]) AS [n]
  FROM [orders__rows_2]
), [orders__1_2] AS (
  SELECT
    [orders__ranks_2].[d0] AS [d0],
    SUM(
      CASE
        WHEN [orders__ranks_2].[r] = FLOOR((
          0.9
        ) * (
          [orders__ranks_2].[n] - 1
        )) + 1
        THEN [orders__ranks_2].[x] * (
          1.0 - (
            (
              0.9
            ) * (
              [orders__ranks_2].[n] - 1
            ) - FLOOR((
              0.9
            ) * (
              [orders__ranks_2].[n] - 1
            ))
          )
        )
        WHEN [orders__ranks_2].[r] = FLOOR((
          0.9
        ) * (
          [orders__ranks_2].[n] - 1
        )) + 2
        THEN [orders__ranks_2].[x] * (
          (
            0.9
          ) * (
            [orders__ranks_2].[n] - 1
          ) - FLOOR((
            0.9
          ) * (
            [orders__ranks_2].[n] - 1
          ))
        )
      END
    ) AS [m1]
  FROM [orders__ranks_2] AS [orders__ranks_2]
  GROUP BY
    [orders__ranks_2].[d0]
), [orders__1_3] AS (
  SELECT
    [orders].[status] AS [d0],
    AVG(CAST([orders].[customer_id] AS FLOAT)) AS [m2]
  FROM [shop].[orders] AS [orders]
  GROUP BY
    [orders].[status]
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
  [combined].[d0] AS [status],
  [combined].[m0] AS [typical],
  [combined].[m1] AS [p90],
  [combined].[m2] AS [mean_customer]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "orders__rows" AS (
  SELECT
    "orders"."status" AS "d0",
    "orders"."amount" AS "c0"
  FROM "shop"."orders" AS "orders"
), "orders__ranks" AS (
  SELECT
    "orders__rows"."d0" AS "d0",
    "c0" AS "x",
    ROW_NUMBER() OVER (
      PARTITION BY "orders__rows"."d0"
      ORDER BY CASE WHEN "c0" IS NULL THEN 1 ELSE 0 END ASC, "c0" ASC
    ) AS "r",
    COUNT("c0") OVER (PARTITION BY "orders__rows"."d0") AS "n"
  FROM "orders__rows"
), "orders__1" AS (
  SELECT
    "orders__ranks"."d0" AS "d0",
    SUM(
      CASE
        WHEN "orders__ranks"."r" = FLOOR((
          0.5
        ) * (
          "orders__ranks"."n" - 1
        )) + 1
        THEN "orders__ranks"."x" * (
          1.0 - (
            (
              0.5
            ) * (
              "orders__ranks"."n" - 1
            ) - FLOOR((
              0.5
            ) * (
              "orders__ranks"."n" - 1
            ))
          )
        )
        WHEN "orders__ranks"."r" = FLOOR((
          0.5
        ) * (
          "orders__ranks"."n" - 1
        )) + 2
        THEN "orders__ranks"."x" * (
          (
            0.5
          ) * (
            "orders__ranks"."n" - 1
          ) - FLOOR((
            0.5
          ) * (
            "orders__ranks"."n" - 1
          ))
        )
      END
    ) AS "m0"
  FROM "orders__ranks" AS "orders__ranks"
  GROUP BY
    "orders__ranks"."d0"
), "orders__rows_2" AS (
  SELECT
    "orders"."status" AS "d0",
    "orders"."amount" AS "c0"
  FROM "shop"."orders" AS "orders"
), "orders__ranks_2" AS (
  SELECT
    "orders__rows_2"."d0" AS "d0",
    "c0" AS "x",
    ROW_NUMBER() OVER (
      PARTITION BY "orders__rows_2"."d0"
      ORDER BY CASE WHEN "c0" IS NULL THEN 1 ELSE 0 END ASC, "c0" ASC
    ) AS "r",
    COUNT("c0") OVER (PARTITION BY "orders__rows_2"."d0") AS "n"
  FROM "orders__rows_2"
), "orders__1_2" AS (
  SELECT
    "orders__ranks_2"."d0" AS "d0",
    SUM(
      CASE
        WHEN "orders__ranks_2"."r" = FLOOR((
          0.9
        ) * (
          "orders__ranks_2"."n" - 1
        )) + 1
        THEN "orders__ranks_2"."x" * (
          1.0 - (
            (
              0.9
            ) * (
              "orders__ranks_2"."n" - 1
            ) - FLOOR((
              0.9
            ) * (
              "orders__ranks_2"."n" - 1
            ))
          )
        )
        WHEN "orders__ranks_2"."r" = FLOOR((
          0.9
        ) * (
          "orders__ranks_2"."n" - 1
        )) + 2
        THEN "orders__ranks_2"."x" * (
          (
            0.9
          ) * (
            "orders__ranks_2"."n" - 1
          ) - FLOOR((
            0.9
          ) * (
            "orders__ranks_2"."n" - 1
          ))
        )
      END
    ) AS "m1"
  FROM "orders__ranks_2" AS "orders__ranks_2"
  GROUP BY
    "orders__ranks_2"."d0"
), "orders__1_3" AS (
  SELECT
    "orders"."status" AS "d0",
    avg("orders"."customer_id") AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
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
  "combined"."d0" AS "status",
  "combined"."m0" AS "typical",
  "combined"."m1" AS "p90",
  "combined"."m2" AS "mean_customer"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY
      CAST("orders"."amount" AS DOUBLE PRECISION) ASC) AS "m0"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
), "orders__1_2" AS (
  SELECT
    "orders"."status" AS "d0",
    PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY
      CAST("orders"."amount" AS DOUBLE PRECISION) ASC) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
), "orders__1_3" AS (
  SELECT
    "orders"."status" AS "d0",
    AVG(CAST("orders"."customer_id" AS DOUBLE PRECISION)) AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
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
  "combined"."d0" AS "status",
  "combined"."m0" AS "typical",
  "combined"."m1" AS "p90",
  "combined"."m2" AS "mean_customer"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__rows` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `orders`.`amount` AS `c0`
  FROM `shop`.`orders` AS `orders`
), `orders__ranks` AS (
  SELECT
    `orders__rows`.`d0` AS `d0`,
    `c0` AS `x`,
    ROW_NUMBER() OVER (
      PARTITION BY `orders__rows`.`d0`
      ORDER BY CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END ASC NULLS LAST, `c0` ASC NULLS LAST
    ) AS `r`,
    COUNT(`c0`) OVER (PARTITION BY `orders__rows`.`d0`) AS `n`
  FROM `orders__rows`
), `orders__1` AS (
  SELECT
    `orders__ranks`.`d0` AS `d0`,
    SUM(
      CASE
        WHEN `orders__ranks`.`r` = FLOOR((
          0.5
        ) * (
          `orders__ranks`.`n` - 1
        )) + 1
        THEN `orders__ranks`.`x` * (
          1.0 - (
            (
              0.5
            ) * (
              `orders__ranks`.`n` - 1
            ) - FLOOR((
              0.5
            ) * (
              `orders__ranks`.`n` - 1
            ))
          )
        )
        WHEN `orders__ranks`.`r` = FLOOR((
          0.5
        ) * (
          `orders__ranks`.`n` - 1
        )) + 2
        THEN `orders__ranks`.`x` * (
          (
            0.5
          ) * (
            `orders__ranks`.`n` - 1
          ) - FLOOR((
            0.5
          ) * (
            `orders__ranks`.`n` - 1
          ))
        )
      END
    ) AS `m0`
  FROM `orders__ranks` AS `orders__ranks`
  GROUP BY
    `orders__ranks`.`d0`
), `orders__rows_2` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `orders`.`amount` AS `c0`
  FROM `shop`.`orders` AS `orders`
), `orders__ranks_2` AS (
  SELECT
    `orders__rows_2`.`d0` AS `d0`,
    `c0` AS `x`,
    ROW_NUMBER() OVER (
      PARTITION BY `orders__rows_2`.`d0`
      ORDER BY CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END ASC NULLS LAST, `c0` ASC NULLS LAST
    ) AS `r`,
    COUNT(`c0`) OVER (PARTITION BY `orders__rows_2`.`d0`) AS `n`
  FROM `orders__rows_2`
), `orders__1_2` AS (
  SELECT
    `orders__ranks_2`.`d0` AS `d0`,
    SUM(
      CASE
        WHEN `orders__ranks_2`.`r` = FLOOR((
          0.9
        ) * (
          `orders__ranks_2`.`n` - 1
        )) + 1
        THEN `orders__ranks_2`.`x` * (
          1.0 - (
            (
              0.9
            ) * (
              `orders__ranks_2`.`n` - 1
            ) - FLOOR((
              0.9
            ) * (
              `orders__ranks_2`.`n` - 1
            ))
          )
        )
        WHEN `orders__ranks_2`.`r` = FLOOR((
          0.9
        ) * (
          `orders__ranks_2`.`n` - 1
        )) + 2
        THEN `orders__ranks_2`.`x` * (
          (
            0.9
          ) * (
            `orders__ranks_2`.`n` - 1
          ) - FLOOR((
            0.9
          ) * (
            `orders__ranks_2`.`n` - 1
          ))
        )
      END
    ) AS `m1`
  FROM `orders__ranks_2` AS `orders__ranks_2`
  GROUP BY
    `orders__ranks_2`.`d0`
), `orders__1_3` AS (
  SELECT
    `orders`.`status` AS `d0`,
    AVG(CAST(`orders`.`customer_id` AS DOUBLE)) AS `m2`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
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
  `combined`.`d0` AS `status`,
  `combined`.`m0` AS `typical`,
  `combined`.`m1` AS `p90`,
  `combined`.`m2` AS `mean_customer`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__rows" AS (
  SELECT
    "orders"."status" AS "d0",
    "orders"."amount" AS "c0"
  FROM "shop"."orders" AS "orders"
), "orders__ranks" AS (
  SELECT
    "orders__rows"."d0" AS "d0",
    "c0" AS "x",
    ROW_NUMBER() OVER (
      PARTITION BY "orders__rows"."d0"
      ORDER BY CASE WHEN "c0" IS NULL THEN 1 ELSE 0 END ASC, "c0" ASC
    ) AS "r",
    COUNT("c0") OVER (PARTITION BY "orders__rows"."d0") AS "n"
  FROM "orders__rows"
), "orders__1" AS (
  SELECT
    "orders__ranks"."d0" AS "d0",
    SUM(
      CASE
        WHEN "orders__ranks"."r" = FLOOR((
          0.5
        ) * (
          "orders__ranks"."n" - 1
        )) + 1
        THEN "orders__ranks"."x" * (
          1.0 - (
            (
              0.5
            ) * (
              "orders__ranks"."n" - 1
            ) - FLOOR((
              0.5
            ) * (
              "orders__ranks"."n" - 1
            ))
          )
        )
        WHEN "orders__ranks"."r" = FLOOR((
          0.5
        ) * (
          "orders__ranks"."n" - 1
        )) + 2
        THEN "orders__ranks"."x" * (
          (
            0.5
          ) * (
            "orders__ranks"."n" - 1
          ) - FLOOR((
            0.5
          ) * (
            "orders__ranks"."n" - 1
          ))
        )
      END
    ) AS "m0"
  FROM "orders__ranks" AS "orders__ranks"
  GROUP BY
    "orders__ranks"."d0"
), "orders__rows_2" AS (
  SELECT
    "orders"."status" AS "d0",
    "orders"."amount" AS "c0"
  FROM "shop"."orders" AS "orders"
), "orders__ranks_2" AS (
  SELECT
    "orders__rows_2"."d0" AS "d0",
    "c0" AS "x",
    ROW_NUMBER() OVER (
      PARTITION BY "orders__rows_2"."d0"
      ORDER BY CASE WHEN "c0" IS NULL THEN 1 ELSE 0 END ASC, "c0" ASC
    ) AS "r",
    COUNT("c0") OVER (PARTITION BY "orders__rows_2"."d0") AS "n"
  FROM "orders__rows_2"
), "orders__1_2" AS (
  SELECT
    "orders__ranks_2"."d0" AS "d0",
    SUM(
      CASE
        WHEN "orders__ranks_2"."r" = FLOOR((
          0.9
        ) * (
          "orders__ranks_2"."n" - 1
        )) + 1
        THEN "orders__ranks_2"."x" * (
          1.0 - (
            (
              0.9
            ) * (
              "orders__ranks_2"."n" - 1
            ) - FLOOR((
              0.9
            ) * (
              "orders__ranks_2"."n" - 1
            ))
          )
        )
        WHEN "orders__ranks_2"."r" = FLOOR((
          0.9
        ) * (
          "orders__ranks_2"."n" - 1
        )) + 2
        THEN "orders__ranks_2"."x" * (
          (
            0.9
          ) * (
            "orders__ranks_2"."n" - 1
          ) - FLOOR((
            0.9
          ) * (
            "orders__ranks_2"."n" - 1
          ))
        )
      END
    ) AS "m1"
  FROM "orders__ranks_2" AS "orders__ranks_2"
  GROUP BY
    "orders__ranks_2"."d0"
), "orders__1_3" AS (
  SELECT
    "orders"."status" AS "d0",
    AVG(CAST("orders"."customer_id" AS DOUBLE)) AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
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
  "combined"."d0" AS "status",
  "combined"."m0" AS "typical",
  "combined"."m1" AS "p90",
  "combined"."m2" AS "mean_customer"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__rows` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `orders`.`amount` AS `c0`
  FROM `shop`.`orders` AS `orders`
), `orders__ranks` AS (
  SELECT
    `orders__rows`.`d0` AS `d0`,
    `c0` AS `x`,
    ROW_NUMBER() OVER (
      PARTITION BY `orders__rows`.`d0`
      ORDER BY CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END ASC NULLS LAST, `c0` ASC NULLS LAST
    ) AS `r`,
    COUNT(`c0`) OVER (PARTITION BY `orders__rows`.`d0`) AS `n`
  FROM `orders__rows`
), `orders__1` AS (
  SELECT
    `orders__ranks`.`d0` AS `d0`,
    SUM(
      CASE
        WHEN `orders__ranks`.`r` = FLOOR((
          0.5
        ) * (
          `orders__ranks`.`n` - 1
        )) + 1
        THEN `orders__ranks`.`x` * (
          1.0 - (
            (
              0.5
            ) * (
              `orders__ranks`.`n` - 1
            ) - FLOOR((
              0.5
            ) * (
              `orders__ranks`.`n` - 1
            ))
          )
        )
        WHEN `orders__ranks`.`r` = FLOOR((
          0.5
        ) * (
          `orders__ranks`.`n` - 1
        )) + 2
        THEN `orders__ranks`.`x` * (
          (
            0.5
          ) * (
            `orders__ranks`.`n` - 1
          ) - FLOOR((
            0.5
          ) * (
            `orders__ranks`.`n` - 1
          ))
        )
      END
    ) AS `m0`
  FROM `orders__ranks` AS `orders__ranks`
  GROUP BY
    `orders__ranks`.`d0`
), `orders__rows_2` AS (
  SELECT
    `orders`.`status` AS `d0`,
    `orders`.`amount` AS `c0`
  FROM `shop`.`orders` AS `orders`
), `orders__ranks_2` AS (
  SELECT
    `orders__rows_2`.`d0` AS `d0`,
    `c0` AS `x`,
    ROW_NUMBER() OVER (
      PARTITION BY `orders__rows_2`.`d0`
      ORDER BY CASE WHEN `c0` IS NULL THEN 1 ELSE 0 END ASC NULLS LAST, `c0` ASC NULLS LAST
    ) AS `r`,
    COUNT(`c0`) OVER (PARTITION BY `orders__rows_2`.`d0`) AS `n`
  FROM `orders__rows_2`
), `orders__1_2` AS (
  SELECT
    `orders__ranks_2`.`d0` AS `d0`,
    SUM(
      CASE
        WHEN `orders__ranks_2`.`r` = FLOOR((
          0.9
        ) * (
          `orders__ranks_2`.`n` - 1
        )) + 1
        THEN `orders__ranks_2`.`x` * (
          1.0 - (
            (
              0.9
            ) * (
              `orders__ranks_2`.`n` - 1
            ) - FLOOR((
              0.9
            ) * (
              `orders__ranks_2`.`n` - 1
            ))
          )
        )
        WHEN `orders__ranks_2`.`r` = FLOOR((
          0.9
        ) * (
          `orders__ranks_2`.`n` - 1
        )) + 2
        THEN `orders__ranks_2`.`x` * (
          (
            0.9
          ) * (
            `orders__ranks_2`.`n` - 1
          ) - FLOOR((
            0.9
          ) * (
            `orders__ranks_2`.`n` - 1
          ))
        )
      END
    ) AS `m1`
  FROM `orders__ranks_2` AS `orders__ranks_2`
  GROUP BY
    `orders__ranks_2`.`d0`
), `orders__1_3` AS (
  SELECT
    `orders`.`status` AS `d0`,
    AVG(CAST(`orders`.`customer_id` AS DOUBLE)) AS `m2`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`status`
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
  `combined`.`d0` AS `status`,
  `combined`.`m0` AS `typical`,
  `combined`.`m1` AS `p90`,
  `combined`.`m2` AS `mean_customer`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__rows" AS (
  SELECT
    "orders"."status" AS "d0",
    "orders"."amount" AS "c0"
  FROM "shop"."orders" AS "orders"
), "orders__ranks" AS (
  SELECT
    "orders__rows"."d0" AS "d0",
    "c0" AS "x",
    ROW_NUMBER() OVER (
      PARTITION BY "orders__rows"."d0"
      ORDER BY CASE WHEN "c0" IS NULL THEN 1 ELSE 0 END ASC, "c0" ASC
    ) AS "r",
    COUNT("c0") OVER (PARTITION BY "orders__rows"."d0") AS "n"
  FROM "orders__rows"
), "orders__1" AS (
  SELECT
    "orders__ranks"."d0" AS "d0",
    SUM(
      CASE
        WHEN "orders__ranks"."r" = FLOOR((
          0.5
        ) * (
          "orders__ranks"."n" - 1
        )) + 1
        THEN "orders__ranks"."x" * (
          1.0 - (
            (
              0.5
            ) * (
              "orders__ranks"."n" - 1
            ) - FLOOR((
              0.5
            ) * (
              "orders__ranks"."n" - 1
            ))
          )
        )
        WHEN "orders__ranks"."r" = FLOOR((
          0.5
        ) * (
          "orders__ranks"."n" - 1
        )) + 2
        THEN "orders__ranks"."x" * (
          (
            0.5
          ) * (
            "orders__ranks"."n" - 1
          ) - FLOOR((
            0.5
          ) * (
            "orders__ranks"."n" - 1
          ))
        )
      END
    ) AS "m0"
  FROM "orders__ranks" AS "orders__ranks"
  GROUP BY
    "orders__ranks"."d0"
), "orders__rows_2" AS (
  SELECT
    "orders"."status" AS "d0",
    "orders"."amount" AS "c0"
  FROM "shop"."orders" AS "orders"
), "orders__ranks_2" AS (
  SELECT
    "orders__rows_2"."d0" AS "d0",
    "c0" AS "x",
    ROW_NUMBER() OVER (
      PARTITION BY "orders__rows_2"."d0"
      ORDER BY CASE WHEN "c0" IS NULL THEN 1 ELSE 0 END ASC, "c0" ASC
    ) AS "r",
    COUNT("c0") OVER (PARTITION BY "orders__rows_2"."d0") AS "n"
  FROM "orders__rows_2"
), "orders__1_2" AS (
  SELECT
    "orders__ranks_2"."d0" AS "d0",
    SUM(
      CASE
        WHEN "orders__ranks_2"."r" = FLOOR((
          0.9
        ) * (
          "orders__ranks_2"."n" - 1
        )) + 1
        THEN "orders__ranks_2"."x" * (
          1.0 - (
            (
              0.9
            ) * (
              "orders__ranks_2"."n" - 1
            ) - FLOOR((
              0.9
            ) * (
              "orders__ranks_2"."n" - 1
            ))
          )
        )
        WHEN "orders__ranks_2"."r" = FLOOR((
          0.9
        ) * (
          "orders__ranks_2"."n" - 1
        )) + 2
        THEN "orders__ranks_2"."x" * (
          (
            0.9
          ) * (
            "orders__ranks_2"."n" - 1
          ) - FLOOR((
            0.9
          ) * (
            "orders__ranks_2"."n" - 1
          ))
        )
      END
    ) AS "m1"
  FROM "orders__ranks_2" AS "orders__ranks_2"
  GROUP BY
    "orders__ranks_2"."d0"
), "orders__1_3" AS (
  SELECT
    "orders"."status" AS "d0",
    AVG(CAST("orders"."customer_id" AS DOUBLE)) AS "m2"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."status"
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
  "combined"."d0" AS "status",
  "combined"."m0" AS "typical",
  "combined"."m1" AS "p90",
  "combined"."m2" AS "mean_customer"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
