"""The best paths through a lattice of words, scored by two n-gram models: one of characters, one of words.

An edge of the lattice is a word between two places of the input. It has a score of its own, the characters it is
written with, and a number in the model of words. A path has the score

    Σ edges [score + μ_w log P(word | words before) + μ_c Σ log P(character | characters before)]

A hypothesis is a path to a place; what follows it depends on the contexts of the two models alone, so that of those
with the same two contexts only the best is kept (Viterbi), or the best ``k`` with different texts. A beam bounds how
many are kept at a place, and how far they may fall behind the best.
"""

import numpy as np
from numba import njit

from wenmai.kernels.ngram_lookup import DAMAGED, END, ROOT, advance

__all__ = ["HYPOTHESIS", "close_paths", "search_lattice", "trace_paths"]

_MADE_OF = "ngram_lookup.py 3b2ce1eb3d55"
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}

HYPOTHESIS = np.dtype(
    [
        ("score", "<f8"),
        ("text", "<u8"),  # a hash of the characters
        ("characters", "<u4"),  # the context of that model
        ("words", "<u4"),
        ("begin", "<u4"),  # the place where the last word begins
        ("back", "<u4"),  # the hypothesis there
        ("entry", "<u4"),  # the last word
        ("room", "<u4"),
    ]
)
_LEAST = -50.0  # a log-probability; an impossible word is not worse
_SPARE = 4  # candidates for each hypothesis that is kept
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@njit(**COMPILE)
def _score(contexts, leaves, order, state, word):
    """The context that follows, and ``log p``; -2 for the context if the model is damaged."""
    after, _, log_prob, found, _ = advance(contexts, leaves, np.int64(state), 0, word)
    if found == DAMAGED:
        return np.int64(DAMAGED), 0.0
    if not log_prob > _LEAST:
        log_prob = _LEAST
    return (np.int64(after) if order > 1 else np.int64(ROOT)), log_prob


@njit(**COMPILE)
def _slot(candidates, table, characters, words, text, by_text):
    """The place in the table of a candidate with these contexts, or of none."""
    mask = np.uint64(table.shape[0] - 1)
    value = (np.uint64(characters) * _PRIME) ^ (np.uint64(words) + np.uint64(0x7F4A7C15)) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    if by_text:
        value ^= text * np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(29)
    value *= _PRIME
    slot = (value >> np.uint64(32)) & mask
    while table[slot] != 0:
        one = candidates[table[slot] - 1]
        if one.characters == characters and one.words == words and (not by_text or one.text == text):
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(**COMPILE)
def _keep_best(candidates, count, table, beam, by_text):
    """Keeps so many of the candidates, in their order; returns the least score."""
    least = np.partition(candidates["score"][:count], count - beam)[count - beam]
    above = 0
    for one in range(count):
        above += candidates[one].score > least
    equal = beam - above
    kept = 0
    table[:] = 0
    for one in range(count):
        if candidates[one].score < least:
            continue
        if candidates[one].score == least:
            if equal == 0:
                continue
            equal -= 1
        candidates[kept] = candidates[one]
        slot = _slot(
            candidates, table, candidates[kept].characters, candidates[kept].words, candidates[kept].text, by_text
        )
        table[slot] = kept + 1
        kept += 1
    return least


