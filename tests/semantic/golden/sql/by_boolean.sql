-- {"measures": ["orders.revenue", "orders.gifts"], "dimensions": ["orders.gift", "orders.big"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "orders"."gift" AS "d0",
    (
      "orders"."amount" > 30
    ) AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(CASE WHEN (
      "orders"."gift" = TRUE
    ) THEN 1 END) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."gift",
    (
      "orders"."amount" > 30
    )
)
SELECT
  "orders__1"."d0" AS "gift",
  "orders__1"."d1" AS "big",
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "gifts"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "orders"."gift" AS "d0",
    (
      "orders"."amount" > 30
    ) AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(CASE WHEN (
      "orders"."gift" = TRUE
    ) THEN 1 END) AS "m1"
  FROM "orders" AS "orders"
  GROUP BY
    "orders"."gift",
    (
      "orders"."amount" > 30
    )
)
SELECT
  "orders__1"."d0" AS "gift",
  "orders__1"."d1" AS "big",
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "gifts"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC NULLS LAST,
  "orders__1"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "orders"."gift" AS "d0",
    (
      "orders"."amount" > 30
    ) AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(CASE WHEN (
      "orders"."gift" = TRUE
    ) THEN 1 END) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."gift",
    (
      "orders"."amount" > 30
    )
)
SELECT
  "orders__1"."d0" AS "gift",
  "orders__1"."d1" AS "big",
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "gifts"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `orders`.`gift` AS `d0`,
    (
      `orders`.`amount` > 30
    ) AS `d1`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(CASE WHEN (
      `orders`.`gift` = TRUE
    ) THEN 1 END) AS `m1`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`gift`,
    (
      `orders`.`amount` > 30
    )
)
SELECT
  `orders__1`.`d0` AS `gift`,
  `orders__1`.`d1` AS `big`,
  `orders__1`.`m0` AS `revenue`,
  COALESCE(`orders__1`.`m1`, 0) AS `gifts`
FROM `orders__1` AS `orders__1`
ORDER BY
  CASE WHEN `orders__1`.`d0` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d0` ASC,
  CASE WHEN `orders__1`.`d1` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d1` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "orders"."gift" AS "d0",
    (
      "orders"."amount" > 30
    ) AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(CASE WHEN (
      "orders"."gift" = TRUE
    ) THEN 1 END) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."gift",
    (
      "orders"."amount" > 30
    )
)
SELECT
  "orders__1"."d0" AS "gift",
  "orders__1"."d1" AS "big",
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "gifts"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `orders`.`gift` AS `d0`,
    (
      `orders`.`amount` > 30
    ) AS `d1`,
    sum(`orders`.`amount`) AS `m0`,
    COUNT(CASE WHEN (
      `orders`.`gift` = TRUE
    ) THEN 1 END) AS `m1`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`gift`,
    (
      `orders`.`amount` > 30
    )
)
SELECT
  `orders__1`.`d0` AS `gift`,
  `orders__1`.`d1` AS `big`,
  `orders__1`.`m0` AS `revenue`,
  COALESCE(`orders__1`.`m1`, 0) AS `gifts`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [orders].[gift] AS [d0],
    (
      CASE
        WHEN [orders].[amount] > 30
        THEN 1
        WHEN NOT (
          [orders].[amount] > 30
        )
        THEN 0
      END
    ) AS [d1],
    SUM([orders].[amount]) AS [m0],
    COUNT_BIG(CASE WHEN (
      [orders].[gift] = 1
    ) THEN 1 END) AS [m1]
  FROM [shop].[orders] AS [orders]
  GROUP BY
    [orders].[gift],
    (
      CASE
        WHEN [orders].[amount] > 30
        THEN 1
        WHEN NOT (
          [orders].[amount] > 30
        )
        THEN 0
      END
    )
)
SELECT
TOP 1001
  [orders__1].[d0] AS [gift],
  [orders__1].[d1] AS [big],
  [orders__1].[m0] AS [revenue],
  COALESCE([orders__1].[m1], 0) AS [gifts]
FROM [orders__1] AS [orders__1]
ORDER BY
  CASE WHEN [orders__1].[d0] IS NULL THEN 1 ELSE 0 END, [orders__1].[d0] ASC,
  CASE WHEN [orders__1].[d1] IS NULL THEN 1 ELSE 0 END, [orders__1].[d1] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "orders"."gift" AS "d0",
    (
      "orders"."amount" > 30
    ) AS "d1",
    sum("orders"."amount") AS "m0",
    COUNT(CASE WHEN (
      "orders"."gift" = TRUE
    ) THEN 1 END) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."gift",
    (
      "orders"."amount" > 30
    )
)
SELECT
  "orders__1"."d0" AS "gift",
  "orders__1"."d1" AS "big",
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "gifts"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "orders"."gift" AS "d0",
    (
      "orders"."amount" > 30
    ) AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(CASE WHEN (
      "orders"."gift" = TRUE
    ) THEN 1 END) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."gift",
    (
      "orders"."amount" > 30
    )
)
SELECT
  "orders__1"."d0" AS "gift",
  "orders__1"."d1" AS "big",
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "gifts"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `orders`.`gift` AS `d0`,
    (
      `orders`.`amount` > 30
    ) AS `d1`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(CASE WHEN (
      `orders`.`gift` = TRUE
    ) THEN 1 END) AS `m1`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`gift`,
    (
      `orders`.`amount` > 30
    )
)
SELECT
  `orders__1`.`d0` AS `gift`,
  `orders__1`.`d1` AS `big`,
  `orders__1`.`m0` AS `revenue`,
  COALESCE(`orders__1`.`m1`, 0) AS `gifts`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "orders"."gift" AS "d0",
    (
      "orders"."amount" > 30
    ) AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(CASE WHEN (
      "orders"."gift" = TRUE
    ) THEN 1 END) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."gift",
    (
      "orders"."amount" > 30
    )
)
SELECT
  "orders__1"."d0" AS "gift",
  "orders__1"."d1" AS "big",
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "gifts"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `orders`.`gift` AS `d0`,
    (
      `orders`.`amount` > 30
    ) AS `d1`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(CASE WHEN (
      `orders`.`gift` = TRUE
    ) THEN 1 END) AS `m1`
  FROM `shop`.`orders` AS `orders`
  GROUP BY
    `orders`.`gift`,
    (
      `orders`.`amount` > 30
    )
)
SELECT
  `orders__1`.`d0` AS `gift`,
  `orders__1`.`d1` AS `big`,
  `orders__1`.`m0` AS `revenue`,
  COALESCE(`orders__1`.`m1`, 0) AS `gifts`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "orders"."gift" AS "d0",
    (
      "orders"."amount" > 30
    ) AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(CASE WHEN (
      "orders"."gift" = TRUE
    ) THEN 1 END) AS "m1"
  FROM "shop"."orders" AS "orders"
  GROUP BY
    "orders"."gift",
    (
      "orders"."amount" > 30
    )
)
SELECT
  "orders__1"."d0" AS "gift",
  "orders__1"."d1" AS "big",
  "orders__1"."m0" AS "revenue",
  COALESCE("orders__1"."m1", 0) AS "gifts"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;
