"""The REST API: parse, one operation, render. Errors are in one table, access is declared with each
route."""
