"""Layer 5: what a model is for: model, objective, data and measures bound together."""
