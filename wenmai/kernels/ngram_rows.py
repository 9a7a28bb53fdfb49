"""The probabilities of many words after many contexts at once.

Contexts share the shorter contexts that they back off to, and after most contexts few words are listed. So the shorter
contexts come first, each once; a row of a context is that of the next shorter one and its back-off weight, over which
the words are written that are listed after it. See :mod:`wenmai.kernels.ngram_lookup` for the records.
"""

import numpy as np
from numba import njit

from wenmai.kernels.ngram_lookup import BEGIN, DAMAGED, END, ROOT, follow
from wenmai.kernels.ngrams import hashed_word

__all__ = ["distinct_words", "fill_rows", "find_contexts"]

_MADE_OF = "ngram_lookup.py 7025c13e28e5, ngrams.py d4ecb2a5a136"
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
_SCANNED = 6  # listed words for each wanted one; where there are more, the wanted ones are looked up


@njit(**COMPILE)
def find_contexts(contexts, states, order, nodes, parents, node_of):
    """Lists contexts and all that they back off to, shorter ones first; the first is the empty context.

    Args:
        contexts: Records of ``CONTEXT``.
        states: uint32 [n], contexts.
        order: N.
        nodes: uint32, receives them; room for ``order`` for each state and one.
        parents: int32, receives the places of those that they back off to.
        node_of: int32 [n], receives the places of the states.

    Returns:
        How many there are; -2 if the model is damaged.
    """
    nodes[0], parents[0] = ROOT, 0
    count = 1
    chain = np.empty(order, np.uint32)
    for one in range(states.shape[0]):
        state, length, found = np.int64(states[one]), 0, 0
        while True:
            found = -1
            for place in range(count):
                if nodes[place] == state:
                    found = place
                    break
            if found >= 0:
                break
            if length == order:
                return DAMAGED
            chain[length] = state
            length += 1
            suffix = np.int64(contexts[state].suffix)
            if suffix >= state and suffix != ROOT:
                return DAMAGED
            state = suffix
        for place in range(length - 1, -1, -1):
            nodes[count], parents[count] = chain[place], found
            found = count
            count += 1
        node_of[one] = found
    return count


@njit(**COMPILE)
def distinct_words(words, keys, slots, distinct, slot_of):
    """Numbers the different words of a list.

    Args:
        words: uint32 [n].
        keys: uint32 [a power of two, at least twice as many]; with ``slots`` a table of them by their hashes.
        slots: int32, as many.
        distinct: uint32 [n], receives the different words.
        slot_of: int32 [n], receives the number of each word.

    Returns:
        How many there are.
    """
    slots[:] = -1
    mask = keys.shape[0] - 1
    count = 0
    for one in range(words.shape[0]):
        key = hashed_word(words[one])
        place = _first_place(key, mask)
        while slots[place] >= 0 and keys[place] != key:
            place = (place + 1) & mask
        if slots[place] < 0:
            keys[place], slots[place] = key, count
            distinct[count] = words[one]
            count += 1
        slot_of[one] = slots[place]
    return count


@njit(**COMPILE)
def _first_place(key, mask):
    return np.int64(key >> np.uint32(12)) & mask


@njit(**COMPILE)
def _slot(keys, slots, key):
    mask = keys.shape[0] - 1
    place = _first_place(key, mask)
    while slots[place] >= 0:
        if keys[place] == key:
            return slots[place]
        place = (place + 1) & mask
    return np.int32(-1)


@njit(**COMPILE)
def fill_rows(contexts, leaves, order, nodes, parents, count, words, keys, slots, log_probs, after):
    """Writes the log-probabilities of words after contexts, and the contexts that follow.

    Args:
        contexts: Records of ``CONTEXT``.
        leaves: Records of ``LEAF``.
        order: N.
        nodes: uint32 [contexts], see :func:`find_contexts`.
        parents: int32.
        count: How many contexts there are.
        words: uint32 [w], different words, see :func:`distinct_words`.
        keys: Their table.
        slots: See ``keys``.
        log_probs: float32 [contexts, w], receives the result.
        after: uint32 [contexts, w]; after ``</s>`` a sentence begins.

    Returns:
        Whether all went well; False if the model is damaged.
    """
    inner = np.int64(contexts.shape[0] - 1)
    wanted = words.shape[0]
    for slot in range(wanted):
        log_probs[0, slot] = contexts[words[slot]].log_prob
        after[0, slot] = words[slot] if order > 1 else ROOT
    for node in range(1, count):
        state, parent = np.int64(nodes[node]), parents[node]
        weight = contexts[state].backoff
        for slot in range(wanted):
            log_probs[node, slot] = log_probs[parent, slot] + weight
            after[node, slot] = after[parent, slot]
        begin, end = np.int64(contexts[state].first), np.int64(contexts[state + 1].first)
        if begin == end:
            continue
        if begin > end or begin <= state or end > inner + leaves.shape[0]:
            return False
        if end - begin <= _SCANNED * wanted:
            for one in range(begin, min(end, inner)):
                slot = _slot(keys, slots, contexts[one].word)
                if slot >= 0:
                    log_probs[node, slot], after[node, slot] = contexts[one].log_prob, one
            for one in range(max(begin, inner) - inner, end - inner):
                slot = _slot(keys, slots, leaves[one].word)
                if slot >= 0:
                    log_probs[node, slot], after[node, slot] = leaves[one].log_prob, leaves[one].suffix
                    if leaves[one].suffix >= inner and leaves[one].suffix != ROOT:
                        return False
            continue
        for slot in range(wanted):
            found = follow(contexts, leaves, state, words[slot])
            if found >= inner:
                leaf = leaves[found - inner]
                log_probs[node, slot], after[node, slot] = leaf.log_prob, leaf.suffix
                if leaf.suffix >= inner and leaf.suffix != ROOT:
                    return False
            elif found >= 0:
                log_probs[node, slot], after[node, slot] = contexts[found].log_prob, found
            elif found == DAMAGED:
                return False
    if order > 1:
        for slot in range(wanted):
            if words[slot] == END:
                after[:count, slot] = BEGIN
    return True
