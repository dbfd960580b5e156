-- Where the store was when it was last opened.
select store from taskforge.horizons
