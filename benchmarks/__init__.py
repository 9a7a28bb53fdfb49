"""Measurements of speed and quality, beside reference libraries and our own targets. See README.md."""
