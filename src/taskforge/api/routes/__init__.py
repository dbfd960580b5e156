"""One file for each kind of resource."""

PREFIX = "/api/v1"
