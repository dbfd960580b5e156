-- Jobs of a day that are not finished. $1 first id of the day · $2 first id of the next · $3 most
select job from taskforge.ready where fence >= $1 and fence < $2
union all
select job from taskforge.waiting where fence >= $1 and fence < $2
union all
select job from taskforge.running where fence >= $1 and fence < $2
limit $3
