"""What every other package uses: refs and keys, the registry, keyed noise, errors and the small types."""
