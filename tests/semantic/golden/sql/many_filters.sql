-- {"measures": ["orders.revenue"], "dimensions": ["orders.status"], "filters": ["customers.tier = 'gold' OR customers.tier IS NULL", "orders.status LIKE 'p%' OR orders.gift = FALSE", "orders.discount BETWEEN 0.25 AND 1.5"], "segments": ["orders.done"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    (
      "customers"."tier" = 'gold' OR "customers"."tier" IS NULL
    )
    AND (
      "orders"."status" LIKE 'p%' OR "orders"."gift" = FALSE
    )
    AND (
      "orders"."discount" BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m0"
  FROM "orders" AS "orders"
  LEFT JOIN "customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    (
      "customers"."tier" = 'gold' OR "customers"."tier" IS NULL
    )
    AND (
      "orders"."status" LIKE 'p%' OR "orders"."gift" = FALSE
    )
    AND (
      "orders"."discount" BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    (
      "customers"."tier" = 'gold' OR "customers"."tier" IS NULL
    )
    AND (
      "orders"."status" LIKE 'p%' OR "orders"."gift" = FALSE
    )
    AND (
      "orders"."discount" BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(CASE WHEN (
      `orders`.`status` IN ('paid', 'sent')
    ) THEN `orders`.`amount` END) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  WHERE
    (
      `customers`.`tier` = 'gold' OR `customers`.`tier` IS NULL
    )
    AND (
      `orders`.`status` LIKE 'p%' OR `orders`.`gift` = FALSE
    )
    AND (
      `orders`.`discount` BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  CASE WHEN `orders__1`.`d0` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    (
      "customers"."tier" = 'gold' OR "customers"."tier" IS NULL
    )
    AND (
      "orders"."status" LIKE 'p%' OR "orders"."gift" = FALSE
    )
    AND (
      "orders"."discount" BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    sum(CASE WHEN (
      `orders`.`status` IN ('paid', 'sent')
    ) THEN `orders`.`amount` END) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  WHERE
    (
      `customers`.`tier` = 'gold' OR `customers`.`tier` IS NULL
    )
    AND (
      `orders`.`status` LIKE 'p%' OR `orders`.`gift` = FALSE
    )
    AND (
      `orders`.`discount` BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [orders].[status] AS [d0],
    SUM(CASE WHEN (
      [orders].[status] IN ('paid', 'sent')
    ) THEN [orders].[amount] END) AS [m0]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [orders].[customer_id] = [customers].[id]
  WHERE
    (
      [customers].[tier] = 'gold' OR [customers].[tier] IS NULL
    )
    AND (
      [orders].[status] LIKE 'p%' OR [orders].[gift] = 0
    )
    AND (
      [orders].[discount] BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    [orders].[status]
)
SELECT
TOP 1001
  [orders__1].[d0] AS [status],
  [orders__1].[m0] AS [revenue]
FROM [orders__1] AS [orders__1]
ORDER BY
  CASE WHEN [orders__1].[d0] IS NULL THEN 1 ELSE 0 END, [orders__1].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    sum(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    (
      "customers"."tier" = 'gold' OR "customers"."tier" IS NULL
    )
    AND (
      "orders"."status" LIKE 'p%' OR "orders"."gift" = FALSE
    )
    AND (
      "orders"."discount" BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    (
      "customers"."tier" = 'gold' OR "customers"."tier" IS NULL
    )
    AND (
      "orders"."status" LIKE 'p%' OR "orders"."gift" = FALSE
    )
    AND (
      "orders"."discount" BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(CASE WHEN (
      `orders`.`status` IN ('paid', 'sent')
    ) THEN `orders`.`amount` END) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  WHERE
    (
      `customers`.`tier` = 'gold' OR `customers`.`tier` IS NULL
    )
    AND (
      `orders`.`status` LIKE 'p%' OR `orders`.`gift` = FALSE
    )
    AND (
      `orders`.`discount` BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    (
      "customers"."tier" = 'gold' OR "customers"."tier" IS NULL
    )
    AND (
      "orders"."status" LIKE 'p%' OR "orders"."gift" = FALSE
    )
    AND (
      "orders"."discount" BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `orders`.`status` AS `d0`,
    SUM(CASE WHEN (
      `orders`.`status` IN ('paid', 'sent')
    ) THEN `orders`.`amount` END) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  WHERE
    (
      `customers`.`tier` = 'gold' OR `customers`.`tier` IS NULL
    )
    AND (
      `orders`.`status` LIKE 'p%' OR `orders`.`gift` = FALSE
    )
    AND (
      `orders`.`discount` BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    `orders`.`status`
)
SELECT
  `orders__1`.`d0` AS `status`,
  `orders__1`.`m0` AS `revenue`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "orders"."status" AS "d0",
    SUM(CASE WHEN (
      "orders"."status" IN ('paid', 'sent')
    ) THEN "orders"."amount" END) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    (
      "customers"."tier" = 'gold' OR "customers"."tier" IS NULL
    )
    AND (
      "orders"."status" LIKE 'p%' OR "orders"."gift" = FALSE
    )
    AND (
      "orders"."discount" BETWEEN 0.25 AND 1.5
    )
  GROUP BY
    "orders"."status"
)
SELECT
  "orders__1"."d0" AS "status",
  "orders__1"."m0" AS "revenue"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;
