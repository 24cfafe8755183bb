-- {"measures": ["stock.on_hand"], "dimensions": ["products.name"], "filters": ["stock.day < '2024-02-01'", "stock.pieces > 1"]}

-- duckdb
WITH "stock__rows" AS (
  SELECT
    "products"."name" AS "d0",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER () AS "t_last",
    CASE WHEN (
      "stock"."pieces" > 1
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "stock"."day" < '2024-02-01'
    )
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "products"."name" AS "d0"
  FROM "shop"."products" AS "products"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
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
  "combined"."m0" AS "on_hand"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- sqlite
WITH "stock__rows" AS (
  SELECT
    "products"."name" AS "d0",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER () AS "t_last",
    CASE WHEN (
      "stock"."pieces" > 1
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "stock" AS "stock"
  LEFT JOIN "products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      CASE
        WHEN DATE("stock"."day") = "stock"."day"
        THEN "stock"."day"
        ELSE DATE(
          CASE
            WHEN TYPEOF("stock"."day") <> 'text'
            THEN DATE("stock"."day", 'unixepoch')
            ELSE SUBSTR("stock"."day", 1, 10)
          END
        )
      END < '2024-02-01'
    )
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "products"."name" AS "d0"
  FROM "products" AS "products"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
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
  "combined"."m0" AS "on_hand"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "stock__rows" AS (
  SELECT
    "products"."name" AS "d0",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER () AS "t_last",
    CASE WHEN (
      "stock"."pieces" > 1
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "stock"."day" < '2024-02-01'
    )
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "products"."name" AS "d0"
  FROM "shop"."products" AS "products"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
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
  "combined"."m0" AS "on_hand"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- mysql
WITH `stock__rows` AS (
  SELECT
    `products`.`name` AS `d0`,
    `stock`.`day` AS `t`,
    MAX(`stock`.`day`) OVER () AS `t_last`,
    CASE WHEN (
      `stock`.`pieces` > 1
    ) THEN 1 ELSE 0 END AS `kept`,
    `stock`.`pieces` AS `c0`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
  WHERE
    (
      `stock`.`day` < '2024-02-01'
    )
), `stock__1` AS (
  SELECT
    `stock__rows`.`d0` AS `d0`,
    SUM(CASE WHEN `t` = `t_last` THEN `c0` END) AS `m0`
  FROM `stock__rows` AS `stock__rows`
  WHERE
    `stock__rows`.`kept` = 1
  GROUP BY
    `stock__rows`.`d0`
), `members` AS (
  SELECT DISTINCT
    `products`.`name` AS `d0`
  FROM `shop`.`products` AS `products`
), `stacked` AS (
  SELECT
    `stock__1`.`d0` AS `d0`,
    `stock__1`.`m0` AS `m0`
  FROM `stock__1` AS `stock__1`
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
  `combined`.`m0` AS `on_hand`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC
LIMIT 1001;

-- snowflake
WITH "stock__rows" AS (
  SELECT
    "products"."name" AS "d0",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER () AS "t_last",
    CASE WHEN (
      "stock"."pieces" > 1
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "stock"."day" < '2024-02-01'
    )
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "products"."name" AS "d0"
  FROM "shop"."products" AS "products"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
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
  "combined"."m0" AS "on_hand"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- bigquery
WITH `stock__rows` AS (
  SELECT
    `products`.`name` AS `d0`,
    `stock`.`day` AS `t`,
    MAX(`stock`.`day`) OVER () AS `t_last`,
    CASE WHEN (
      `stock`.`pieces` > 1
    ) THEN 1 ELSE 0 END AS `kept`,
    `stock`.`pieces` AS `c0`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
  WHERE
    (
      `stock`.`day` < '2024-02-01'
    )
), `stock__1` AS (
  SELECT
    `stock__rows`.`d0` AS `d0`,
    sum(CASE WHEN `t` = `t_last` THEN `c0` END) AS `m0`
  FROM `stock__rows` AS `stock__rows`
  WHERE
    `stock__rows`.`kept` = 1
  GROUP BY
    `stock__rows`.`d0`
), `members` AS (
  SELECT DISTINCT
    `products`.`name` AS `d0`
  FROM `shop`.`products` AS `products`
), `stacked` AS (
  SELECT
    `stock__1`.`d0` AS `d0`,
    `stock__1`.`m0` AS `m0`
  FROM `stock__1` AS `stock__1`
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
  `combined`.`m0` AS `on_hand`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [stock__rows] AS (
  SELECT
    [products].[name] AS [d0],
    [stock].[day] AS [t],
    MAX([stock].[day]) OVER () AS [t_last],
    CASE WHEN (
      [stock].[pieces] > 1
    ) THEN 1 ELSE 0 END AS [kept],
    [stock].[pieces] AS [c0]
  FROM [shop].[stock] AS [stock]
  LEFT JOIN [shop].[products] AS [products]
    ON [stock].[product_id] = [products].[id]
  WHERE
    (
      [stock].[day] < '2024-02-01'
    )
), [stock__1] AS (
  SELECT
    [stock__rows].[d0] AS [d0],
    SUM(CASE WHEN [t] = [t_last] THEN [c0] END) AS [m0]
  FROM [stock__rows] AS [stock__rows]
  WHERE
    [stock__rows].[kept] = 1
  GROUP BY
    [stock__rows].[d0]
), [members] AS (
  SELECT DISTINCT
    [products].[name] AS [d0]
  FROM [shop].[products] AS [products]
), [stacked] AS (
  SELECT
    [stock__1].[d0] AS [d0],
    [stock__1].[m0] AS [m0]
  FROM [stock__1] AS [stock__1]
  CROSS JOIN [members] AS [members]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [stock__1].[d0] AS [d0],
    [stock__1].[m0] AS [m0]
  FROM [stock__1] AS [stock__1]
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
  [combined].[m0] AS [on_hand]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC;

-- clickhouse
WITH "stock__rows" AS (
  SELECT
    "products"."name" AS "d0",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER () AS "t_last",
    CASE WHEN (
      "stock"."pieces" > 1
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "stock"."day" < '2024-02-01'
    )
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    sum(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "products"."name" AS "d0"
  FROM "shop"."products" AS "products"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
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
  "combined"."m0" AS "on_hand"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- redshift
WITH "stock__rows" AS (
  SELECT
    "products"."name" AS "d0",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER () AS "t_last",
    CASE WHEN (
      "stock"."pieces" > 1
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "stock"."day" < '2024-02-01'
    )
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "products"."name" AS "d0"
  FROM "shop"."products" AS "products"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
  CROSS JOIN "members" AS "members"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
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
  "combined"."m0" AS "on_hand"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- databricks
WITH `stock__rows` AS (
  SELECT
    `products`.`name` AS `d0`,
    `stock`.`day` AS `t`,
    MAX(`stock`.`day`) OVER () AS `t_last`,
    CASE WHEN (
      `stock`.`pieces` > 1
    ) THEN 1 ELSE 0 END AS `kept`,
    `stock`.`pieces` AS `c0`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
  WHERE
    (
      `stock`.`day` < '2024-02-01'
    )
), `stock__1` AS (
  SELECT
    `stock__rows`.`d0` AS `d0`,
    SUM(CASE WHEN `t` = `t_last` THEN `c0` END) AS `m0`
  FROM `stock__rows` AS `stock__rows`
  WHERE
    `stock__rows`.`kept` = 1
  GROUP BY
    `stock__rows`.`d0`
), `members` AS (
  SELECT DISTINCT
    `products`.`name` AS `d0`
  FROM `shop`.`products` AS `products`
), `stacked` AS (
  SELECT
    `stock__1`.`d0` AS `d0`,
    `stock__1`.`m0` AS `m0`
  FROM `stock__1` AS `stock__1`
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
  `combined`.`m0` AS `on_hand`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "stock__rows" AS (
  SELECT
    "products"."name" AS "d0",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER () AS "t_last",
    CASE WHEN (
      "stock"."pieces" > 1
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "stock"."day" < '2024-02-01'
    )
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "products"."name" AS "d0"
  FROM "shop"."products" AS "products"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
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
  "combined"."m0" AS "on_hand"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;

-- spark
WITH `stock__rows` AS (
  SELECT
    `products`.`name` AS `d0`,
    `stock`.`day` AS `t`,
    MAX(`stock`.`day`) OVER () AS `t_last`,
    CASE WHEN (
      `stock`.`pieces` > 1
    ) THEN 1 ELSE 0 END AS `kept`,
    `stock`.`pieces` AS `c0`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
  WHERE
    (
      `stock`.`day` < '2024-02-01'
    )
), `stock__1` AS (
  SELECT
    `stock__rows`.`d0` AS `d0`,
    SUM(CASE WHEN `t` = `t_last` THEN `c0` END) AS `m0`
  FROM `stock__rows` AS `stock__rows`
  WHERE
    `stock__rows`.`kept` = 1
  GROUP BY
    `stock__rows`.`d0`
), `members` AS (
  SELECT DISTINCT
    `products`.`name` AS `d0`
  FROM `shop`.`products` AS `products`
), `stacked` AS (
  SELECT
    `stock__1`.`d0` AS `d0`,
    `stock__1`.`m0` AS `m0`
  FROM `stock__1` AS `stock__1`
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
  `combined`.`m0` AS `on_hand`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "stock__rows" AS (
  SELECT
    "products"."name" AS "d0",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER () AS "t_last",
    CASE WHEN (
      "stock"."pieces" > 1
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "stock"."day" < '2024-02-01'
    )
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0"
), "members" AS (
  SELECT DISTINCT
    "products"."name" AS "d0"
  FROM "shop"."products" AS "products"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."m0" AS "m0"
  FROM "stock__1" AS "stock__1"
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
  "combined"."m0" AS "on_hand"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC
LIMIT 1001;
