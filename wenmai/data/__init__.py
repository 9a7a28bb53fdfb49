"""Layer 3: where text comes from (streamed corpora, encoded corpora, the catalogue of public corpora)."""
