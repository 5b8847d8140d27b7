"""Serve MCP over stdio."""
