"""Rendering of results: text tables, HTML with escaping, figures, JSON."""
