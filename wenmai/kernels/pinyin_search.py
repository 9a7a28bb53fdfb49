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

from wenmai.kernels.ngram_lookup import BEGIN, DAMAGED, END, ROOT, advance
from wenmai.kernels.ngram_rows import distinct_words, fill_rows, find_contexts

__all__ = ["HYPOTHESIS", "close_paths", "search_lattice", "trace_paths"]

_MADE_OF = "ngram_lookup.py 7025c13e28e5, ngram_rows.py 1a0d71cd0959"
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
    """The context that follows, and ``log p``; after ``</s>`` a sentence begins; -2 if the model is damaged."""
    after, _, log_prob, found, _ = advance(contexts, leaves, np.int64(state), 0, word)
    if found == DAMAGED:
        return np.int64(DAMAGED), 0.0
    if not log_prob > _LEAST:
        log_prob = _LEAST
    if order == 1:
        return np.int64(ROOT), log_prob
    return (np.int64(BEGIN) if word == END else np.int64(after)), log_prob


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
def _best_first(candidates, count):
    """The places of the candidates by falling score; of equal ones, the first comes first."""
    return np.argsort(-candidates["score"][:count], kind="mergesort")


@njit(**COMPILE)
def _keep_best(candidates, count, table, beam, by_text):
    """Keeps so many of the candidates, the best first; returns the least score."""
    best = np.empty(beam, HYPOTHESIS)
    for one, place in enumerate(_best_first(candidates, count)[:beam]):
        best[one] = candidates[place]
    table[:] = 0
    for one in range(beam):
        candidates[one] = best[one]
        slot = _slot(candidates, table, best[one].characters, best[one].words, best[one].text, by_text)
        table[slot] = one + 1
    return best[beam - 1].score


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
    codes,
    token_bounds,
    word_of_entry,
    more_tokens,
    more_codes,
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
        tokens: uint32, the characters of the words, by their numbers in the model of characters.
        codes: uint32, the same characters by numbers that tell those apart which the model does not know.
        token_bounds: uint32 [words + 1].
        word_of_entry: uint32 [words], numbers in the model of words.
        more_tokens: Of the words beyond, as the four before.
        more_codes: See ``codes``.
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
    places = bounds.shape[0] - 1
    capacity = _SPARE * beam
    candidates = np.empty(capacity, HYPOTHESIS)
    size = 16
    while size < 2 * capacity:
        size *= 2
    table = np.zeros(size, np.int32)
    by_text = best > 1
    order, other_order = max(1, character_order), max(1, word_order)
    # Of each place, the contexts of its hypotheses in both models: see `find_contexts`.
    nodes, other_nodes = (
        np.empty((places, beam * order + 1), np.uint32),
        np.empty((places, beam * other_order + 1), np.uint32),
    )
    parents, other_parents = np.empty(nodes.shape, np.int32), np.empty(other_nodes.shape, np.int32)
    node_of, other_of = np.zeros((places, beam), np.int32), np.zeros((places, beam), np.int32)
    node_counts, other_counts = np.zeros(places, np.int64), np.zeros(places, np.int64)
    for place in range(start, places):
        count, top, limit = np.int64(0), -np.inf, -np.inf
        table[:] = 0
        last = bounds[place]
        while last < bounds[place + 1]:
            first = last
            begin = np.int64(edges[first].begin)
            while last < bounds[place + 1] and edges[last].begin == begin:
                last += 1
            backs = counts[begin]
            if backs == 0:
                continue
            taken, heads, numbers = (
                np.empty(last - first, np.int64),
                np.empty(last - first, np.uint32),
                np.empty(last - first, np.uint32),
            )
            few = 0
            for number in range(first, last):
                if hypotheses[begin, 0].score + edges[number].score < limit:
                    continue
                entry = np.int64(edges[number].entry)
                taken[few] = number
                if entry < fixed:
                    heads[few], numbers[few] = tokens[token_bounds[entry]], word_of_entry[entry]
                else:
                    one = entry - fixed
                    heads[few], numbers[few] = more_tokens[more_bounds[one]], more_words[one]
                few += 1
            if few == 0:
                continue
            if node_counts[begin] == 0:
                states = hypotheses[begin]["characters"][:backs].copy()
                others = hypotheses[begin]["words"][:backs].copy()
                node_counts[begin] = (
                    find_contexts(characters, states, order, nodes[begin], parents[begin], node_of[begin])
                    if character_weight != 0
                    else 1
                )
                other_counts[begin] = (
                    find_contexts(words, others, other_order, other_nodes[begin], other_parents[begin], other_of[begin])
                    if word_weight != 0
                    else 1
                )
                if node_counts[begin] < 0 or other_counts[begin] < 0:
                    return False
            fine, slot_of, log_probs, after = _rows(
                characters,
                character_leaves,
                order,
                character_weight,
                nodes[begin],
                parents[begin],
                node_counts[begin],
                heads[:few],
            )
            other_fine, other_slot, other_log_probs, other_after = _rows(
                words,
                word_leaves,
                other_order,
                word_weight,
                other_nodes[begin],
                other_parents[begin],
                other_counts[begin],
                numbers[:few],
            )
            if not (fine and other_fine):
                return False
            for one in range(few):
                edge = edges[taken[one]]
                entry = np.int64(edge.entry)
                if entry < fixed:
                    text, shown = tokens, codes
                    head, end = np.int64(token_bounds[entry]), np.int64(token_bounds[entry + 1])
                else:
                    text, shown = more_tokens, more_codes
                    head, end = np.int64(more_bounds[entry - fixed]), np.int64(more_bounds[entry - fixed + 1])
                slot, other = slot_of[one], other_slot[one]
                for back in range(backs):
                    score = hypotheses[begin, back].score + edge.score
                    if score < limit:
                        break
                    node, other_node = node_of[begin, back], other_of[begin, back]
                    score += log_probs[node, slot] + other_log_probs[other_node, other]
                    if score < limit:
                        continue
                    state, seen = np.int64(after[node, slot]), _mixed(hypotheses[begin, back].text, shown[head])
                    for place_of_token in range(head + 1, end):
                        token = text[place_of_token]
                        seen = _mixed(seen, shown[place_of_token])
                        if character_weight != 0 and score >= limit:
                            state, log_prob = _score(characters, character_leaves, order, state, token)
                            if state == DAMAGED:
                                return False
                            score += character_weight * log_prob
                    if score < limit:
                        continue
                    word_state = np.int64(other_after[other_node, other])
                    slot_held = _slot(candidates, table, state, word_state, seen, by_text)
                    held = table[slot_held] - 1
                    if held >= 0 and candidates[held].score >= score:
                        continue
                    if held < 0:
                        if count == capacity:
                            limit = max(limit, _keep_best(candidates, count, table, beam, by_text))
                            count = np.int64(beam)
                            if score < limit:
                                continue
                            slot_held = _slot(candidates, table, state, word_state, seen, by_text)
                        held = count
                        count += 1
                        table[slot_held] = count
                    kept = candidates[held]
                    kept.score, kept.text, kept.characters, kept.words = score, seen, state, word_state
                    kept.begin, kept.back, kept.entry, kept.room = begin, back, entry, 0
                    if score > top:
                        top = score
                        limit = max(limit, top - reach)
        counts[place] = _arrange(candidates, count, limit, best, hypotheses[place])
        node_counts[place] = 0
    return True


