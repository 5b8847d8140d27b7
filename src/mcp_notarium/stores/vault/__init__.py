"""Keep notes as the Markdown files of a folder that other programs write as well: a vault."""
