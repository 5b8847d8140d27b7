"""Keep a notebook in the account's own database, for people without a note service."""
