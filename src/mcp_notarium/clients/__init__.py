"""Find the MCP clients of this machine, and add our server to their files."""
