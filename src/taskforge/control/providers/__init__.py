"""Where workers come from: one file a provider. `provider.py` says what all of them promise."""
