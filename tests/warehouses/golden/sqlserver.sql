-- WHO
SELECT SUSER_SNAME(), DB_NAME(), CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)),
       CAST(SERVERPROPERTY('Edition') AS nvarchar(128)), IS_SRVROLEMEMBER('sysadmin'), IS_ROLEMEMBER('db_owner'),
       HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'CREATE TABLE');

-- _LOCK_HOLDERS
SELECT request_session_id, resource_type FROM sys.dm_tran_locks WHERE request_mode LIKE '%X';

-- RELATIONS
SELECT o.object_id, s.name, o.name,
       CASE WHEN t.is_external = 1 THEN 'X' WHEN o.type = 'V' AND i.object_id IS NOT NULL THEN 'M'
            ELSE RTRIM(o.type) END,
       CAST(e.value AS nvarchar(4000)), p.row_count,
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'SELECT'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'INSERT'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'UPDATE'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'DELETE')
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
LEFT JOIN sys.tables AS t ON t.object_id = o.object_id
LEFT JOIN sys.indexes AS i ON i.object_id = o.object_id AND i.index_id = 1
LEFT JOIN (SELECT object_id, SUM(rows) AS row_count FROM sys.partitions WHERE index_id IN (0, 1)
           GROUP BY object_id) AS p ON p.object_id = o.object_id
LEFT JOIN sys.extended_properties AS e
       ON e.class = 1 AND e.major_id = o.object_id AND e.minor_id = 0 AND e.name = 'MS_Description'
WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0
  AND NOT EXISTS (SELECT 1 FROM sys.extended_properties AS m
                  WHERE m.class = 1 AND m.major_id = o.object_id AND m.minor_id = 0
                    AND m.name = 'microsoft_database_tools_support');

-- COLUMNS
SELECT c.object_id, c.name, t.name, COALESCE(b.name, t.name), c.max_length, c.precision, c.scale, c.is_nullable,
       c.is_identity, c.is_computed, d.definition, CAST(e.value AS nvarchar(4000))
FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.types AS t ON t.user_type_id = c.user_type_id
LEFT JOIN sys.types AS b ON b.user_type_id = c.system_type_id AND t.is_user_defined = 1
LEFT JOIN sys.default_constraints AS d ON d.object_id = c.default_object_id
LEFT JOIN sys.extended_properties AS e
       ON e.class = 1 AND e.major_id = c.object_id AND e.minor_id = c.column_id AND e.name = 'MS_Description'
WHERE s.name IN (%s, %s) AND o.type IN ('U', 'V') AND c.is_hidden = 0
ORDER BY c.object_id, c.column_id;

-- INDEXES
SELECT i.object_id, i.name, i.is_primary_key, i.is_unique, i.has_filter, c.name
FROM sys.indexes AS i JOIN sys.objects AS o ON o.object_id = i.object_id
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE s.name IN (%s, %s) AND o.type IN ('U', 'V') AND k.key_ordinal > 0
  AND i.is_disabled = 0 AND i.is_hypothetical = 0
ORDER BY i.object_id, i.index_id, k.key_ordinal;

-- FOREIGN_KEYS
SELECT f.parent_object_id, f.name, rs.name, r.name, c.name, rc.name
FROM sys.foreign_keys AS f JOIN sys.schemas AS s ON s.schema_id = f.schema_id
JOIN sys.objects AS r ON r.object_id = f.referenced_object_id JOIN sys.schemas AS rs ON rs.schema_id = r.schema_id
JOIN sys.foreign_key_columns AS k ON k.constraint_object_id = f.object_id
JOIN sys.columns AS c ON c.object_id = k.parent_object_id AND c.column_id = k.parent_column_id
JOIN sys.columns AS rc ON rc.object_id = k.referenced_object_id AND rc.column_id = k.referenced_column_id
WHERE s.name IN (%s, %s)
ORDER BY f.parent_object_id, f.object_id, k.constraint_column_id;

-- VIEWS
SELECT m.object_id, m.definition
FROM sys.sql_modules AS m JOIN sys.views AS v ON v.object_id = m.object_id
JOIN sys.schemas AS s ON s.schema_id = v.schema_id
WHERE s.name IN (%s, %s);
