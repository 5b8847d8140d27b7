"""Provide a simulated store, a demo, and what generates files of the program. Not in the wheel."""
