"""Export notes to files that other programs read, and import them into any store."""
