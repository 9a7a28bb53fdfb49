"""The dialogue language model: three turns of a dialogue, some of whose tokens are masked; is it a real one?

Sun et al. 2019 (ERNIE 1.0), section 3.4. A row is ``[CLS] S1 [SEP] S2 [SEP] S3 [SEP]``. Whoever begins asks, all others
respond: the roles, Q and R, stand in place of segments, and the three turns are QRQ, QRR or QQR. In some rows, by
default in half of them, one of the turns is from another dialogue, and the model has to say so. The paper says neither
how many are fake nor the numbers of the roles; the fraction is a setting, and Q is 0.

One dialogue in 20 is for validation.
"""

from pathlib import Path

import numpy as np

from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.quantities import plural
from wenmai.data.pretraining.task import Context, Drawn, PretrainingTask, Row, set_aside, sources_of
from wenmai.data.sequences import SentenceStream
from wenmai.data.threads import Turn, read_threads

__all__ = ["Dialogue"]

_TURNS = 3  # of a row
_FEWEST = 4  # dialogues


class Dialogue(PretrainingTask):
    """Real and fake dialogues."""

    name = "dialogue"
    level = "sequence"
    classes = ("real", "fake")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        settings = context.settings
        if settings.dialogue_threads is None:
            raise SettingError(
                "the task dialogue has no dialogues; name a file of them (dialogue_threads=FILE), a dialogue a line of "
                "JSON, or leave dialogue out of tasks"
            )
        if context.segments < 2:
            raise SettingError(
                f"the task dialogue tells two roles apart, but the model has segments={context.segments}; set "
                "segments=2"
            )
        if context.room(_TURNS) < _TURNS:
            raise SettingError(f"the task dialogue needs max_length={2 * _TURNS + 1} at least, for three turns")
        path = Path(settings.dialogue_threads)
        self.sources = sources_of(path)
        threads = read_threads(path)
        if len(threads) < _FEWEST:
            raise CorpusError(
                f"{path}: has {plural(len(threads), 'dialogue')}, but fake turns are from others, also of those to "
                f"validate on; give {_FEWEST} at least"
            )
        self._threads(threads)
        self.note_unknown(path, self._tokens)
        if not len(self._places):
            raise CorpusError(f"{path}: no dialogue has three turns of two speakers; the task dialogue needs them")

    def _threads(self, threads: list[tuple[Turn, ...]]) -> None:
        """Encodes turns, and finds where three stand in a row."""
        encoded = self.context.tokenizer.encode_batch([turn.text for thread in threads for turn in thread])
        self._tokens = [np.array(row, np.int32) for row in encoded]
        self._sizes = np.array([len(row) for row in encoded], np.int64)
        self._thread_of = np.repeat(np.arange(len(threads)), [len(thread) for thread in threads])
        places, roles, first = [], [], 0
        for thread in threads:
            for start in range(len(thread) - _TURNS + 1):
                asks = [turn.speaker == thread[start].speaker for turn in thread[start : start + _TURNS]]
                if not all(asks) and self._sizes[first + start : first + start + _TURNS].all():
                    places.append(first + start)
                    roles.append([0 if one else 1 for one in asks])
            first += len(thread)
        self._places = np.array(places, np.int64)
        self._roles = np.array(roles, np.int64).reshape(-1, _TURNS)
        self._aside = set_aside(range(len(threads)))[self._thread_of]  # whether its dialogue is to validate on

    def require(self, stream: SentenceStream, what: str = "the text") -> None:
        """Makes sure that there are dialogues to train on, or to validate on; those of the text do not matter.

        Raises:
            CorpusError: if not.
        """
        if not (self._aside[self._places] == stream.held_out).any():
            use = "validate on" if stream.held_out else "train on"
            raise CorpusError(
                f"{self.context.settings.dialogue_threads}: no dialogue to {use} has three turns of two speakers (one "
                "in 20 is to validate on); give more dialogues"
            )

    def examples(self, stream: SentenceStream, random: np.random.Generator) -> Drawn:
        """Takes three turns from each place of each dialogue; the table has their numbers, the roles, and the class."""
        chosen = np.flatnonzero(self._aside[self._places] == stream.held_out)
        turns = self._places[chosen, None] + np.arange(_TURNS)  # (N, 3)
        others = np.flatnonzero((self._aside == stream.held_out) & (self._sizes > 0))
        fake = random.random(len(turns)) < self.context.settings.dialogue_fake
        which = random.integers(_TURNS, size=len(turns))
        own = self._thread_of[turns[:, 0]]
        drawn = _elsewhere(own, self._thread_of[others], random)
        fake &= drawn >= 0
        turns[fake, which[fake]] = others[drawn[fake]]
        lengths = np.minimum(self._sizes[turns].sum(1), self.context.room(_TURNS)) + 1 + _TURNS
        return Drawn(lengths, np.concatenate([turns, self._roles[chosen], fake[:, None]], 1))

    def row(self, stream: SentenceStream, examples: Drawn, place: int) -> Row:
        """Makes a row; turns that are too long together lose their ends, the longest first."""
        numbers = examples.table[place]
        texts = [self._tokens[turn] for turn in numbers[:_TURNS].tolist()]
        sizes = _fitting([len(text) for text in texts], self.context.room(_TURNS))
        texts = [text[:size] for text, size in zip(texts, sizes, strict=True)]
        tokens, _ = self.context.frame(*texts)
        segments = np.repeat(numbers[_TURNS : 2 * _TURNS], [len(text) + 1 for text in texts])
        segments = np.concatenate([segments[:1], segments])  # [CLS] belongs to the first
        return Row(tokens, segments, labels=int(numbers[-1]))


def _elsewhere(own: np.ndarray, threads: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draws for each example a turn of another dialogue.

    Args:
        own: (N,) the dialogue of each example.
        threads: (M,) that of each turn that may be drawn, rising.
        random: Draws.

    Returns:
        (N,) which turn; -1 if there is no other dialogue.
    """
    low, high = np.searchsorted(threads, own), np.searchsorted(threads, own, side="right")
    left = len(threads) - (high - low)
    drawn = random.integers(0, np.maximum(left, 1))
    return np.where(left > 0, np.where(drawn < low, drawn, drawn + high - low), -1)


def _fitting(sizes: list[int], room: int) -> list[int]:
    """Returns sizes that fit together: the longest are cut to one size."""
    kept = list(sizes)
    left = room
    for number, place in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        kept[place] = min(sizes[place], left // (len(sizes) - number))
        left -= kept[place]
    return kept
