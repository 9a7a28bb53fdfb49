"""Trained models as they are used: each has the verbs that make sense for it."""
