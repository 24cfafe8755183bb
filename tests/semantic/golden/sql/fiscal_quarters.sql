-- {"measures": ["tickets.tickets"], "dimensions": [{"field": "tickets.opened_on", "granularity": "fiscal_quarter"}, {"field": "tickets.opened_on", "granularity": "fiscal_year"}]}

-- duckdb
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    CAST(CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) + INTERVAL (
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 3
      )
    ) MONTH AS DATE) AS "d0",
    CAST(CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) + INTERVAL (
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 12
      )
    ) MONTH AS DATE) AS "d1",
    COUNT(*) AS "m0"
  FROM "tickets__allowed" AS "tickets"
  GROUP BY
    CAST(CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) + INTERVAL (
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 3
      )
    ) MONTH AS DATE),
    CAST(CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) + INTERVAL (
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 12
      )
    ) MONTH AS DATE)
)
SELECT
  "tickets__1"."d0" AS "opened_on_fiscal_quarter",
  "tickets__1"."d1" AS "opened_on_fiscal_year",
  COALESCE("tickets__1"."m0", 0) AS "tickets"
FROM "tickets__1" AS "tickets__1"
ORDER BY
  "tickets__1"."d0" ASC,
  "tickets__1"."d1" ASC
LIMIT 1001;

-- sqlite
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  LIMIT -1
), "tickets__1" AS (
  SELECT
    DATE(
      DATE(
        DATE(
          CASE
            WHEN TYPEOF("tickets"."opened_on") <> 'text'
            THEN DATE("tickets"."opened_on", 'unixepoch')
            ELSE SUBSTR("tickets"."opened_on", 1, 10)
          END
        ),
        'start of month'
      ),
      (
        -(
          (
            CAST(STRFTIME(
              '%m',
              DATE(
                CASE
                  WHEN TYPEOF("tickets"."opened_on") <> 'text'
                  THEN DATE("tickets"."opened_on", 'unixepoch')
                  ELSE SUBSTR("tickets"."opened_on", 1, 10)
                END
              )
            ) AS INTEGER) + 8
          ) % 3
        )
      ) || ' months'
    ) AS "d0",
    DATE(
      DATE(
        DATE(
          CASE
            WHEN TYPEOF("tickets"."opened_on") <> 'text'
            THEN DATE("tickets"."opened_on", 'unixepoch')
            ELSE SUBSTR("tickets"."opened_on", 1, 10)
          END
        ),
        'start of month'
      ),
      (
        -(
          (
            CAST(STRFTIME(
              '%m',
              DATE(
                CASE
                  WHEN TYPEOF("tickets"."opened_on") <> 'text'
                  THEN DATE("tickets"."opened_on", 'unixepoch')
                  ELSE SUBSTR("tickets"."opened_on", 1, 10)
                END
              )
            ) AS INTEGER) + 8
          ) % 12
        )
      ) || ' months'
    ) AS "d1",
    COUNT(*) AS "m0"
  FROM "tickets__allowed" AS "tickets"
  GROUP BY
    DATE(
      DATE(
        DATE(
          CASE
            WHEN TYPEOF("tickets"."opened_on") <> 'text'
            THEN DATE("tickets"."opened_on", 'unixepoch')
            ELSE SUBSTR("tickets"."opened_on", 1, 10)
          END
        ),
        'start of month'
      ),
      (
        -(
          (
            CAST(STRFTIME(
              '%m',
              DATE(
                CASE
                  WHEN TYPEOF("tickets"."opened_on") <> 'text'
                  THEN DATE("tickets"."opened_on", 'unixepoch')
                  ELSE SUBSTR("tickets"."opened_on", 1, 10)
                END
              )
            ) AS INTEGER) + 8
          ) % 3
        )
      ) || ' months'
    ),
    DATE(
      DATE(
        DATE(
          CASE
            WHEN TYPEOF("tickets"."opened_on") <> 'text'
            THEN DATE("tickets"."opened_on", 'unixepoch')
            ELSE SUBSTR("tickets"."opened_on", 1, 10)
          END
        ),
        'start of month'
      ),
      (
        -(
          (
            CAST(STRFTIME(
              '%m',
              DATE(
                CASE
                  WHEN TYPEOF("tickets"."opened_on") <> 'text'
                  THEN DATE("tickets"."opened_on", 'unixepoch')
                  ELSE SUBSTR("tickets"."opened_on", 1, 10)
                END
              )
            ) AS INTEGER) + 8
          ) % 12
        )
      ) || ' months'
    )
)
SELECT
  "tickets__1"."d0" AS "opened_on_fiscal_quarter",
  "tickets__1"."d1" AS "opened_on_fiscal_year",
  COALESCE("tickets__1"."m0", 0) AS "tickets"
