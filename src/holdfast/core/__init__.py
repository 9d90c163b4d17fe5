"""What everything else stands on: refs and keys, the registry, keyed noise, errors and the small types."""
