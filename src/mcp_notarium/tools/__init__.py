"""The four tools: wire models and one handler each."""
