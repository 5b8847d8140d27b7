"""Keep notes as plain text files of one folder: the worked example of ``docs/new-store.md``."""
