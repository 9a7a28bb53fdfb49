"""Cloze tests: entities of texts are masked, all their tokens, and a masked language model fills them in.

ERNIE 1.0 shows what it learned by some such sentences (Sun et al. 2019, section 4.5). Here any names can be asked for:
those that occur once in a text, as one that stands there twice could be copied.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from wenmai.core.errors import CorpusError, SettingError
from wenmai.inference.framing import Framer, centred
from wenmai.inference.masked_model import MaskedModel
from wenmai.inference.pseudo import require_predictions
from wenmai.measures.cloze import ClozeResult, measure_cloze
from wenmai.nn.encoder import predicting
from wenmai.text.names import NameMatcher

__all__ = ["Cloze", "clozes_of", "fill_clozes", "probe_cloze"]

Order = Literal["together", "in-order"]


class Cloze(NamedTuple):
    """An entity of a text.

    Attributes:
        text: The text.
        start: Its first character.
        end: The character behind it.
    """

    text: str
    start: int
    end: int


def clozes_of(texts: Sequence[str], names: NameMatcher) -> list[Cloze]:
    """Returns the names that occur once in their text, and in no other name of it.

    Raises:
        CorpusError: if there is none.
    """
    found = []
    for text in texts:
        spans = names.spans(text).tolist()
        found += [Cloze(text, low, high) for low, high in spans if text.count(text[low:high]) == 1]
    if not found:
        raise CorpusError(f"none of {len(names.names):,} names occurs once in one of {len(texts):,} texts")
    return found


def probe_cloze(
    model: MaskedModel, clozes: Sequence[Cloze], *, order: Order = "together", seed: int = 0
) -> ClozeResult:
    """Measures how many entities a model recovers exactly.

    Entities that do not begin or end with a token, or of which there is nothing else in the window that the model
    reads, are left out.

    Args:
        model: The model.
        clozes: The entities.
        order: ``together``: all tokens are filled in at once, each as if nothing were known of the others;
            ``in-order``: the first one, then the next one given it, and so on.
        seed: Makes the interval reproducible.

    Raises:
        CorpusError: if no entity is left.
        SettingError: if the model predicts no tokens, or there is no such order.
    """
    if order not in ("together", "in-order"):
        raise SettingError(f"order={order!r} is not one of together, in-order")
    numbers = {text: number for number, text in enumerate(dict.fromkeys(one.text for one in clozes))}
    encodings = dict(zip(numbers, map(model.tokenizer.encode, numbers), strict=True))
    rows, places, texts = [], [], []
    room = model.module.max_length - 2
    for one in clozes:
        encoding = encodings[one.text]
        span = _tokens(encoding.offsets, one)
        if span is not None and span[1] - span[0] < min(room, len(encoding.ids)):
            rows.append(encoding.ids)
            places.append(span)
            texts.append(numbers[one.text])
    if not rows:
        raise CorpusError(f"none of {len(clozes):,} entities begins and ends with a token of the model, beside others")
    found = fill_clozes(model, rows, places, order=order)
    wanted = [row[low:high] for row, (low, high) in zip(rows, places, strict=True)]
    return measure_cloze(wanted, found, texts, seed=seed)


def fill_clozes(
    model: MaskedModel, rows: Sequence[Sequence[int]], places: Sequence[tuple[int, int]], *, order: Order = "together"
) -> list[list[int]]:
    """Returns the most likely tokens in place of some tokens of texts, never special ones but the unknown.

    Args:
        model: The model.
        rows: Texts as tokens.
        places: Of each the first token that is masked, and the one behind the last.
        order: As of :func:`probe_cloze`.

    Raises:
        SettingError: if the model predicts no tokens.
    """
    head = require_predictions(model.module)
    tokenizer = model.tokenizer
    if tokenizer.mask_id is None:
        raise SettingError("the tokenizer has no mask; the encoder can embed, but not fill")
    if not rows:
        return []
    model.module.eval()
    framer = Framer(model.module, tokenizer)
    spans = np.array(places, np.int64).reshape(-1, 2)
    sizes = spans[:, 1] - spans[:, 0]
    begins, widths = centred(spans.mean(1).astype(np.int64), np.array([len(row) for row in rows]), framer.room)
    begins = np.clip(begins, spans[:, 1] - widths, spans[:, 0])  # the whole entity is in it
    windows = [np.array(row[low : low + width], np.int32) for row, low, width in zip(rows, begins, widths, strict=True)]
    starts = np.cumsum(widths) - widths
    tokens = np.concatenate(windows)
    first = starts + spans[:, 0] - begins
    at = np.arange(int(sizes.max(initial=0)))
    table = np.minimum(first[:, None] + at, (first + sizes - 1)[:, None])  # (N, K) of tokens, the last one repeated
    tokens[table] = tokenizer.mask_id
    size = tokenizer.vocab_size
    never = [*(tokenizer.special_ids - {tokenizer.unk_id}), *tokenizer.nameless, *range(size, model.module.vocab_size)]
    found = np.zeros(table.shape, np.int64)
    steps = [slice(None)] if order == "together" else [slice(step, step + 1) for step in at.tolist()]
    with torch.inference_mode():
        for step in steps:
            for batch in framer.batches(tokens, starts, widths):
                wanted = table[batch.rows][:, step] - starts[batch.rows, None] + 1  # in the row, behind [CLS]
                fed, mask = batch.fed(model.device)
                places_of = predicting(torch.from_numpy(wanted), shifted=model.config.shifted)
                hidden = model.module(fed, mask=mask, places=places_of.to(fed.device))
                logits = head(hidden)
                logits[..., never] = float("-inf")
                found[batch.rows, step] = logits.argmax(-1).cpu().numpy()
            if order == "in-order":
                known = sizes > step.start
                tokens[table[known, step.start]] = found[known, step.start]
    return [row[:size].tolist() for row, size in zip(found, sizes.tolist(), strict=True)]


def _tokens(offsets: Sequence[tuple[int, int]], cloze: Cloze) -> tuple[int, int] | None:
    """Returns the tokens of an entity, none if it begins or ends inside of one."""
    inside = [
        place
        for place, (low, high) in enumerate(offsets)
        if low < cloze.end and high > cloze.start and cloze.text[low:high].strip()
    ]
    if not inside:
        return None
    low, high = offsets[inside[0]][0], offsets[inside[-1]][1]
    low += len(cloze.text[low:high]) - len(cloze.text[low:high].lstrip())  # some begin with the space before them
    return (inside[0], inside[-1] + 1) if (low, high) == (cloze.start, cloze.end) else None
