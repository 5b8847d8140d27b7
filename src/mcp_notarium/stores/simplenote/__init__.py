"""Reach Simplenote over Simperium's HTTP interface. Simperium's own words stay in this package."""
