-- {"measures": ["orders.orders", "orders.revenue"], "dimensions": ["regions.name"], "via": {"regions": "billed"}}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    COUNT(*) AS "m0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  GROUP BY
    "billed"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
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
  COALESCE("combined"."m0", 0) AS "orders",
  "combined"."m1" AS "revenue"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    COUNT(*) AS "m0",
    SUM("orders"."amount") AS "m1"
  FROM "orders" AS "orders"
  LEFT JOIN "regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  GROUP BY
    "billed"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "regions" AS "regions"
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
  COALESCE("combined"."m0", 0) AS "orders",
  "combined"."m1" AS "revenue"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    COUNT(*) AS "m0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  GROUP BY
    "billed"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
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
  COALESCE("combined"."m0", 0) AS "orders",
  "combined"."m1" AS "revenue"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `billed`.`name` AS `d0`,
    COUNT(*) AS `m0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`regions` AS `billed`
    ON `orders`.`billed_to` = `billed`.`id`
  GROUP BY
    `billed`.`name`
), `members` AS (
  SELECT DISTINCT
    `regions`.`name` AS `d0`
  FROM `shop`.`regions` AS `regions`
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
  COALESCE(`combined`.`m0`, 0) AS `orders`,
  `combined`.`m1` AS `revenue`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    COUNT(*) AS "m0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  GROUP BY
    "billed"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
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
  COALESCE("combined"."m0", 0) AS "orders",
  "combined"."m1" AS "revenue"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `billed`.`name` AS `d0`,
    count(*) AS `m0`,
    sum(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`regions` AS `billed`
    ON `orders`.`billed_to` = `billed`.`id`
  GROUP BY
    `billed`.`name`
), `members` AS (
  SELECT DISTINCT
    `regions`.`name` AS `d0`
  FROM `shop`.`regions` AS `regions`
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
  COALESCE(`combined`.`m0`, 0) AS `orders`,
  `combined`.`m1` AS `revenue`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [billed].[name] AS [d0],
    COUNT(*) AS [m0],
    SUM([orders].[amount]) AS [m1]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[regions] AS [billed]
    ON [orders].[billed_to] = [billed].[id]
  GROUP BY
    [billed].[name]
), [members] AS (
  SELECT DISTINCT
    [regions].[name] AS [d0]
  FROM [shop].[regions] AS [regions]
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
TOP 1001
  [combined].[d0] AS [name],
  COALESCE([combined].[m0], 0) AS [orders],
  [combined].[m1] AS [revenue]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    count(*) AS "m0",
    sum("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  GROUP BY
    "billed"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
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
  COALESCE("combined"."m0", 0) AS "orders",
  "combined"."m1" AS "revenue"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    COUNT(*) AS "m0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  GROUP BY
    "billed"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
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
  COALESCE("combined"."m0", 0) AS "orders",
  "combined"."m1" AS "revenue"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `billed`.`name` AS `d0`,
    COUNT(*) AS `m0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`regions` AS `billed`
    ON `orders`.`billed_to` = `billed`.`id`
  GROUP BY
    `billed`.`name`
), `members` AS (
  SELECT DISTINCT
    `regions`.`name` AS `d0`
  FROM `shop`.`regions` AS `regions`
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
  COALESCE(`combined`.`m0`, 0) AS `orders`,
  `combined`.`m1` AS `revenue`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    COUNT(*) AS "m0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  GROUP BY
    "billed"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
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
  COALESCE("combined"."m0", 0) AS "orders",
  "combined"."m1" AS "revenue"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `billed`.`name` AS `d0`,
    COUNT(*) AS `m0`,
    SUM(`orders`.`amount`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`regions` AS `billed`
    ON `orders`.`billed_to` = `billed`.`id`
  GROUP BY
    `billed`.`name`
), `members` AS (
  SELECT DISTINCT
    `regions`.`name` AS `d0`
  FROM `shop`.`regions` AS `regions`
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
  COALESCE(`combined`.`m0`, 0) AS `orders`,
  `combined`.`m1` AS `revenue`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    COUNT(*) AS "m0",
    SUM("orders"."amount") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  GROUP BY
    "billed"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
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
  COALESCE("combined"."m0", 0) AS "orders",
  "combined"."m1" AS "revenue"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
