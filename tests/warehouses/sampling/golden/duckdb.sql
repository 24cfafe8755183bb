SELECT "id", system.main.substr("say ""hi""", 1, 256), "a.b", "Größe", system.main.substr(CAST("back`tick" AS VARCHAR), 1, 256), CASE WHEN "select" IS NULL THEN 0 ELSE 1 END FROM "main"."Order Details" LIMIT 1001;

SELECT 1 FROM "main"."Order Details" LIMIT 1001;

SELECT "id", system.main.substr("say ""hi""", 1, 256), "a.b", "Größe", system.main.substr(CAST("back`tick" AS VARCHAR), 1, 256), CASE WHEN "select" IS NULL THEN 0 ELSE 1 END FROM "main"."Order Details" TABLESAMPLE reservoir(10000 ROWS) REPEATABLE (7) LIMIT 10000;

SELECT "id", system.main.substr("say ""hi""", 1, 256), "a.b", "Größe", system.main.substr(CAST("back`tick" AS VARCHAR), 1, 256), CASE WHEN "select" IS NULL THEN 0 ELSE 1 END FROM "main"."Order Details" WHERE rowid IN (SELECT n FROM (SELECT n FROM (SELECT rowid AS n FROM "main"."Order Details" WHERE rowid BETWEEN 107944254939 AND 333333333329 ORDER BY rowid LIMIT 1) AS b0 UNION ALL SELECT n FROM (SELECT rowid AS n FROM "main"."Order Details" WHERE rowid BETWEEN 383616391305 AND 666666666664 ORDER BY rowid LIMIT 1) AS b1 UNION ALL SELECT n FROM (SELECT rowid AS n FROM "main"."Order Details" WHERE rowid BETWEEN 883644824346 AND 1000000000000 ORDER BY rowid LIMIT 1) AS b2) AS blocks) ORDER BY rowid;