@njit(**COMPILE)
def _mixed(seen, code):
    seen = (seen ^ np.uint64(code)) * _PRIME
    return seen ^ (seen >> np.uint64(31))


@njit(**COMPILE)
def _rows(contexts, leaves, order, weight, nodes, parents, count, words):
    """Whether all went well, the column of each word, weighted log-probabilities, and the contexts that follow."""
    slot_of = np.zeros(words.shape[0], np.int32)
    if weight == 0:
        return True, slot_of, np.zeros((1, 1), np.float32), np.full((1, 1), ROOT, np.uint32)
    size = 16
    while size < 4 * words.shape[0]:
        size *= 2
    keys, slots, distinct = np.empty(size, np.uint32), np.empty(size, np.int32), np.empty(words.shape[0], np.uint32)
    many = distinct_words(words, keys, slots, distinct, slot_of)
    log_probs, after = np.empty((count, many), np.float32), np.empty((count, many), np.uint32)
    fine = fill_rows(contexts, leaves, order, nodes, parents, count, distinct[:many], keys, slots, log_probs, after)
    for node in range(count):
        for slot in range(many):
            log_probs[node, slot] = weight * max(log_probs[node, slot], _LEAST)
    return fine, slot_of, log_probs, after


@njit(**COMPILE)
def _arrange(candidates, count, limit, best, kept):
    """Writes the best candidates in order, of those with the same contexts at most ``best``; returns how many."""
    found = 0
    for one in _best_first(candidates, count):
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
                characters, character_leaves, character_order, np.int64(hypotheses[one].characters), np.uint32(END)
            )
            if state == DAMAGED:
                return False
            scores[one] += character_weight * log_prob
        if word_weight != 0:
            state, log_prob = _score(words, word_leaves, word_order, np.int64(hypotheses[one].words), np.uint32(END))
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
