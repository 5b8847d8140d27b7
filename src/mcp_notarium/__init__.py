"""MCP Notarium: an encrypted local cache of a person's notes, served to agents over MCP."""

__version__ = "0.1.0"
