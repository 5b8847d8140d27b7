"""Turn the words of a query into one SQL statement. Pure."""
