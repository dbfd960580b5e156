"""Pages made on the server, without scripts: the API's reference, the way in, the entrance."""
