"""Provide a simulated note service and a demo, to try and test without an account. Not in the wheel."""
