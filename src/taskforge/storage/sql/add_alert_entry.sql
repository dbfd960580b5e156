-- A line of the history of alerts, unless its rule was edited meanwhile. $1 rule's number · $2 version
-- that was read · $3 now · $4 news · $5 value · $6 detail · $7 whether nobody was told
insert into taskforge.alert_history (project, rule, name, at, news, value, detail, is_silent)
select project, id, name, $3, $4, $5, $6, $7 from taskforge.alert_rules where number = $1 and version = $2
