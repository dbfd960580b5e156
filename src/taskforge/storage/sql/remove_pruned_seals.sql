-- Remove the seals before one whose entries are gone: a checkpoint stands for them. $1 its number
delete from taskforge.audit_seals where number < $1
