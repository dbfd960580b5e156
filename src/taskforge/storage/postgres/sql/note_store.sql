-- The store is opened here for the first time. $1 its identity
update taskforge.horizons set store = $1 where store is null
