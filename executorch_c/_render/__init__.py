"""Rendering of results: text tables, escaped HTML, figures, JSON."""
