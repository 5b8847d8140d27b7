"""MCP Notarium: serve a person's notes to agents over MCP, from an encrypted local index."""

__version__ = "0.1.0"
