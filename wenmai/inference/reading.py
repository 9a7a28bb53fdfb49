"""Scoring with a neural language model: line after line as a stream, or with a limited context."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from wenmai.data.batches import pad
from wenmai.nn.language import LanguageState, NextToken

__all__ = ["READ", "Ids", "Scores", "StreamScorer", "log_probs_within", "read_on"]

READ = 128  # tokens of a stream that are read at once
_BATCH_TOKENS = 4096

Ids = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float64]


def read_on(module: NextToken, tokens: Sequence[int], state: LanguageState) -> None:
    """Reads the tokens of one text into a state, as many at once as when a text is scored."""
    size = module.max_length or READ
    for place in range(0, len(tokens), size):
        module(torch.tensor([[*tokens[place : place + size]]], device=module.device), state)


class StreamScorer:
    """Scores lines one after the other, each with all before it as context, as far as the model reaches.

    A stateful model reads on. One of fixed length reads windows that overlap by half, so that every token but the first
    ones has at least half of the length as context.
    """

    def __init__(self, module: NextToken) -> None:
        self._module = module
        self._fed = module.bos_id  # the next token to read
        self._state: LanguageState | None = None
        self._window: list[int] = []

    def lines(self, rows: Sequence[Ids]) -> list[Scores]:
        """Returns the log-probabilities of the tokens of each line."""
        joined = np.concatenate(rows) if rows else np.zeros(0, np.int32)
        if self._module.max_length is None:
            found = [self._read_on(joined[place : place + READ]) for place in range(0, len(joined), READ)]
        else:
            size = max(1, self._module.max_length // 2)
            found = [self._read_window(joined[place : place + size]) for place in range(0, len(joined), size)]
        scores = np.concatenate(found) if found else np.zeros(0)
        return np.split(scores, np.cumsum([len(row) for row in rows])[:-1])

    def _read_on(self, tokens: Ids) -> Scores:
        if self._state is None:
            self._state = self._module.start(1)
        fed = [self._fed, *tokens[:-1].tolist()]
        self._fed = int(tokens[-1])
        return self._log_probs(fed, tokens, self._state)

    def _read_window(self, tokens: Ids) -> Scores:
        assert self._module.max_length is not None
        self._window = [*(self._window or [self._module.bos_id]), *tokens.tolist()][-self._module.max_length - 1 :]
        return self._log_probs(self._window[:-1], tokens, None)

    def _log_probs(self, fed: list[int], wanted: Ids, state: LanguageState | None) -> Scores:
        hidden = self._module(torch.tensor([fed], device=self._module.device), state)[0, -len(wanted) :]
        targets = torch.from_numpy(wanted).to(self._module.device).long()
        scores: Scores = self._module.output.target_log_probs(hidden, targets).cpu().double().numpy()
        return scores


def log_probs_within(module: NextToken, texts: Sequence[Ids], wanted: Sequence[int], reach: int) -> list[Scores]:
    """Scores the ends of texts when each token is predicted from a limited number of tokens before it.

    ``reach`` tokens before are known, or all if there are fewer. Tokens are predicted in pieces of an eighth of that,
    so the last of a piece knows up to an eighth more; below 16 every token is a piece. A stateful model reads a piece
    and its context anew, 128 tokens at once and the last ones together; what lies farther back is in its recurrent
    state or memory. A model of fixed length knows at most eight ninths to all of its length.

    Args:
        module: The model, in evaluation mode.
        texts: Token ids; the first of each is BOS, which is not predicted.
        wanted: How many tokens at the end of each to predict.
        reach: Known tokens, 1 or more.

    Returns:
        The natural log-probabilities of the predicted tokens of each text.
    """
    if module.max_length is not None:
        reach = max(1, min(reach, 8 * module.max_length // 9))
    step = max(1, reach // 8)
    found = [np.zeros(count) for count in wanted]
    places = []  # of a piece: its text, the first token that is read, the first that is predicted, and its end
    for number, (text, count) in enumerate(zip(texts, wanted, strict=True)):
        for begin in range(len(text) - count, len(text), step):
            end = min(begin + step, len(text))
            places.append((number, max(0, end - step - reach), begin, end))
    places.sort(key=lambda place: place[3] - place[1])
    size = max(1, _BATCH_TOKENS // (reach + step))
    for first in range(0, len(places), size):
        pieces = places[first : first + size]
        log_probs = _read_pieces(module, texts, pieces)
        ends = np.cumsum([end - begin for _, _, begin, end in pieces])
        for (number, _, begin, end), scores in zip(pieces, np.split(log_probs, ends[:-1]), strict=True):
            place = begin - len(texts[number]) + wanted[number]
            found[number][place : place + end - begin] = scores
    return found


def _read_pieces(module: NextToken, texts: Sequence[Ids], pieces: Sequence[tuple[int, int, int, int]]) -> Scores:
    fed, _ = pad([texts[number][first : end - 1] for number, first, _, end in pieces], module.bos_id)
    tokens = torch.from_numpy(fed).to(module.device).long()
    length = tokens.shape[1]
    if module.max_length is None:
        state = module.start(len(pieces))
        cuts = [0, *range(length % READ or READ, length + 1, READ)] if length > READ else [0, length]
        hidden = torch.cat([module(tokens[:, one:other], state) for one, other in pairwise(cuts)], 1)
    else:
        hidden = module(tokens)
    predicts = np.zeros(fed.shape, bool)
    for row, (_, first, begin, end) in enumerate(pieces):
        predicts[row, begin - 1 - first : end - 1 - first] = True
    targets = np.concatenate([texts[number][begin:end] for number, _, begin, end in pieces])
    asked = hidden[torch.from_numpy(predicts).to(module.device)]
    wanted = torch.from_numpy(targets).to(module.device).long()
    scores: Scores = module.output.target_log_probs(asked, wanted).cpu().double().numpy()
    return scores
