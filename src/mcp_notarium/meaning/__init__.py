"""Search by meaning: an extra, off unless a folder with a model is named."""
