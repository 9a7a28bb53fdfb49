"""How models are measured, verb by verb: one module for each verb, and one line in ``measurer.py``."""
