-- {"measures": ["orders.buyer_days"], "dimensions": ["orders.gift"]}

-- duckdb
WITH "orders__tuples" AS (
  SELECT DISTINCT
    "orders"."gift" AS "d0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."customer_id"
    END AS "c0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."shipped_on"
    END AS "c1"
  FROM "shop"."orders" AS "orders"
), "orders__1" AS (
  SELECT
    "orders__tuples"."d0" AS "d0",
    COUNT("orders__tuples"."c0") AS "m0"
  FROM "orders__tuples" AS "orders__tuples"
  GROUP BY
    "orders__tuples"."d0"
)
SELECT
  "orders__1"."d0" AS "gift",
  COALESCE("orders__1"."m0", 0) AS "buyer_days"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "orders__tuples" AS (
  SELECT DISTINCT
    "orders"."gift" AS "d0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."customer_id"
    END AS "c0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."shipped_on"
    END AS "c1"
  FROM "orders" AS "orders"
), "orders__1" AS (
  SELECT
    "orders__tuples"."d0" AS "d0",
    COUNT("orders__tuples"."c0") AS "m0"
  FROM "orders__tuples" AS "orders__tuples"
  GROUP BY
    "orders__tuples"."d0"
)
SELECT
  "orders__1"."d0" AS "gift",
  COALESCE("orders__1"."m0", 0) AS "buyer_days"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "orders__tuples" AS (
  SELECT DISTINCT
    "orders"."gift" AS "d0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."customer_id"
    END AS "c0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."shipped_on"
    END AS "c1"
  FROM "shop"."orders" AS "orders"
), "orders__1" AS (
  SELECT
    "orders__tuples"."d0" AS "d0",
    COUNT("orders__tuples"."c0") AS "m0"
  FROM "orders__tuples" AS "orders__tuples"
  GROUP BY
    "orders__tuples"."d0"
)
SELECT
  "orders__1"."d0" AS "gift",
  COALESCE("orders__1"."m0", 0) AS "buyer_days"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- mysql
WITH `orders__tuples` AS (
  SELECT DISTINCT
    `orders`.`gift` AS `d0`,
    CASE
      WHEN NOT `orders`.`customer_id` IS NULL AND NOT `orders`.`shipped_on` IS NULL
      THEN `orders`.`customer_id`
    END AS `c0`,
    CASE
      WHEN NOT `orders`.`customer_id` IS NULL AND NOT `orders`.`shipped_on` IS NULL
      THEN `orders`.`shipped_on`
    END AS `c1`
  FROM `shop`.`orders` AS `orders`
), `orders__1` AS (
  SELECT
    `orders__tuples`.`d0` AS `d0`,
    COUNT(`orders__tuples`.`c0`) AS `m0`
  FROM `orders__tuples` AS `orders__tuples`
  GROUP BY
    `orders__tuples`.`d0`
)
SELECT
  `orders__1`.`d0` AS `gift`,
  COALESCE(`orders__1`.`m0`, 0) AS `buyer_days`
FROM `orders__1` AS `orders__1`
ORDER BY
  CASE WHEN `orders__1`.`d0` IS NULL THEN 1 ELSE 0 END, `orders__1`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "orders__tuples" AS (
  SELECT DISTINCT
    "orders"."gift" AS "d0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."customer_id"
    END AS "c0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."shipped_on"
    END AS "c1"
  FROM "shop"."orders" AS "orders"
), "orders__1" AS (
  SELECT
    "orders__tuples"."d0" AS "d0",
    COUNT("orders__tuples"."c0") AS "m0"
  FROM "orders__tuples" AS "orders__tuples"
  GROUP BY
    "orders__tuples"."d0"
)
SELECT
  "orders__1"."d0" AS "gift",
  COALESCE("orders__1"."m0", 0) AS "buyer_days"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `orders__tuples` AS (
  SELECT DISTINCT
    `orders`.`gift` AS `d0`,
    CASE
      WHEN NOT `orders`.`customer_id` IS NULL AND NOT `orders`.`shipped_on` IS NULL
      THEN `orders`.`customer_id`
    END AS `c0`,
    CASE
      WHEN NOT `orders`.`customer_id` IS NULL AND NOT `orders`.`shipped_on` IS NULL
      THEN `orders`.`shipped_on`
    END AS `c1`
  FROM `shop`.`orders` AS `orders`
), `orders__1` AS (
  SELECT
    `orders__tuples`.`d0` AS `d0`,
    COUNT(`orders__tuples`.`c0`) AS `m0`
  FROM `orders__tuples` AS `orders__tuples`
  GROUP BY
    `orders__tuples`.`d0`
)
SELECT
  `orders__1`.`d0` AS `gift`,
  COALESCE(`orders__1`.`m0`, 0) AS `buyer_days`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [orders__tuples] AS (
  SELECT DISTINCT
    [orders].[gift] AS [d0],
    CASE
      WHEN NOT [orders].[customer_id] IS NULL AND NOT [orders].[shipped_on] IS NULL
      THEN [orders].[customer_id]
    END AS [c0],
    CASE
      WHEN NOT [orders].[customer_id] IS NULL AND NOT [orders].[shipped_on] IS NULL
      THEN [orders].[shipped_on]
    END AS [c1]
  FROM [shop].[orders] AS [orders]
), [orders__1] AS (
  SELECT
    [orders__tuples].[d0] AS [d0],
    COUNT_BIG([orders__tuples].[c0]) AS [m0]
  FROM [orders__tuples] AS [orders__tuples]
  GROUP BY
    [orders__tuples].[d0]
)
SELECT
TOP 1001
  [orders__1].[d0] AS [gift],
  COALESCE([orders__1].[m0], 0) AS [buyer_days]
