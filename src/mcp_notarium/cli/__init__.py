"""Run the interactive commands."""
