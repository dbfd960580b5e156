-- Whether the server answers.
select 1
