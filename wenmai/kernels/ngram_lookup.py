"""Looking n-grams up: the probability of a word after others is a walk through an automaton of contexts.

``contexts`` holds the n-grams of all orders below N, the words first (the id of a word is its number), then order by
order; ``leaves`` those of order N. Ids go on from one to the other. The n-grams that go on from context ``s`` have the
ids from ``contexts[s].first`` to before ``contexts[s + 1].first``, in the order of their hashed last words: these are
spread evenly over all uint32, so that an interpolation finds one among thousands in two or three reads. ``suffix`` is
the longest n-gram of the model that this one ends with.

Everything is checked on the way: an id that leads out of its place ends the walk, and the result says so.
"""

import numpy as np
from numba import njit

from wenmai.kernels.ngrams import hashed_word
from wenmai.kernels.simd import prefetch_to_read

__all__ = [
    "BEGIN",
    "CONTEXT",
    "DAMAGED",
    "END",
    "INVERSE",
    "LEAF",
    "ROOT",
    "UNKNOWN",
    "advance",
    "advance_state",
    "fill_log_probs",
    "find_word",
    "follow",
    "number_text",
    "score_text",
    "word_slots",
]

_MADE_OF = "ngrams.py d4ecb2a5a136, simd.py 0a572d10aeed"
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}

LEAF = np.dtype([("word", "<u4"), ("log_prob", "<f4"), ("suffix", "<u4")])
CONTEXT = np.dtype([("word", "<u4"), ("log_prob", "<f4"), ("suffix", "<u4"), ("backoff", "<f4"), ("first", "<u4")])
UNKNOWN, BEGIN, END = 0, 1, 2
ROOT = 0xFFFFFFFF  # the empty context
DAMAGED = -2
_ABSENT = -1
INVERSE = np.uint32(pow(2654435769, -1, 1 << 32))  # what undoes the hashing of words
_FEW = 8  # n-grams that are searched one after the other
_WALKS, _SHORTEST = 16, 32  # walks that are under way at once; words that make one worth its while
_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a


@njit(**COMPILE)
def _search(nodes, begin, end, key):
    """The place of a hashed word in ``nodes[begin:end]``, or -1."""
    low, high = np.uint32(0), np.uint32(0xFFFFFFFF)
    while end - begin > _FEW:
        share = (np.float64(key) - np.float64(low)) / (np.float64(high) - np.float64(low) + 1.0)
        place = begin + np.int64(share * (end - begin))
        found = nodes[place].word
        if found == key:
            return place
        if found < key:
            begin, low = place + 1, found
        else:
            end, high = place, found
        if not low < key < high:  # at its edge or out of order
            break
    for place in range(begin, end):
        if nodes[place].word == key:
            return place
    return _ABSENT


@njit(**COMPILE)
def follow(contexts, leaves, state, word):
    """The id of the n-gram that a word makes of a context: -1 if there is none, -2 if the model is damaged."""
    begin, end = np.int64(contexts[state].first), np.int64(contexts[state + 1].first)
    if begin == end:
        return _ABSENT
    inner = contexts.shape[0] - 1
    if begin > end or begin <= state or end > inner + leaves.shape[0]:
        return DAMAGED
    if begin < inner:
        return _search(contexts, begin, min(end, inner), hashed_word(word))
    found = _search(leaves, begin - inner, end - inner, hashed_word(word))
    return found + inner if found >= 0 else _ABSENT


@njit(**COMPILE)
def advance(contexts, leaves, state, depth, word):
    """Goes from a context over a word.

    Returns:
        The context that follows, its length, ``log p`` by back-off, the id that was found (-1 for none, -2 for damage),
        and how often it was backed off for that.
    """
    inner = contexts.shape[0] - 1
    weight, steps = 0.0, 0
    while state != ROOT:
        found = follow(contexts, leaves, state, word)
        if found == DAMAGED:
            return ROOT, 0, 0.0, DAMAGED, steps
        if found >= 0:
            if found < inner:
                return found, depth + 1, weight + contexts[found].log_prob, found, steps
            leaf = leaves[found - inner]
            suffix = np.int64(leaf.suffix)
            if suffix >= inner and suffix != ROOT:
                return ROOT, 0, 0.0, DAMAGED, steps
            return suffix, depth, weight + leaf.log_prob, found, steps
        weight += contexts[state].backoff
        suffix = np.int64(contexts[state].suffix)
        if suffix >= state and suffix != ROOT:
            return ROOT, 0, 0.0, DAMAGED, steps
        state = suffix
        depth -= 1
        steps += 1
    return np.int64(word), 1, weight + contexts[word].log_prob, np.int64(word), steps


