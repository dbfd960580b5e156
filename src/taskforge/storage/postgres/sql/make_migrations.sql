-- Which migrations were applied. SCHEMA: the configured one
create schema if not exists "SCHEMA";
create table if not exists taskforge.migrations (number int primary key, name text not null, applied_at timestamptz not null default now())
