-- {"measures": ["customers.customers"], "filters": ["orders.id IS NULL"]}

-- duckdb
WITH "customers__1" AS (
  SELECT
    COUNT(*) AS "m0"
  FROM "shop"."customers" AS "customers"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."customers" AS "customers__any"
      LEFT JOIN "shop"."orders" AS "orders"
        ON "customers__any"."id" = "orders"."customer_id"
      WHERE
        "customers__any"."id" IS NOT DISTINCT FROM "customers"."id"
        AND (
          "orders"."id" IS NULL
        )
    )
)
SELECT
  COALESCE("customers__1"."m0", 0) AS "customers"
FROM "customers__1" AS "customers__1"
LIMIT 1001;

-- sqlite
WITH "customers__1" AS (
  SELECT
    COUNT(*) AS "m0"
  FROM "customers" AS "customers"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "customers" AS "customers__any"
      LEFT JOIN "orders" AS "orders"
        ON "customers__any"."id" = "orders"."customer_id"
      WHERE
        "customers__any"."id" IS "customers"."id" AND (
          "orders"."id" IS NULL
        )
    )
)
SELECT
  COALESCE("customers__1"."m0", 0) AS "customers"
FROM "customers__1" AS "customers__1"
LIMIT 1001;

-- postgres
WITH "customers__1" AS (
  SELECT
    COUNT(*) AS "m0"
  FROM "shop"."customers" AS "customers"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."customers" AS "customers__any"
      LEFT JOIN "shop"."orders" AS "orders"
        ON "customers__any"."id" = "orders"."customer_id"
      WHERE
        "customers__any"."id" IS NOT DISTINCT FROM "customers"."id"
        AND (
          "orders"."id" IS NULL
        )
    )
)
SELECT
  COALESCE("customers__1"."m0", 0) AS "customers"
FROM "customers__1" AS "customers__1"
LIMIT 1001;

-- mysql
WITH `customers__1` AS (
  SELECT
    COUNT(*) AS `m0`
  FROM `shop`.`customers` AS `customers`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `shop`.`customers` AS `customers__any`
      LEFT JOIN `shop`.`orders` AS `orders`
        ON `customers__any`.`id` = `orders`.`customer_id`
      WHERE
        `customers__any`.`id` <=> `customers`.`id` AND (
          `orders`.`id` IS NULL
        )
    )
)
SELECT
  COALESCE(`customers__1`.`m0`, 0) AS `customers`
FROM `customers__1` AS `customers__1`
LIMIT 1001;

-- snowflake
WITH "customers__1" AS (
  SELECT
    COUNT(*) AS "m0"
  FROM "shop"."customers" AS "customers"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."customers" AS "customers__any"
      LEFT JOIN "shop"."orders" AS "orders"
        ON "customers__any"."id" = "orders"."customer_id"
      WHERE
        "customers__any"."id" IS NOT DISTINCT FROM "customers"."id"
        AND (
          "orders"."id" IS NULL
        )
    )
)
SELECT
  COALESCE("customers__1"."m0", 0) AS "customers"
FROM "customers__1" AS "customers__1"
LIMIT 1001;

-- bigquery
WITH `customers__1` AS (
  SELECT
    count(*) AS `m0`
  FROM `shop`.`customers` AS `customers`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `shop`.`customers` AS `customers__any`
      LEFT JOIN `shop`.`orders` AS `orders`
        ON `customers__any`.`id` = `orders`.`customer_id`
      WHERE
        `customers__any`.`id` IS NOT DISTINCT FROM `customers`.`id`
        AND (
          `orders`.`id` IS NULL
        )
    )
)
SELECT
  COALESCE(`customers__1`.`m0`, 0) AS `customers`
FROM `customers__1` AS `customers__1`
LIMIT 1001;

-- tsql
WITH [customers__1] AS (
  SELECT
    COUNT(*) AS [m0]
  FROM [shop].[customers] AS [customers]
  WHERE
    EXISTS(
      SELECT
        1
      FROM [shop].[customers] AS [customers__any]
      LEFT JOIN [shop].[orders] AS [orders]
        ON [customers__any].[id] = [orders].[customer_id]
      WHERE
        (
          [customers__any].[id] = [customers].[id]
          OR (
            [customers__any].[id] IS NULL AND [customers].[id] IS NULL
          )
        )
        AND (
          [orders].[id] IS NULL
        )
    )
)
SELECT
TOP 1001
  COALESCE([customers__1].[m0], 0) AS [customers]
