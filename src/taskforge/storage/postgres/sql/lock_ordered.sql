-- Nobody writes what is read in the order of transactions, so that nothing comes to lie between the
-- old numbers and the new. Waiting is the point.
set local lock_timeout = '60s';
set local statement_timeout = '10min';
lock table taskforge.outbox, taskforge.audit in access exclusive mode
