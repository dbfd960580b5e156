-- Since when the arguments of a running job have fitted no handler. ?1 fence
select misfit_at from running where fence = ?1
