"""Growing a vocabulary: tokens for what is frequent in a new text, each made of existing tokens."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import islice, pairwise
from typing import Any

from wenmai.core.errors import SettingError
from wenmai.text.tokenizer import Tokenizer

__all__ = ["grow"]

_SMALLEST_COUNT = 2
_BATCH = 4096

Pair = tuple[int, int]


def grow(tokenizer: Tokenizer, texts: Iterable[str], most: int) -> tuple[Tokenizer, list[list[int]]]:
    """Adds the most frequent new tokens of some texts to a vocabulary; existing ids stay.

    Of BPE these are further merges of pieces, found as in its training (Sennrich et al. 2016); of words and characters,
    those that were unknown.

    Args:
        tokenizer: The tokenizer to grow.
        texts: Read once.
        most: Most tokens to add; fewer if nothing else occurs twice.

    Returns:
        The grown tokenizer, and for each new token, in order of their ids, the earlier tokens that it is made of; none
        of a word that was unknown.

    Raises:
        SettingError: if the tokenizer is of a kind whose vocabulary cannot grow.
    """
    content = json.loads(tokenizer.to_json())
    model = content["model"]
    if model["type"] == "BPE" and model["merges"]:
        made = _merged(tokenizer, texts, most, model)
    elif model["type"] in ("WordLevel", "BPE"):
        made = _added(tokenizer, texts, most, model["vocab"], characters=model["type"] == "BPE")
    else:
        raise SettingError(
            f"grow={most}: the vocabulary of a {model['type']} tokenizer follows from its training text as a whole; "
            "bpe, byte-bpe, words, whitespace and characters can grow"
        )
    return Tokenizer.of_json(json.dumps(content), "the grown tokenizer"), made


def _added(
    tokenizer: Tokenizer, texts: Iterable[str], most: int, vocab: dict[str, int], *, characters: bool
) -> list[list[int]]:
    """Adds unknown words, or characters, the most frequent first."""
    counts: Counter[str] = Counter()
    for text in texts:
        found = list(tokenizer.normalise(text)) if characters else tokenizer.words(text)
        counts.update(word for word in found if word not in vocab)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    new = [word for word, count in ordered if count >= _SMALLEST_COUNT][:most]
    vocab.update({word: tokenizer.vocab_size + number for number, word in enumerate(new)})
    return [[] for _ in new]


def _merged(tokenizer: Tokenizer, texts: Iterable[str], most: int, model: dict[str, Any]) -> list[list[int]]:
    """Adds merges: again and again the most frequent pair of neighbouring pieces within a word."""
    counts: Counter[tuple[int, ...]] = Counter()
    lines = iter(texts)
    while batch := list(islice(lines, _BATCH)):
        counts.update(tokenizer.pieces_of_words(batch))
    words = [list(word) for word in counts]
    frequencies = list(counts.values())
    pairs: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for number, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += frequencies[number]
            places[pair].add(number)
    names = {number: token for token, number in model["vocab"].items()}
    made: list[list[int]] = []
    queue = [(-count, pair) for pair, count in pairs.items()]  # counts may be out of date
    heapify(queue)
    while len(made) < most and queue:
        count, pair = heappop(queue)
        if -count != pairs[pair]:
            if pairs[pair] >= _SMALLEST_COUNT:
                heappush(queue, (-pairs[pair], pair))
            continue
        if -count < _SMALLEST_COUNT:
            break
        token = names[pair[0]] + names[pair[1]] if tokenizer.special_ids.isdisjoint(pair) else ""
        if not token or token in model["vocab"]:
            continue  # pieces that never join, or that another merge has joined
        new = tokenizer.vocab_size + len(made)
        made.append(list(pair))
        model["vocab"][token] = new
        names[new] = token
        model["merges"].append([names[pair[0]], names[pair[1]]])
        touched: set[Pair] = set()
        for number in places.pop(pair):
            for old in pairwise(words[number]):
                pairs[old] -= frequencies[number]
            words[number] = joined = _joined(words[number], pair, new)
            for found in pairwise(joined):
                pairs[found] += frequencies[number]
                places[found].add(number)
                touched.add(found)
        for found in touched:
            heappush(queue, (-pairs[found], found))
    return made


def _joined(word: list[int], pair: Pair, new: int) -> list[int]:
    """Returns a word with the new token in place of the pair, from left to right."""
    found: list[int] = []
    place = 0
    while place < len(word):
        if tuple(word[place : place + 2]) == pair:
            found.append(new)
            place += 2
        else:
            found.append(word[place])
            place += 1
    return found
