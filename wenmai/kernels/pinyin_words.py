"""The words that can stand at each place of an input: a walk through a trie of syllables along a graph of syllables.

The trie has its nodes in the order of breadth: the children of node ``n`` are those from ``first[n]`` to before
``first[n + 1]``, in the order of their syllables, and its words those from ``entries[n]`` to before ``entries[n + 1]``,
the most frequent first. A syllable of the input is a range of syllables, as they are numbered in the order of the
alphabet: one syllable if it is complete, all that begin with these letters if it is not.
"""

import numpy as np
from numba import njit

__all__ = ["EDGE", "MAX_SYLLABLES", "SYLLABLE", "add_scores", "is_reachable", "match_words", "order_by_end"]

COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}

SYLLABLE = np.dtype([("end", "<u4"), ("low", "<u4"), ("high", "<u4"), ("tone", "<u4"), ("score", "<f4")])
EDGE = np.dtype(
    [
        ("begin", "<u4"),
        ("end", "<u4"),
        ("entry", "<u4"),
        ("score", "<f4"),
        ("starts", "<u8"),  # bit n: a syllable begins n places after the word
    ]
)
MAX_SYLLABLES = 16  # of a word: a tone takes four bits
_TONE_BITS, _TONE = np.uint64(4), np.uint64(15)


@njit(**COMPILE)
def _lower_bound(syllables, begin, end, wanted):
    while begin < end:
        middle = (begin + end) // 2
        if syllables[middle] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(**COMPILE)
def _wrong_tones(typed, known, syllables):
    """How many tones were typed that a word does not have; 0 stands for one that is not said."""
    wrong = 0
    for _ in range(syllables):
        if typed & _TONE != 0 and known & _TONE != 0 and typed & _TONE != known & _TONE:
            wrong += 1
        typed >>= _TONE_BITS
        known >>= _TONE_BITS
    return wrong


@njit(**COMPILE)
def _grown(array):
    larger = np.empty(2 * array.shape[0], array.dtype)
    for place in range(array.shape[0]):  # a slice takes a second to compile, as its sizes would be checked
        larger[place] = array[place]
    return larger


@njit(**COMPILE)
def match_words(
    first,
    syllables,
    entries,
    weights,
    tones,
    graph,
    graph_bounds,
    offset,
    most,
    longest,
    wrong_tone,
    begin,
    edges,
    count,
):
    """Finds the words of a trie at each place of an input.

    Args:
        first: uint32 [nodes + 1].
        syllables: uint32 [nodes], the last syllable of each node.
        entries: uint32 [nodes + 1].
        weights: float32 [words], what a word adds to the score.
        tones: uint64 [words], four bits a syllable, the first syllable lowest.
        graph: Records of ``SYLLABLE``, by the places where they begin.
        graph_bounds: int64 [places + 1].
        offset: What is added to the number of a word.
        most: Words of a node that are taken where a syllable is not complete.
        longest: Most syllables of a word, where one is not complete.
        wrong_tone: What a tone that differs adds to the score.
        begin: The first place where words may begin.
        edges: Records of ``EDGE``, to which the words are added.
        count: How many there are.

    Returns:
        The edges, in a larger array where that was needed, and how many there are.
    """
    stack_node, stack_place = np.empty(256, np.uint32), np.empty(256, np.uint32)
    stack_depth, stack_tones = np.empty(256, np.int64), np.empty(256, np.uint64)
    stack_score, stack_open = np.empty(256, np.float32), np.empty(256, np.bool_)
    stack_starts = np.empty(256, np.uint64)
    for place in range(begin, graph_bounds.shape[0] - 1):
        stack_node[0], stack_place[0], stack_depth[0] = 0, place, 0
        stack_tones[0], stack_score[0], stack_open[0] = np.uint64(0), np.float32(0), False
        stack_starts[0] = np.uint64(0)
        height = 1
        while height > 0:
            height -= 1
            node, here, depth = np.int64(stack_node[height]), np.int64(stack_place[height]), stack_depth[height]
            typed, score, is_open = stack_tones[height], stack_score[height], stack_open[height]
            starts = stack_starts[height]
            if here - place < 64:
                starts |= np.uint64(1) << np.uint64(here - place)
            if here >= graph_bounds.shape[0] - 1 or depth >= MAX_SYLLABLES:
                continue
            for one in range(graph_bounds[here], graph_bounds[here + 1]):
                step = graph[one]
                after = np.int64(step.end)
                last = np.int64(first[node + 1])
                child = _lower_bound(syllables, np.int64(first[node]), last, step.low)
                now_typed = typed | (np.uint64(step.tone) << (_TONE_BITS * np.uint64(depth)))
                now_open = is_open or step.high - step.low > 1
                if now_open and depth >= longest:
                    continue
                now_score = score + step.score
                while child < last and syllables[child] < step.high:
                    stop = np.int64(entries[child + 1])
                    if now_open:
                        stop = min(stop, np.int64(entries[child]) + most)
                    for entry in range(entries[child], stop):
                        wrong = _wrong_tones(now_typed, tones[entry], depth + 1) if now_typed != 0 else 0
                        if count == edges.shape[0]:
                            edges = _grown(edges)
                        edges[count].begin = place
                        edges[count].end = after
                        edges[count].entry = offset + entry
                        edges[count].starts = starts
                        edges[count].score = now_score + weights[entry] + wrong * wrong_tone
                        count += 1
                    if first[child] < first[child + 1]:
                        if height == stack_node.shape[0]:
                            stack_node, stack_place = _grown(stack_node), _grown(stack_place)
                            stack_depth, stack_tones = _grown(stack_depth), _grown(stack_tones)
                            stack_score, stack_open = _grown(stack_score), _grown(stack_open)
                            stack_starts = _grown(stack_starts)
                        stack_node[height], stack_place[height], stack_depth[height] = child, after, depth + 1
                        stack_tones[height], stack_score[height] = now_typed, now_score
                        stack_open[height], stack_starts[height] = now_open, starts
                        height += 1
                    child += 1
    return edges, count


