"""The MCP door: stdio transport, dispatch, error mapping."""