@njit(**COMPILE)
def search_lattice(
    characters,
    character_leaves,
    character_order,
    character_weight,
    words,
    word_leaves,
    word_order,
    word_weight,
    edges,
    bounds,
    tokens,
    token_bounds,
    word_of_entry,
    more_tokens,
    more_bounds,
    more_words,
    start,
    reach,
    best,
    hypotheses,
    counts,
):
    """Fills the places of a lattice, one after the other.

    Args:
        characters: Records of ``CONTEXT``, of the model of characters.
        character_leaves: Records of ``LEAF``.
        character_order: N.
        character_weight: μ_c; 0: the model is not asked.
        words: Of the model of words, as the four before.
        word_leaves: See ``character_leaves``.
        word_order: N.
        word_weight: μ_w.
        edges: Records of ``EDGE``, by the places where they end.
        bounds: int64 [places + 1].
        tokens: uint32, the characters of the words.
        token_bounds: uint32 [words + 1].
        word_of_entry: uint32 [words], numbers in the model of words.
        more_tokens: Of the words beyond, as the three before.
        more_bounds: uint32 [words beyond + 1].
        more_words: uint32 [words beyond].
        start: The first place that is filled; those before are as they were.
        reach: How far a hypothesis may fall behind the best of its place.
        best: How many texts are kept for the same two contexts, k.
        hypotheses: Records of ``HYPOTHESIS`` [places, beam]; those of a place the best first.
        counts: int64 [places], how many there are.

    Returns:
        Whether all went well; False if a model is damaged.
    """
    beam, fixed = hypotheses.shape[1], word_of_entry.shape[0]
    capacity = _SPARE * beam
    candidates = np.empty(capacity, HYPOTHESIS)
    size = 16
    while size < 2 * capacity:
        size *= 2
    table = np.zeros(size, np.int32)
    by_text = best > 1
    for place in range(start, bounds.shape[0] - 1):
        count, top, limit = 0, -np.inf, -np.inf
        table[:] = 0
        for number in range(bounds[place], bounds[place + 1]):
            edge = edges[number]
            entry = np.int64(edge.entry)
            if entry < fixed:
                text, first, last, word = tokens, token_bounds[entry], token_bounds[entry + 1], word_of_entry[entry]
            else:
                one = entry - fixed
                text, first, last, word = more_tokens, more_bounds[one], more_bounds[one + 1], more_words[one]
            for back in range(counts[edge.begin]):
                before = hypotheses[edge.begin, back]
                score = before.score + edge.score
                if score < limit:
                    break
                state, other, seen = np.int64(before.characters), np.int64(before.words), before.text
                if word_weight != 0:
                    other, log_prob = _score(words, word_leaves, word_order, other, word)
                    if other == DAMAGED:
                        return False
                    score += word_weight * log_prob
                for token in text[first:last]:
                    seen = (seen ^ np.uint64(token)) * _PRIME
                    seen ^= seen >> np.uint64(31)
                    if character_weight != 0 and score >= limit:
                        state, log_prob = _score(characters, character_leaves, character_order, state, token)
                        if state == DAMAGED:
                            return False
                        score += character_weight * log_prob
                if score < limit:
                    continue
                slot = _slot(candidates, table, state, other, seen, by_text)
                held = table[slot] - 1
                if held >= 0 and candidates[held].score >= score:
                    continue
                if held < 0:
                    if count == capacity:
                        limit = max(limit, _keep_best(candidates, count, table, beam, by_text))
                        count = beam
                        if score < limit:
                            continue
                        slot = _slot(candidates, table, state, other, seen, by_text)
                    held = count
                    count += 1
                    table[slot] = count
                kept = candidates[held]
                kept.score, kept.text, kept.characters, kept.words = score, seen, state, other
                kept.begin, kept.back, kept.entry, kept.room = edge.begin, back, entry, 0
                if score > top:
                    top = score
                    limit = max(limit, top - reach)
        counts[place] = _arrange(candidates, count, limit, best, hypotheses[place])
    return True


@njit(**COMPILE)
def _arrange(candidates, count, limit, best, kept):
    """Writes the best candidates in order, of those with the same contexts at most ``best``; returns how many."""
    order = np.argsort(-candidates["score"][:count], kind="mergesort")
    found = 0
    for one in order:
        if found == kept.shape[0] or candidates[one].score < limit:
            break
        same = 0
        if best > 1:
            for other in range(found):
                same += (
                    kept[other].characters == candidates[one].characters and kept[other].words == candidates[one].words
                )
        if same < best:
            kept[found] = candidates[one]
            found += 1
    return found


@njit(**COMPILE)
def close_paths(
    characters,
    character_leaves,
    character_order,
    character_weight,
    words,
    word_leaves,
    word_order,
    word_weight,
    hypotheses,
    scores,
):
    """Writes the scores of hypotheses when the sentence ends after them; see :func:`search_lattice`.

    Returns:
        Whether all went well; False if a model is damaged.
    """
    for one in range(scores.shape[0]):
        scores[one] = hypotheses[one].score
        if character_weight != 0:
            state, log_prob = _score(
                characters, character_leaves, character_order, hypotheses[one].characters, np.uint32(END)
            )
            if state == DAMAGED:
                return False
            scores[one] += character_weight * log_prob
        if word_weight != 0:
            state, log_prob = _score(words, word_leaves, word_order, hypotheses[one].words, np.uint32(END))
            if state == DAMAGED:
                return False
            scores[one] += word_weight * log_prob
    return True


@njit(**COMPILE)
def trace_paths(hypotheses, place, chosen, entries, begins):
    """Writes the words of paths, from the last to the first, and the places where they begin.

    Args:
        hypotheses: Records of ``HYPOTHESIS`` [places, beam].
        place: Where the paths end.
        chosen: int64 [paths], their hypotheses there.
        entries: uint32 [paths, places].
        begins: uint32 [paths, places].

    Returns:
        int64 [paths], how many words each has.
    """
    lengths = np.zeros(chosen.shape[0], np.int64)
    for path in range(chosen.shape[0]):
        here, one = place, chosen[path]
        while here > 0:
            found = hypotheses[here, one]
            entries[path, lengths[path]] = found.entry
            begins[path, lengths[path]] = found.begin
            lengths[path] += 1
            here, one = np.int64(found.begin), np.int64(found.back)
    return lengths
