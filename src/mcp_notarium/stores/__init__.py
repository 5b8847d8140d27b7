"""Remote note services behind one contract."""
