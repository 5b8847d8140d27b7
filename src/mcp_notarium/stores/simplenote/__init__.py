"""Simplenote, over Simperium's HTTP interface. Simperium's own words stay inside this package."""
