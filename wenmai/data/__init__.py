"""Layer 3: where text comes from (streamed corpora, numbered corpora, the catalogue of public corpora)."""
