"""Growing a vocabulary: tokens for what is frequent in a new text, each made of existing tokens."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice, pairwise
from typing import Any

from wenmai.core.errors import SettingError
from wenmai.text.tokenizer import Tokenizer

__all__ = ["grow"]

_SMALLEST_COUNT = 2
_BATCH = 4096
_BYTE = re.compile("<0x[0-9A-F]{2}>")

Pair = tuple[int, int]


def grow(tokenizer: Tokenizer, texts: Iterable[str], most: int) -> tuple[Tokenizer, list[list[int]]]:
    """Adds the most frequent new tokens of some texts to a vocabulary; existing ids stay.

    Of BPE these are further merges of pieces, found as in its training (Sennrich et al. 2016); of words and characters,
    those that were unknown; of WordPiece unknown characters first, then merges.

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
    if isinstance(model["vocab"], dict):  # readers number tokens anew that were added and are not in it
        model["vocab"] |= {one["content"]: one["id"] for one in content["added_tokens"]}
    if model["type"] == "BPE" and model["merges"]:
        made = _merged(tokenizer, texts, most, model)
    elif model["type"] == "WordPiece":
        made = _wordpieces(tokenizer, texts, most, model)
    elif model["type"] in ("WordLevel", "BPE"):
        made = _added(tokenizer, texts, most, model["vocab"], characters=model["type"] == "BPE")
    else:
        raise SettingError(
            f"grow={most}: the vocabulary of a {model['type']} tokenizer follows from its training text as a whole; "
            "bpe, byte-bpe, wordpiece, words, whitespace, chinese and characters can grow"
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
    """Adds merges of pieces within words."""
    counts: Counter[tuple[int, ...]] = Counter()
    lines = iter(texts)
    while batch := list(islice(lines, _BATCH)):
        counts.update(tokenizer.pieces_of_words(batch))
    vocab, merges = model["vocab"], model["merges"]
    names = {number: token for token, number in vocab.items()}
    single = {number for token, number in vocab.items() if model["byte_fallback"] and _BYTE.fullmatch(token)}
    alone = tokenizer.special_ids | single  # what is joined with a byte spells its name, <0xE5>

    def join(first: int, second: int, new: int) -> bool:
        token = names[first] + names[second] if alone.isdisjoint((first, second)) else ""
        if not token or token in vocab:
            return False  # pieces that never join, or that another merge has joined
        vocab[token], names[new] = new, token
        merges.append([names[first], names[second]])
        return True

    return _merge(counts, most, tokenizer.vocab_size, join)


def _wordpieces(tokenizer: Tokenizer, texts: Iterable[str], most: int, model: dict[str, Any]) -> list[list[int]]:
    """Adds the characters that make whole words unknown, at their beginning or inside, then merges of pieces."""
    vocab, inside, longest = model["vocab"], model["continuing_subword_prefix"], model["max_input_chars_per_word"]
    counts = Counter(word for text in texts for word in tokenizer.words(text) if len(word) <= longest)
    missing: Counter[str] = Counter()
    for word, count in counts.items():
        for piece in {word[0], *(inside + character for character in word[1:])} - vocab.keys():
            missing[piece] += count
    ordered = sorted(missing.items(), key=lambda item: (-item[1], item[0]))
    new = [piece for piece, count in ordered if count >= _SMALLEST_COUNT][:most]
    first_id = tokenizer.vocab_size
    vocab.update({piece: first_id + place for place, piece in enumerate(new)})
    names = {number: token for token, number in vocab.items()}

    def join(first: int, second: int, number: int) -> bool:
        token = names[first] + names[second].removeprefix(inside)
        if token in vocab:
            return False  # where a longer piece comes first
        vocab[token], names[number] = number, token
        return True

    pieces: Counter[tuple[int, ...]] = Counter()
    for word, count in counts.items():
        pieces[_cut(word, vocab, inside)] += count
    return [*([] for _ in new), *_merge(pieces, most - len(new), first_id + len(new), join)]


def _cut(word: str, vocab: Mapping[str, int], inside: str) -> tuple[int, ...]:
    """The longest pieces of a word, from left to right; none if it has an unknown character."""
    found: list[int] = []
    begin = 0
    while begin < len(word):
        prefix = inside if begin else ""
        end = next((end for end in range(len(word), begin, -1) if prefix + word[begin:end] in vocab), 0)
        if not end:
            return ()
        found.append(vocab[prefix + word[begin:end]])
        begin = end
    return tuple(found)


def _merge(
    counts: Mapping[tuple[int, ...], int], most: int, first_id: int, join: Callable[[int, int, int], bool]
) -> list[list[int]]:
    """Merges again and again the most frequent pair of neighbouring pieces within a word.

    Args:
        counts: How often each word occurs, a word being its pieces.
        most: Most merges.
        first_id: The id of the first new piece.
        join: Given two pieces and a new id, makes the new piece; or refuses.

    Returns:
        The two pieces of each new one.
    """
    words = [list(word) for word in counts]
    frequencies = list(counts.values())
    pairs: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for number, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += frequencies[number]
            places[pair].add(number)
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
        new = first_id + len(made)
        if not join(*pair, new):
            continue
        made.append(list(pair))
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
