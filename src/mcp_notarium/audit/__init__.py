"""The audit chain as values: what is recorded, how a record is bound to the one before, what is wrong.

Pure: knows no database, file or clock. ``storage/audit_table`` stores records, ``account/audit_anchor`` keeps the
head outside, ``storage/audit_log`` is what the doors write to.
"""
