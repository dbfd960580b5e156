-- For how many days each queue keeps its history, deleted ones too; null: as the settings say.
select number, json_extract(settings, '$.retention_days') from queues order by number
