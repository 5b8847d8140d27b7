"""Find, read and change the notes of one account, and read their histories: all that tools see of it."""

from mcp_notarium.library.library import Library, Statistics
from mcp_notarium.library.note_files import FilesSettled, ReadFile

__all__ = ["FilesSettled", "Library", "ReadFile", "Statistics"]
