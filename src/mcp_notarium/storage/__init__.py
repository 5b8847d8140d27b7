"""Store notes, journal and audit log in one SQLCipher database; nothing else imports its driver."""
