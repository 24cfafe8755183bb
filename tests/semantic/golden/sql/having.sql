-- {"measures": ["orders.revenue"], "dimensions": ["customers.name"], "having": ["orders > 2", "revenue >= 50"], "order_by": ["revenue desc"], "limit": 5, "offset": 1}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
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
  "combined"."d0" AS "name",
  "combined"."m0" AS "revenue"
FROM "combined" AS "combined"
WHERE
  (
    (
      COALESCE("combined"."m1", 0)
    ) > 2
  )
  AND (
    (
      "combined"."m0"
    ) >= 50
  )
ORDER BY
  "combined"."m0" DESC,
  "combined"."d0" ASC
LIMIT 6
OFFSET 1;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "orders" AS "orders"
  LEFT JOIN "customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
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
  "combined"."d0" AS "name",
  "combined"."m0" AS "revenue"
FROM "combined" AS "combined"
WHERE
  (
    (
      COALESCE("combined"."m1", 0)
    ) > 2
  )
  AND (
    (
      "combined"."m0"
    ) >= 50
  )
ORDER BY
  "combined"."m0" DESC,
  "combined"."d0" ASC NULLS LAST
LIMIT 6
OFFSET 1;

-- postgres
WITH "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
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
  "combined"."d0" AS "name",
  "combined"."m0" AS "revenue"
FROM "combined" AS "combined"
WHERE
  (
    (
      COALESCE("combined"."m1", 0)
    ) > 2
  )
  AND (
    (
      "combined"."m0"
    ) >= 50
  )
ORDER BY
  "combined"."m0" DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 6
OFFSET 1;

-- mysql
WITH `orders__1` AS (
  SELECT
    `customers`.`name` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`name`
), `members` AS (
  SELECT DISTINCT
    `customers`.`name` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`
  FROM `orders__1` AS `orders__1`
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
  `combined`.`d0` AS `name`,
  `combined`.`m0` AS `revenue`
FROM `combined` AS `combined`
WHERE
  (
    (
      COALESCE(`combined`.`m1`, 0)
    ) > 2
  )
  AND (
    (
      `combined`.`m0`
    ) >= 50
  )
ORDER BY
  `combined`.`m0` DESC,
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 6
OFFSET 1;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
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
  "combined"."d0" AS "name",
  "combined"."m0" AS "revenue"
FROM "combined" AS "combined"
WHERE
  (
    (
      COALESCE("combined"."m1", 0)
    ) > 2
  )
  AND (
    (
      "combined"."m0"
    ) >= 50
  )
ORDER BY
  "combined"."m0" DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 6
OFFSET 1;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `customers`.`name` AS `d0`,
    sum(`orders`.`amount`) AS `m0`,
    count(*) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`name`
), `members` AS (
  SELECT DISTINCT
    `customers`.`name` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`
  FROM `orders__1` AS `orders__1`
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
  `combined`.`d0` AS `name`,
  `combined`.`m0` AS `revenue`
FROM `combined` AS `combined`
WHERE
  (
    (
      COALESCE(`combined`.`m1`, 0)
    ) > 2
  )
  AND (
    (
      `combined`.`m0`
    ) >= 50
  )
ORDER BY
  `combined`.`m0` DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 6
OFFSET 1;

-- tsql
WITH [orders__1] AS (
  SELECT
    [customers].[name] AS [d0],
    SUM([orders].[amount]) AS [m0],
    COUNT(*) AS [m1]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [orders].[customer_id] = [customers].[id]
  GROUP BY
    [customers].[name]
), [members] AS (
  SELECT DISTINCT
    [customers].[name] AS [d0]
  FROM [shop].[customers] AS [customers]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [orders__1].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [orders__1].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
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
  [combined].[d0] AS [name],
  [combined].[m0] AS [revenue]
FROM [combined] AS [combined]
WHERE
  (
    (
      COALESCE([combined].[m1], 0)
    ) > 2
  )
  AND (
    (
      [combined].[m0]
    ) >= 50
  )
ORDER BY
  [combined].[m0] DESC,
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC
OFFSET 1 ROWS
FETCH FIRST 6 ROWS ONLY;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    sum("orders"."amount") AS "m0",
    count(*) AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
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
  "combined"."d0" AS "name",
  "combined"."m0" AS "revenue"
FROM "combined" AS "combined"
WHERE
  (
    (
      COALESCE("combined"."m1", 0)
    ) > 2
  )
  AND (
    (
      "combined"."m0"
    ) >= 50
  )
ORDER BY
  "combined"."m0" DESC,
  "combined"."d0" ASC
LIMIT 6
OFFSET 1;

-- redshift
WITH "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
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
  "combined"."d0" AS "name",
  "combined"."m0" AS "revenue"
FROM "combined" AS "combined"
WHERE
  (
    (
      COALESCE("combined"."m1", 0)
    ) > 2
  )
  AND (
    (
      "combined"."m0"
    ) >= 50
  )
ORDER BY
  "combined"."m0" DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 6
OFFSET 1;

-- databricks
WITH `orders__1` AS (
  SELECT
    `customers`.`name` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`name`
), `members` AS (
  SELECT DISTINCT
    `customers`.`name` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`
  FROM `orders__1` AS `orders__1`
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
  `combined`.`d0` AS `name`,
  `combined`.`m0` AS `revenue`
FROM `combined` AS `combined`
WHERE
  (
    (
      COALESCE(`combined`.`m1`, 0)
    ) > 2
  )
  AND (
    (
      `combined`.`m0`
    ) >= 50
  )
ORDER BY
  `combined`.`m0` DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 6
OFFSET 1;

-- trino
WITH "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
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
  "combined"."d0" AS "name",
  "combined"."m0" AS "revenue"
FROM "combined" AS "combined"
WHERE
  (
    (
      COALESCE("combined"."m1", 0)
    ) > 2
  )
  AND (
    (
      "combined"."m0"
    ) >= 50
  )
ORDER BY
  "combined"."m0" DESC,
  "combined"."d0" ASC
OFFSET 1
LIMIT 6;

-- spark
WITH `orders__1` AS (
  SELECT
    `customers`.`name` AS `d0`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`name`
), `members` AS (
  SELECT DISTINCT
    `customers`.`name` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`
  FROM `orders__1` AS `orders__1`
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
  `combined`.`d0` AS `name`,
  `combined`.`m0` AS `revenue`
FROM `combined` AS `combined`
WHERE
  (
    (
      COALESCE(`combined`.`m1`, 0)
    ) > 2
  )
  AND (
    (
      `combined`.`m0`
    ) >= 50
  )
ORDER BY
  `combined`.`m0` DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 6
OFFSET 1;

-- athena
WITH "orders__1" AS (
  SELECT
    "customers"."name" AS "d0",
    SUM("orders"."amount") AS "m0",
    COUNT(*) AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."name"
), "members" AS (
  SELECT DISTINCT
    "customers"."name" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
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
  "combined"."d0" AS "name",
  "combined"."m0" AS "revenue"
FROM "combined" AS "combined"
WHERE
  (
    (
      COALESCE("combined"."m1", 0)
    ) > 2
  )
  AND (
    (
      "combined"."m0"
    ) >= 50
  )
ORDER BY
  "combined"."m0" DESC,
  "combined"."d0" ASC
OFFSET 1
LIMIT 6;
