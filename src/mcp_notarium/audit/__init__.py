"""The audit chain as values: what is recorded, how a record is bound to the one before, what is wrong.

Pure: knows no database, file or clock. ``cache/audit_table`` stores records, ``keys/anchor`` keeps the
head outside, ``cache/trail`` is what the doors write to.
"""
