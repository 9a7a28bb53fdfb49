"""Trained models with their verbs."""
