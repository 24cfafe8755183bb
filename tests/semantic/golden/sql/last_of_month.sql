-- {"measures": ["stock.on_hand", "stock.usual"], "dimensions": [{"field": "stock.day", "granularity": "month"}, "products.name"], "filters": ["products.price < 20"]}

-- duckdb
WITH "stock__rows" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER (PARTITION BY CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE)) AS "t_last",
    CASE WHEN (
      "products"."price" < 20
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    "stock__rows"."d1" AS "d1",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0",
    "stock__rows"."d1"
), "stock__by_time" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    SUM("stock"."pieces") AS "m1"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "products"."price" < 20
    )
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE),
    "products"."name",
    "stock"."day"
), "stock__1_2" AS (
  SELECT
    "stock__by_time"."d0" AS "d0",
    "stock__by_time"."d1" AS "d1",
    AVG("stock__by_time"."m1") AS "m1"
  FROM "stock__by_time" AS "stock__by_time"
  GROUP BY
    "stock__by_time"."d0",
    "stock__by_time"."d1"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "stock__1" AS "stock__1"
  UNION ALL
  SELECT
    "stock__1_2"."d0" AS "d0",
    "stock__1_2"."d1" AS "d1",
    NULL AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1_2" AS "stock__1_2"
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
  "combined"."d0" AS "day_month",
  "combined"."d1" AS "name",
  "combined"."m0" AS "on_hand",
  "combined"."m1" AS "usual"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- sqlite
WITH "stock__rows" AS (
  SELECT
    DATE(
      DATE(
        CASE
          WHEN TYPEOF("stock"."day") <> 'text'
          THEN DATE("stock"."day", 'unixepoch')
          ELSE SUBSTR("stock"."day", 1, 10)
        END
      ),
      'start of month'
    ) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER (
      PARTITION BY DATE(
        DATE(
          CASE
            WHEN TYPEOF("stock"."day") <> 'text'
            THEN DATE("stock"."day", 'unixepoch')
            ELSE SUBSTR("stock"."day", 1, 10)
          END
        ),
        'start of month'
      )
    ) AS "t_last",
    CASE WHEN (
      "products"."price" < 20
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "stock" AS "stock"
  LEFT JOIN "products" AS "products"
    ON "stock"."product_id" = "products"."id"
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    "stock__rows"."d1" AS "d1",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0",
    "stock__rows"."d1"
), "stock__by_time" AS (
  SELECT
    DATE(
      DATE(
        CASE
          WHEN TYPEOF("stock"."day") <> 'text'
          THEN DATE("stock"."day", 'unixepoch')
          ELSE SUBSTR("stock"."day", 1, 10)
        END
      ),
      'start of month'
    ) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    SUM("stock"."pieces") AS "m1"
  FROM "stock" AS "stock"
  LEFT JOIN "products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "products"."price" < 20
    )
  GROUP BY
    DATE(
      DATE(
        CASE
          WHEN TYPEOF("stock"."day") <> 'text'
          THEN DATE("stock"."day", 'unixepoch')
          ELSE SUBSTR("stock"."day", 1, 10)
        END
      ),
      'start of month'
    ),
    "products"."name",
    "stock"."day"
), "stock__1_2" AS (
  SELECT
    "stock__by_time"."d0" AS "d0",
    "stock__by_time"."d1" AS "d1",
    AVG("stock__by_time"."m1") AS "m1"
  FROM "stock__by_time" AS "stock__by_time"
  GROUP BY
    "stock__by_time"."d0",
    "stock__by_time"."d1"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "stock__1" AS "stock__1"
  UNION ALL
  SELECT
    "stock__1_2"."d0" AS "d0",
    "stock__1_2"."d1" AS "d1",
    NULL AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1_2" AS "stock__1_2"
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
  "combined"."d0" AS "day_month",
  "combined"."d1" AS "name",
  "combined"."m0" AS "on_hand",
  "combined"."m1" AS "usual"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC NULLS LAST,
  "combined"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "stock__rows" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER (PARTITION BY CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE)) AS "t_last",
    CASE WHEN (
      "products"."price" < 20
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    "stock__rows"."d1" AS "d1",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0",
    "stock__rows"."d1"
), "stock__by_time" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    SUM("stock"."pieces") AS "m1"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "products"."price" < 20
    )
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE),
    "products"."name",
    "stock"."day"
), "stock__1_2" AS (
  SELECT
    "stock__by_time"."d0" AS "d0",
    "stock__by_time"."d1" AS "d1",
    AVG("stock__by_time"."m1") AS "m1"
  FROM "stock__by_time" AS "stock__by_time"
  GROUP BY
    "stock__by_time"."d0",
    "stock__by_time"."d1"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1" AS "stock__1"
  CROSS JOIN "stock__1_2" AS "stock__1_2"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "stock__1" AS "stock__1"
  UNION ALL
  SELECT
    "stock__1_2"."d0" AS "d0",
    "stock__1_2"."d1" AS "d1",
    NULL AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1_2" AS "stock__1_2"
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
  "combined"."d0" AS "day_month",
  "combined"."d1" AS "name",
  "combined"."m0" AS "on_hand",
  "combined"."m1" AS "usual"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- mysql
WITH `stock__rows` AS (
  SELECT
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`stock`.`day` AS DATE))
      ) MONTH
    ) AS `d0`,
    `products`.`name` AS `d1`,
    `stock`.`day` AS `t`,
    MAX(`stock`.`day`) OVER (
      PARTITION BY DATE_ADD(
        CAST('0001-01-01' AS DATE),
        INTERVAL (
          TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`stock`.`day` AS DATE))
        ) MONTH
      )
    ) AS `t_last`,
    CASE WHEN (
      `products`.`price` < 20
    ) THEN 1 ELSE 0 END AS `kept`,
    `stock`.`pieces` AS `c0`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
), `stock__1` AS (
  SELECT
    `stock__rows`.`d0` AS `d0`,
    `stock__rows`.`d1` AS `d1`,
    SUM(CASE WHEN `t` = `t_last` THEN `c0` END) AS `m0`
  FROM `stock__rows` AS `stock__rows`
  WHERE
    `stock__rows`.`kept` = 1
  GROUP BY
    `stock__rows`.`d0`,
    `stock__rows`.`d1`
), `stock__by_time` AS (
  SELECT
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`stock`.`day` AS DATE))
      ) MONTH
    ) AS `d0`,
    `products`.`name` AS `d1`,
    `stock`.`day` AS `t`,
    SUM(`stock`.`pieces`) AS `m1`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
  WHERE
    (
      `products`.`price` < 20
    )
  GROUP BY
    DATE_ADD(
      CAST('0001-01-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST(`stock`.`day` AS DATE))
      ) MONTH
    ),
    `products`.`name`,
    `stock`.`day`
), `stock__1_2` AS (
  SELECT
    `stock__by_time`.`d0` AS `d0`,
    `stock__by_time`.`d1` AS `d1`,
    AVG(CAST(`stock__by_time`.`m1` AS DOUBLE)) AS `m1`
  FROM `stock__by_time` AS `stock__by_time`
  GROUP BY
    `stock__by_time`.`d0`,
    `stock__by_time`.`d1`
), `stacked` AS (
  SELECT
    `stock__1`.`d0` AS `d0`,
    `stock__1`.`d1` AS `d1`,
    `stock__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `stock__1` AS `stock__1`
  UNION ALL
  SELECT
    `stock__1_2`.`d0` AS `d0`,
    `stock__1_2`.`d1` AS `d1`,
    NULL AS `m0`,
    `stock__1_2`.`m1` AS `m1`
  FROM `stock__1_2` AS `stock__1_2`
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
  `combined`.`d0` AS `day_month`,
  `combined`.`d1` AS `name`,
  `combined`.`m0` AS `on_hand`,
  `combined`.`m1` AS `usual`
FROM `combined` AS `combined`
ORDER BY
  CASE WHEN `combined`.`d0` IS NULL THEN 1 ELSE 0 END, `combined`.`d0` ASC,
  CASE WHEN `combined`.`d1` IS NULL THEN 1 ELSE 0 END, `combined`.`d1` ASC
LIMIT 1001;

-- snowflake
WITH "stock__rows" AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST("stock"."day" AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER (
      PARTITION BY DATEADD(
        MONTH,
        DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST("stock"."day" AS DATE)),
        CAST('0001-01-01' AS DATE)
      )
    ) AS "t_last",
    CASE WHEN (
      "products"."price" < 20
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    "stock__rows"."d1" AS "d1",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0",
    "stock__rows"."d1"
), "stock__by_time" AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST("stock"."day" AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    SUM("stock"."pieces") AS "m1"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "products"."price" < 20
    )
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST("stock"."day" AS DATE)),
      CAST('0001-01-01' AS DATE)
    ),
    "products"."name",
    "stock"."day"
), "stock__1_2" AS (
  SELECT
    "stock__by_time"."d0" AS "d0",
    "stock__by_time"."d1" AS "d1",
    AVG(CAST("stock__by_time"."m1" AS DOUBLE)) AS "m1"
  FROM "stock__by_time" AS "stock__by_time"
  GROUP BY
    "stock__by_time"."d0",
    "stock__by_time"."d1"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "stock__1" AS "stock__1"
  UNION ALL
  SELECT
    "stock__1_2"."d0" AS "d0",
    "stock__1_2"."d1" AS "d1",
    NULL AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1_2" AS "stock__1_2"
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
  "combined"."d0" AS "day_month",
  "combined"."d1" AS "name",
  "combined"."m0" AS "on_hand",
  "combined"."m1" AS "usual"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `stock__rows` AS (
  SELECT
    DATE_TRUNC(CAST(`stock`.`day` AS DATE), MONTH) AS `d0`,
    `products`.`name` AS `d1`,
    `stock`.`day` AS `t`,
    MAX(`stock`.`day`) OVER (PARTITION BY DATE_TRUNC(CAST(`stock`.`day` AS DATE), MONTH)) AS `t_last`,
    CASE WHEN (
      `products`.`price` < 20
    ) THEN 1 ELSE 0 END AS `kept`,
    `stock`.`pieces` AS `c0`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
), `stock__1` AS (
  SELECT
    `stock__rows`.`d0` AS `d0`,
    `stock__rows`.`d1` AS `d1`,
    sum(CASE WHEN `t` = `t_last` THEN `c0` END) AS `m0`
  FROM `stock__rows` AS `stock__rows`
  WHERE
    `stock__rows`.`kept` = 1
  GROUP BY
    `stock__rows`.`d0`,
    `stock__rows`.`d1`
), `stock__by_time` AS (
  SELECT
    DATE_TRUNC(CAST(`stock`.`day` AS DATE), MONTH) AS `d0`,
    `products`.`name` AS `d1`,
    `stock`.`day` AS `t`,
    sum(`stock`.`pieces`) AS `m1`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
  WHERE
    (
      `products`.`price` < 20
    )
  GROUP BY
    DATE_TRUNC(CAST(`stock`.`day` AS DATE), MONTH),
    `products`.`name`,
    `stock`.`day`
), `stock__1_2` AS (
  SELECT
    `stock__by_time`.`d0` AS `d0`,
    `stock__by_time`.`d1` AS `d1`,
    AVG(`stock__by_time`.`m1`) AS `m1`
  FROM `stock__by_time` AS `stock__by_time`
  GROUP BY
    `stock__by_time`.`d0`,
    `stock__by_time`.`d1`
), `stacked` AS (
  SELECT
    `stock__1`.`d0` AS `d0`,
    `stock__1`.`d1` AS `d1`,
    `stock__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `stock__1` AS `stock__1`
  UNION ALL
  SELECT
    `stock__1_2`.`d0` AS `d0`,
    `stock__1_2`.`d1` AS `d1`,
    NULL AS `m0`,
    `stock__1_2`.`m1` AS `m1`
  FROM `stock__1_2` AS `stock__1_2`
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
  `combined`.`d0` AS `day_month`,
  `combined`.`d1` AS `name`,
  `combined`.`m0` AS `on_hand`,
  `combined`.`m1` AS `usual`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [stock__rows] AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([stock].[day] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS [d0],
    [products].[name] AS [d1],
    [stock].[day] AS [t],
    MAX([stock].[day]) OVER (
      PARTITION BY DATEADD(
        MONTH,
        DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([stock].[day] AS DATE)),
        CAST('0001-01-01' AS DATE)
      )
    ) AS [t_last],
    CASE WHEN (
      [products].[price] < 20
    ) THEN 1 ELSE 0 END AS [kept],
    [stock].[pieces] AS [c0]
  FROM [shop].[stock] AS [stock]
  LEFT JOIN [shop].[products] AS [products]
    ON [stock].[product_id] = [products].[id]
), [stock__1] AS (
  SELECT
    [stock__rows].[d0] AS [d0],
    [stock__rows].[d1] AS [d1],
    SUM(CASE WHEN [t] = [t_last] THEN [c0] END) AS [m0]
  FROM [stock__rows] AS [stock__rows]
  WHERE
    [stock__rows].[kept] = 1
  GROUP BY
    [stock__rows].[d0],
    [stock__rows].[d1]
), [stock__by_time] AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([stock].[day] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ) AS [d0],
    [products].[name] AS [d1],
    [stock].[day] AS [t],
    SUM([stock].[pieces]) AS [m1]
  FROM [shop].[stock] AS [stock]
  LEFT JOIN [shop].[products] AS [products]
    ON [stock].[product_id] = [products].[id]
  WHERE
    (
      [products].[price] < 20
    )
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-01-01' AS DATE), CAST([stock].[day] AS DATE)),
      CAST('0001-01-01' AS DATE)
    ),
    [products].[name],
    [stock].[day]
), [stock__1_2] AS (
  SELECT
    [stock__by_time].[d0] AS [d0],
    [stock__by_time].[d1] AS [d1],
    AVG(CAST([stock__by_time].[m1] AS FLOAT)) AS [m1]
  FROM [stock__by_time] AS [stock__by_time]
  GROUP BY
    [stock__by_time].[d0],
    [stock__by_time].[d1]
), [stacked] AS (
  SELECT
    [stock__1].[d0] AS [d0],
    [stock__1].[d1] AS [d1],
    [stock__1].[m0] AS [m0],
    [stock__1_2].[m1] AS [m1]
  FROM [stock__1] AS [stock__1]
  CROSS JOIN [stock__1_2] AS [stock__1_2]
  WHERE
    (1 = 0)
  UNION ALL
  SELECT
    [stock__1].[d0] AS [d0],
    [stock__1].[d1] AS [d1],
    [stock__1].[m0] AS [m0],
    NULL AS [m1]
  FROM [stock__1] AS [stock__1]
  UNION ALL
  SELECT
    [stock__1_2].[d0] AS [d0],
    [stock__1_2].[d1] AS [d1],
    NULL AS [m0],
    [stock__1_2].[m1] AS [m1]
  FROM [stock__1_2] AS [stock__1_2]
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
  [combined].[d0] AS [day_month],
  [combined].[d1] AS [name],
  [combined].[m0] AS [on_hand],
  [combined].[m1] AS [usual]
FROM [combined] AS [combined]
ORDER BY
  CASE WHEN [combined].[d0] IS NULL THEN 1 ELSE 0 END, [combined].[d0] ASC,
  CASE WHEN [combined].[d1] IS NULL THEN 1 ELSE 0 END, [combined].[d1] ASC;

-- clickhouse
WITH "stock__rows" AS (
  SELECT
    addMonths(
      toDate32('1900-01-01'),
      dateDiff('month', toDate32('1900-01-01'), toDate32("stock"."day"))
    ) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER (
      PARTITION BY addMonths(
        toDate32('1900-01-01'),
        dateDiff('month', toDate32('1900-01-01'), toDate32("stock"."day"))
      )
    ) AS "t_last",
    CASE WHEN (
      "products"."price" < 20
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    "stock__rows"."d1" AS "d1",
    sum(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0",
    "stock__rows"."d1"
), "stock__by_time" AS (
  SELECT
    addMonths(
      toDate32('1900-01-01'),
      dateDiff('month', toDate32('1900-01-01'), toDate32("stock"."day"))
    ) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    sum("stock"."pieces") AS "m1"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "products"."price" < 20
    )
  GROUP BY
    addMonths(
      toDate32('1900-01-01'),
      dateDiff('month', toDate32('1900-01-01'), toDate32("stock"."day"))
    ),
    "products"."name",
    "stock"."day"
), "stock__1_2" AS (
  SELECT
    "stock__by_time"."d0" AS "d0",
    "stock__by_time"."d1" AS "d1",
    AVG("stock__by_time"."m1") AS "m1"
  FROM "stock__by_time" AS "stock__by_time"
  GROUP BY
    "stock__by_time"."d0",
    "stock__by_time"."d1"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "stock__1" AS "stock__1"
  UNION ALL
  SELECT
    "stock__1_2"."d0" AS "d0",
    "stock__1_2"."d1" AS "d1",
    NULL AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1_2" AS "stock__1_2"
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
  "combined"."d0" AS "day_month",
  "combined"."d1" AS "name",
  "combined"."m0" AS "on_hand",
  "combined"."m1" AS "usual"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- redshift
WITH "stock__rows" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER (PARTITION BY CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE)) AS "t_last",
    CASE WHEN (
      "products"."price" < 20
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    "stock__rows"."d1" AS "d1",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0",
    "stock__rows"."d1"
), "stock__by_time" AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    SUM("stock"."pieces") AS "m1"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "products"."price" < 20
    )
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS DATE),
    "products"."name",
    "stock"."day"
), "stock__1_2" AS (
  SELECT
    "stock__by_time"."d0" AS "d0",
    "stock__by_time"."d1" AS "d1",
    AVG(CAST("stock__by_time"."m1" AS DOUBLE PRECISION)) AS "m1"
  FROM "stock__by_time" AS "stock__by_time"
  GROUP BY
    "stock__by_time"."d0",
    "stock__by_time"."d1"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1" AS "stock__1"
  CROSS JOIN "stock__1_2" AS "stock__1_2"
  WHERE
    FALSE
  UNION ALL
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "stock__1" AS "stock__1"
  UNION ALL
  SELECT
    "stock__1_2"."d0" AS "d0",
    "stock__1_2"."d1" AS "d1",
    NULL AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1_2" AS "stock__1_2"
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
  "combined"."d0" AS "day_month",
  "combined"."d1" AS "name",
  "combined"."m0" AS "on_hand",
  "combined"."m1" AS "usual"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- databricks
WITH `stock__rows` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(`stock`.`day` AS DATE)) AS DATE) AS `d0`,
    `products`.`name` AS `d1`,
    `stock`.`day` AS `t`,
    MAX(`stock`.`day`) OVER (PARTITION BY CAST(DATE_TRUNC('MONTH', CAST(`stock`.`day` AS DATE)) AS DATE)) AS `t_last`,
    CASE WHEN (
      `products`.`price` < 20
    ) THEN 1 ELSE 0 END AS `kept`,
    `stock`.`pieces` AS `c0`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
), `stock__1` AS (
  SELECT
    `stock__rows`.`d0` AS `d0`,
    `stock__rows`.`d1` AS `d1`,
    SUM(CASE WHEN `t` = `t_last` THEN `c0` END) AS `m0`
  FROM `stock__rows` AS `stock__rows`
  WHERE
    `stock__rows`.`kept` = 1
  GROUP BY
    `stock__rows`.`d0`,
    `stock__rows`.`d1`
), `stock__by_time` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(`stock`.`day` AS DATE)) AS DATE) AS `d0`,
    `products`.`name` AS `d1`,
    `stock`.`day` AS `t`,
    SUM(`stock`.`pieces`) AS `m1`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
  WHERE
    (
      `products`.`price` < 20
    )
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(`stock`.`day` AS DATE)) AS DATE),
    `products`.`name`,
    `stock`.`day`
), `stock__1_2` AS (
  SELECT
    `stock__by_time`.`d0` AS `d0`,
    `stock__by_time`.`d1` AS `d1`,
    AVG(CAST(`stock__by_time`.`m1` AS DOUBLE)) AS `m1`
  FROM `stock__by_time` AS `stock__by_time`
  GROUP BY
    `stock__by_time`.`d0`,
    `stock__by_time`.`d1`
), `stacked` AS (
  SELECT
    `stock__1`.`d0` AS `d0`,
    `stock__1`.`d1` AS `d1`,
    `stock__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `stock__1` AS `stock__1`
  UNION ALL
  SELECT
    `stock__1_2`.`d0` AS `d0`,
    `stock__1_2`.`d1` AS `d1`,
    NULL AS `m0`,
    `stock__1_2`.`m1` AS `m1`
  FROM `stock__1_2` AS `stock__1_2`
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
  `combined`.`d0` AS `day_month`,
  `combined`.`d1` AS `name`,
  `combined`.`m0` AS `on_hand`,
  `combined`.`m1` AS `usual`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "stock__rows" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER (PARTITION BY DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE))) AS "t_last",
    CASE WHEN (
      "products"."price" < 20
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    "stock__rows"."d1" AS "d1",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0",
    "stock__rows"."d1"
), "stock__by_time" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    SUM("stock"."pieces") AS "m1"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "products"."price" < 20
    )
  GROUP BY
    DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)),
    "products"."name",
    "stock"."day"
), "stock__1_2" AS (
  SELECT
    "stock__by_time"."d0" AS "d0",
    "stock__by_time"."d1" AS "d1",
    AVG(CAST("stock__by_time"."m1" AS DOUBLE)) AS "m1"
  FROM "stock__by_time" AS "stock__by_time"
  GROUP BY
    "stock__by_time"."d0",
    "stock__by_time"."d1"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "stock__1" AS "stock__1"
  UNION ALL
  SELECT
    "stock__1_2"."d0" AS "d0",
    "stock__1_2"."d1" AS "d1",
    NULL AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1_2" AS "stock__1_2"
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
  "combined"."d0" AS "day_month",
  "combined"."d1" AS "name",
  "combined"."m0" AS "on_hand",
  "combined"."m1" AS "usual"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;

-- spark
WITH `stock__rows` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(`stock`.`day` AS DATE)) AS DATE) AS `d0`,
    `products`.`name` AS `d1`,
    `stock`.`day` AS `t`,
    MAX(`stock`.`day`) OVER (PARTITION BY CAST(DATE_TRUNC('MONTH', CAST(`stock`.`day` AS DATE)) AS DATE)) AS `t_last`,
    CASE WHEN (
      `products`.`price` < 20
    ) THEN 1 ELSE 0 END AS `kept`,
    `stock`.`pieces` AS `c0`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
), `stock__1` AS (
  SELECT
    `stock__rows`.`d0` AS `d0`,
    `stock__rows`.`d1` AS `d1`,
    SUM(CASE WHEN `t` = `t_last` THEN `c0` END) AS `m0`
  FROM `stock__rows` AS `stock__rows`
  WHERE
    `stock__rows`.`kept` = 1
  GROUP BY
    `stock__rows`.`d0`,
    `stock__rows`.`d1`
), `stock__by_time` AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', CAST(`stock`.`day` AS DATE)) AS DATE) AS `d0`,
    `products`.`name` AS `d1`,
    `stock`.`day` AS `t`,
    SUM(`stock`.`pieces`) AS `m1`
  FROM `shop`.`stock` AS `stock`
  LEFT JOIN `shop`.`products` AS `products`
    ON `stock`.`product_id` = `products`.`id`
  WHERE
    (
      `products`.`price` < 20
    )
  GROUP BY
    CAST(DATE_TRUNC('MONTH', CAST(`stock`.`day` AS DATE)) AS DATE),
    `products`.`name`,
    `stock`.`day`
), `stock__1_2` AS (
  SELECT
    `stock__by_time`.`d0` AS `d0`,
    `stock__by_time`.`d1` AS `d1`,
    AVG(CAST(`stock__by_time`.`m1` AS DOUBLE)) AS `m1`
  FROM `stock__by_time` AS `stock__by_time`
  GROUP BY
    `stock__by_time`.`d0`,
    `stock__by_time`.`d1`
), `stacked` AS (
  SELECT
    `stock__1`.`d0` AS `d0`,
    `stock__1`.`d1` AS `d1`,
    `stock__1`.`m0` AS `m0`,
    NULL AS `m1`
  FROM `stock__1` AS `stock__1`
  UNION ALL
  SELECT
    `stock__1_2`.`d0` AS `d0`,
    `stock__1_2`.`d1` AS `d1`,
    NULL AS `m0`,
    `stock__1_2`.`m1` AS `m1`
  FROM `stock__1_2` AS `stock__1_2`
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
  `combined`.`d0` AS `day_month`,
  `combined`.`d1` AS `name`,
  `combined`.`m0` AS `on_hand`,
  `combined`.`m1` AS `usual`
FROM `combined` AS `combined`
ORDER BY
  `combined`.`d0` ASC NULLS LAST,
  `combined`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "stock__rows" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    MAX("stock"."day") OVER (PARTITION BY DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE))) AS "t_last",
    CASE WHEN (
      "products"."price" < 20
    ) THEN 1 ELSE 0 END AS "kept",
    "stock"."pieces" AS "c0"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
), "stock__1" AS (
  SELECT
    "stock__rows"."d0" AS "d0",
    "stock__rows"."d1" AS "d1",
    SUM(CASE WHEN "t" = "t_last" THEN "c0" END) AS "m0"
  FROM "stock__rows" AS "stock__rows"
  WHERE
    "stock__rows"."kept" = 1
  GROUP BY
    "stock__rows"."d0",
    "stock__rows"."d1"
), "stock__by_time" AS (
  SELECT
    DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)) AS "d0",
    "products"."name" AS "d1",
    "stock"."day" AS "t",
    SUM("stock"."pieces") AS "m1"
  FROM "shop"."stock" AS "stock"
  LEFT JOIN "shop"."products" AS "products"
    ON "stock"."product_id" = "products"."id"
  WHERE
    (
      "products"."price" < 20
    )
  GROUP BY
    DATE_TRUNC('MONTH', CAST("stock"."day" AS DATE)),
    "products"."name",
    "stock"."day"
), "stock__1_2" AS (
  SELECT
    "stock__by_time"."d0" AS "d0",
    "stock__by_time"."d1" AS "d1",
    AVG(CAST("stock__by_time"."m1" AS DOUBLE)) AS "m1"
  FROM "stock__by_time" AS "stock__by_time"
  GROUP BY
    "stock__by_time"."d0",
    "stock__by_time"."d1"
), "stacked" AS (
  SELECT
    "stock__1"."d0" AS "d0",
    "stock__1"."d1" AS "d1",
    "stock__1"."m0" AS "m0",
    NULL AS "m1"
  FROM "stock__1" AS "stock__1"
  UNION ALL
  SELECT
    "stock__1_2"."d0" AS "d0",
    "stock__1_2"."d1" AS "d1",
    NULL AS "m0",
    "stock__1_2"."m1" AS "m1"
  FROM "stock__1_2" AS "stock__1_2"
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
  "combined"."d0" AS "day_month",
  "combined"."d1" AS "name",
  "combined"."m0" AS "on_hand",
  "combined"."m1" AS "usual"
FROM "combined" AS "combined"
ORDER BY
  "combined"."d0" ASC,
  "combined"."d1" ASC
LIMIT 1001;
