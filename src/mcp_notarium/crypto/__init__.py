"""Derive, wrap and encode keys; bytes in, bytes out. Pure."""
