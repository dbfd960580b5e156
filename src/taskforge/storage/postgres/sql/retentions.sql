-- For how many days each queue keeps its history, deleted ones too; null: as the settings say.
select number, (settings ->> 'retention_days')::float8 as days from taskforge.queues order by number
