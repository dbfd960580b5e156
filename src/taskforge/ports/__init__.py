"""What the rest of the house asks of a store, or of a server in front of one.

Each port is a small Protocol for those who need it, with at most eight methods. Both storage
engines implement all of them (`ports.engine.Engine`); the engine behind a server implements what a
server answers (`ports.engine.AnyEngine`).

Rules of the ports: calls are batches (one is a list of one); every write about a running job is
fenced and reports what it lost instead of raising; durations cross a port, not instants, because
the store's clock rules; verbs are typed values, not methods; no driver type, no SQL and no open
transaction crosses a port. A call raises `StoreUnavailable` when the store is away, and the errors
of `taskforge.domain.errors` for what the caller can mend. A `note` leaves its entry in the audit
log, in the change's own transaction.
"""
