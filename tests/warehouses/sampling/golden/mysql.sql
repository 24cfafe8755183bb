SELECT `id`, `say "hi"`, substr(`select`, 1, 256), `Größe`, `back``tick` + 0, `]`, CASE WHEN `a.b` IS NULL THEN 0 ELSE 1 END FROM `main`.`Order Details` LIMIT 1001;

SELECT 1 FROM `main`.`Order Details` LIMIT 1001;

SELECT `id`, `say "hi"`, substr(`select`, 1, 256), `Größe`, `back``tick` + 0, `]`, CASE WHEN `a.b` IS NULL THEN 0 ELSE 1 END FROM `main`.`Order Details` WHERE `id` IN (SELECT n FROM (SELECT n FROM (SELECT `id` AS n FROM `main`.`Order Details` WHERE `id` BETWEEN 107944254939 AND 333333333329 ORDER BY `id` LIMIT 1) AS b0 UNION ALL SELECT n FROM (SELECT `id` AS n FROM `main`.`Order Details` WHERE `id` BETWEEN 383616391305 AND 666666666664 ORDER BY `id` LIMIT 1) AS b1 UNION ALL SELECT n FROM (SELECT `id` AS n FROM `main`.`Order Details` WHERE `id` BETWEEN 883644824346 AND 1000000000000 ORDER BY `id` LIMIT 1) AS b2) AS blocks) ORDER BY `id`;

