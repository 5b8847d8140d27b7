"""Keep the index in step with the store."""
