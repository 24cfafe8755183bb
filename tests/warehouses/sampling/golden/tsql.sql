SELECT TOP (1001) [id], [say "hi"], SUBSTRING([select], 1, 256), SUBSTRING([a.b], 1, 256), [back`tick], []]], [it's], CASE WHEN [Größe] IS NULL THEN 0 ELSE 1 END, CASE WHEN [x\y] IS NULL THEN 0 ELSE 1 END FROM [main].[Order Details];

SELECT TOP (1001) 1 FROM [main].[Order Details];

SELECT TOP (10000) [id], [say "hi"], SUBSTRING([select], 1, 256), SUBSTRING([a.b], 1, 256), [back`tick], []]], [it's], CASE WHEN [Größe] IS NULL THEN 0 ELSE 1 END, CASE WHEN [x\y] IS NULL THEN 0 ELSE 1 END FROM [main].[Order Details] TABLESAMPLE (0.400000 PERCENT) REPEATABLE (7);

