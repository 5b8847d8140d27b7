"""Pure: what a note is, and what can be done to its text."""
