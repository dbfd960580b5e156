-- Jobs that their worker is asked to stop, and why. ?1 incarnation
select fence, cancel_reason from running where worker = ?1 and cancel_requested
