-- When somebody last looked, by both clocks, and how soon the next look was promised.
select at, wall, rhythm from looks