FROM [orders__1] AS [orders__1]
ORDER BY
  CASE WHEN [orders__1].[d0] IS NULL THEN 1 ELSE 0 END, [orders__1].[d0] ASC;

-- clickhouse
WITH "orders__tuples" AS (
  SELECT DISTINCT
    "orders"."gift" AS "d0",
    CASE
      WHEN NOT (
        "orders"."customer_id" IS NULL
      )
      AND NOT (
        "orders"."shipped_on" IS NULL
      )
      THEN "orders"."customer_id"
    END AS "c0",
    CASE
      WHEN NOT (
        "orders"."customer_id" IS NULL
      )
      AND NOT (
        "orders"."shipped_on" IS NULL
      )
      THEN "orders"."shipped_on"
    END AS "c1"
  FROM "shop"."orders" AS "orders"
), "orders__1" AS (
  SELECT
    "orders__tuples"."d0" AS "d0",
    COUNT("orders__tuples"."c0") AS "m0"
  FROM "orders__tuples" AS "orders__tuples"
  GROUP BY
    "orders__tuples"."d0"
)
SELECT
  "orders__1"."d0" AS "gift",
  COALESCE("orders__1"."m0", 0) AS "buyer_days"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- redshift
WITH "orders__tuples" AS (
  SELECT DISTINCT
    "orders"."gift" AS "d0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."customer_id"
    END AS "c0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."shipped_on"
    END AS "c1"
  FROM "shop"."orders" AS "orders"
), "orders__1" AS (
  SELECT
    "orders__tuples"."d0" AS "d0",
    COUNT("orders__tuples"."c0") AS "m0"
  FROM "orders__tuples" AS "orders__tuples"
  GROUP BY
    "orders__tuples"."d0"
)
SELECT
  "orders__1"."d0" AS "gift",
  COALESCE("orders__1"."m0", 0) AS "buyer_days"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- databricks
WITH `orders__tuples` AS (
  SELECT DISTINCT
    `orders`.`gift` AS `d0`,
    CASE
      WHEN NOT `orders`.`customer_id` IS NULL AND NOT `orders`.`shipped_on` IS NULL
      THEN `orders`.`customer_id`
    END AS `c0`,
    CASE
      WHEN NOT `orders`.`customer_id` IS NULL AND NOT `orders`.`shipped_on` IS NULL
      THEN `orders`.`shipped_on`
    END AS `c1`
  FROM `shop`.`orders` AS `orders`
), `orders__1` AS (
  SELECT
    `orders__tuples`.`d0` AS `d0`,
    COUNT(`orders__tuples`.`c0`) AS `m0`
  FROM `orders__tuples` AS `orders__tuples`
  GROUP BY
    `orders__tuples`.`d0`
)
SELECT
  `orders__1`.`d0` AS `gift`,
  COALESCE(`orders__1`.`m0`, 0) AS `buyer_days`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "orders__tuples" AS (
  SELECT DISTINCT
    "orders"."gift" AS "d0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."customer_id"
    END AS "c0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."shipped_on"
    END AS "c1"
  FROM "shop"."orders" AS "orders"
), "orders__1" AS (
  SELECT
    "orders__tuples"."d0" AS "d0",
    COUNT("orders__tuples"."c0") AS "m0"
  FROM "orders__tuples" AS "orders__tuples"
  GROUP BY
    "orders__tuples"."d0"
)
SELECT
  "orders__1"."d0" AS "gift",
  COALESCE("orders__1"."m0", 0) AS "buyer_days"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;

-- spark
WITH `orders__tuples` AS (
  SELECT DISTINCT
    `orders`.`gift` AS `d0`,
    CASE
      WHEN NOT `orders`.`customer_id` IS NULL AND NOT `orders`.`shipped_on` IS NULL
      THEN `orders`.`customer_id`
    END AS `c0`,
    CASE
      WHEN NOT `orders`.`customer_id` IS NULL AND NOT `orders`.`shipped_on` IS NULL
      THEN `orders`.`shipped_on`
    END AS `c1`
  FROM `shop`.`orders` AS `orders`
), `orders__1` AS (
  SELECT
    `orders__tuples`.`d0` AS `d0`,
    COUNT(`orders__tuples`.`c0`) AS `m0`
  FROM `orders__tuples` AS `orders__tuples`
  GROUP BY
    `orders__tuples`.`d0`
)
SELECT
  `orders__1`.`d0` AS `gift`,
  COALESCE(`orders__1`.`m0`, 0) AS `buyer_days`
FROM `orders__1` AS `orders__1`
ORDER BY
  `orders__1`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "orders__tuples" AS (
  SELECT DISTINCT
    "orders"."gift" AS "d0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."customer_id"
    END AS "c0",
    CASE
      WHEN NOT "orders"."customer_id" IS NULL AND NOT "orders"."shipped_on" IS NULL
      THEN "orders"."shipped_on"
    END AS "c1"
  FROM "shop"."orders" AS "orders"
), "orders__1" AS (
  SELECT
    "orders__tuples"."d0" AS "d0",
    COUNT("orders__tuples"."c0") AS "m0"
  FROM "orders__tuples" AS "orders__tuples"
  GROUP BY
    "orders__tuples"."d0"
)
SELECT
  "orders__1"."d0" AS "gift",
  COALESCE("orders__1"."m0", 0) AS "buyer_days"
FROM "orders__1" AS "orders__1"
ORDER BY
  "orders__1"."d0" ASC
LIMIT 1001;
