-- second of a timestamp
SELECT CAST(formatDateTime(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))), '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) AS v FROM s.o AS o;
-- minute of a timestamp
SELECT CAST(formatDateTime(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))), '%Y-%m-%d %H:%i:00') AS Nullable(DateTime64(0, 'UTC'))) AS v FROM s.o AS o;
-- hour of a timestamp
SELECT CAST(formatDateTime(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))), '%Y-%m-%d %H:00:00') AS Nullable(DateTime64(0, 'UTC'))) AS v FROM s.o AS o;
-- day of a timestamp
SELECT toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))) AS v FROM s.o AS o;
-- week of a timestamp
SELECT addDays(toDate32('1900-01-07'), intDiv(dateDiff('day', toDate32('1900-01-07'), toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))))), 7) * 7) AS v FROM s.o AS o;
-- month of a timestamp
SELECT addMonths(toDate32('1900-01-01'), dateDiff('month', toDate32('1900-01-01'), toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC')))))) AS v FROM s.o AS o;
-- quarter of a timestamp
SELECT addMonths(toDate32('1900-01-01'), intDiv(dateDiff('month', toDate32('1900-01-01'), toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))))), 3) * 3) AS v FROM s.o AS o;
-- year of a timestamp
SELECT addMonths(toDate32('1900-01-01'), intDiv(dateDiff('month', toDate32('1900-01-01'), toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))))), 12) * 12) AS v FROM s.o AS o;
-- fiscal_quarter of a timestamp
SELECT addMonths(toDate32('1900-04-01'), intDiv(dateDiff('month', toDate32('1900-04-01'), toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))))), 3) * 3) AS v FROM s.o AS o;
-- fiscal_year of a timestamp
SELECT addMonths(toDate32('1900-04-01'), intDiv(dateDiff('month', toDate32('1900-04-01'), toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))))), 12) * 12) AS v FROM s.o AS o;
-- week from monday of a date
SELECT addDays(toDate32('1900-01-01'), intDiv(dateDiff('day', toDate32('1900-01-01'), toDate32(o.at)), 7) * 7) AS v FROM s.o AS o;
-- hour of a timestamp in a zone
SELECT CAST(formatDateTime(CAST(formatDateTime(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))), '%Y-%m-%d %H:%i:%S', 'Asia/Tokyo') AS Nullable(DateTime64(0, 'UTC'))), '%Y-%m-%d %H:00:00') AS Nullable(DateTime64(0, 'UTC'))) AS v FROM s.o AS o;
-- day of an instant in a zone
SELECT toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S', 'Asia/Tokyo') AS Nullable(DateTime64(0, 'UTC')))) AS v FROM s.o AS o;
-- a zone's timestamp
SELECT addSeconds(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))), -32400) AS v FROM s.o AS o;
-- an instant in New York
SELECT CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S', 'America/New_York') AS Nullable(DateTime64(0, 'UTC'))) AS v FROM s.o AS o;
-- a timestamp of Apia
SELECT addSeconds(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))), CASE WHEN CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2010-09-26 01:00:00', 0, 'UTC') THEN 39600 WHEN CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2011-04-02 04:00:00', 0, 'UTC') THEN 36000 WHEN CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2011-09-24 04:00:00', 0, 'UTC') THEN 39600 WHEN CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2011-12-31 00:00:00', 0, 'UTC') THEN 36000 WHEN CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2021-01-01 00:00:00', 0, 'UTC') THEN CASE WHEN CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < addSeconds(CAST(CAST(addDays(toDate32('1900-01-01'), intDiv(dateDiff('day', toDate32('1900-01-01'), addDays(addMonths(addMonths(toDate32('1900-01-01'), intDiv(dateDiff('month', toDate32('1900-01-01'), toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))))), 12) * 12), 3), 0)), 7) * 7) AS String) AS Nullable(DateTime64(0, 'UTC'))), 532800) THEN -50400 WHEN CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < addSeconds(CAST(CAST(addDays(toDate32('1900-01-01'), intDiv(dateDiff('day', toDate32('1900-01-01'), addDays(addMonths(addMonths(toDate32('1900-01-01'), intDiv(dateDiff('month', toDate32('1900-01-01'), toDate32(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))))), 12) * 12), 8), 23)), 7) * 7) AS String) AS Nullable(DateTime64(0, 'UTC'))), 532800) THEN -46800 ELSE -50400 END WHEN CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2021-04-04 04:00:00', 0, 'UTC') THEN -50400 ELSE -46800 END) AS v FROM s.o AS o;
-- a date a month earlier
SELECT addMonths(o.at, -1) AS v FROM s.o AS o;
-- a date 30 days later
SELECT addDays(o.at, 30) AS v FROM s.o AS o;
-- a timestamp a month later
SELECT addMonths(o.at, 1) AS v FROM s.o AS o;
-- a timestamp an hour later
SELECT addSeconds(o.at, 3600) AS v FROM s.o AS o;
-- a range of a date
SELECT o.at FROM s.o AS o WHERE toDate32(o.at) >= toDate32('2024-02-01') AND toDate32(o.at) < toDate32('2024-03-02');
-- a range of a timestamp
SELECT o.at FROM s.o AS o WHERE CAST(formatDateTime(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))), '%Y-%m-%d %H:%i:%S', 'Asia/Tokyo') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-02-01 00:00:00', 0, 'UTC') AND CAST(formatDateTime(CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S') AS Nullable(DateTime64(0, 'UTC'))), '%Y-%m-%d %H:%i:%S', 'Asia/Tokyo') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-01 12:00:00', 0, 'UTC');
-- a range of a instant
SELECT o.at FROM s.o AS o WHERE CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S', 'Asia/Tokyo') AS Nullable(DateTime64(0, 'UTC'))) >= toDateTime64('2024-02-01 00:00:00', 0, 'UTC') AND CAST(formatDateTime(o.at, '%Y-%m-%d %H:%i:%S', 'Asia/Tokyo') AS Nullable(DateTime64(0, 'UTC'))) < toDateTime64('2024-03-01 12:00:00', 0, 'UTC');
-- a spine of hours
SELECT addSeconds(ends.first_period, numbers.number * 3600) AS "period" FROM (SELECT toDateTime64('2024-01-01 00:00:00', 0, 'UTC') AS first_period, toDateTime64('2024-01-01 00:00:00', 0, 'UTC') AS last_period) AS ends CROSS JOIN numbers(100000) AS numbers WHERE numbers.number * 3600 <= dateDiff('second', ends.first_period, ends.last_period);
-- a spine of fiscal_quarters
SELECT addMonths(ends.first_period, numbers.number * 3) AS "period" FROM (SELECT toDate32('2024-01-01') AS first_period, toDate32('2024-01-01') AS last_period) AS ends CROSS JOIN numbers(10000) AS numbers WHERE numbers.number * 3 <= dateDiff('month', ends.first_period, ends.last_period);
-- more than a spine holds
SELECT CASE WHEN addMonths(toDate32('2024-01-01'), 9999) < toDate32('2024-01-01') THEN 1 END AS v;
