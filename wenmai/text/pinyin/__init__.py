"""Pinyin: syllables and their forms, readings of texts, words, and the letters that people type."""
