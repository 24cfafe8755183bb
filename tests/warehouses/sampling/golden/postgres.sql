SELECT "id", "say ""hi""", substr("select", 1, 256), CASE WHEN "Größe" >= '0001-01-01' AND "Größe" < '10000-01-01' THEN "Größe" END, CASE WHEN date_part('hour', "back`tick") < 24 THEN "back`tick" END, substr("]"::text, 1, 256), "it's"::numeric, CASE WHEN "a.b" IS NULL THEN 0 ELSE 1 END FROM "main"."Order Details" LIMIT 1001;

SELECT 1 FROM "main"."Order Details" LIMIT 1001;

SELECT "id", "say ""hi""", substr("select", 1, 256), CASE WHEN "Größe" >= '0001-01-01' AND "Größe" < '10000-01-01' THEN "Größe" END, CASE WHEN date_part('hour', "back`tick") < 24 THEN "back`tick" END, substr("]"::text, 1, 256), "it's"::numeric, CASE WHEN "a.b" IS NULL THEN 0 ELSE 1 END FROM "main"."Order Details" TABLESAMPLE SYSTEM (0.400000) REPEATABLE (7) LIMIT 10000;

