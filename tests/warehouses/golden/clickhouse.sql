-- _WHO
SELECT version(), currentUser(), currentDatabase();

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
