-- Let changes of one organization's owners happen one after the other: the first takes its row. $1
-- number
update taskforge.organizations set name = name where number = $1
