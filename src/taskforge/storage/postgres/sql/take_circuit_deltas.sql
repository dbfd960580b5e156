-- What came of the executions of these lanes since this was asked last. $1 lanes
delete from taskforge.circuit_deltas where lane = any ($1::int[]) returning lane, asked_at, ended_at, good, bad, neither
