"""Open, create, re-encrypt and purge the account folder of one account."""
