"""What happens to a request before its operation: from bytes to a caller and back to an answer."""
