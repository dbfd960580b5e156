-- A delivery. $1 its webhook · $2 its id
-- include: delivery_columns
where webhook = $1 and id = $2
