-- What a slot does, once: one that was there before is left alone. ?1 schedule · ?2 slot · ?3
-- project · ?4 now · ?5 outcome · ?6 job · ?7 detail · ?8 whether by hand · ?9 term
insert into slots (schedule, at, project, fired_at, outcome, job, detail, manual, term)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) on conflict (schedule, at) do nothing
