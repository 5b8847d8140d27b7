"""Keep notes in Memento's SQLite file, which its app uses at the same time."""
