"""Pages made on the server: the API's reference, the way in, the entrance. Only the reference has a
script, without which it is whole."""
