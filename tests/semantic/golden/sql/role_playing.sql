-- {"measures": ["orders.orders"], "dimensions": ["billed.name", "sent.name"]}

-- duckdb
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    "sent"."name" AS "d1",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  LEFT JOIN "shop"."regions" AS "sent"
    ON "orders"."sent_to" = "sent"."id"
  GROUP BY
    "billed"."name",
    "sent"."name"
)
SELECT
  "orders__1"."d0" AS "billed_name",
  "orders__1"."d1" AS "sent_name",
  COALESCE("orders__1"."m0", 0) AS "orders"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- sqlite
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    "sent"."name" AS "d1",
    COUNT(*) AS "m0"
  FROM "orders" AS "orders"
  LEFT JOIN "regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  LEFT JOIN "regions" AS "sent"
    ON "orders"."sent_to" = "sent"."id"
  GROUP BY
    "billed"."name",
    "sent"."name"
)
SELECT
  "orders__1"."d0" AS "billed_name",
  "orders__1"."d1" AS "sent_name",
  COALESCE("orders__1"."m0", 0) AS "orders"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC NULLS LAST,
  "orders__1"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    "sent"."name" AS "d1",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  LEFT JOIN "shop"."regions" AS "sent"
    ON "orders"."sent_to" = "sent"."id"
  GROUP BY
    "billed"."name",
    "sent"."name"
)
SELECT
  "orders__1"."d0" AS "billed_name",
  "orders__1"."d1" AS "sent_name",
  COALESCE("orders__1"."m0", 0) AS "orders"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- mysql
WITH `orders__1` AS (
  SELECT
    `billed`.`name` AS `d0`,
    `sent`.`name` AS `d1`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`regions` AS `billed`
    ON `orders`.`billed_to` = `billed`.`id`
  LEFT JOIN `shop`.`regions` AS `sent`
    ON `orders`.`sent_to` = `sent`.`id`
  GROUP BY
    `billed`.`name`,
    `sent`.`name`
)
SELECT
  `orders__1`.`d0` AS `billed_name`,
  `orders__1`.`d1` AS `sent_name`,
  COALESCE(`orders__1`.`m0`, 0) AS `orders`
FROM `orders__1` AS `orders__1`
ORDER BY
  CASE WHEN `orders__1`.`d0` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d0` ASC,
  CASE WHEN `orders__1`.`d1` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d1` ASC
LIMIT 1001;

-- snowflake
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    "sent"."name" AS "d1",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  LEFT JOIN "shop"."regions" AS "sent"
    ON "orders"."sent_to" = "sent"."id"
  GROUP BY
    "billed"."name",
    "sent"."name"
)
SELECT
  "orders__1"."d0" AS "billed_name",
  "orders__1"."d1" AS "sent_name",
  COALESCE("orders__1"."m0", 0) AS "orders"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `orders__1` AS (
  SELECT
    `billed`.`name` AS `d0`,
    `sent`.`name` AS `d1`,
    count(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`regions` AS `billed`
    ON `orders`.`billed_to` = `billed`.`id`
  LEFT JOIN `shop`.`regions` AS `sent`
    ON `orders`.`sent_to` = `sent`.`id`
  GROUP BY
    `billed`.`name`,
    `sent`.`name`
)
SELECT
  `orders__1`.`d0` AS `billed_name`,
  `orders__1`.`d1` AS `sent_name`,
  COALESCE(`orders__1`.`m0`, 0) AS `orders`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__1] AS (
  SELECT
    [billed].[name] AS [d0],
    [sent].[name] AS [d1],
    COUNT(*) AS [m0]
  FROM [shop].[orders] AS [orders]
  LEFT JOIN [shop].[regions] AS [billed]
    ON [orders].[billed_to] = [billed].[id]
  LEFT JOIN [shop].[regions] AS [sent]
    ON [orders].[sent_to] = [sent].[id]
  GROUP BY
    [billed].[name],
    [sent].[name]
)
SELECT
TOP 1001
  [orders__1].[d0] AS [billed_name],
  [orders__1].[d1] AS [sent_name],
  COALESCE([orders__1].[m0], 0) AS [orders]
