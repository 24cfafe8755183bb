-- {"dimensions": ["customers.label", "customers.regions.name"], "filters": ["balance > 20"]}

-- duckdb
WITH "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  WHERE
    (
      "customers"."balance" > 20
    )
)
SELECT
  "members"."d0" AS "label",
  "members"."d1" AS "name"
FROM "members" AS "members"
ORDER BY
  "members"."d0" ASC,
  "members"."d1" ASC
LIMIT 1001;

-- sqlite
WITH "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "customers" AS "customers"
  LEFT JOIN "regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  WHERE
    (
      "customers"."balance" > 20
    )
)
SELECT
  "members"."d0" AS "label",
  "members"."d1" AS "name"
FROM "members" AS "members"
ORDER BY
  "members"."d0" ASC NULLS LAST,
  "members"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  WHERE
    (
      "customers"."balance" > 20
    )
)
SELECT
  "members"."d0" AS "label",
  "members"."d1" AS "name"
FROM "members" AS "members"
ORDER BY
  "members"."d0" ASC,
  "members"."d1" ASC
LIMIT 1001;

-- mysql
WITH `members` AS (
  SELECT DISTINCT
    (
      COALESCE(`customers`.`tier`, 'none')
    ) AS `d0`,
    `regions`.`name` AS `d1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  WHERE
    (
      `customers`.`balance` > 20
    )
)
SELECT
  `members`.`d0` AS `label`,
  `members`.`d1` AS `name`
FROM `members` AS `members`
ORDER BY
  CASE WHEN `members`.`d0` IS NULL THEN 1 ELSE 0 END, `members`.`d0` ASC,
  CASE WHEN `members`.`d1` IS NULL THEN 1 ELSE 0 END, `members`.`d1` ASC
LIMIT 1001;

-- snowflake
WITH "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  WHERE
    (
      "customers"."balance" > 20
    )
)
SELECT
  "members"."d0" AS "label",
  "members"."d1" AS "name"
FROM "members" AS "members"
ORDER BY
  "members"."d0" ASC,
  "members"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `members` AS (
  SELECT DISTINCT
    (
      COALESCE(`customers`.`tier`, 'none')
    ) AS `d0`,
    `regions`.`name` AS `d1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  WHERE
    (
      `customers`.`balance` > 20
    )
)
SELECT
  `members`.`d0` AS `label`,
  `members`.`d1` AS `name`
FROM `members` AS `members`
ORDER BY
  `members`.`d0` ASC NULLS LAST,
  `members`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [members] AS (
  SELECT DISTINCT
    (
      COALESCE([customers].[tier], 'none')
    ) AS [d0],
    [regions].[name] AS [d1]
  FROM [shop].[customers] AS [customers]
  LEFT JOIN [shop].[regions] AS [regions]
    ON [customers].[region_id] = [regions].[id]
  WHERE
    (
      [customers].[balance] > 20
    )
)
SELECT
TOP 1001
  [members].[d0] AS [label],
  [members].[d1] AS [name]
FROM [members] AS [members]
ORDER BY
  CASE WHEN [members].[d0] IS NULL THEN 1 ELSE 0 END, [members].[d0] ASC,
  CASE WHEN [members].[d1] IS NULL THEN 1 ELSE 0 END, [members].[d1] ASC;

-- clickhouse
WITH "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  WHERE
    (
      "customers"."balance" > 20
    )
)
SELECT
  "members"."d0" AS "label",
  "members"."d1" AS "name"
FROM "members" AS "members"
ORDER BY
  "members"."d0" ASC,
  "members"."d1" ASC
LIMIT 1001;

-- redshift
WITH "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  WHERE
    (
      "customers"."balance" > 20
    )
)
SELECT
  "members"."d0" AS "label",
  "members"."d1" AS "name"
FROM "members" AS "members"
ORDER BY
  "members"."d0" ASC,
  "members"."d1" ASC
LIMIT 1001;

-- databricks
WITH `members` AS (
  SELECT DISTINCT
    (
      COALESCE(`customers`.`tier`, 'none')
    ) AS `d0`,
    `regions`.`name` AS `d1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  WHERE
    (
      `customers`.`balance` > 20
    )
)
SELECT
  `members`.`d0` AS `label`,
  `members`.`d1` AS `name`
FROM `members` AS `members`
ORDER BY
  `members`.`d0` ASC NULLS LAST,
  `members`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  WHERE
    (
      "customers"."balance" > 20
    )
)
SELECT
  "members"."d0" AS "label",
  "members"."d1" AS "name"
FROM "members" AS "members"
ORDER BY
  "members"."d0" ASC,
  "members"."d1" ASC
LIMIT 1001;

-- spark
WITH `members` AS (
  SELECT DISTINCT
    (
      COALESCE(`customers`.`tier`, 'none')
    ) AS `d0`,
    `regions`.`name` AS `d1`
  FROM `shop`.`customers` AS `customers`
  LEFT JOIN `shop`.`regions` AS `regions`
    ON `customers`.`region_id` = `regions`.`id`
  WHERE
    (
      `customers`.`balance` > 20
    )
)
SELECT
  `members`.`d0` AS `label`,
  `members`.`d1` AS `name`
FROM `members` AS `members`
ORDER BY
  `members`.`d0` ASC NULLS LAST,
  `members`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "members" AS (
  SELECT DISTINCT
    (
      COALESCE("customers"."tier", 'none')
    ) AS "d0",
    "regions"."name" AS "d1"
  FROM "shop"."customers" AS "customers"
  LEFT JOIN "shop"."regions" AS "regions"
    ON "customers"."region_id" = "regions"."id"
  WHERE
    (
      "customers"."balance" > 20
    )
)
SELECT
  "members"."d0" AS "label",
  "members"."d1" AS "name"
FROM "members" AS "members"
ORDER BY
  "members"."d0" ASC,
  "members"."d1" ASC
LIMIT 1001;
