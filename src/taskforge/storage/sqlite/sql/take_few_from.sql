-- Remove from ready what `take_few_into` has put into running. ?1 fences, one behind the other ·
-- ?2 a list as long
delete from ready where fence in (select substr(?1, i.key * 16 + 1, 16) from json_each(?2) i)
