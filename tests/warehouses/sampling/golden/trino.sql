SELECT "id", "say ""hi""", substr("select", 1, 256), "Größe", substr(CAST("back`tick" AS varchar), 1, 256), "]", CASE WHEN "a.b" IS NULL THEN 0 ELSE 1 END FROM "main"."Order Details" LIMIT 1001;

SELECT 1 FROM "main"."Order Details" LIMIT 1001;

SELECT "id", "say ""hi""", substr("select", 1, 256), "Größe", substr(CAST("back`tick" AS varchar), 1, 256), "]", CASE WHEN "a.b" IS NULL THEN 0 ELSE 1 END FROM "main"."Order Details" TABLESAMPLE BERNOULLI (0.400000) LIMIT 10000;

