-- {"measures": ["orders.revenue", "orders.buyers"], "dimensions": ["customers.label", "customers.regions.name"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END AS "d0",
    "regions"."name" AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(DISTINCT "orders"."customer_id") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END,
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    "members"."d1" AS "d1",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "label",
  "combined"."d1" AS "name",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "buyers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END AS "d0",
    "regions"."name" AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(DISTINCT "orders"."customer_id") AS "m1"
  FROM "orders" AS "orders"
  LEFT JOIN "customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END,
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "customers" AS "customers"
  LEFT JOIN "regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    "members"."d1" AS "d1",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "label",
  "combined"."d1" AS "name",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "buyers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST,
  "combined"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END AS "d0",
    "regions"."name" AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(DISTINCT "orders"."customer_id") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END,
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    "members"."d1" AS "d1",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "label",
  "combined"."d1" AS "name",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "buyers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    CASE
      WHEN NOT `customers`.`id` IS NULL
      THEN (
        COALESCE(`customers`.`tier`, 'none')
      )
    END AS `d0`,
    `regions`.`name` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(DISTINCT `orders`.`customer_id`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    CASE
      WHEN NOT `customers`.`id` IS NULL
      THEN (
        COALESCE(`customers`.`tier`, 'none')
      )
    END,
    `regions`.`name`
), `members` AS (
  SELECT DISTINCT
    (
      COALESCE(`customers`.`tier`, 'none')
    ) AS `d0`,
    `regions`.`name` AS `d1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`d1` AS `d1`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    `members`.`d1` AS `d1`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    `stacked`.`d1` AS `d1`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`,
    `stacked`.`d1`
)
SELECT
  `combined`.`d0` AS `label`,
  `combined`.`d1` AS `name`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `buyers`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC,
  CASE WHEN `combined`.`d1` IS NULL THEN 1 ELSE 0 END, `combined`.`d1` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END AS "d0",
    "regions"."name" AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(DISTINCT "orders"."customer_id") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END,
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    "members"."d1" AS "d1",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "label",
  "combined"."d1" AS "name",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "buyers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    CASE
      WHEN NOT `customers`.`id` IS NULL
      THEN (
        COALESCE(`customers`.`tier`, 'none')
      )
    END AS `d0`,
    `regions`.`name` AS `d1`,
    sum(`orders`.`amount`) AS `m0`,
    count(DISTINCT `orders`.`customer_id`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    CASE
      WHEN NOT `customers`.`id` IS NULL
      THEN (
        COALESCE(`customers`.`tier`, 'none')
      )
    END,
    `regions`.`name`
), `members` AS (
  SELECT DISTINCT
    (
      COALESCE(`customers`.`tier`, 'none')
    ) AS `d0`,
    `regions`.`name` AS `d1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`d1` AS `d1`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    `members`.`d1` AS `d1`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    `stacked`.`d1` AS `d1`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`,
    `stacked`.`d1`
)
SELECT
  `combined`.`d0` AS `label`,
  `combined`.`d1` AS `name`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `buyers`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    CASE
      WHEN NOT [customers].[id] IS NULL
      THEN (
        COALESCE([customers].[tier], 'none')
      )
    END AS [d0],
    [regions].[name] AS [d1],
    SUM([orders].[amount]) AS [m0],
    COUNT(DISTINCT [orders].[customer_id]) AS [m1]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [orders].[customer_id] = [customers].[id]
  LEFT JOIN [shop].[regions] AS [regions]
    ON [customers].[region_id] = [regions].[id]
  GROUP BY
    CASE
      WHEN NOT [customers].[id] IS NULL
      THEN (
        COALESCE([customers].[tier], 'none')
      )
    END,
    [regions].[name]
), [members] AS (
  SELECT DISTINCT
    (
      COALESCE([customers].[tier], 'none')
    ) AS [d0],
    [regions].[name] AS [d1]
  FROM [shop].[customers] AS [customers]
  LEFT JOIN [shop].[regions] AS [regions]
    ON [customers].[region_id] = [regions].[id]
), [stacked] AS (
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[d1] AS [d1],
    [orders__1].[m0] AS [m0],
    [orders__1].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [orders__1].[d0] AS [d0],
    [orders__1].[d1] AS [d1],
    [orders__1].[m0] AS [m0],
    [orders__1].[m1] AS [m1]
  FROM [orders__1] AS [orders__1]
  UNION ALL
  SELECT
    [members].[d0] AS [d0],
    [members].[d1] AS [d1],
    NULL AS [m0],
    NULL AS [m1]
  FROM [members] AS [members]
), [combined] AS (
  SELECT
    [stacked].[d0] AS [d0],
    [stacked].[d1] AS [d1],
    MAX([stacked].[m0]) AS [m0],
    MAX([stacked].[m1]) AS [m1]
  FROM [stacked] AS [stacked]
  GROUP BY
    [stacked].[d0],
    [stacked].[d1]
)
SELECT
TOP 1001
  [combined].[d0] AS [label],
  [combined].[d1] AS [name],
  [combined].[m0] AS [revenue],
  COALESCE([combined].[m1], 0) AS [buyers]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC,
  CASE WHEN [combined].[d1] IS NULL THEN 1 ELSE 0 END, [combined].[d1] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    CASE
      WHEN NOT (
        "customers"."id" IS NULL
      )
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END AS "d0",
    "regions"."name" AS "d1",
    sum("orders"."amount") AS "m0",
    count(DISTINCT "orders"."customer_id") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    CASE
      WHEN NOT (
        "customers"."id" IS NULL
      )
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END,
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    "members"."d1" AS "d1",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "label",
  "combined"."d1" AS "name",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "buyers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END AS "d0",
    "regions"."name" AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(DISTINCT "orders"."customer_id") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END,
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    "members"."d1" AS "d1",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "label",
  "combined"."d1" AS "name",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "buyers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    CASE
      WHEN NOT `customers`.`id` IS NULL
      THEN (
        COALESCE(`customers`.`tier`, 'none')
      )
    END AS `d0`,
    `regions`.`name` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(DISTINCT `orders`.`customer_id`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    CASE
      WHEN NOT `customers`.`id` IS NULL
      THEN (
        COALESCE(`customers`.`tier`, 'none')
      )
    END,
    `regions`.`name`
), `members` AS (
  SELECT DISTINCT
    (
      COALESCE(`customers`.`tier`, 'none')
    ) AS `d0`,
    `regions`.`name` AS `d1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`d1` AS `d1`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    `members`.`d1` AS `d1`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    `stacked`.`d1` AS `d1`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`,
    `stacked`.`d1`
)
SELECT
  `combined`.`d0` AS `label`,
  `combined`.`d1` AS `name`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `buyers`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END AS "d0",
    "regions"."name" AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(DISTINCT "orders"."customer_id") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END,
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    "members"."d1" AS "d1",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "label",
  "combined"."d1" AS "name",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "buyers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    CASE
      WHEN NOT `customers`.`id` IS NULL
      THEN (
        COALESCE(`customers`.`tier`, 'none')
      )
    END AS `d0`,
    `regions`.`name` AS `d1`,
    SUM(`orders`.`amount`) AS `m0`,
    COUNT(DISTINCT `orders`.`customer_id`) AS `m1`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `orders`.`customer_id` = `customers`.`id`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  GROUP BY
    CASE
      WHEN NOT `customers`.`id` IS NULL
      THEN (
        COALESCE(`customers`.`tier`, 'none')
      )
    END,
    `regions`.`name`
), `members` AS (
  SELECT DISTINCT
    (
      COALESCE(`customers`.`tier`, 'none')
    ) AS `d0`,
    `regions`.`name` AS `d1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
), `stacked` AS (
  SELECT
    `orders__1`.`d0` AS `d0`,
    `orders__1`.`d1` AS `d1`,
    `orders__1`.`m0` AS `m0`,
    `orders__1`.`m1` AS `m1`
  FROM `orders__1` AS `orders__1`
  UNION ALL
  SELECT
    `members`.`d0` AS `d0`,
    `members`.`d1` AS `d1`,
    NULL AS `m0`,
    NULL AS `m1`
  FROM `members` AS `members`
), `combined` AS (
  SELECT
    `stacked`.`d0` AS `d0`,
    `stacked`.`d1` AS `d1`,
    MAX(`stacked`.`m0`) AS `m0`,
    MAX(`stacked`.`m1`) AS `m1`
  FROM `stacked` AS `stacked`
  GROUP BY
    `stacked`.`d0`,
    `stacked`.`d1`
)
SELECT
  `combined`.`d0` AS `label`,
  `combined`.`d1` AS `name`,
  `combined`.`m0` AS `revenue`,
  COALESCE(`combined`.`m1`, 0) AS `buyers`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END AS "d0",
    "regions"."name" AS "d1",
    SUM("orders"."amount") AS "m0",
    COUNT(DISTINCT "orders"."customer_id") AS "m1"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "orders"."customer_id" = "customers"."id"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  GROUP BY
    CASE
      WHEN NOT "customers"."id" IS NULL
      THEN (
        COALESCE("customers"."tier", 'none')
      )
    END,
    "regions"."name"
), "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
), "stacked" AS (
  SELECT
    "orders__1"."d0" AS "d0",
    "orders__1"."d1" AS "d1",
    "orders__1"."m0" AS "m0",
    "orders__1"."m1" AS "m1"
  FROM "orders__1" AS "orders__1"
  UNION ALL
  SELECT
    "members"."d0" AS "d0",
    "members"."d1" AS "d1",
    NULL AS "m0",
    NULL AS "m1"
  FROM "members" AS "members"
), "combined" AS (
  SELECT
    "stacked"."d0" AS "d0",
    "stacked"."d1" AS "d1",
    MAX("stacked"."m0") AS "m0",
    MAX("stacked"."m1") AS "m1"
  FROM "stacked" AS "stacked"
  GROUP BY
    "stacked"."d0",
    "stacked"."d1"
)
SELECT
  "combined"."d0" AS "label",
  "combined"."d1" AS "name",
  "combined"."m0" AS "revenue",
  COALESCE("combined"."m1", 0) AS "buyers"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;
