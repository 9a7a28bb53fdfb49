"""How models are measured: one module for each verb, and one line in ``measurer.py``."""
