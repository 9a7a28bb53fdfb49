"""Measurements of speed and quality, against reference libraries and our own targets. See README.md."""
