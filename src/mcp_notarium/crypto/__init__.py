"""Pure: bytes to bytes. Keys, envelopes and the key file as a value."""