FROM [customers__1] AS [customers__1];

-- clickhouse
WITH "customers__1" AS (
  SELECT
    count(*) AS "m0"
  FROM "shop"."customers" AS "customers"
  WHERE
    "customers"."id" IN (
      SELECT
        "customers__any"."id"
      FROM "shop"."customers" AS "customers__any"
      LEFT JOIN "shop"."orders" AS "orders"
        ON "customers__any"."id" = "orders"."customer_id"
      WHERE
        (
          "orders"."id" IS NULL
        )
    )
)
SELECT
  COALESCE("customers__1"."m0", 0) AS "customers"
FROM "customers__1" AS "customers__1"
LIMIT 1001;

-- redshift
WITH "customers__1" AS (
  SELECT
    COUNT(*) AS "m0"
  FROM "shop"."customers" AS "customers"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."customers" AS "customers__any"
      LEFT JOIN "shop"."orders" AS "orders"
        ON "customers__any"."id" = "orders"."customer_id"
      WHERE
        (
          "customers__any"."id" = "customers"."id"
          OR (
            "customers__any"."id" IS NULL AND "customers"."id" IS NULL
          )
        )
        AND (
          "orders"."id" IS NULL
        )
    )
)
SELECT
  COALESCE("customers__1"."m0", 0) AS "customers"
FROM "customers__1" AS "customers__1"
LIMIT 1001;

-- databricks
WITH `customers__1` AS (
  SELECT
    COUNT(*) AS `m0`
  FROM `shop`.`customers` AS `customers`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `shop`.`customers` AS `customers__any`
      LEFT JOIN `shop`.`orders` AS `orders`
        ON `customers__any`.`id` = `orders`.`customer_id`
      WHERE
        `customers__any`.`id` IS NOT DISTINCT FROM `customers`.`id`
        AND (
          `orders`.`id` IS NULL
        )
    )
)
SELECT
  COALESCE(`customers__1`.`m0`, 0) AS `customers`
FROM `customers__1` AS `customers__1`
LIMIT 1001;

-- trino
WITH "customers__1" AS (
  SELECT
    COUNT(*) AS "m0"
  FROM "shop"."customers" AS "customers"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."customers" AS "customers__any"
      LEFT JOIN "shop"."orders" AS "orders"
        ON "customers__any"."id" = "orders"."customer_id"
      WHERE
        "customers__any"."id" IS NOT DISTINCT FROM "customers"."id"
        AND (
          "orders"."id" IS NULL
        )
    )
)
SELECT
  COALESCE("customers__1"."m0", 0) AS "customers"
FROM "customers__1" AS "customers__1"
LIMIT 1001;

-- spark
WITH `customers__1` AS (
  SELECT
    COUNT(*) AS `m0`
  FROM `shop`.`customers` AS `customers`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `shop`.`customers` AS `customers__any`
      LEFT JOIN `shop`.`orders` AS `orders`
        ON `customers__any`.`id` = `orders`.`customer_id`
      WHERE
        `customers__any`.`id` IS NOT DISTINCT FROM `customers`.`id`
        AND (
          `orders`.`id` IS NULL
        )
    )
)
SELECT
  COALESCE(`customers__1`.`m0`, 0) AS `customers`
FROM `customers__1` AS `customers__1`
LIMIT 1001;

-- athena
WITH "customers__1" AS (
  SELECT
    COUNT(*) AS "m0"
  FROM "shop"."customers" AS "customers"
  WHERE
    EXISTS(
      SELECT
        1
      FROM "shop"."customers" AS "customers__any"
      LEFT JOIN "shop"."orders" AS "orders"
        ON "customers__any"."id" = "orders"."customer_id"
      WHERE
        "customers__any"."id" IS NOT DISTINCT FROM "customers"."id"
        AND (
          "orders"."id" IS NULL
        )
    )
)
SELECT
  COALESCE("customers__1"."m0", 0) AS "customers"
FROM "customers__1" AS "customers__1"
LIMIT 1001;
