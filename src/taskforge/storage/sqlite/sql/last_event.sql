-- The newest event.
select max(number) from outbox
