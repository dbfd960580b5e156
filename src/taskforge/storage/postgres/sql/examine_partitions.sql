-- The days, of today and tomorrow, whose partition is missing. $1 now (tests)
select array_agg(to_char(day, 'YYYY-MM-DD')) from generate_series(0, 1) ahead
cross join lateral (select (coalesce($1::timestamptz, now()) at time zone 'UTC')::date + ahead as day) d
where to_regclass('taskforge.jobs_' || to_char(day, 'YYYYMMDD')) is null
