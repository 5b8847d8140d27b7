"""Reach the notes of a Trilium server through its ETAPI."""
