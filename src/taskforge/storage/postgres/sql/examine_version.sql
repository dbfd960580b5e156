-- Which PostgreSQL this is.
select version()
