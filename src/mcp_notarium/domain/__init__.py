"""Define notes, their text and the policy about them. Pure."""
