"""Memento's notes, in the SQLite file that its app uses at the same time."""
