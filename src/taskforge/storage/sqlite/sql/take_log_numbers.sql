-- The last of as many new numbers for log lines as are wanted. ?1 how many
update log_numbers set last = last + ?1 returning last