FROM [orders__1] AS [orders__1]
ORDER BY
  CASE WHEN [orders__1].[d0] IS NULL THEN 1 ELSE 0 END, [orders__1].[d0] ASC,
  CASE WHEN [orders__1].[d1] IS NULL THEN 1 ELSE 0 END, [orders__1].[d1] ASC;

-- clickhouse
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    "sent"."name" AS "d1",
    count(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  LEFT JOIN "shop"."regions" AS "sent"
    ON "orders"."sent_to" = "sent"."id"
  GROUP BY
    "billed"."name",
    "sent"."name"
)
SELECT
  "orders__1"."d0" AS "billed_name",
  "orders__1"."d1" AS "sent_name",
  COALESCE("orders__1"."m0", 0) AS "orders"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- redshift
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    "sent"."name" AS "d1",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  LEFT JOIN "shop"."regions" AS "sent"
    ON "orders"."sent_to" = "sent"."id"
  GROUP BY
    "billed"."name",
    "sent"."name"
)
SELECT
  "orders__1"."d0" AS "billed_name",
  "orders__1"."d1" AS "sent_name",
  COALESCE("orders__1"."m0", 0) AS "orders"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- databricks
WITH `orders__1` AS (
  SELECT
    `billed`.`name` AS `d0`,
    `sent`.`name` AS `d1`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`regions` AS `billed`
    ON `orders`.`billed_to` = `billed`.`id`
  LEFT JOIN `shop`.`regions` AS `sent`
    ON `orders`.`sent_to` = `sent`.`id`
  GROUP BY
    `billed`.`name`,
    `sent`.`name`
)
SELECT
  `orders__1`.`d0` AS `billed_name`,
  `orders__1`.`d1` AS `sent_name`,
  COALESCE(`orders__1`.`m0`, 0) AS `orders`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    "sent"."name" AS "d1",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  LEFT JOIN "shop"."regions" AS "sent"
    ON "orders"."sent_to" = "sent"."id"
  GROUP BY
    "billed"."name",
    "sent"."name"
)
SELECT
  "orders__1"."d0" AS "billed_name",
  "orders__1"."d1" AS "sent_name",
  COALESCE("orders__1"."m0", 0) AS "orders"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;

-- spark
WITH `orders__1` AS (
  SELECT
    `billed`.`name` AS `d0`,
    `sent`.`name` AS `d1`,
    COUNT(*) AS `m0`
  FROM `shop`.`orders` AS `orders`
  LEFT JOIN `shop`.`regions` AS `billed`
    ON `orders`.`billed_to` = `billed`.`id`
  LEFT JOIN `shop`.`regions` AS `sent`
    ON `orders`.`sent_to` = `sent`.`id`
  GROUP BY
    `billed`.`name`,
    `sent`.`name`
)
SELECT
  `orders__1`.`d0` AS `billed_name`,
  `orders__1`.`d1` AS `sent_name`,
  COALESCE(`orders__1`.`m0`, 0) AS `orders`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST,
  `orders__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__1" AS (
  SELECT
    "billed"."name" AS "d0",
    "sent"."name" AS "d1",
    COUNT(*) AS "m0"
  FROM "shop"."orders" AS "orders"
  LEFT JOIN "shop"."regions" AS "billed"
    ON "orders"."billed_to" = "billed"."id"
  LEFT JOIN "shop"."regions" AS "sent"
    ON "orders"."sent_to" = "sent"."id"
  GROUP BY
    "billed"."name",
    "sent"."name"
)
SELECT
  "orders__1"."d0" AS "billed_name",
  "orders__1"."d1" AS "sent_name",
  COALESCE("orders__1"."m0", 0) AS "orders"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC,
  "orders__1"."d1" ASC
LIMIT 1001;
