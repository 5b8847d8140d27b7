"""Try and test the server without an account: a simulated note service, and a demo. Not in the wheel."""
