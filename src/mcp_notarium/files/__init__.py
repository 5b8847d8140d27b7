"""Read and write private files; name and lock the account folder."""
