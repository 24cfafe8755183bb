SELECT "id", "say ""hi""", substr("select", 1, 256), "Größe", "back`tick", "]", CASE WHEN "a.b" IS NULL THEN 0 ELSE 1 END FROM "main"."Order Details" LIMIT 1001;

SELECT 1 FROM "main"."Order Details" LIMIT 1001;

