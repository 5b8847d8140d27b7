"""Make the page that shows a person what assistants did: count the records, draw, render."""
