"""Vectors of words and exact search among them: what every static system produces and every measure reads."""
