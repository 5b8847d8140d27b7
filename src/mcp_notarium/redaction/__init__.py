"""Pure: what may leave the process in a log line, and what is blotted out of it.

A :class:`~mcp_notarium.redaction.redactor.Redactor` is a value made from the live secrets; it
knows no stream, no clock and no configuration. ``log`` holds the current one and applies it.
"""
