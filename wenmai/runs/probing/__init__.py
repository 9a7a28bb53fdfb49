"""Probes of every layer of every model."""
