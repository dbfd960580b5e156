"""Who asks, and what they may do: accounts, credentials, keys, organizations."""
