"""wenmai (文脉): one corpus, every generation of text representation, one honest comparison."""

__version__ = "0.1.0"
