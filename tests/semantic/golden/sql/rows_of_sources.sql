-- {"measures": ["count(orders) as orders", "count(Customers) as customers", "count(orders) filter (where customers.tier = 'gold') as gold", "sum(orders.amount) / count(orders) as mean"], "dimensions": ["customers.regions.name as region"], "order_by": ["3 desc", 1]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m0",
    COUNT(CASE WHEN "customers"."tier" = 'gold' THEN 1 END) AS "m2",
    SUM("orders"."amount") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "customers__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "region",
  COALESCE("combined"."m0", 0) AS "orders",
  COALESCE("combined"."m1", 0) AS "customers",
  COALESCE("combined"."m2", 0) AS "gold",
  CAST(COALESCE("combined"."m3", 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m0", 0), 0), 0) AS "mean"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m0",
    COUNT(CASE WHEN "customers"."tier" = 'gold' THEN 1 END) AS "m2",
    SUM("orders"."amount") AS "m3"
  FROM "orders" AS "orders"
  LEFT JOIN "customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "customers__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m1"
  FROM "customers" AS "customers"
  LEFT JOIN "regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "regions" AS "regions"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "region",
  COALESCE("combined"."m0", 0) AS "orders",
  COALESCE("combined"."m1", 0) AS "customers",
  COALESCE("combined"."m2", 0) AS "gold",
  CAST(COALESCE("combined"."m3", 0) AS REAL) / NULLIF(COALESCE(COALESCE("combined"."m0", 0), 0), 0) AS "mean"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m0",
    COUNT(CASE WHEN "customers"."tier" = 'gold' THEN 1 END) AS "m2",
    SUM("orders"."amount") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "customers__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "customers__1" AS "customers__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "region",
  COALESCE("combined"."m0", 0) AS "orders",
  COALESCE("combined"."m1", 0) AS "customers",
  COALESCE("combined"."m2", 0) AS "gold",
  CAST(COALESCE("combined"."m3", 0) AS DOUBLE PRECISION) / NULLIF(COALESCE(COALESCE("combined"."m0", 0), 0), 0) AS "mean"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `regions`.`name` AS `d0`,
    COUNT(*) AS `m0`,
    COUNT(CASE WHEN `customers`.`tier` = 'gold' THEN 1 END) AS `m2`,
    SUM(`orders`.`amount`) AS `m3`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    `regions`.`name`
), `customers__1` AS (
  SELECT
    `regions`.`name` AS `d0`,
    COUNT(*) AS `m1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    `regions`.`name`
), `members` AS (
  SELECT DISTINCT
    `regions`.`name` AS `d0`
  FROM `shop`.`regions` AS `regions`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m2` AS `m2`,
    `orders__1`.`m3` AS `m3`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `customers__1`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m2`,
    NULL AS `m3`,
    `customers__1`.`m1` AS `m1`
  FROM `customers__1` AS `customers__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m2`,
    NULL AS `m3`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m2`) AS `m2`,
    MAX(`stacked`.`m3`) AS `m3`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `region`,
  COALESCE(`combined`.`m0`, 0) AS `orders`,
  COALESCE(`combined`.`m1`, 0) AS `customers`,
  COALESCE(`combined`.`m2`, 0) AS `gold`,
  CAST(COALESCE(`combined`.`m3`, 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m0`, 0), 0), 0) AS `mean`
FROM `combined` AS `combined`
ORDER BY
  COALESCE(`combined`.`m1`, 0) DESC,
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m0",
    COUNT(CASE WHEN "customers"."tier" = 'gold' THEN 1 END) AS "m2",
    SUM("orders"."amount") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "customers__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "region",
  COALESCE("combined"."m0", 0) AS "orders",
  COALESCE("combined"."m1", 0) AS "customers",
  COALESCE("combined"."m2", 0) AS "gold",
  CAST(COALESCE("combined"."m3", 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m0", 0), 0), 0) AS "mean"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `regions`.`name` AS `d0`,
    count(*) AS `m0`,
    COUNT(CASE WHEN `customers`.`tier` = 'gold' THEN 1 END) AS `m2`,
    sum(`orders`.`amount`) AS `m3`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    `regions`.`name`
), `customers__1` AS (
  SELECT
    `regions`.`name` AS `d0`,
    count(*) AS `m1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    `regions`.`name`
), `members` AS (
  SELECT DISTINCT
    `regions`.`name` AS `d0`
  FROM `shop`.`regions` AS `regions`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m2` AS `m2`,
    `orders__1`.`m3` AS `m3`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `customers__1`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m2`,
    NULL AS `m3`,
    `customers__1`.`m1` AS `m1`
  FROM `customers__1` AS `customers__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m2`,
    NULL AS `m3`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m2`) AS `m2`,
    MAX(`stacked`.`m3`) AS `m3`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `region`,
  COALESCE(`combined`.`m0`, 0) AS `orders`,
  COALESCE(`combined`.`m1`, 0) AS `customers`,
  COALESCE(`combined`.`m2`, 0) AS `gold`,
  CAST(COALESCE(`combined`.`m3`, 0) AS FLOAT64) / NULLIF(COALESCE(COALESCE(`combined`.`m0`, 0), 0), 0) AS `mean`
FROM `combined` AS `combined`
ORDER BY
  COALESCE(`combined`.`m1`, 0) DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [regions].[name] AS [d0],
    COUNT(*) AS [m0],
    COUNT_BIG(CASE WHEN [customers].[tier] = 'gold' THEN 1 END) AS [m2],
    SUM([orders].[amount]) AS [m3]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [orders].[customer_id] = [customers].[id]
  LEFT JOIN [shop].[regions] AS [regions]
    ON [customers].[region_id] = [regions].[id]
  GROUP BY
    [regions].[name]
), [customers__1] AS (
  SELECT
    [regions].[name] AS [d0],
    COUNT(*) AS [m1]
  FROM [shop].[customers] AS [customers]
  LEFT JOIN [shop].[regions] AS [regions]
    ON [customers].[region_id] = [regions].[id]
  GROUP BY
    [regions].[name]
), [members] AS (
  SELECT DISTINCT
    [regions].[name] AS [d0]
  FROM [shop].[regions] AS [regions]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [orders__1].[m2] AS [m2],
    [orders__1].[m3] AS [m3],
    [customers__1].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [customers__1] AS [customers__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[m0] AS [m0],
    [orders__1].[m2] AS [m2],
    [orders__1].[m3] AS [m3],
    NULL AS [m1]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    [customers__1].[d0] AS [d0],
    NULL AS [m0],
    NULL AS [m2],
    NULL AS [m3],
    [customers__1].[m1] AS [m1]
  FROM [customers__1] AS [customers__1]
  UNION ALL
  SELECT
    [members].[d0] AS [d0],
    NULL AS [m0],
    NULL AS [m2],
    NULL AS [m3],
    NULL AS [m1]
  FROM [members] AS [members]
), [combined] AS (
  SELECT
    [stacked].[d0] AS [d0],
    MAX([stacked].[m0]) AS [m0],
    MAX([stacked].[m2]) AS [m2],
    MAX([stacked].[m3]) AS [m3],
    MAX([stacked].[m1]) AS [m1]
  FROM [stacked] AS [stacked]
  GROUP BY
    [stacked].[d0]
)
SELECT
TOP 1001
  [combined].[d0] AS [region],
  COALESCE([combined].[m0], 0) AS [orders],
  COALESCE([combined].[m1], 0) AS [customers],
  COALESCE([combined].[m2], 0) AS [gold],
  CAST(COALESCE([combined].[m3], 0) AS FLOAT) / NULLIF(COALESCE(COALESCE([combined].[m0], 0), 0), 0) AS [mean]
FROM [combined] AS [combined]
ORDER BY
  COALESCE([combined].[m1], 0) DESC,
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "regions"."name" AS "d0",
    count(*) AS "m0",
    COUNT(CASE WHEN "customers"."tier" = 'gold' THEN 1 END) AS "m2",
    sum("orders"."amount") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "customers__1" AS (
  SELECT
    "regions"."name" AS "d0",
    count(*) AS "m1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "region",
  COALESCE("combined"."m0", 0) AS "orders",
  COALESCE("combined"."m1", 0) AS "customers",
  COALESCE("combined"."m2", 0) AS "gold",
  CAST(COALESCE("combined"."m3", 0) AS Nullable(Float64)) / nullIf(COALESCE(COALESCE("combined"."m0", 0), 0), 0) AS "mean"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m0",
    COUNT(CASE WHEN "customers"."tier" = 'gold' THEN 1 END) AS "m2",
    SUM("orders"."amount") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "customers__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "customers__1" AS "customers__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "region",
  COALESCE("combined"."m0", 0) AS "orders",
  COALESCE("combined"."m1", 0) AS "customers",
  COALESCE("combined"."m2", 0) AS "gold",
  CAST(COALESCE("combined"."m3", 0) AS DOUBLE PRECISION) / NULLIF(COALESCE(COALESCE("combined"."m0", 0), 0), 0) AS "mean"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC NULLS LAST,
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `regions`.`name` AS `d0`,
    COUNT(*) AS `m0`,
    COUNT(CASE WHEN `customers`.`tier` = 'gold' THEN 1 END) AS `m2`,
    SUM(`orders`.`amount`) AS `m3`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    `regions`.`name`
), `customers__1` AS (
  SELECT
    `regions`.`name` AS `d0`,
    COUNT(*) AS `m1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    `regions`.`name`
), `members` AS (
  SELECT DISTINCT
    `regions`.`name` AS `d0`
  FROM `shop`.`regions` AS `regions`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m2` AS `m2`,
    `orders__1`.`m3` AS `m3`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `customers__1`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m2`,
    NULL AS `m3`,
    `customers__1`.`m1` AS `m1`
  FROM `customers__1` AS `customers__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m2`,
    NULL AS `m3`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m2`) AS `m2`,
    MAX(`stacked`.`m3`) AS `m3`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `region`,
  COALESCE(`combined`.`m0`, 0) AS `orders`,
  COALESCE(`combined`.`m1`, 0) AS `customers`,
  COALESCE(`combined`.`m2`, 0) AS `gold`,
  CAST(COALESCE(`combined`.`m3`, 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m0`, 0), 0), 0) AS `mean`
FROM `combined` AS `combined`
ORDER BY
  COALESCE(`combined`.`m1`, 0) DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m0",
    COUNT(CASE WHEN "customers"."tier" = 'gold' THEN 1 END) AS "m2",
    SUM("orders"."amount") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "customers__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "region",
  COALESCE("combined"."m0", 0) AS "orders",
  COALESCE("combined"."m1", 0) AS "customers",
  COALESCE("combined"."m2", 0) AS "gold",
  CAST(COALESCE("combined"."m3", 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m0", 0), 0), 0) AS "mean"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `regions`.`name` AS `d0`,
    COUNT(*) AS `m0`,
    COUNT(CASE WHEN `customers`.`tier` = 'gold' THEN 1 END) AS `m2`,
    SUM(`orders`.`amount`) AS `m3`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    `regions`.`name`
), `customers__1` AS (
  SELECT
    `regions`.`name` AS `d0`,
    COUNT(*) AS `m1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    `regions`.`name`
), `members` AS (
  SELECT DISTINCT
    `regions`.`name` AS `d0`
  FROM `shop`.`regions` AS `regions`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m2` AS `m2`,
    `orders__1`.`m3` AS `m3`,
    NULL AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `customers__1`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m2`,
    NULL AS `m3`,
    `customers__1`.`m1` AS `m1`
  FROM `customers__1` AS `customers__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    NULL AS `m0`,
    NULL AS `m2`,
    NULL AS `m3`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m2`) AS `m2`,
    MAX(`stacked`.`m3`) AS `m3`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`
)
SELECT
  `combined`.`d0` AS `region`,
  COALESCE(`combined`.`m0`, 0) AS `orders`,
  COALESCE(`combined`.`m1`, 0) AS `customers`,
  COALESCE(`combined`.`m2`, 0) AS `gold`,
  CAST(COALESCE(`combined`.`m3`, 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE(`combined`.`m0`, 0), 0), 0) AS `mean`
FROM `combined` AS `combined`
ORDER BY
  COALESCE(`combined`.`m1`, 0) DESC,
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m0",
    COUNT(CASE WHEN "customers"."tier" = 'gold' THEN 1 END) AS "m2",
    SUM("orders"."amount") AS "m3"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "customers__1" AS (
  SELECT
    "regions"."name" AS "d0",
    COUNT(*) AS "m1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    "regions"."name" AS "d0"
  FROM "shop"."regions" AS "regions"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."m0" AS "m0",
    "orders__1"."m2" AS "m2",
    "orders__1"."m3" AS "m3",
    NULL AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "customers__1"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    "customers__1"."m1" AS "m1"
  FROM "customers__1" AS "customers__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    NULL AS "m0",
    NULL AS "m2",
    NULL AS "m3",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m2") AS "m2",
    MAX("stacked"."m3") AS "m3",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0"
)
SELECT
  "combined"."d0" AS "region",
  COALESCE("combined"."m0", 0) AS "orders",
  COALESCE("combined"."m1", 0) AS "customers",
  COALESCE("combined"."m2", 0) AS "gold",
  CAST(COALESCE("combined"."m3", 0) AS DOUBLE) / NULLIF(COALESCE(COALESCE("combined"."m0", 0), 0), 0) AS "mean"
FROM "combined" AS "combined"
ORDER BY
  COALESCE("combined"."m1", 0) DESC,
  "combined"."d0" ASC
LIMIT 1001;
