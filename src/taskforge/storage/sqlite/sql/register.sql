-- ?1 incarnation · ?2 worker id · ?3 project · ?4 name as it is shown · ?5 type · ?6 role · ?7
-- capabilities · ?8 queues · ?9 types ·
-- ?10 max concurrent jobs · ?11 version · ?12 host · ?13 pid · ?14 lease until · ?15 now · ?16 name
-- as given · ?17 slots that are wished ·
-- ?18 drain mode · ?19 lease seconds · ?20 machine · ?21 when the process began
insert into workers (incarnation, id, project, name, given_name, worker_type, role, capabilities, queues, types, max_concurrent_jobs,
    wished_slots, drain_mode, version, host, pid, machine, pid_started, lease_until, lease_seconds, registered_at, updated_at)
values (?1, ?2, ?3, ?4, ?16, ?5, ?6, ?7, ?8, ?9, ?10, ?17, ?18, ?11, ?12, ?13, ?20, ?21, ?14, ?19, ?15, ?15)
