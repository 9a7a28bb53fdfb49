"""Networks that label symbols, with the numbers of what they read and write."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.tensors import require_numbers
from wenmai.data.batches import pad, plan_batches
from wenmai.inference.architecture import Network, read_architecture
from wenmai.inference.pinyin_numbers import BLANK, Numbers
from wenmai.inference.pinyin_typing import Cutter
from wenmai.models.folder import write_fields
from wenmai.nn.labelling import Labeller
from wenmai.nn.linear import linear
from wenmai.text.pinyin.readings import is_hanzi
from wenmai.text.pinyin.vocab import PinyinVocab
from wenmai.training.tensors import loaded_model, save_model

__all__ = ["LabellingModel", "build"]

_BATCH_SYMBOLS = 4096
_KEPT = 1024  # labels of a key whose rows of the output layer are kept

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


def build(architecture: type[Labeller], config: Any, numbers: Numbers, **sizes: int) -> Labeller:  # noqa: ANN401
    """Makes a network with fresh parameters.

    Args:
        architecture: Its class.
        config: Its settings.
        numbers: What it reads and writes.
        sizes: Of further heads, by name.
    """
    make: Any = architecture
    module: Labeller = make(config, vocab_size=numbers.vocab_size, characters=len(numbers.characters), **sizes)
    return module


class _Outputs(NamedTuple):
    """Rows of an output layer, those of some characters.

    Attributes:
        ids: (K,) the characters.
        weight: (K, M).
        bias: (K,) or None.
    """

    ids: Ints
    weight: Tensor
    bias: Tensor | None


class LabellingModel(Network):
    """A network with the numbers of what it reads and writes."""

    module: Labeller

    def __init__(self, module: Labeller, numbers: Numbers) -> None:
        self.module, self.numbers = module, numbers
        self._rows: dict[tuple[str, Hashable], _Outputs] = {}

    def _sizes(self) -> dict[str, Any]:
        return {"characters": len(self.numbers.characters), "syllables": len(self.numbers.candidates)}

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``model.safetensors`` and the numbers."""
        sizes = {name: head.vocab_size for name, head in self.module.heads.items() if name != "characters"}
        write_fields(folder, kind=self.kind, model=asdict(self.config), heads=sizes)
        save_model(self.module, folder)
        self.numbers.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        found = read_architecture(folder, Labeller)
        numbers = Numbers.load(folder)
        heads = found.facts.get("heads")
        sizes = {"readings": len(numbers.symbols)} if isinstance(heads, dict) and "readings" in heads else {}
        module = loaded_model(lambda: build(found.model, found.config, numbers, **sizes), found.config, folder)
        return cls(module, numbers)

    @property
    def vocab(self) -> PinyinVocab:
        """What a text is encoded with that training continues on."""
        known = self.numbers.characters.tokens[BLANK + 1 :]
        return PinyinVocab(known, [one for one in known if not is_hanzi(one)])

    @cached_property
    def cutter(self) -> Cutter:
        """Cuts what was typed into syllables."""
        return Cutter(self.numbers)

    def label(
        self,
        spans: Sequence[tuple[Ints, int]],
        keys: Sequence[Hashable | None],
        most: int,
        head: str,
        candidates: Callable[[Any], Ints],
    ) -> tuple[Ints, Floats]:
        """Labels symbols.

        Args:
            spans: What is read at once: symbols, of which so many at the beginning are not labelled.
            keys: Of all symbols that are labelled, in order: what says which labels they may have; None: no label.
            most: Labels of a symbol that are wanted.
            head: What is predicted.
            candidates: The labels of a key.

        Returns:
            The best labels of each symbol, (N, most), and their log-probabilities among the labels of its key; -inf
            where there are no more.
        """
        numbered: dict[Hashable, int] = {}
        kinds = np.fromiter(
            (-1 if key is None else numbered.setdefault(key, len(numbered)) for key in keys), np.int64, len(keys)
        )
        ids, scores = np.zeros((len(keys), most), np.int64), np.full((len(keys), most), -np.inf, np.float32)
        lengths = np.array([len(symbols) for symbols, _ in spans], np.int64)
        sizes = lengths - np.array([skipped for _, skipped in spans], np.int64)
        starts = np.cumsum(sizes) - sizes
        names = list(numbered)
        if self.module.training:
            self.module.eval()
            self._rows.clear()
        with torch.inference_mode():
            for batch in plan_batches(lengths, max_tokens=_BATCH_SYMBOLS, seed=0, epoch=0) if len(spans) else ():
                tokens, real = pad([spans[number][0] for number in batch.tolist()], 0)
                skipped = np.array([spans[number][1] for number in batch.tolist()], np.int64)
                labelled = real & (np.arange(tokens.shape[1]) >= skipped[:, None])
                places = np.concatenate([starts[n] + np.arange(sizes[n]) for n in batch.tolist()])
                wanted = kinds[places] >= 0
                if not wanted.any():
                    continue
                states = self.module(*(torch.from_numpy(one).to(self.device) for one in (tokens, real)))
                flat = torch.from_numpy(np.flatnonzero(labelled)[wanted]).to(self.device)
                self._choose(states.flatten(0, 1)[flat], places[wanted], kinds, names, head, candidates, ids, scores)
        return ids, scores

    def _choose(
        self,
        states: Tensor,
        places: Ints,
        kinds: Ints,
        names: Sequence[Hashable],
        head: str,
        candidates: Callable[[Any], Ints],
        ids: Ints,
        scores: Floats,
    ) -> None:
        """Fills in the best labels of states (N, M), those of one kind together."""
        order = np.argsort(kinds[places], kind="stable")
        states = states[torch.from_numpy(order).to(states.device)]
        places, most = places[order], ids.shape[1]
        edges = np.flatnonzero(np.diff(kinds[places], prepend=-1, append=-1))
        chosen, likely, rows = [], [], []
        for low, high in pairwise(edges.tolist()):
            outputs = self._outputs(head, names[kinds[places[low]]], candidates)
            logits = linear(states[low:high], outputs.weight, outputs.bias)
            top = min(most, len(outputs.ids))
            if top == 1:
                best, index = logits.max(1, keepdim=True)
            else:
                best, index = logits.topk(top, dim=1)
            likely.append(best - logits.logsumexp(1, keepdim=True))
            chosen.append(index)
            rows.append((low, high, top, outputs.ids))
        require_numbers(bool(torch.isfinite(torch.cat([one[:, 0] for one in likely])).all()))
        for index, score, (low, high, top, known) in zip(chosen, likely, rows, strict=True):
            ids[places[low:high], :top] = known[index.cpu().numpy()]
            scores[places[low:high], :top] = score.float().cpu().numpy()

    def _outputs(self, head: str, key: Hashable, candidates: Callable[[Any], Ints]) -> _Outputs:
        """The rows of an output layer for the labels of a key."""
        known = self._rows.get((head, key))
        if known is None:
            layer: Any = self.module.heads[head]
            found = candidates(key)
            rows = torch.from_numpy(found).to(self.device)
            known = _Outputs(found, layer.weight[rows], None if layer.bias is None else layer.bias[rows])
            if len(found) <= _KEPT:
                self._rows[head, key] = known
        return known
