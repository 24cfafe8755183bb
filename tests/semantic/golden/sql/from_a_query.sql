-- {"measures": ["spenders.spent", "spenders.spenders"], "dimensions": ["customers.tier"], "parameters": {"least": 20}, "totals": true}

-- duckdb
WITH "spenders__sql" AS (
  WITH "big" AS (
    SELECT
      "customer_id",
      SUM("amount") AS "spent"
    FROM "shop"."orders"
    WHERE
      "amount" >= 20
    GROUP BY
      "customer_id"
  )
  SELECT
    "customer_id",
    "spent"
  FROM "big"
  WHERE
    NOT "customer_id" IS NULL
), "spenders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("spenders"."spent") AS "m0",
    COUNT(*) AS "m1"
  FROM "spenders__sql" AS "spenders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "spenders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
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
  "combined"."m0" AS "spent",
  COALESCE("combined"."m1", 0) AS "spenders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "spenders__sql" AS (
  WITH "big" AS (
    SELECT
      "customer_id",
      SUM("amount") AS "spent"
    FROM "orders"
    WHERE
      "amount" >= 20
    GROUP BY
      "customer_id"
  )
  SELECT
    "customer_id",
    "spent"
  FROM "big"
  WHERE
    NOT "customer_id" IS NULL
), "spenders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("spenders"."spent") AS "m0",
    COUNT(*) AS "m1"
  FROM "spenders__sql" AS "spenders"
  LEFT JOIN "customers" AS "customers"
    ON "spenders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "customers" AS "customers"
), "stacked" AS (
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
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
  "combined"."m0" AS "spent",
  COALESCE("combined"."m1", 0) AS "spenders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "spenders__sql" AS (
  WITH "big" AS (
    SELECT
      "customer_id",
      SUM("amount") AS "spent"
    FROM "shop"."orders"
    WHERE
      "amount" >= 20
    GROUP BY
      "customer_id"
  )
  SELECT
    "customer_id",
    "spent"
  FROM "big"
  WHERE
    NOT "customer_id" IS NULL
), "spenders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("spenders"."spent") AS "m0",
    COUNT(*) AS "m1"
  FROM "spenders__sql" AS "spenders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "spenders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
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
  "combined"."m0" AS "spent",
  COALESCE("combined"."m1", 0) AS "spenders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `spenders__sql` AS (
  WITH `big` AS (
    SELECT
      `customer_id`,
      SUM(`amount`) AS `spent`
    FROM `shop`.`orders`
    WHERE
      `amount` >= 20
    GROUP BY
      `customer_id`
  )
  SELECT
    `customer_id`,
    `spent`
  FROM `big`
  WHERE
    NOT `customer_id` IS NULL
), `spenders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`spenders`.`spent`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `spenders__sql` AS `spenders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `spenders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `spenders__1`.`d0` AS `d0`,
    `spenders__1`.`m0` AS `m0`,
    `spenders__1`.`m1` AS `m1`
  FROM `spenders__1` AS `spenders__1`
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
  `combined`.`m0` AS `spent`,
  COALESCE(`combined`.`m1`, 0) AS `spenders`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "spenders__sql" AS (
  WITH "big" AS (
    SELECT
      "customer_id",
      SUM("amount") AS "spent"
    FROM "shop"."orders"
    WHERE
      "amount" >= 20
    GROUP BY
      "customer_id"
  )
  SELECT
    "customer_id",
    "spent"
  FROM "big"
  WHERE
    NOT "customer_id" IS NULL
), "spenders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("spenders"."spent") AS "m0",
    COUNT(*) AS "m1"
  FROM "spenders__sql" AS "spenders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "spenders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
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
  "combined"."m0" AS "spent",
  COALESCE("combined"."m1", 0) AS "spenders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `spenders__sql` AS (
  WITH `big` AS (
    SELECT
      `customer_id`,
      SUM(`amount`) AS `spent`
    FROM `shop`.`orders`
    WHERE
      `amount` >= 20
    GROUP BY
      `customer_id`
  )
  SELECT
    `customer_id`,
    `spent`
  FROM `big`
  WHERE
    NOT `customer_id` IS NULL
), `spenders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    sum(`spenders`.`spent`) AS `m0`,
    count(*) AS `m1`
  FROM `spenders__sql` AS `spenders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `spenders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `spenders__1`.`d0` AS `d0`,
    `spenders__1`.`m0` AS `m0`,
    `spenders__1`.`m1` AS `m1`
  FROM `spenders__1` AS `spenders__1`
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
  `combined`.`m0` AS `spent`,
  COALESCE(`combined`.`m1`, 0) AS `spenders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [spenders__big] AS (
  SELECT
    [customer_id] AS [customer_id],
    SUM([amount]) AS [spent]
  FROM [shop].[orders]
  WHERE
    [amount] >= 20
  GROUP BY
    [customer_id]
), [spenders__sql] AS (
  SELECT
    [customer_id],
    [spent]
  FROM [spenders__big] AS [big]
  WHERE
    NOT [customer_id] IS NULL
), [spenders__1] AS (
  SELECT
    [customers].[tier] AS [d0],
    SUM([spenders].[spent]) AS [m0],
    COUNT(*) AS [m1]
  FROM [spenders__sql] AS [spenders]
  LEFT JOIN [shop].[customers] AS [customers]
    ON [spenders].[customer_id] = [customers].[id]
  GROUP BY
    [customers].[tier]
), [members] AS (
  SELECT DISTINCT
    [customers].[tier] AS [d0]
  FROM [shop].[customers] AS [customers]
), [stacked] AS (
  SELECT
    [spenders__1].[d0] AS [d0],
    [spenders__1].[m0] AS [m0],
    [spenders__1].[m1] AS [m1]
  FROM [spenders__1] AS [spenders__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [spenders__1].[d0] AS [d0],
    [spenders__1].[m0] AS [m0],
    [spenders__1].[m1] AS [m1]
  FROM [spenders__1] AS [spenders__1]
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
  [combined].[m0] AS [spent],
  COALESCE([combined].[m1], 0) AS [spenders]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "spenders__sql" AS (
  WITH "big" AS (
    SELECT
      "customer_id",
      SUM("amount") AS "spent"
    FROM "shop"."orders"
    WHERE
      "amount" >= 20
    GROUP BY
      "customer_id"
  )
  SELECT
    "customer_id",
    "spent"
  FROM "big"
  WHERE
    NOT (
      "customer_id" IS NULL
    )
), "spenders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    sum("spenders"."spent") AS "m0",
    count(*) AS "m1"
  FROM "spenders__sql" AS "spenders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "spenders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
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
  "combined"."m0" AS "spent",
  COALESCE("combined"."m1", 0) AS "spenders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "spenders__sql" AS (
  WITH "big" AS (
    SELECT
      "customer_id",
      SUM("amount") AS "spent"
    FROM "shop"."orders"
    WHERE
      "amount" >= 20
    GROUP BY
      "customer_id"
  )
  SELECT
    "customer_id",
    "spent"
  FROM "big"
  WHERE
    NOT "customer_id" IS NULL
), "spenders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("spenders"."spent") AS "m0",
    COUNT(*) AS "m1"
  FROM "spenders__sql" AS "spenders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "spenders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
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
  "combined"."m0" AS "spent",
  COALESCE("combined"."m1", 0) AS "spenders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `big` AS (
  SELECT
    `customer_id`,
    SUM(`amount`) AS `spent`
  FROM `shop`.`orders`
  WHERE
    `amount` >= 20
  GROUP BY
    `customer_id`
), `spenders__sql` AS (
  SELECT
    `customer_id`,
    `spent`
  FROM `big`
  WHERE
    NOT `customer_id` IS NULL
), `spenders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`spenders`.`spent`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `spenders__sql` AS `spenders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `spenders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `spenders__1`.`d0` AS `d0`,
    `spenders__1`.`m0` AS `m0`,
    `spenders__1`.`m1` AS `m1`
  FROM `spenders__1` AS `spenders__1`
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
  `combined`.`m0` AS `spent`,
  COALESCE(`combined`.`m1`, 0) AS `spenders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "spenders__sql" AS (
  WITH "big" AS (
    SELECT
      "customer_id",
      SUM("amount") AS "spent"
    FROM "shop"."orders"
    WHERE
      "amount" >= 20
    GROUP BY
      "customer_id"
  )
  SELECT
    "customer_id",
    "spent"
  FROM "big"
  WHERE
    NOT "customer_id" IS NULL
), "spenders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("spenders"."spent") AS "m0",
    COUNT(*) AS "m1"
  FROM "spenders__sql" AS "spenders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "spenders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
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
  "combined"."m0" AS "spent",
  COALESCE("combined"."m1", 0) AS "spenders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `big` AS (
  SELECT
    `customer_id`,
    SUM(`amount`) AS `spent`
  FROM `shop`.`orders`
  WHERE
    `amount` >= 20
  GROUP BY
    `customer_id`
), `spenders__sql` AS (
  SELECT
    `customer_id`,
    `spent`
  FROM `big`
  WHERE
    NOT `customer_id` IS NULL
), `spenders__1` AS (
  SELECT
    `customers`.`tier` AS `d0`,
    SUM(`spenders`.`spent`) AS `m0`,
    COUNT(*) AS `m1`
  FROM `spenders__sql` AS `spenders`
  LEFT JOIN `shop`.`customers` AS `customers`
    ON `spenders`.`customer_id` = `customers`.`id`
  GROUP BY
    `customers`.`tier`
), `members` AS (
  SELECT DISTINCT
    `customers`.`tier` AS `d0`
  FROM `shop`.`customers` AS `customers`
), `stacked` AS (
  SELECT
    `spenders__1`.`d0` AS `d0`,
    `spenders__1`.`m0` AS `m0`,
    `spenders__1`.`m1` AS `m1`
  FROM `spenders__1` AS `spenders__1`
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
  `combined`.`m0` AS `spent`,
  COALESCE(`combined`.`m1`, 0) AS `spenders`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "spenders__sql" AS (
  WITH "big" AS (
    SELECT
      "customer_id",
      SUM("amount") AS "spent"
    FROM "shop"."orders"
    WHERE
      "amount" >= 20
    GROUP BY
      "customer_id"
  )
  SELECT
    "customer_id",
    "spent"
  FROM "big"
  WHERE
    NOT "customer_id" IS NULL
), "spenders__1" AS (
  SELECT
    "customers"."tier" AS "d0",
    SUM("spenders"."spent") AS "m0",
    COUNT(*) AS "m1"
  FROM "spenders__sql" AS "spenders"
  LEFT JOIN "shop"."customers" AS "customers"
    ON "spenders"."customer_id" = "customers"."id"
  GROUP BY
    "customers"."tier"
), "members" AS (
  SELECT DISTINCT
    "customers"."tier" AS "d0"
  FROM "shop"."customers" AS "customers"
), "stacked" AS (
  SELECT
    "spenders__1"."d0" AS "d0",
    "spenders__1"."m0" AS "m0",
    "spenders__1"."m1" AS "m1"
  FROM "spenders__1" AS "spenders__1"
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
  "combined"."m0" AS "spent",
  COALESCE("combined"."m1", 0) AS "spenders"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
