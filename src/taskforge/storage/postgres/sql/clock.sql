-- What the server's clock says.
select clock_timestamp()
