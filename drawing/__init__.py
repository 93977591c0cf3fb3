"""Drawings as SVG, as HTML files and as text, from values: no cluster, no board, no terminal."""
