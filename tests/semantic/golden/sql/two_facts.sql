-- {"measures": ["orders.revenue", "tickets.tickets"], "dimensions": ["customers.tier"], "order_by": ["tickets desc"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
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
    "customers"."tier" AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "tickets"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
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
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
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
  "combined"."d0" AS "tier",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "orders" AS "orders"
  LEFT JOIN "customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
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
    "customers"."tier" AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  LEFT JOIN "customers" AS "customers"
    ON "tickets"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "customers" AS "customers"
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
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
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
  "combined"."d0" AS "tier",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
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
    "customers"."tier" AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "tickets"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "tickets__1" AS "tickets__1"
  CROSS JOIN "members" AS "members"
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
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
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
  "combined"."d0" AS "tier",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
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
    `customers`.`tier` AS `d0`,
    COUNT(*) AS `m1`
  FROM `tickets__allowed` AS `tickets`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `tickets`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
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
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
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
  `combined`.`d0` AS `tier`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `tickets`
FROM `combined` AS `combined`
ORDER BY
  COALESCE(`combined`.`m1`, 0) DESC,
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
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
    "customers"."tier" AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "tickets"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
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
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
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
  "combined"."d0" AS "tier",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    sum(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
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
    `customers`.`tier` AS `d0`,
    count(*) AS `m1`
  FROM `tickets__allowed` AS `tickets`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `tickets`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
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
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
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
  `combined`.`d0` AS `tier`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `tickets`
FROM `combined` AS `combined`
ORDER BY
  COALESCE(`combined`.`m1`, 0) DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [customers].[tier] AS [d0],
    SUM([orders].[amount]) AS [m0]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [orders].[customer_id] = [customers].[id]
  GROUP BY
    [customers].[tier]
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
    [customers].[tier] AS [d0],
    COUNT(*) AS [m1]
  FROM [tickets__allowed] AS [tickets]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [tickets].[customer_id] = [customers].[id]
  GROUP BY
    [customers].[tier]
), [members] AS (
  SELECT DISTINCT
    [customers].[tier] AS [d0]
  FROM [shop].[customers] AS [customers]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [tickets__1].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [tickets__1] AS [tickets__1]
  CROSS JOIN [members] AS [members]
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
  UNION ALL
  SELECT
    [members].[d0] AS [d0],
    NULL AS [m0],
    NULL AS [m1]
  FROM [members] AS [members]
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
  [combined].[d0] AS [tier],
  [combined].[m0] AS [revenue],
  COALESCE([combined].[m1], 0) AS [tickets]
FROM [combined] AS [combined]
ORDER BY
  COALESCE([combined].[m1], 0) DESC,
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    sum("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
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
    "customers"."tier" AS "d0",
    count(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "tickets"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
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
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
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
  "combined"."d0" AS "tier",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
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
    "customers"."tier" AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "tickets"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "tickets__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "tickets__1" AS "tickets__1"
  CROSS JOIN "members" AS "members"
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
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
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
  "combined"."d0" AS "tier",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
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
    `customers`.`tier` AS `d0`,
    COUNT(*) AS `m1`
  FROM `tickets__allowed` AS `tickets`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `tickets`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
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
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
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
  `combined`.`d0` AS `tier`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `tickets`
FROM `combined` AS `combined`
ORDER BY
  COALESCE(`combined`.`m1`, 0) DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
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
    "customers"."tier" AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "tickets"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
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
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
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
  "combined"."d0" AS "tier",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
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
    `customers`.`tier` AS `d0`,
    COUNT(*) AS `m1`
  FROM `tickets__allowed` AS `tickets`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `tickets`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
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
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
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
  `combined`.`d0` AS `tier`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `tickets`
FROM `combined` AS `combined`
ORDER BY
  COALESCE(`combined`.`m1`, 0) DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("orders"."amount") AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
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
    "customers"."tier" AS "d0",
    COUNT(*) AS "m1"
  FROM "tickets__allowed" AS "tickets"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "tickets"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
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
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
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
  "combined"."d0" AS "tier",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "tickets"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC
LIMIT 1001;
