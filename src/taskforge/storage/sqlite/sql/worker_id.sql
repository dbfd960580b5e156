-- Whose life an incarnation is. ?1 incarnation
select id from workers where incarnation = ?1
