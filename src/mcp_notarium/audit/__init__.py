"""Define audit records, the chain that binds them, its verification and its export. Pure.

``storage/audit_log`` stores records, and is what everybody writes to; ``account/audit_anchor`` keeps the head outside the
database.
"""
