-- {"measures": ["lines.pieces", "lines.value"], "dimensions": ["products.name", "orders.status"], "include_empty": true}

-- duckdb
WITH "lines__1" AS (
  SELECT
    "products"."name" AS "d0",
    "orders"."status" AS "d1",
    SUM("lines"."quantity") AS "m0",
    SUM("lines"."quantity" * "products"."price") AS "m1"
  FROM "shop"."lines" AS "lines"
  LEFT JOIN "shop"."products" AS "products"
    ON "lines"."product_id" = "products"."id"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "lines"."order_id" = "orders"."id"
  GROUP BY
    "products"."name",
    "orders"."status"
), "members" AS (
  SELECT
    "d0",
    "d1"
  FROM (
    SELECT DISTINCT
      "products"."name" AS "d0"
    FROM "shop"."products" AS "products"
  ) AS "members_0"
  CROSS JOIN (
    SELECT DISTINCT
      "orders"."status" AS "d1"
    FROM "shop"."orders" AS "orders"
  ) AS "members_1"
), "stacked" AS (
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
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
  "combined"."d0" AS "name",
  "combined"."d1" AS "status",
  "combined"."m0" AS "pieces",
  "combined"."m1" AS "value"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- sqlite
WITH "lines__1" AS (
  SELECT
    "products"."name" AS "d0",
    "orders"."status" AS "d1",
    SUM("lines"."quantity") AS "m0",
    SUM("lines"."quantity" * "products"."price") AS "m1"
  FROM "lines" AS "lines"
  LEFT JOIN "products" AS "products"
    ON "lines"."product_id" = "products"."id"
  LEFT JOIN "orders" AS "orders"
    ON "lines"."order_id" = "orders"."id"
  GROUP BY
    "products"."name",
    "orders"."status"
), "members" AS (
  SELECT
    "d0",
    "d1"
  FROM (
    SELECT DISTINCT
      "products"."name" AS "d0"
    FROM "products" AS "products"
  ) AS "members_0"
  CROSS JOIN (
    SELECT DISTINCT
      "orders"."status" AS "d1"
    FROM "orders" AS "orders"
  ) AS "members_1"
), "stacked" AS (
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
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
  "combined"."d0" AS "name",
  "combined"."d1" AS "status",
  "combined"."m0" AS "pieces",
  "combined"."m1" AS "value"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST,
  "combined"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "lines__1" AS (
  SELECT
    "products"."name" AS "d0",
    "orders"."status" AS "d1",
    SUM("lines"."quantity") AS "m0",
    SUM("lines"."quantity" * "products"."price") AS "m1"
  FROM "shop"."lines" AS "lines"
  LEFT JOIN "shop"."products" AS "products"
    ON "lines"."product_id" = "products"."id"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "lines"."order_id" = "orders"."id"
  GROUP BY
    "products"."name",
    "orders"."status"
), "members" AS (
  SELECT
    "d0",
    "d1"
  FROM (
    SELECT DISTINCT
      "products"."name" AS "d0"
    FROM "shop"."products" AS "products"
  ) AS "members_0"
  CROSS JOIN (
    SELECT DISTINCT
      "orders"."status" AS "d1"
    FROM "shop"."orders" AS "orders"
  ) AS "members_1"
), "stacked" AS (
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
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
  "combined"."d0" AS "name",
  "combined"."d1" AS "status",
  "combined"."m0" AS "pieces",
  "combined"."m1" AS "value"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- mysql
WITH `lines__1` AS (
  SELECT
    `products`.`name` AS `d0`,
    `orders`.`status` AS `d1`,
    SUM(`lines`.`quantity`) AS `m0`,
    SUM(`lines`.`quantity` * `products`.`price`) AS `m1`
  FROM `shop`.`lines` AS `lines`
  LEFT JOIN `shop`.`products` AS `products`
    ON `lines`.`product_id` = `products`.`id`
  LEFT JOIN `shop`.`orders` AS `orders`
    ON `lines`.`order_id` = `orders`.`id`
  GROUP BY
    `products`.`name`,
    `orders`.`status`
), `members` AS (
  SELECT
    `d0`,
    `d1`
  FROM (
    SELECT DISTINCT
      `products`.`name` AS `d0`
    FROM `shop`.`products` AS `products`
  ) AS `members_0`
  CROSS JOIN (
    SELECT DISTINCT
      `orders`.`status` AS `d1`
    FROM `shop`.`orders` AS `orders`
  ) AS `members_1`
), `stacked` AS (
  SELECT
    `lines__1`.`d0` AS `d0`,
    `lines__1`.`d1` AS `d1`,
    `lines__1`.`m0` AS `m0`,
    `lines__1`.`m1` AS `m1`
  FROM `lines__1` AS `lines__1`
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
  `combined`.`d0` AS `name`,
  `combined`.`d1` AS `status`,
  `combined`.`m0` AS `pieces`,
  `combined`.`m1` AS `value`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC,
  CASE WHEN `combined`.`d1` IS NULL THEN 1 ELSE 0 END, `combined`.`d1` ASC
LIMIT 1001;

-- snowflake
WITH "lines__1" AS (
  SELECT
    "products"."name" AS "d0",
    "orders"."status" AS "d1",
    SUM("lines"."quantity") AS "m0",
    SUM("lines"."quantity" * "products"."price") AS "m1"
  FROM "shop"."lines" AS "lines"
  LEFT JOIN "shop"."products" AS "products"
    ON "lines"."product_id" = "products"."id"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "lines"."order_id" = "orders"."id"
  GROUP BY
    "products"."name",
    "orders"."status"
), "members" AS (
  SELECT
    "d0",
    "d1"
  FROM (
    SELECT DISTINCT
      "products"."name" AS "d0"
    FROM "shop"."products" AS "products"
  ) AS "members_0"
  CROSS JOIN (
    SELECT DISTINCT
      "orders"."status" AS "d1"
    FROM "shop"."orders" AS "orders"
  ) AS "members_1"
), "stacked" AS (
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
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
  "combined"."d0" AS "name",
  "combined"."d1" AS "status",
  "combined"."m0" AS "pieces",
  "combined"."m1" AS "value"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `lines__1` AS (
  SELECT
    `products`.`name` AS `d0`,
    `orders`.`status` AS `d1`,
    sum(`lines`.`quantity`) AS `m0`,
    sum(`lines`.`quantity` * `products`.`price`) AS `m1`
  FROM `shop`.`lines` AS `lines`
  LEFT JOIN `shop`.`products` AS `products`
    ON `lines`.`product_id` = `products`.`id`
  LEFT JOIN `shop`.`orders` AS `orders`
    ON `lines`.`order_id` = `orders`.`id`
  GROUP BY
    `products`.`name`,
    `orders`.`status`
), `members` AS (
  SELECT
    `d0`,
    `d1`
  FROM (
    SELECT DISTINCT
      `products`.`name` AS `d0`
    FROM `shop`.`products` AS `products`
  ) AS `members_0`
  CROSS JOIN (
    SELECT DISTINCT
      `orders`.`status` AS `d1`
    FROM `shop`.`orders` AS `orders`
  ) AS `members_1`
), `stacked` AS (
  SELECT
    `lines__1`.`d0` AS `d0`,
    `lines__1`.`d1` AS `d1`,
    `lines__1`.`m0` AS `m0`,
    `lines__1`.`m1` AS `m1`
  FROM `lines__1` AS `lines__1`
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
  `combined`.`d0` AS `name`,
  `combined`.`d1` AS `status`,
  `combined`.`m0` AS `pieces`,
  `combined`.`m1` AS `value`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [lines__1] AS (
  SELECT
    [products].[name] AS [d0],
    [orders].[status] AS [d1],
    SUM([lines].[quantity]) AS [m0],
    SUM([lines].[quantity] * [products].[price]) AS [m1]
  FROM [shop].[lines] AS [lines]
  LEFT JOIN [shop].[products] AS [products]
    ON [lines].[product_id] = [products].[id]
  LEFT JOIN [shop].[orders] AS [orders]
    ON [lines].[order_id] = [orders].[id]
  GROUP BY
    [products].[name],
    [orders].[status]
), [members] AS (
  SELECT
    [d0],
    [d1]
  FROM (
    SELECT DISTINCT
      [products].[name] AS [d0]
    FROM [shop].[products] AS [products]
  ) AS [members_0]
  CROSS JOIN (
    SELECT DISTINCT
      [orders].[status] AS [d1]
    FROM [shop].[orders] AS [orders]
  ) AS [members_1]
), [stacked] AS (
  SELECT
    [lines__1].[d0] AS [d0],
    [lines__1].[d1] AS [d1],
    [lines__1].[m0] AS [m0],
    [lines__1].[m1] AS [m1]
  FROM [lines__1] AS [lines__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [lines__1].[d0] AS [d0],
    [lines__1].[d1] AS [d1],
    [lines__1].[m0] AS [m0],
    [lines__1].[m1] AS [m1]
  FROM [lines__1] AS [lines__1]
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
  [combined].[d0] AS [name],
  [combined].[d1] AS [status],
  [combined].[m0] AS [pieces],
  [combined].[m1] AS [value]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC,
  CASE WHEN [combined].[d1] IS NULL THEN 1 ELSE 0 END, [combined].[d1] ASC;

-- clickhouse
WITH "lines__1" AS (
  SELECT
    "products"."name" AS "d0",
    "orders"."status" AS "d1",
    sum("lines"."quantity") AS "m0",
    sum("lines"."quantity" * "products"."price") AS "m1"
  FROM "shop"."lines" AS "lines"
  LEFT JOIN "shop"."products" AS "products"
    ON "lines"."product_id" = "products"."id"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "lines"."order_id" = "orders"."id"
  GROUP BY
    "products"."name",
    "orders"."status"
), "members" AS (
  SELECT
    "d0",
    "d1"
  FROM (
    SELECT DISTINCT
      "products"."name" AS "d0"
    FROM "shop"."products" AS "products"
  ) AS "members_0"
  CROSS JOIN (
    SELECT DISTINCT
      "orders"."status" AS "d1"
    FROM "shop"."orders" AS "orders"
  ) AS "members_1"
), "stacked" AS (
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
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
  "combined"."d0" AS "name",
  "combined"."d1" AS "status",
  "combined"."m0" AS "pieces",
  "combined"."m1" AS "value"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- redshift
WITH "lines__1" AS (
  SELECT
    "products"."name" AS "d0",
    "orders"."status" AS "d1",
    SUM("lines"."quantity") AS "m0",
    SUM("lines"."quantity" * "products"."price") AS "m1"
  FROM "shop"."lines" AS "lines"
  LEFT JOIN "shop"."products" AS "products"
    ON "lines"."product_id" = "products"."id"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "lines"."order_id" = "orders"."id"
  GROUP BY
    "products"."name",
    "orders"."status"
), "members" AS (
  SELECT
    "d0",
    "d1"
  FROM (
    SELECT DISTINCT
      "products"."name" AS "d0"
    FROM "shop"."products" AS "products"
  ) AS "members_0"
  CROSS JOIN (
    SELECT DISTINCT
      "orders"."status" AS "d1"
    FROM "shop"."orders" AS "orders"
  ) AS "members_1"
), "stacked" AS (
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
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
  "combined"."d0" AS "name",
  "combined"."d1" AS "status",
  "combined"."m0" AS "pieces",
  "combined"."m1" AS "value"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- databricks
WITH `lines__1` AS (
  SELECT
    `products`.`name` AS `d0`,
    `orders`.`status` AS `d1`,
    SUM(`lines`.`quantity`) AS `m0`,
    SUM(`lines`.`quantity` * `products`.`price`) AS `m1`
  FROM `shop`.`lines` AS `lines`
  LEFT JOIN `shop`.`products` AS `products`
    ON `lines`.`product_id` = `products`.`id`
  LEFT JOIN `shop`.`orders` AS `orders`
    ON `lines`.`order_id` = `orders`.`id`
  GROUP BY
    `products`.`name`,
    `orders`.`status`
), `members` AS (
  SELECT
    `d0`,
    `d1`
  FROM (
    SELECT DISTINCT
      `products`.`name` AS `d0`
    FROM `shop`.`products` AS `products`
  ) AS `members_0`
  CROSS JOIN (
    SELECT DISTINCT
      `orders`.`status` AS `d1`
    FROM `shop`.`orders` AS `orders`
  ) AS `members_1`
), `stacked` AS (
  SELECT
    `lines__1`.`d0` AS `d0`,
    `lines__1`.`d1` AS `d1`,
    `lines__1`.`m0` AS `m0`,
    `lines__1`.`m1` AS `m1`
  FROM `lines__1` AS `lines__1`
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
  `combined`.`d0` AS `name`,
  `combined`.`d1` AS `status`,
  `combined`.`m0` AS `pieces`,
  `combined`.`m1` AS `value`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "lines__1" AS (
  SELECT
    "products"."name" AS "d0",
    "orders"."status" AS "d1",
    SUM("lines"."quantity") AS "m0",
    SUM("lines"."quantity" * "products"."price") AS "m1"
  FROM "shop"."lines" AS "lines"
  LEFT JOIN "shop"."products" AS "products"
    ON "lines"."product_id" = "products"."id"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "lines"."order_id" = "orders"."id"
  GROUP BY
    "products"."name",
    "orders"."status"
), "members" AS (
  SELECT
    "d0",
    "d1"
  FROM (
    SELECT DISTINCT
      "products"."name" AS "d0"
    FROM "shop"."products" AS "products"
  ) AS "members_0"
  CROSS JOIN (
    SELECT DISTINCT
      "orders"."status" AS "d1"
    FROM "shop"."orders" AS "orders"
  ) AS "members_1"
), "stacked" AS (
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
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
  "combined"."d0" AS "name",
  "combined"."d1" AS "status",
  "combined"."m0" AS "pieces",
  "combined"."m1" AS "value"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- spark
WITH `lines__1` AS (
  SELECT
    `products`.`name` AS `d0`,
    `orders`.`status` AS `d1`,
    SUM(`lines`.`quantity`) AS `m0`,
    SUM(`lines`.`quantity` * `products`.`price`) AS `m1`
  FROM `shop`.`lines` AS `lines`
  LEFT JOIN `shop`.`products` AS `products`
    ON `lines`.`product_id` = `products`.`id`
  LEFT JOIN `shop`.`orders` AS `orders`
    ON `lines`.`order_id` = `orders`.`id`
  GROUP BY
    `products`.`name`,
    `orders`.`status`
), `members` AS (
  SELECT
    `d0`,
    `d1`
  FROM (
    SELECT DISTINCT
      `products`.`name` AS `d0`
    FROM `shop`.`products` AS `products`
  ) AS `members_0`
  CROSS JOIN (
    SELECT DISTINCT
      `orders`.`status` AS `d1`
    FROM `shop`.`orders` AS `orders`
  ) AS `members_1`
), `stacked` AS (
  SELECT
    `lines__1`.`d0` AS `d0`,
    `lines__1`.`d1` AS `d1`,
    `lines__1`.`m0` AS `m0`,
    `lines__1`.`m1` AS `m1`
  FROM `lines__1` AS `lines__1`
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
  `combined`.`d0` AS `name`,
  `combined`.`d1` AS `status`,
  `combined`.`m0` AS `pieces`,
  `combined`.`m1` AS `value`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "lines__1" AS (
  SELECT
    "products"."name" AS "d0",
    "orders"."status" AS "d1",
    SUM("lines"."quantity") AS "m0",
    SUM("lines"."quantity" * "products"."price") AS "m1"
  FROM "shop"."lines" AS "lines"
  LEFT JOIN "shop"."products" AS "products"
    ON "lines"."product_id" = "products"."id"
  LEFT JOIN "shop"."orders" AS "orders"
    ON "lines"."order_id" = "orders"."id"
  GROUP BY
    "products"."name",
    "orders"."status"
), "members" AS (
  SELECT
    "d0",
    "d1"
  FROM (
    SELECT DISTINCT
      "products"."name" AS "d0"
    FROM "shop"."products" AS "products"
  ) AS "members_0"
  CROSS JOIN (
    SELECT DISTINCT
      "orders"."status" AS "d1"
    FROM "shop"."orders" AS "orders"
  ) AS "members_1"
), "stacked" AS (
  SELECT
    "lines__1"."d0" AS "d0",
    "lines__1"."d1" AS "d1",
    "lines__1"."m0" AS "m0",
    "lines__1"."m1" AS "m1"
  FROM "lines__1" AS "lines__1"
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
  "combined"."d0" AS "name",
  "combined"."d1" AS "status",
  "combined"."m0" AS "pieces",
  "combined"."m1" AS "value"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;
