"""The schema's numbered steps, one module each. A step that was released is never edited."""
