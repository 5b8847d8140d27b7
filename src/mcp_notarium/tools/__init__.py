"""Define the tools: schemas and handlers."""
