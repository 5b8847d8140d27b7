"""The command line, imported only for interactive verbs."""
