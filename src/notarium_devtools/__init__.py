"""Provide a simulated note service, a demo, and what generates files of the program. Not in the wheel."""
