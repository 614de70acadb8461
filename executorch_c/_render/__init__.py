"""How results are shown: text tables, HTML with escaping, figures, JSON."""