@njit(**COMPILE)
def order_by_end(edges, count, places, ordered, bounds):
    """Sorts edges by the places where they end; those that begin before the others come first.

    Args:
        edges: Records of ``EDGE``, in the order of their beginnings.
        count: How many there are.
        places: How many places there are, the end of the input among them.
        ordered: Records of ``EDGE`` [count], receives them.
        bounds: int64 [places + 1], receives where those of each place begin.
    """
    bounds[:] = 0
    for one in range(count):
        bounds[edges[one].end + 1] += 1
    for place in range(places):
        bounds[place + 1] += bounds[place]
    following = bounds[:-1].copy()
    for one in range(count):
        end = edges[one].end
        ordered[following[end]] = edges[one]
        following[end] += 1


@njit(**COMPILE)
def is_reachable(edges, bounds):
    """Whether edges lead from the first place to the last.

    Args:
        edges: Records of ``EDGE``, see :func:`order_by_end`.
        bounds: int64 [places + 1].
    """
    reached = np.zeros(bounds.shape[0] - 1, np.bool_)
    reached[0] = True
    for place in range(1, reached.shape[0]):
        for one in range(bounds[place], bounds[place + 1]):
            if reached[edges[one].begin]:
                reached[place] = True
                break
    return reached[-1]


@njit(**COMPILE)
def add_scores(edges, bounds, columns, scores, weight):
    """Adds the scores that another model gives to each character at each place.

    Args:
        edges: Records of ``EDGE``; those of further words stay as they are.
        bounds: uint32 [words + 1], the characters of each word.
        columns: uint32 [characters], their columns.
        scores: float32 [places, columns].
        weight: What they are multiplied with.
    """
    for number in range(edges.shape[0]):
        entry, place = np.int64(edges[number].entry), np.int64(edges[number].begin)
        if entry >= bounds.shape[0] - 1:
            continue
        starts, total = edges[number].starts, np.float32(0)
        for character in range(bounds[entry], bounds[entry + 1]):
            while starts != 0 and starts & np.uint64(1) == 0:
                starts >>= np.uint64(1)
                place += 1
            if place >= scores.shape[0]:
                break
            total += scores[place, columns[character]]
            starts >>= np.uint64(1)
            place += 1
        edges[number].score += weight * total
