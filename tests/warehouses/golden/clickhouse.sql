-- _WHO
SELECT version(), currentUser(), currentDatabase();

-- CHANGES
SELECT t.database, t.name, concat(toString(t.uuid), ' ', toString(t.metadata_modification_time), ' ', p.parts)
FROM system.tables AS t
JOIN (SELECT database, table,
             concat(toString(count()), ' ', toString(sum(rows)), ' ', toString(groupBitXor(cityHash64(
                 partition_id, name, hash_of_all_files)))) AS parts
      FROM system.parts WHERE active GROUP BY database, table) AS p ON p.database = t.database AND p.table = t.name
WHERE t.engine LIKE '%MergeTree' AND t.database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema');

-- RELATIONS
SELECT database, name, engine, comment, total_rows, sorting_key FROM system.tables
WHERE database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema') AND NOT is_temporary
  AND NOT startsWith(name, '.inner');

-- COLUMNS
SELECT database, table, name, type, default_kind, default_expression, comment FROM system.columns
WHERE database IN (%s, %s) AND default_kind <> 'EPHEMERAL' ORDER BY database, table, position;

-- SKIPPING_INDEXES
SELECT database, table, name, expr FROM system.data_skipping_indices
WHERE database IN (%s, %s) ORDER BY database, table, name;

-- VIEWS
SELECT database, name, as_select FROM system.tables WHERE database IN (%s, %s) AND as_select <> '';
