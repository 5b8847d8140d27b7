"""Define audit records, the chain that binds them, its verification and its export. Pure.

``storage/audit_table`` stores records, ``account/audit_anchor`` keeps the head outside the database,
``storage/audit_log`` is what everybody writes to.
"""