FROM "tickets__1" AS "tickets__1"
ORDER BY
  "tickets__1"."d0" ASC NULLS LAST,
  "tickets__1"."d1" ASC NULLS LAST
LIMIT 1001;

-- postgres
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  OFFSET 0
), "tickets__1" AS (
  SELECT
    CAST(CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) + (
      INTERVAL '1 MONTH' * (
        -(
          (
            CAST(EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) AS INT) + 8
          ) % 3
        )
      )
    ) AS DATE) AS "d0",
    CAST(CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) + (
      INTERVAL '1 MONTH' * (
        -(
          (
            CAST(EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) AS INT) + 8
          ) % 12
        )
      )
    ) AS DATE) AS "d1",
    COUNT(*) AS "m0"
  FROM "tickets__allowed" AS "tickets"
  GROUP BY
    CAST(CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) + (
      INTERVAL '1 MONTH' * (
        -(
          (
            CAST(EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) AS INT) + 8
          ) % 3
        )
      )
    ) AS DATE),
    CAST(CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE) + (
      INTERVAL '1 MONTH' * (
        -(
          (
            CAST(EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) AS INT) + 8
          ) % 12
        )
      )
    ) AS DATE)
)
SELECT
  "tickets__1"."d0" AS "opened_on_fiscal_quarter",
  "tickets__1"."d1" AS "opened_on_fiscal_year",
  COALESCE("tickets__1"."m0", 0) AS "tickets"
FROM "tickets__1" AS "tickets__1"
ORDER BY
  "tickets__1"."d0" ASC,
  "tickets__1"."d1" ASC
LIMIT 1001;

-- mysql
WITH `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
  LIMIT 18446744073709551615
), `tickets__1` AS (
  SELECT
    DATE_ADD(
      CAST('0001-04-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST(`tickets`.`opened_on` AS DATE)) DIV 3 * 3
      ) MONTH
    ) AS `d0`,
    DATE_ADD(
      CAST('0001-04-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST(`tickets`.`opened_on` AS DATE)) DIV 12 * 12
      ) MONTH
    ) AS `d1`,
    COUNT(*) AS `m0`
  FROM `tickets__allowed` AS `tickets`
  GROUP BY
    DATE_ADD(
      CAST('0001-04-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST(`tickets`.`opened_on` AS DATE)) DIV 3 * 3
      ) MONTH
    ),
    DATE_ADD(
      CAST('0001-04-01' AS DATE),
      INTERVAL (
        TIMESTAMPDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST(`tickets`.`opened_on` AS DATE)) DIV 12 * 12
      ) MONTH
    )
)
SELECT
  `tickets__1`.`d0` AS `opened_on_fiscal_quarter`,
  `tickets__1`.`d1` AS `opened_on_fiscal_year`,
  COALESCE(`tickets__1`.`m0`, 0) AS `tickets`
FROM `tickets__1` AS `tickets__1`
ORDER BY
  CASE WHEN `tickets__1`.`d0` IS NULL THEN 1 ELSE 0 END, `tickets__1`.`d0` ASC,
  CASE WHEN `tickets__1`.`d1` IS NULL THEN 1 ELSE 0 END, `tickets__1`.`d1` ASC
LIMIT 1001;

-- snowflake
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    DATEADD(
      MONTH,
      FLOOR(
        DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST("tickets"."opened_on" AS DATE)) / 3
      ) * 3,
      CAST('0001-04-01' AS DATE)
    ) AS "d0",
    DATEADD(
      MONTH,
      FLOOR(
        DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST("tickets"."opened_on" AS DATE)) / 12
      ) * 12,
      CAST('0001-04-01' AS DATE)
    ) AS "d1",
    COUNT(*) AS "m0"
  FROM "tickets__allowed" AS "tickets"
  GROUP BY
    DATEADD(
      MONTH,
      FLOOR(
        DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST("tickets"."opened_on" AS DATE)) / 3
      ) * 3,
      CAST('0001-04-01' AS DATE)
    ),
    DATEADD(
      MONTH,
      FLOOR(
        DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST("tickets"."opened_on" AS DATE)) / 12
      ) * 12,
      CAST('0001-04-01' AS DATE)
    )
)
SELECT
  "tickets__1"."d0" AS "opened_on_fiscal_quarter",
  "tickets__1"."d1" AS "opened_on_fiscal_year",
  COALESCE("tickets__1"."m0", 0) AS "tickets"
FROM "tickets__1" AS "tickets__1"
ORDER BY
  "tickets__1"."d0" ASC,
  "tickets__1"."d1" ASC
LIMIT 1001;

-- bigquery
WITH `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `tickets__1` AS (
  SELECT
    DATE_ADD(
      DATE_TRUNC(CAST(`tickets`.`opened_on` AS DATE), MONTH),
      INTERVAL (
        -(
          MOD(EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8, 3)
        )
      ) MONTH
    ) AS `d0`,
    DATE_ADD(
      DATE_TRUNC(CAST(`tickets`.`opened_on` AS DATE), MONTH),
      INTERVAL (
        -(
          MOD(EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8, 12)
        )
      ) MONTH
    ) AS `d1`,
    count(*) AS `m0`
  FROM `tickets__allowed` AS `tickets`
  GROUP BY
    DATE_ADD(
      DATE_TRUNC(CAST(`tickets`.`opened_on` AS DATE), MONTH),
      INTERVAL (
        -(
          MOD(EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8, 3)
        )
      ) MONTH
    ),
    DATE_ADD(
      DATE_TRUNC(CAST(`tickets`.`opened_on` AS DATE), MONTH),
      INTERVAL (
        -(
          MOD(EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8, 12)
        )
      ) MONTH
    )
)
SELECT
  `tickets__1`.`d0` AS `opened_on_fiscal_quarter`,
  `tickets__1`.`d1` AS `opened_on_fiscal_year`,
  COALESCE(`tickets__1`.`m0`, 0) AS `tickets`
