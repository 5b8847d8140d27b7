"""Reach the stores where notes live, behind one contract."""
