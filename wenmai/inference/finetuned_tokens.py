"""Fine-tuned taggers: a tag for each word, such as its part of speech or the entity that it belongs to.

The state of a word is that of its first piece (Devlin et al. 2019, section 5.3). Its tag is the most probable one of a
softmax, or the sentence has the best possible sequence of tags by a conditional random field (:mod:`wenmai.nn.crf`). A
sentence that is longer than the encoder reads is read in windows; the state of a word is that of the window in which it
has most context, and the sequence of tags is one again.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.core.errors import CorpusError, SettingError, require_list
from wenmai.data.tags import OUTSIDE, bioes_tags
from wenmai.data.typed import TaggedSentence
from wenmai.inference.backbones import Known, joined_ids, windowed
from wenmai.inference.finetuned import FineTuned, Floats, are_texts
from wenmai.inference.finetuned_network import HeadShape, Item, Network, Outputs
from wenmai.inference.reading_config import TuneReadingConfig
from wenmai.measures.tagging import TaggingResult, entities, measure_tagging
from wenmai.nn.crf import Crf, Scheme, constraints_of
from wenmai.nn.heads import TokenHead
from wenmai.objectives.loss import Loss
from wenmai.text.ranges import EAST_ASIAN
from wenmai.text.segment import treebank_spans

__all__ = ["Entity", "Tagged", "Tagging"]

Table = npt.NDArray[np.float64]

_MOST_KNOWN = 1 << 20  # words whose pieces are remembered
_MOST_SINGLE = 0.95  # share of the words of East Asian scripts that are single characters where sentences are cut so
_MARKS = "-/+.=*'"  # some texts are cut at these within words, as those of PubTator are
_FEWEST = 3  # times that a mark stands alone between words where they are cut
_MOST_JOINED = 0.1  # of a mark that stands alone between words where they are cut: as often within one, at most
_OF_ENTITY = re.compile(r"[BIMESLU]-.+")
_IDEOGRAPH, _APART = re.compile(f"[{EAST_ASIAN}]"), re.compile(f"[{EAST_ASIAN}]|[^{EAST_ASIAN}]+")


class Entity(NamedTuple):
    """A part of a sentence.

    Attributes:
        text: What it is in the sentence.
        type: Its type.
        start: Its first character.
        end: The character behind it.
        probability: The lowest of those of its tags.
    """

    text: str
    type: str
    start: int
    end: int
    probability: float


class Tagged(NamedTuple):
    """A tagged sentence.

    Attributes:
        text: The sentence.
        tokens: Its words, or characters.
        tags: A tag for each.
        probabilities: Of each tag, given the sentence.
        offsets: Where each word begins and ends, in characters.
        entities: What the tags say together, if they are of a scheme such as BIO.
    """

    text: str
    tokens: list[str]
    tags: list[str]
    probabilities: list[float]
    offsets: list[tuple[int, int]]
    entities: list[Entity]


class TaggingHead(nn.Module):
    """Scores of tags, and of their sequences.

    Args:
        tokens: The head of single tags.
        crf: Of sequences, if these are scored.
    """

    def __init__(self, tokens: TokenHead, crf: Crf | None) -> None:
        super().__init__()
        self.tokens = tokens
        self.crf = crf


class Tagging(FineTuned):
    """Tags of words."""

    task = "tagging"
    kind = "finetuned-tagging"
    verbs = ("tag", "embed")
    objective = "cross-entropy of the tags"
    takes = frozenset({"max_length", "stride", "crf", "tag_ends", "class_weight"})
    over_tokens = True
    known = frozenset({"characters"})
    perhaps = frozenset({"ideographs", "marks"})
    weights: Tensor | None = None

    def __init__(
        self,
        module: Network,
        shape: HeadShape,
        reading: TuneReadingConfig,
        labels: Sequence[str],
        numbers: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(module, shape, reading, labels, numbers)
        self.scheme = scheme_of(labels, entities=shape.entities)
        self.best_by = "accuracy" if self.scheme == "none" else "f1"
        self._numbers = {label: number for number, label in enumerate(labels)}
        if self.scheme == "bioes":  # whatever its marks are
            named = (bioes([label])[0] if _OF_ENTITY.fullmatch(label) else label for label in labels)
            self._numbers = {label: number for number, label in enumerate(named)}
        self._known: Known = {}

    @property
    def _head(self) -> TaggingHead:
        head = self.module.head
        assert isinstance(head, TaggingHead)
        return head

    @classmethod
    def head(cls, size: int, shape: HeadShape, labels: Sequence[str]) -> nn.Module:
        """Makes the head; the sequences of a scheme are those that it allows."""
        tokens = TokenHead(size, len(labels), dropout=shape.dropout)
        scheme = scheme_of(labels, entities=shape.entities)
        crf = Crf(len(labels), constraints_of(_marked(labels, {}), scheme)) if shape.crf else None
        return TaggingHead(tokens, crf)

    @classmethod
    def normal(cls, labels: Sequence[str]) -> Sequence[str]:
        """Returns tags with the marks of BIOES, if they are of BMES or BILOU."""
        return bioes(labels) if scheme_of(labels) == "bioes" else labels

    @classmethod
    def require(cls, examples: Sequence[TaggedSentence]) -> None:
        """Makes sure that there are two tags.

        Raises:
            CorpusError: if there is one.
        """
        if len({tag for example in examples for tag in example.tags}) < 2:
            tag = examples[0].tags[0]
            raise CorpusError(
                f"all words of {len(examples)} sentences have the tag {tag!r}; at least 2 tags are needed"
            )

    def learn(self, examples: Sequence[TaggedSentence]) -> None:
        """Notes how sentences are cut: into characters, all or those of East Asian scripts, and at which marks."""
        tokens = {token for one in examples for token in one.tokens}
        ideographs = [token for token in tokens if _IDEOGRAPH.search(token)]
        single = sum(len(token) == 1 for token in ideographs)
        self.numbers = {
            "characters": float(all(len(token) == 1 for token in tokens)),
            "ideographs": float(bool(ideographs) and single >= _MOST_SINGLE * len(ideographs)),
            "marks": float(sum(1 << _MARKS.index(mark) for mark in _parting(examples))),
        }

    def weigh(self, examples: Sequence[TaggedSentence]) -> None:
        """w_c = N / (C N_c): all tags count as if they were equally frequent.

        Raises:
            SettingError: with a conditional random field, which scores sequences and not tags.
        """
        if self.shape.crf:
            raise SettingError("class_weight=balanced has no effect with crf=true, which scores whole sequences")
        counted = Counter(self._numbers[tag] for example in examples for tag in self._learned(example))
        weights = [sum(counted.values()) / (len(counted) * max(1, counted[label])) for label in range(len(self.labels))]
        self.weights = torch.tensor(weights, dtype=torch.float64)

    def items(self, inputs: Sequence[Sequence[str]]) -> list[Item]:
        """Puts each sentence as one row, or as several windows."""
        backbone = self.backbone
        room = backbone.room(pair=False) - (backbone.max_length - self.length)
        stride = self.reading.stride or max(1, room // 3)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        found, self.cut = [], 0
        for words in inputs:
            pieces = joined_ids(words, backbone, self._known)
            self.cut += len(pieces.ids) > room
            found.append(Item(tuple(windowed(backbone, pieces, room, stride))))
        return found

    def gold(self, example: TaggedSentence) -> Sequence[str]:
        """Returns the words."""
        return example.tokens

    def targets(self, examples: Sequence[TaggedSentence], items: Sequence[Item]) -> list[list[int]]:
        """Returns the numbers of the tags of each sentence."""
        for place, example in enumerate(examples, start=1):
            for tag in self._learned(example):
                if tag not in self._numbers:
                    raise CorpusError(
                        f"sentence {place} has the tag {tag!r}, which the model does not know; it knows "
                        f"{', '.join(self.labels[:8])}"
                    )
        return [[self._numbers[tag] for tag in self._learned(example)] for example in examples]

    def _learned(self, example: TaggedSentence) -> Sequence[str]:
        """Returns the tags of an example as they are learned; they are read as BIO, but beside those of padding."""
        if self.scheme in ("bio", "none"):
            return example.tags
        begun = plain(example.tags, self.scheme)
        ended = bioes_tags(begun) if self.scheme == "bioes" else begun
        every = zip(ended, begun, example.tags, strict=True)  # some models have no E, or no S
        return [given if tag == "O" else end if end in self._numbers else tag for end, tag, given in every]

    def count(self, targets: Sequence[Sequence[int]]) -> int:
        """Returns how many words there are."""
        return sum(map(len, targets))

    def logits(self, vectors: Tensor, filled: Tensor, sizes: Sequence[int]) -> Outputs:
        """Returns (B, N, C), those of the N words of each sentence."""
        states, real = vectors[:, 1:], filled[:, 1:]  # without the state of the text
        logits: Tensor = self._head.tokens(states)
        if len(sizes) < len(states):
            windows = [row[known] for row, known in zip(logits, real, strict=True)]
            ends = np.cumsum(sizes).tolist()
            sentences = [torch.cat(windows[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
            logits = nn.utils.rnn.pad_sequence(sentences, batch_first=True)
            lengths = torch.tensor([len(one) for one in sentences], device=logits.device)
            real = torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]
        return Outputs(logits, real)

    def loss(self, outputs: Outputs, targets: Sequence[Sequence[int]]) -> Loss:
        """Cross-entropy of tags, or the negative log-likelihood of their sequences."""
        assert outputs.filled is not None
        logits, real = outputs.logits.float(), outputs.filled
        flat = torch.tensor([number for one in targets for number in one], device=logits.device, dtype=torch.int64)
        crf = self._head.crf
        if crf is not None:
            wanted = real.new_zeros(real.shape, dtype=torch.int64).masked_scatter(real, flat)
            total = -crf.log_likelihood(logits, wanted, real.sum(1)).double().sum()
            return Loss(total, total.detach(), len(flat))
        nll = F.cross_entropy(logits[real], flat, reduction="none").double()
        weights = 1.0 if self.weights is None else self.weights.to(logits.device)[flat]
        return Loss((nll * weights).sum(), nll.detach().sum(), len(flat))

    def split(self, outputs: Outputs) -> list[Floats]:
        """Returns (N, C) of each sentence."""
        assert outputs.filled is not None
        logits, sizes = outputs.logits.float().cpu().numpy(), outputs.filled.sum(1).tolist()
        return [one[:size] for one, size in zip(logits, sizes, strict=True)]

    def decoded(self, outputs: Sequence[Floats]) -> tuple[list[list[int]], list[list[float]]]:
        """Returns the numbers of the best tags of each sentence, and their probabilities."""
        crf = self._head.crf
        if crf is None:
            chosen = [one.argmax(1).tolist() if len(one) else [] for one in outputs]
            tables = [torch.from_numpy(one).double().softmax(-1).numpy() for one in outputs]
        else:
            chosen, tables = [], []
            for begin in range(0, len(outputs), 64):
                some = [torch.from_numpy(one).to(self.device) for one in outputs[begin : begin + 64]]
                padded = nn.utils.rnn.pad_sequence(some, batch_first=True)
                lengths = torch.tensor([len(one) for one in some], device=self.device)
                with torch.no_grad():
                    chosen += crf.decode(padded, lengths)
                    marginals = crf.marginals(padded, lengths).float().cpu().numpy()
                tables += [one[: len(other)] for one, other in zip(marginals, some, strict=True)]
        known = [
            [float(row[tag]) for row, tag in zip(table, tags, strict=True)]
            for table, tags in zip(tables, chosen, strict=True)
        ]
        return chosen, known

    def costs(
        self, examples: Sequence[TaggedSentence], items: Sequence[Item], outputs: Sequence[Floats]
    ) -> list[float]:
        """Returns the negative log-likelihood of the right tags of each sentence, in nats; of unknown ones infinity."""
        found, known = [], set(self._numbers)
        for example, item, output in zip(examples, items, outputs, strict=True):
            if not known.issuperset(self._learned(example)):
                found.append(math.inf)
                continue
            (wanted,) = self.targets([example], [item])
            logits = torch.from_numpy(output)[None].to(self.device)
            real = torch.ones(logits.shape[:2], dtype=torch.bool, device=self.device)
            with torch.no_grad():
                found.append(float(self.loss(Outputs(logits, real), [wanted]).nll) if wanted else 0.0)
        return found

    def tallies(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> Table:
        """Words, right tags, entities that are right, those found, and those that there are."""
        chosen, _ = self.decoded(outputs)
        found = np.zeros((len(examples), 5))
        for row, example, numbers in zip(found, examples, chosen, strict=True):
            tags = [self.labels[number] for number in numbers]
            row[:2] = len(tags), sum(map(str.__eq__, plain(tags, self.scheme), plain(example.tags, self.scheme)))
            one, other = self.spans(tags), self.spans(example.tags)
            row[2:] = len(one & other), len(one), len(other)
        return found

    def metrics(self, tallies: Table) -> dict[str, float]:
        """F1, precision and recall of entities, if the tags are of a scheme, and the proportion of right tags."""
        words, right, both, found, there = tallies.sum(0).tolist()
        accuracy = {"accuracy": right / words if words else 0.0}
        if self.scheme == "none":
            return accuracy
        shares = {"f1": (2 * both, found + there), "precision": (both, found), "recall": (both, there)}
        return {name: part / whole if whole else 0.0 for name, (part, whole) in shares.items()} | accuracy

    def measured(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> TaggingResult:
        """Entities by type, if the tags are of a scheme, and the proportion of right tags, with intervals."""
        chosen, _ = self.decoded(outputs)
        gold = [list(example.tags) for example in examples]
        found = [[self.labels[number] for number in numbers] for numbers in chosen]
        tags = measure_tagging(*([plain(one, self.scheme) for one in side] for side in (gold, found)), rules="none")
        if self.scheme == "none":
            return tags
        of_entities = measure_tagging([bioes(one) for one in gold], [bioes(one) for one in found])
        return replace(  # entities do not depend on how their ends are marked, but the tags do
            of_entities, accuracy=tags.accuracy, accuracy_low=tags.accuracy_low, accuracy_high=tags.accuracy_high
        )

    def spans(self, tags: Sequence[str]) -> set[tuple[int, int, str]]:
        """Returns the entities of a tagged sentence as (first word, place behind the last, type)."""
        return entities(bioes(tags)) if self.scheme != "none" else set()

    # --- verbs --------------------------------------------------------------------------------------------------

    def words(self, text: str) -> list[tuple[int, int]]:
        """Returns where the words of a sentence are, or its characters, as it was in training."""
        if self.numbers["characters"]:
            return [(place, place + 1) for place, character in enumerate(text) if not character.isspace()]
        spans = treebank_spans(text)
        if self.numbers.get("ideographs"):
            spans = _parted(text, spans, _APART)
        number = int(self.numbers.get("marks", 0))
        if marks := re.escape("".join(mark for place, mark in enumerate(_MARKS) if number >> place & 1)):
            spans = _parted(text, spans, re.compile(f"[{marks}]|[^{marks}]+"))
        return spans

    def tag(self, sentences: Iterable[str | Sequence[str]], *, spaced: bool = False) -> list[Tagged]:
        """Tags sentences.

        Args:
            sentences: Strings, which are cut into words and punctuation marks, or into characters where that is what
                the model was trained on; or lists of words.
            spaced: Whether strings are cut at white space alone.

        Raises:
            SettingError: if ``sentences`` is one string.
        """
        require_list(sentences, "tag")
        given = [self._cut(sentence, spaced=spaced) for sentence in sentences]
        tags, probabilities = self.decoded(self.outputs(self.read([words for _, words, _ in given])))
        return [
            self._tagged(*one, [self.labels[number] for number in numbers], known)
            for one, numbers, known in zip(given, tags, probabilities, strict=True)
        ]

    def _cut(self, sentence: str | Sequence[str], *, spaced: bool) -> tuple[str, list[str], list[tuple[int, int]]]:
        if isinstance(sentence, str):
            places = [one.span() for one in re.finditer(r"\S+", sentence)] if spaced else self.words(sentence)
            return sentence, [sentence[low:high] for low, high in places], places
        if not are_texts(sentence):
            raise SettingError(f"{str(sentence)[:60]!r}: tag takes sentences, each a text or a list of words")
        between = "" if self.numbers["characters"] else " "
        places, end = [], 0
        for word in sentence:
            places.append((end, end + len(word)))
            end += len(word) + len(between)
        return between.join(sentence), list(sentence), places

    def _tagged(
        self, text: str, words: list[str], places: list[tuple[int, int]], tags: list[str], known: list[float]
    ) -> Tagged:
        found = [
            Entity(
                text[places[first][0] : places[last - 1][1]],
                kind,
                places[first][0],
                places[last - 1][1],
                min(known[first:last]),
            )
            for first, last, kind in sorted(self.spans(tags))
        ]
        return Tagged(text, words, tags, known, places, found)


def scheme_of(labels: Sequence[str], *, entities: bool = True) -> Scheme:
    """Returns the scheme that tags are of: ``bio``, ``bioes`` (or BMES, BILOU), ``io``; ``none`` if it is no scheme.

    Args:
        labels: The tags.
        entities: Whether they may be of one at all.
    """
    if not entities:
        return "none"
    named = [label for label in labels if not OUTSIDE.fullmatch(label)]
    if not named or not all(_OF_ENTITY.fullmatch(label) for label in named):
        return "none"
    marks = {label[0] for label in named}
    return "io" if marks == {"I"} else "bio" if marks <= {"B", "I"} else "bioes"


def bioes(tags: Sequence[str]) -> list[str]:
    """Writes tags of BMES and BILOU with the marks of BIOES."""
    return _marked(tags, {"M": "I", "L": "E", "U": "S"})


def plain(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """Returns tags as they are read from files, with B and I alone; of a scheme of I alone without B."""
    if scheme == "none":
        return list(tags)
    marks = dict.fromkeys("BIMELSU", "I") if scheme == "io" else dict(zip("SUMEL", "BBIII", strict=True))
    return _marked(tags, marks)


def _marked(tags: Sequence[str], marks: Mapping[str, str]) -> list[str]:
    """Changes the marks of entities; what stands for padding and the like is outside of them."""
    return [marks.get(tag[0], tag[0]) + tag[1:] if _OF_ENTITY.fullmatch(tag) else "O" for tag in tags]


def _parting(examples: Sequence[TaggedSentence]) -> Iterator[str]:
    """Yields the marks at which words are cut: they stand alone between words, and hardly ever in one."""
    alone, joined = Counter[str](), Counter[str]()
    for one in examples:
        for before, token, after in zip(one.tokens, one.tokens[1:], one.tokens[2:], strict=False):
            between = before[-1:].isalnum() and after[:1].isalnum() and not (token == "." and after[:1].isupper())
            alone[token] += len(token) == 1 and token in _MARKS and between
        words = (token for token in one.tokens if any(map(str.isalnum, token)))
        joined.update(mark for word in words for mark in set(word) & set(_MARKS))
    return (mark for mark in _MARKS if alone[mark] >= _FEWEST and joined[mark] < _MOST_JOINED * alone[mark])


def _parted(text: str, spans: Iterable[tuple[int, int]], parts: re.Pattern[str]) -> list[tuple[int, int]]:
    """Cuts words of a text into the parts that a pattern finds."""
    return [(low + part.start(), low + part.end()) for low, high in spans for part in parts.finditer(text[low:high])]