FROM `tickets__1` AS `tickets__1`
ORDER BY
  `tickets__1`.`d0` ASC NULLS LAST,
  `tickets__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- tsql
WITH [tickets__allowed] AS (
  SELECT
    *
  FROM [shop].[tickets] AS [tickets]
  WHERE
    (
      [tickets].[grade] <= 2
    )
), [tickets__1] AS (
  SELECT
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST([tickets].[opened_on] AS DATE)) / 3 * 3,
      CAST('0001-04-01' AS DATE)
    ) AS [d0],
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST([tickets].[opened_on] AS DATE)) / 12 * 12,
      CAST('0001-04-01' AS DATE)
    ) AS [d1],
    COUNT(*) AS [m0]
  FROM [tickets__allowed] AS [tickets]
  GROUP BY
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST([tickets].[opened_on] AS DATE)) / 3 * 3,
      CAST('0001-04-01' AS DATE)
    ),
    DATEADD(
      MONTH,
      DATEDIFF(MONTH, CAST('0001-04-01' AS DATE), CAST([tickets].[opened_on] AS DATE)) / 12 * 12,
      CAST('0001-04-01' AS DATE)
    )
)
SELECT
TOP 1001
  [tickets__1].[d0] AS [opened_on_fiscal_quarter],
  [tickets__1].[d1] AS [opened_on_fiscal_year],
  COALESCE([tickets__1].[m0], 0) AS [tickets]
FROM [tickets__1] AS [tickets__1]
ORDER BY
  CASE WHEN [tickets__1].[d0] IS NULL THEN 1 ELSE 0 END, [tickets__1].[d0] ASC,
  CASE WHEN [tickets__1].[d1] IS NULL THEN 1 ELSE 0 END, [tickets__1].[d1] ASC;

-- clickhouse
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    addMonths(
      toDate32('1900-04-01'),
      intDiv(dateDiff('month', toDate32('1900-04-01'), toDate32("tickets"."opened_on")), 3) * 3
    ) AS "d0",
    addMonths(
      toDate32('1900-04-01'),
      intDiv(dateDiff('month', toDate32('1900-04-01'), toDate32("tickets"."opened_on")), 12) * 12
    ) AS "d1",
    count(*) AS "m0"
  FROM "tickets__allowed" AS "tickets"
  GROUP BY
    addMonths(
      toDate32('1900-04-01'),
      intDiv(dateDiff('month', toDate32('1900-04-01'), toDate32("tickets"."opened_on")), 3) * 3
    ),
    addMonths(
      toDate32('1900-04-01'),
      intDiv(dateDiff('month', toDate32('1900-04-01'), toDate32("tickets"."opened_on")), 12) * 12
    )
)
SELECT
  "tickets__1"."d0" AS "opened_on_fiscal_quarter",
  "tickets__1"."d1" AS "opened_on_fiscal_year",
  COALESCE("tickets__1"."m0", 0) AS "tickets"
FROM "tickets__1" AS "tickets__1"
ORDER BY
  "tickets__1"."d0" ASC,
  "tickets__1"."d1" ASC
LIMIT 1001;

-- redshift
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
  OFFSET 0
), "tickets__1" AS (
  SELECT
    CAST(DATEADD(
      MONTH,
      -(
        (
          CAST(EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) AS INTEGER) + 8
        ) % 3
      ),
      CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE)
    ) AS DATE) AS "d0",
    CAST(DATEADD(
      MONTH,
      -(
        (
          CAST(EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) AS INTEGER) + 8
        ) % 12
      ),
      CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE)
    ) AS DATE) AS "d1",
    COUNT(*) AS "m0"
  FROM "tickets__allowed" AS "tickets"
  GROUP BY
    CAST(DATEADD(
      MONTH,
      -(
        (
          CAST(EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) AS INTEGER) + 8
        ) % 3
      ),
      CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE)
    ) AS DATE),
    CAST(DATEADD(
      MONTH,
      -(
        (
          CAST(EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) AS INTEGER) + 8
        ) % 12
      ),
      CAST(DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE)) AS DATE)
    ) AS DATE)
)
SELECT
  "tickets__1"."d0" AS "opened_on_fiscal_quarter",
  "tickets__1"."d1" AS "opened_on_fiscal_year",
  COALESCE("tickets__1"."m0", 0) AS "tickets"
FROM "tickets__1" AS "tickets__1"
ORDER BY
  "tickets__1"."d0" ASC,
  "tickets__1"."d1" ASC
LIMIT 1001;

-- databricks
WITH `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `tickets__1` AS (
  SELECT
    ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8
        ) % 3
      )
    ) AS `d0`,
    ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8
        ) % 12
      )
    ) AS `d1`,
    COUNT(*) AS `m0`
  FROM `tickets__allowed` AS `tickets`
  GROUP BY
    ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8
        ) % 3
      )
    ),
    ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8
        ) % 12
      )
    )
)
SELECT
  `tickets__1`.`d0` AS `opened_on_fiscal_quarter`,
  `tickets__1`.`d1` AS `opened_on_fiscal_year`,
  COALESCE(`tickets__1`.`m0`, 0) AS `tickets`
