"""The engine that keeps cache and note service in step."""