@njit(**COMPILE)
def _ask(nodes, place):
    """Prefetches a record."""
    prefetch_to_read(nodes.ctypes.data + place * nodes.itemsize)


@njit(**COMPILE)
def _ask_for_word(contexts, leaves, state, word):
    """Prefetches the record where the search for a word after a context begins; returns whether there are any."""
    begin, end = np.int64(contexts[state].first), np.int64(contexts[state + 1].first)
    inner = contexts.shape[0] - 1
    if begin >= end or end > inner + leaves.shape[0]:
        return begin != end
    place = begin
    if end - begin > _FEW:
        place += np.int64(np.float64(hashed_word(word)) / 4294967296.0 * (end - begin))
    if place < inner:
        _ask(contexts, place)
    else:
        _ask(leaves, place - inner)
    return True


@njit(**COMPILE)
def score_text(contexts, leaves, text, begin, end, order, words, uniform, log_probs):
    """Scores the words of a text from ``begin`` to before ``end``.

    A walk waits for memory at every step, so several are under way at once, each over a stretch of the text: what one
    needs next is prefetched, and the others go on until it is there.

    Args:
        contexts: Records of ``CONTEXT``, one more than there are.
        leaves: Records of ``LEAF``.
        text: int32 [words], each below the size of the vocabulary; ``</s>`` ends a sentence, the next begins anew.
        begin: The first word that is scored; what stands before is context.
        end: The word after the last.
        order: N.
        words: V, those that can be predicted.
        uniform: Whether the model is one of add-k, whose back-off weights are the probabilities of unseen words.
        log_probs: float32 [words], receives the natural log-probabilities.

    Returns:
        Whether all went well; False if the model is damaged.
    """
    if begin >= end:
        return True
    inner = contexts.shape[0] - 1
    walks = max(1, min(_WALKS, (end - begin) // _SHORTEST))
    flat = np.float32(-np.log(words))
    opening = np.int64(BEGIN if order > 1 else ROOT)
    place, start, stop = np.empty(walks, np.int64), np.empty(walks, np.int64), np.empty(walks, np.int64)
    state, depth, history = np.empty(walks, np.int64), np.empty(walks, np.int64), np.empty(walks, np.int64)
    now, steps = np.empty(walks, np.int64), np.zeros(walks, np.int64)  # the context that is tried, after so many others
    weight = np.zeros(walks)
    asked = np.zeros(walks, np.bool_)
    for walk in range(walks):
        start[walk] = begin + (end - begin) * walk // walks
        stop[walk] = begin + (end - begin) * (walk + 1) // walks
        first = start[walk]
        while first > 0 and start[walk] - first < order - 1 and text[first - 1] != END:
            first -= 1
        fresh = first == 0 or text[first - 1] == END
        place[walk] = first
        state[walk] = now[walk] = opening if fresh else ROOT
        depth[walk] = 1 if fresh and order > 1 else 0
        history[walk] = 1 if fresh else 0
    active = walks
    while active > 0:
        for walk in range(walks):
            if place[walk] >= stop[walk]:
                continue
            word, one = text[place[walk]], now[walk]
            found = np.int64(_ABSENT)
            if one == ROOT:
                found = np.int64(word)
            elif asked[walk]:
                asked[walk] = False
                found = follow(contexts, leaves, one, word)
                if found == DAMAGED:
                    return False
            elif _ask_for_word(contexts, leaves, one, word):
                asked[walk] = True
                continue
            if found < 0:
                weight[walk] += contexts[one].backoff
                suffix = np.int64(contexts[one].suffix)
                if suffix >= one and suffix != ROOT:
                    return False
                now[walk] = suffix
                steps[walk] += 1
                if suffix != ROOT:
                    _ask(contexts, suffix)
                continue
            full = depth[walk] == min(history[walk], order - 1)
            if found < inner:
                log_prob = weight[walk] + contexts[found].log_prob
                after = found
                depth[walk] = 1 if one == ROOT else depth[walk] - steps[walk] + 1
            else:
                log_prob = weight[walk] + leaves[found - inner].log_prob
                after = np.int64(leaves[found - inner].suffix)
                if after >= inner:
                    return False
            if uniform and order > 1:
                if not full:
                    log_prob = flat
                elif steps[walk] > 0:
                    log_prob = contexts[state[walk]].backoff
            if place[walk] >= start[walk]:
                log_probs[place[walk]] = log_prob
            history[walk] += 1
            if word == END:
                after, depth[walk], history[walk] = opening, 1 if order > 1 else 0, 1
            elif order == 1:
                after, depth[walk] = np.int64(ROOT), 0
            state[walk] = now[walk] = after
            if after != ROOT:
                _ask(contexts, after)
            weight[walk], steps[walk] = 0.0, 0
            place[walk] += 1
            if place[walk] >= stop[walk]:
                active -= 1
    return True


@njit(**COMPILE)
def advance_state(contexts, leaves, text, order, state):
    """The context after the words of ``text``, from a context before it, and its length: -2 if the model is damaged.

    Args:
        contexts: Records of ``CONTEXT``.
        leaves: Records of ``LEAF``.
        text: int32 [words].
        order: N.
        state: int64 [3]: id of the context, its length, words before (up to N - 1); changed in place.
    """
    for place in range(text.shape[0]):
        after, depth, _, found, _ = advance(contexts, leaves, state[0], state[1], text[place])
        if found == DAMAGED:
            return False
        state[0], state[1] = (after, depth) if order > 1 else (ROOT, 0)
        state[2] = min(state[2] + 1, order - 1)
    return True


@njit(**COMPILE)
def fill_log_probs(contexts, leaves, state, order, words, uniform, log_probs):
    """Writes the log-probability of every word after a context.

    Args:
        contexts: Records of ``CONTEXT``.
        leaves: Records of ``LEAF``.
        state: int64 [3], see :func:`advance_state`.
        order: N.
        words: V, those that can be predicted.
        uniform: See :func:`score_text`.
        log_probs: float32 [vocabulary], receives the result; ``-inf`` for ``<s>``.

    Returns:
        Whether all went well; False if the model is damaged.
    """
    inner = contexts.shape[0] - 1
    vocabulary = log_probs.shape[0]
    chain = np.empty(order, np.int64)
    weights = np.zeros(order + 1)  # of what is backed off from, before each of the chain
    count = 0
    now = state[0]
    while now != ROOT and count < order - 1:
        chain[count] = now
        weights[count + 1] = weights[count] + contexts[now].backoff
        count += 1
        suffix = np.int64(contexts[now].suffix)
        if suffix >= now and suffix != ROOT:
            return False
        now = suffix
    if uniform and order > 1:
        full = state[1] == state[2]
        log_probs[:] = contexts[state[0]].backoff if full and count > 0 else -np.log(words)
        count = min(count, 1) if full else 0
        weights[:] = 0
    else:
        for word in range(vocabulary):
            log_probs[word] = contexts[word].log_prob + weights[count]
    for number in range(count - 1, -1, -1):
        begin, end = np.int64(contexts[chain[number]].first), np.int64(contexts[chain[number] + 1].first)
        if begin > end or (begin < end and (begin <= chain[number] or end > inner + leaves.shape[0])):
            return False
        for one in range(begin, end):
            if one < inner:
                word, log_prob = contexts[one].word * INVERSE, contexts[one].log_prob
            else:
                word, log_prob = leaves[one - inner].word * INVERSE, leaves[one - inner].log_prob
            if np.uint32(word) >= vocabulary:
                return False
            log_probs[np.uint32(word)] = log_prob + weights[number]
    log_probs[BEGIN] = -np.inf
    return True


@njit(**COMPILE)
def _hash(text, begin, end):
    value = _OFFSET
    for place in range(begin, end):
        value = (value ^ np.uint64(text[place])) * _PRIME
    return value


@njit(**COMPILE)
def _slot(value, slots):
    """The first place of a word of this hash in a table."""
    return (value ^ (value >> np.uint64(32))) & np.uint64(slots.shape[0] - 1)


@njit(**COMPILE)
def word_slots(text, bounds, slots):
    """Fills a table of words, each at the first free place from its hash on.

    Args:
        text: uint8, words, each followed by a line feed.
        bounds: int64 [words + 1], where each begins.
        slots: uint32 [a power of two], zero before; receives numbers of words, plus one.
    """
    mask = np.uint64(slots.shape[0] - 1)
    for word in range(bounds.shape[0] - 1):
        slot = _slot(_hash(text, bounds[word], bounds[word + 1] - 1), slots)
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = word + 1


@njit(**COMPILE)
def find_word(text, bounds, slots, raw, begin, end):
    """The number of the word ``raw[begin:end]`` in a table, or -1."""
    return _find_hashed(text, bounds, slots, raw, begin, end, _hash(raw, begin, end))


@njit(**COMPILE)
def _find_hashed(text, bounds, slots, raw, begin, end, value):
    """The number of the word ``raw[begin:end]``, whose hash is known, in a table, or -1."""
    mask = np.uint64(slots.shape[0] - 1)
    slot = _slot(value, slots)
    for _ in range(slots.shape[0]):
        word = np.int64(slots[slot]) - 1
        if word < 0 or word >= bounds.shape[0] - 1:
            return -1
        first, last = np.int64(bounds[word]), np.int64(bounds[word + 1]) - 1
        if first >= 0 and last < text.shape[0] and last - first == end - begin:
            same = True
            for place in range(end - begin):
                if text[first + place] != raw[begin + place]:
                    same = False
                    break
            if same:
                return word
        slot = (slot + np.uint64(1)) & mask
    return -1


@njit(**COMPILE)
def _space(raw, place):
    """How many bytes of white space, as Python's ``str.split`` has it, stand at a place of a text in UTF-8."""
    byte = raw[place]
    if byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31:
        return 1
    if byte < 0xC2 or place + 1 >= raw.shape[0]:
        return 0
    second = raw[place + 1]
    if byte == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if place + 2 >= raw.shape[0]:
        return 0
    third = raw[place + 2]
    if byte == 0xE2 and second == 0x80:
        return 3 if 0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
    if (byte == 0xE2 and second == 0x81 and third == 0x9F) or (byte == 0xE3 and second == 0x80 and third == 0x80):
        return 3
    return 3 if byte == 0xE1 and second == 0x9A and third == 0x80 else 0


@njit(**COMPILE)
def number_text(text, bounds, slots, raw, unknown_is_word, words, spelled):
    """Splits lines at white space and encodes their words; ``</s>`` stands for each line feed.

    Args:
        text: uint8, see :func:`word_slots`.
        bounds: int64.
        slots: uint32.
        raw: uint8, UTF-8; the last line ends with a line feed.
        unknown_is_word: Whether ``<unk>`` in the lines is a known word.
        words: int32, receives the ids; has room for one for each byte.
        spelled: int32, receives for unknown words, whose id is that of ``<unk>``, their bytes and one more; else 0.

    Returns:
        How many words there are, the ends of lines counted.
    """
    count, begin, place, value = 0, 0, 0, _OFFSET
    while place < raw.shape[0]:
        size = _space(raw, place)
        if size == 0:
            value = (value ^ np.uint64(raw[place])) * _PRIME  # as _hash does
            place += 1
            continue
        if place > begin:
            word = _find_hashed(text, bounds, slots, raw, begin, place, value)
            known = word > END or (word == UNKNOWN and unknown_is_word)
            words[count] = word if known else UNKNOWN
            spelled[count] = 0 if known else place - begin + 1
            count += 1
        if raw[place] == 10:
            words[count] = END
            spelled[count] = 0
            count += 1
        place += size
        begin, value = place, _OFFSET
    return count
