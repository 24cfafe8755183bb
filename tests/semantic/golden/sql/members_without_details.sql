-- {"measures": ["orders.orders"], "dimensions": ["customers.name"], "filters": ["tickets.id IS NULL"]}

-- duckdb
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."orders" AS "orders__any"
      LEFT JOIN "shop"."customers" AS "customers"
        ON "orders__any"."customer_id" = "customers"."id"
      LEFT JOIN "tickets__allowed" AS "tickets"
        ON "customers"."id" = "tickets"."customer_id"
      WHERE
        "orders__any"."id" IS NOT DISTINCT FROM "orders"."id"
        AND (
          "tickets"."id" IS NULL
        )
    )
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "tickets__allowed" AS "tickets"
    ON "customers"."id" = "tickets"."customer_id"
  WHERE
    (
      "tickets"."id" IS NULL
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "name",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  LIMIT -1
), "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    COUNT(*) AS "m0"
  FROM "orders" AS "orders"
  LEFT JOIN "customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "orders" AS "orders__any"
      LEFT JOIN "customers" AS "customers"
        ON "orders__any"."customer_id" = "customers"."id"
      LEFT JOIN "tickets__allowed" AS "tickets"
        ON "customers"."id" = "tickets"."customer_id"
      WHERE
        "orders__any"."id" IS "orders"."id" AND (
          "tickets"."id" IS NULL
        )
    )
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "customers" AS "customers"
  LEFT JOIN "tickets__allowed" AS "tickets"
    ON "customers"."id" = "tickets"."customer_id"
  WHERE
    (
      "tickets"."id" IS NULL
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "name",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  OFFSET 0
), "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."orders" AS "orders__any"
      LEFT JOIN "shop"."customers" AS "customers"
        ON "orders__any"."customer_id" = "customers"."id"
      LEFT JOIN "tickets__allowed" AS "tickets"
        ON "customers"."id" = "tickets"."customer_id"
      WHERE
        "orders__any"."id" IS NOT DISTINCT FROM "orders"."id"
        AND (
          "tickets"."id" IS NULL
        )
    )
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "tickets__allowed" AS "tickets"
    ON "customers"."id" = "tickets"."customer_id"
  WHERE
    (
      "tickets"."id" IS NULL
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "name",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
  LIMIT 18446744073709551615
), `orders__1` AS (
  SELECT
    `customers`.`name` AS `d0`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `shop`.`orders` AS `orders__any`
      LEFT JOIN `shop`.`customers` AS `customers`
        ON `orders__any`.`customer_id` = `customers`.`id`
      LEFT JOIN `tickets__allowed` AS `tickets`
        ON `customers`.`id` = `tickets`.`customer_id`
      WHERE
        `orders__any`.`id` <=> `orders`.`id` AND (
          `tickets`.`id` IS NULL
        )
    )
  GROUP BY
    `customers`.`name`
), `members` AS (
  SELECT DISTINCT
    `customers`.`name` AS `d0`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `tickets__allowed` AS `tickets`
    ON `customers`.`id` = `tickets`.`customer_id`
  WHERE
    (
      `tickets`.`id` IS NULL
    )
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `name`,
  COALESCE(`combined`.`m0`, 0) AS `orders`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."orders" AS "orders__any"
      LEFT JOIN "shop"."customers" AS "customers"
        ON "orders__any"."customer_id" = "customers"."id"
      LEFT JOIN "tickets__allowed" AS "tickets"
        ON "customers"."id" = "tickets"."customer_id"
      WHERE
        "orders__any"."id" IS NOT DISTINCT FROM "orders"."id"
        AND (
          "tickets"."id" IS NULL
        )
    )
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "tickets__allowed" AS "tickets"
    ON "customers"."id" = "tickets"."customer_id"
  WHERE
    (
      "tickets"."id" IS NULL
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "name",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `orders__1` AS (
  SELECT
    `customers`.`name` AS `d0`,
    count(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `shop`.`orders` AS `orders__any`
      LEFT JOIN `shop`.`customers` AS `customers`
        ON `orders__any`.`customer_id` = `customers`.`id`
      LEFT JOIN `tickets__allowed` AS `tickets`
        ON `customers`.`id` = `tickets`.`customer_id`
      WHERE
        `orders__any`.`id` IS NOT DISTINCT FROM `orders`.`id`
        AND (
          `tickets`.`id` IS NULL
        )
    )
  GROUP BY
    `customers`.`name`
), `members` AS (
  SELECT DISTINCT
    `customers`.`name` AS `d0`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `tickets__allowed` AS `tickets`
    ON `customers`.`id` = `tickets`.`customer_id`
  WHERE
    (
      `tickets`.`id` IS NULL
    )
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `name`,
  COALESCE(`combined`.`m0`, 0) AS `orders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [tickets__allowed] AS (
  SELECT
    *
  FROM [shop].[tickets] AS [tickets]
  WHERE
    (
      [tickets].[grade] <= 2
    )
), [orders__1] AS (
  SELECT
    [customers].[name] AS [d0],
    COUNT(*) AS [m0]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [orders].[customer_id] = [customers].[id]
  WHERE
    EXISTS(
      SELECT
        1
      FROM [shop].[orders] AS [orders__any]
      LEFT JOIN [shop].[customers] AS [customers]
        ON [orders__any].[customer_id] = [customers].[id]
      LEFT JOIN [tickets__allowed] AS [tickets]
        ON [customers].[id] = [tickets].[customer_id]
      WHERE
        (
          [orders__any].[id] = [orders].[id]
          OR (
            [orders__any].[id] IS NULL AND [orders].[id] IS NULL
          )
        )
        AND (
          [tickets].[id] IS NULL
        )
    )
  GROUP BY
    [customers].[name]
), [members] AS (
  SELECT DISTINCT
    [customers].[name] AS [d0]
  FROM [shop].[customers] AS [customers]
  LEFT JOIN [tickets__allowed] AS [tickets]
    ON [customers].[id] = [tickets].[customer_id]
  WHERE
    (
      [tickets].[id] IS NULL
    )
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    [members].[d0] AS [d0],
    NULL AS [m0]
  FROM [members] AS [members]
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
  [combined].[d0] AS [name],
  COALESCE([combined].[m0], 0) AS [orders]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    count(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    "orders"."id" IN (
      SELECT
        "orders__any"."id"
      FROM "shop"."orders" AS "orders__any"
      LEFT JOIN "shop"."customers" AS "customers"
        ON "orders__any"."customer_id" = "customers"."id"
      LEFT JOIN "tickets__allowed" AS "tickets"
        ON "customers"."id" = "tickets"."customer_id"
      WHERE
        (
          "tickets"."id" IS NULL
        )
    )
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "tickets__allowed" AS "tickets"
    ON "customers"."id" = "tickets"."customer_id"
  WHERE
    (
      "tickets"."id" IS NULL
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "name",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  OFFSET 0
), "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."orders" AS "orders__any"
      LEFT JOIN "shop"."customers" AS "customers"
        ON "orders__any"."customer_id" = "customers"."id"
      LEFT JOIN "tickets__allowed" AS "tickets"
        ON "customers"."id" = "tickets"."customer_id"
      WHERE
        (
          "orders__any"."id" = "orders"."id"
          OR (
            "orders__any"."id" IS NULL AND "orders"."id" IS NULL
          )
        )
        AND (
          "tickets"."id" IS NULL
        )
    )
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "tickets__allowed" AS "tickets"
    ON "customers"."id" = "tickets"."customer_id"
  WHERE
    (
      "tickets"."id" IS NULL
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "name",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `orders__1` AS (
  SELECT
    `customers`.`name` AS `d0`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `shop`.`orders` AS `orders__any`
      LEFT JOIN `shop`.`customers` AS `customers`
        ON `orders__any`.`customer_id` = `customers`.`id`
      LEFT JOIN `tickets__allowed` AS `tickets`
        ON `customers`.`id` = `tickets`.`customer_id`
      WHERE
        `orders__any`.`id` IS NOT DISTINCT FROM `orders`.`id`
        AND (
          `tickets`.`id` IS NULL
        )
    )
  GROUP BY
    `customers`.`name`
), `members` AS (
  SELECT DISTINCT
    `customers`.`name` AS `d0`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `tickets__allowed` AS `tickets`
    ON `customers`.`id` = `tickets`.`customer_id`
  WHERE
    (
      `tickets`.`id` IS NULL
    )
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `name`,
  COALESCE(`combined`.`m0`, 0) AS `orders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."orders" AS "orders__any"
      LEFT JOIN "shop"."customers" AS "customers"
        ON "orders__any"."customer_id" = "customers"."id"
      LEFT JOIN "tickets__allowed" AS "tickets"
        ON "customers"."id" = "tickets"."customer_id"
      WHERE
        "orders__any"."id" IS NOT DISTINCT FROM "orders"."id"
        AND (
          "tickets"."id" IS NULL
        )
    )
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "tickets__allowed" AS "tickets"
    ON "customers"."id" = "tickets"."customer_id"
  WHERE
    (
      "tickets"."id" IS NULL
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "name",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `orders__1` AS (
  SELECT
    `customers`.`name` AS `d0`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `shop`.`orders` AS `orders__any`
      LEFT JOIN `shop`.`customers` AS `customers`
        ON `orders__any`.`customer_id` = `customers`.`id`
      LEFT JOIN `tickets__allowed` AS `tickets`
        ON `customers`.`id` = `tickets`.`customer_id`
      WHERE
        `orders__any`.`id` IS NOT DISTINCT FROM `orders`.`id`
        AND (
          `tickets`.`id` IS NULL
        )
    )
  GROUP BY
    `customers`.`name`
), `members` AS (
  SELECT DISTINCT
    `customers`.`name` AS `d0`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `tickets__allowed` AS `tickets`
    ON `customers`.`id` = `tickets`.`customer_id`
  WHERE
    (
      `tickets`.`id` IS NULL
    )
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `name`,
  COALESCE(`combined`.`m0`, 0) AS `orders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."orders" AS "orders__any"
      LEFT JOIN "shop"."customers" AS "customers"
        ON "orders__any"."customer_id" = "customers"."id"
      LEFT JOIN "tickets__allowed" AS "tickets"
        ON "customers"."id" = "tickets"."customer_id"
      WHERE
        "orders__any"."id" IS NOT DISTINCT FROM "orders"."id"
        AND (
          "tickets"."id" IS NULL
        )
    )
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "tickets__allowed" AS "tickets"
    ON "customers"."id" = "tickets"."customer_id"
  WHERE
    (
      "tickets"."id" IS NULL
    )
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "name",
  COALESCE("combined"."m0", 0) AS "orders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
