-- One try less, of one that was refused for another reason. $1 key
update taskforge.throttles set count = count - 1 where key = $1 and count > 0
