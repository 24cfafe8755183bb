SELECT `id`, `say "hi"`, substr(`select`, 1, 256), CASE WHEN `Größe` >= DATE '0001-01-02' AND `Größe` < DATE '9999-12-31' THEN `Größe` END, substr(CAST(`back``tick` AS STRING), 1, 256), CASE WHEN `]` >= DATE '0001-01-02' AND `]` < DATE '9999-12-31' THEN `]` END, CASE WHEN `a.b` IS NULL THEN 0 ELSE 1 END FROM `main`.`Order Details` LIMIT 1001;

SELECT 1 FROM `main`.`Order Details` LIMIT 1001;

SELECT `id`, `say "hi"`, substr(`select`, 1, 256), CASE WHEN `Größe` >= DATE '0001-01-02' AND `Größe` < DATE '9999-12-31' THEN `Größe` END, substr(CAST(`back``tick` AS STRING), 1, 256), CASE WHEN `]` >= DATE '0001-01-02' AND `]` < DATE '9999-12-31' THEN `]` END, CASE WHEN `a.b` IS NULL THEN 0 ELSE 1 END FROM `main`.`Order Details` TABLESAMPLE (0.400000 PERCENT) REPEATABLE (7) LIMIT 10000;

