"""Find, read and change the notes of one account, and read their histories: all that tools see of it."""

from mcp_notarium.library.attachments import FilesSettled, ReadFile
from mcp_notarium.library.library import Library, Statistics

__all__ = ["FilesSettled", "Library", "ReadFile", "Statistics"]
