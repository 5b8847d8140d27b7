"""Pure: what to look for, from the words a user types to one SQL statement."""
