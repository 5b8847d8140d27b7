"""Measure how well ``list`` finds: notes and judged queries written for it, and how answers are scored.

``notes/`` holds a file of notes for each language, ``queries.tsv`` one query a line with the notes that answer it. All of it
was written for this purpose. ``test_quality.py`` holds what is reached; ``scripts/bench --rows search`` prints it.
"""
