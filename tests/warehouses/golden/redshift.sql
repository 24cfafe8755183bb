-- WHO
SELECT current_user::varchar, u.usesuper, pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       pg_catalog.version(), pg_catalog.current_database()::varchar
FROM pg_catalog.pg_user AS u WHERE u.usename = current_user;

-- RELATIONS
SELECT c.oid::bigint, n.nspname::varchar, c.relname::varchar, c.relkind::varchar,
       pg_catalog.obj_description(c.oid, 'pg_class'), c.reltuples::float,
       pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'),
       pg_catalog.has_table_privilege(c.oid, 'INSERT') OR pg_catalog.has_table_privilege(c.oid, 'UPDATE')
         OR pg_catalog.has_table_privilege(c.oid, 'DELETE') OR pg_catalog.has_schema_privilege(n.oid, 'CREATE')
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg|_%' ESCAPE '|'
  AND c.relname NOT LIKE 'mv|_tbl|_|_%' ESCAPE '|';

-- MATERIALIZED_VIEWS
SELECT TRIM(schema_name)::varchar, TRIM(name)::varchar FROM svv_mv_info;

-- EXTERNAL_TABLES
SELECT schemaname::varchar, tablename::varchar FROM svv_external_tables;

-- COLUMNS
SELECT a.attrelid::bigint, a.attname::varchar, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
       pg_catalog.col_description(a.attrelid, a.attnum), pg_catalog.pg_get_expr(d.adbin, d.adrelid)
FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE n.nspname IN (%s, %s) AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum;

-- LATE_COLUMNS
SELECT view_schema::varchar, view_name::varchar, col_name::varchar, col_type::varchar
FROM pg_get_late_binding_view_cols() AS late (view_schema name, view_name name, col_name name, col_type varchar,
                                              col_num int)
WHERE view_schema IN (%s, %s) ORDER BY view_schema, view_name, col_num;

-- EXTERNAL_COLUMNS
SELECT schemaname::varchar, tablename::varchar, columnname::varchar, external_type::varchar
FROM svv_external_columns WHERE schemaname IN (%s, %s) ORDER BY schemaname, tablename, columnnum;

-- CONSTRAINTS
SELECT c.conrelid::bigint, c.contype::varchar, c.conname::varchar, pg_catalog.array_to_string(c.conkey, ' '),
       c.confrelid::bigint, pg_catalog.array_to_string(c.confkey, ' ')
FROM pg_catalog.pg_constraint AS c JOIN pg_catalog.pg_class AS r ON r.oid = c.conrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = r.relnamespace
WHERE n.nspname IN (%s, %s) AND c.contype IN ('p', 'u', 'f')
ORDER BY c.conrelid, c.conname;

-- KEY_COLUMNS
SELECT a.attrelid::bigint, a.attnum::int, a.attname::varchar, n.nspname::varchar, r.relname::varchar
FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS r ON r.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = r.relnamespace
WHERE a.attnum > 0 AND a.attrelid IN (SELECT conrelid FROM pg_catalog.pg_constraint
                                      UNION SELECT confrelid FROM pg_catalog.pg_constraint);

-- VIEWS
SELECT c.oid::bigint, pg_catalog.pg_get_viewdef(c.oid)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname IN (%s, %s) AND c.relkind = 'v';
