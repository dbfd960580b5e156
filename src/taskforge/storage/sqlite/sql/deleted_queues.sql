-- The queues that were deleted.
select number from queues where deleted_at is not null
