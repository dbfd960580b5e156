-- The lanes that hold something this worker may take, and the turn of the first. ?1 lane numbers · ?2 the worker's id in hexadecimal
select key, turn from (
    select i.key, (
        select r.turn from ready r
        where r.lane = i.value and (r.skipped is null or instr(r.skipped, ?2) = 0)
        order by r.turn limit 1
    ) as turn
    from json_each(?1) i
)
where turn is not null
