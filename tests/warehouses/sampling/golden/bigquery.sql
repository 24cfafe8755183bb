SELECT `id`, `say "hi"`, substr(`select`, 1, 256), `Größe`, substr(CAST(`]` AS STRING), 1, 256), CASE WHEN `a.b` IS NULL THEN 0 ELSE 1 END, CASE WHEN `back\`tick` IS NULL THEN 0 ELSE 1 END FROM `main`.`Order Details` LIMIT 1001;

SELECT 1 FROM `main`.`Order Details` LIMIT 1001;

SELECT `id`, `say "hi"`, substr(`select`, 1, 256), `Größe`, substr(CAST(`]` AS STRING), 1, 256), CASE WHEN `a.b` IS NULL THEN 0 ELSE 1 END, CASE WHEN `back\`tick` IS NULL THEN 0 ELSE 1 END FROM `main`.`Order Details` TABLESAMPLE SYSTEM (0.400000 PERCENT) LIMIT 10000;