FROM `tickets__1` AS `tickets__1`
ORDER BY
  `tickets__1`.`d0` ASC NULLS LAST,
  `tickets__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- trino
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 3
      ),
      DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
    ) AS "d0",
    DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 12
      ),
      DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
    ) AS "d1",
    COUNT(*) AS "m0"
  FROM "tickets__allowed" AS "tickets"
  GROUP BY
    DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 3
      ),
      DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
    ),
    DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 12
      ),
      DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
    )
)
SELECT
  "tickets__1"."d0" AS "opened_on_fiscal_quarter",
  "tickets__1"."d1" AS "opened_on_fiscal_year",
  COALESCE("tickets__1"."m0", 0) AS "tickets"
FROM "tickets__1" AS "tickets__1"
ORDER BY
  "tickets__1"."d0" ASC,
  "tickets__1"."d1" ASC
LIMIT 1001;

-- spark
WITH `tickets__allowed` AS (
  SELECT
    *
  FROM `shop`.`tickets` AS `tickets`
  WHERE
    (
      `tickets`.`grade` <= 2
    )
), `tickets__1` AS (
  SELECT
    ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8
        ) % 3
      )
    ) AS `d0`,
    ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8
        ) % 12
      )
    ) AS `d1`,
    COUNT(*) AS `m0`
  FROM `tickets__allowed` AS `tickets`
  GROUP BY
    ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8
        ) % 3
      )
    ),
    ADD_MONTHS(
      CAST(DATE_TRUNC('MONTH', CAST(`tickets`.`opened_on` AS DATE)) AS DATE),
      -(
        (
          EXTRACT(MONTH FROM CAST(`tickets`.`opened_on` AS DATE)) + 8
        ) % 12
      )
    )
)
SELECT
  `tickets__1`.`d0` AS `opened_on_fiscal_quarter`,
  `tickets__1`.`d1` AS `opened_on_fiscal_year`,
  COALESCE(`tickets__1`.`m0`, 0) AS `tickets`
FROM `tickets__1` AS `tickets__1`
ORDER BY
  `tickets__1`.`d0` ASC NULLS LAST,
  `tickets__1`.`d1` ASC NULLS LAST
LIMIT 1001;

-- athena
WITH "tickets__allowed" AS (
  SELECT
    *
  FROM "shop"."tickets" AS "tickets"
  WHERE
    (
      "tickets"."grade" <= 2
    )
), "tickets__1" AS (
  SELECT
    DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 3
      ),
      DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
    ) AS "d0",
    DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 12
      ),
      DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
    ) AS "d1",
    COUNT(*) AS "m0"
  FROM "tickets__allowed" AS "tickets"
  GROUP BY
    DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 3
      ),
      DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
    ),
    DATE_ADD(
      'MONTH',
      -(
        (
          EXTRACT(MONTH FROM CAST("tickets"."opened_on" AS DATE)) + 8
        ) % 12
      ),
      DATE_TRUNC('MONTH', CAST("tickets"."opened_on" AS DATE))
    )
)
SELECT
  "tickets__1"."d0" AS "opened_on_fiscal_quarter",
  "tickets__1"."d1" AS "opened_on_fiscal_year",
  COALESCE("tickets__1"."m0", 0) AS "tickets"
FROM "tickets__1" AS "tickets__1"
ORDER BY
  "tickets__1"."d0" ASC,
  "tickets__1"."d1" ASC
LIMIT 1001;
