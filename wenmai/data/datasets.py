"""The registry of evaluation data: classes, tags, sentence pairs, questions and multiple choice, as typed examples.

The files come through the catalogue (checksums, mirror folder); each data set says which entries its splits are. A set
without a ``dev`` split of its own sets a tenth aside: the examples of which the text (of pairs the first sentence) has
a CRC-32 divisible by ten, so that equal texts are on the same side and the division never changes. Of questions about
articles it is about a quarter of the articles, by their titles. A malformed row is a
:class:`~wenmai.core.errors.CorpusError` that names file and line.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from wenmai.core.errors import SettingError, nearest_name
from wenmai.core.task_names import TaskName
from wenmai.data import readers
from wenmai.data.catalogue import find, get
from wenmai.data.labelled import Labelled, LabelledConfig, LabelledStats, read_labelled
from wenmai.data.span_files import span_questions
from wenmai.data.typed import ChoiceExample, LabelledExample, PairExample, SpanExample, TaggedSentence, TextExample
from wenmai.text.settings import TextConfig

__all__ = [
    "ChoiceExample",
    "Dataset",
    "PairExample",
    "Reader",
    "SpanExample",
    "TaggedSentence",
    "TextExample",
    "datasets",
    "find_dataset",
    "named_dataset",
    "open_labelled",
]

Task = Literal["classification", "tagging", "pairs", "span", "choice"]
Reader = Callable[[Path], Iterator[LabelledExample]]
"""Reads the examples of a file."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set.

    Attributes:
        name: As in ``data:NAME``.
        task: ``classification``, ``tagging``, ``pairs``, ``span`` or ``choice``; decides the type of the examples.
        language: ``en``, ``zh`` or ``es``.
        labels: The classes in the order of their numbers; of tagging the types of entities (or none), of questions
            none.
        files: Split to the entry of the catalogue.
        readers: Split to the reader of its file.
        segment: The segmentation that fits the texts.
        scored: Whether its pairs have scores.
        aside: One in so many is set aside as ``dev``, if there is none.
        note: What else to know.
    """

    name: str
    task: Task
    language: str
    labels: tuple[str, ...]
    files: Mapping[str, str]
    readers: Mapping[str, Reader] = field(repr=False)
    segment: Literal["whitespace", "words", "characters", "chinese"] = "whitespace"
    scored: bool = False
    aside: int = 10
    note: str = ""

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits; ``train`` and ``dev`` always."""
        return tuple(dict.fromkeys(("train", "dev", *self.files)))

    @property
    def tasks(self) -> tuple[TaskName, ...]:
        """What an encoder can be fine-tuned for with it, the usual first."""
        if self.task == "pairs":
            return ("pair", "regression") if self.scored else ("pair",)
        return (self.task,)

    @property
    def text_settings(self) -> dict[str, Any]:
        """Text settings that fit the texts."""
        return {"segment": self.segment, "lowercase": self.language != "zh"}

    @property
    def licence(self) -> str:
        """The terms of use, as far as they are stated."""
        return find(self.files["train"]).licence

    def path(self, split: str) -> Path:
        """Returns the file that a split is read from, fetching it if needed.

        Raises:
            SettingError: if there is no such split.
            DownloadError: if it cannot be fetched.
        """
        return get(self.files[self._stored(split)])

    def read(self, split: str) -> Iterator[Any]:
        """Yields the examples of a split in the order of the file: :class:`TextExample`, :class:`TaggedSentence`,
        :class:`PairExample`, :class:`SpanExample` or :class:`ChoiceExample`, as the task is.

        Raises:
            SettingError: if there is no such split.
            DownloadError: if it cannot be fetched.
            CorpusError: if a row is malformed.
        """  # noqa: D205  one sentence
        stored = self._stored(split)
        return self.read_file(self.path(split), split, self.readers[stored])

    def read_file(self, path: Path, split: str, reader: Reader | None = None) -> Iterator[Any]:
        """Yields the examples of a split from a file of the set's form."""
        found = (reader or self.readers[self._stored(split)])(path)
        if "dev" in self.files or split not in ("train", "dev"):
            return found
        wanted = split == "dev"
        return (example for example in found if _is_set_aside(example, self.aside) == wanted)

    def _stored(self, split: str) -> str:
        if split not in self.splits:
            hint = nearest_name(split, self.splits)
            raise SettingError(f"data:{self.name} has no split {split!r}{hint} (it has {', '.join(self.splits)})")
        return split if split in self.files else "train"


def find_dataset(name: str) -> Dataset:
    """Returns the data set of that name; ``data:`` may stand before it.

    Raises:
        SettingError: if there is none.
    """
    known = datasets()
    plain = name.removeprefix("data:")
    if plain not in known:
        raise SettingError(
            f"no labelled data set is called {name!r}{nearest_name(plain, known)} (there are {', '.join(known)})"
        )
    return known[plain]


def datasets() -> dict[str, Dataset]:
    """Returns all data sets by name."""
    return {dataset.name: dataset for dataset in _DATASETS}


@dataclass(frozen=True, eq=False)
class _SplitTexts(Labelled):
    """A split of a classification set as labelled text."""

    dataset: Dataset | None = None
    split: str = "train"

    def fingerprint(self) -> str:
        """Returns a hash of the content and of how it is read."""
        name = "" if self.dataset is None else self.dataset.name  # two sets may have one file, as trec and trec-fine
        return hashlib.sha256(f"{super().fingerprint()} {name} {self.split}".encode()).hexdigest()

    def _examples(self, path: Path, stats: LabelledStats) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        if self.dataset is None:
            yield from super()._examples(path, stats)
            return
        for number, example in enumerate(self.dataset.read_file(path, self.split), start=1):
            stats.lines += 1
            yield number, example.text, ("_".join(example.label.split()),)


def open_labelled(
    spec: Any,  # noqa: ANN401  whatever read_labelled takes
    config: LabelledConfig,
    text: TextConfig,
    *,
    split: str = "train",
) -> Labelled:
    """Opens labelled text as :func:`~wenmai.data.labelled.read_labelled` does, data sets by their name too.

    Args:
        spec: ``data:NAME`` of a classification set, ``data:NAME/SPLIT``, or whatever ``read_labelled`` takes.
        config: Where text and labels are, in files.
        text: Encoding, and what to do with bad lines, of files.
        split: The split of a data set, if its name does not say.

    Raises:
        CorpusError: if nothing is there.
        SettingError: if the data set has no classes of texts.
    """
    named = named_dataset(spec)
    if named is None:
        return read_labelled(spec, config, text)
    dataset, split = named[0], named[1] or split
    if dataset.task != "classification":
        raise SettingError(f"data:{dataset.name} has no classes of texts; it is for {dataset.task}")
    name = spec if isinstance(spec, str) else spec[0]
    return _SplitTexts((name,), config, text, paths=(dataset.path(split),), dataset=dataset, split=split)


def named_dataset(spec: Any) -> tuple[Dataset, str] | None:  # noqa: ANN401
    """Returns the data set that ``data:NAME`` or ``data:NAME/SPLIT`` means, and the split or ``""``; else None."""
    names = [spec] if isinstance(spec, str) else spec
    if not (isinstance(names, list | tuple) and len(names) == 1 and str(names[0]).startswith("data:")):
        return None
    name, _, split = str(names[0]).removeprefix("data:").partition("/")
    return (datasets()[name], split) if name in datasets() else None


def _is_set_aside(example: LabelledExample, one_in: int) -> bool:
    first = (example.title or example.context) if isinstance(example, SpanExample) else example[0]
    text = first if isinstance(first, str) else " ".join(first)
    return zlib.crc32(text.encode()) % one_in == 0


_NEWS = ("World", "Sports", "Business", "Sci/Tech")
_HEADLINES = ("finance", "realty", "stocks", "education", "science", "society", "politics", "sports", "game",
              "entertainment")  # fmt: skip
_SENTIMENT = ("negative", "positive")
_FINE = (
    "ABBR:abb ABBR:exp "
    "DESC:def DESC:desc DESC:manner DESC:reason "
    "ENTY:animal ENTY:body ENTY:color ENTY:cremat ENTY:currency ENTY:dismed "  # codespell:ignore enty
    "ENTY:event ENTY:food ENTY:instru ENTY:lang ENTY:letter ENTY:other ENTY:plant "  # codespell:ignore enty
    "ENTY:product ENTY:religion ENTY:sport ENTY:substance ENTY:symbol ENTY:techmeth "  # codespell:ignore enty
    "ENTY:termeq ENTY:veh ENTY:word "  # codespell:ignore enty
    "HUM:desc HUM:gr HUM:ind HUM:title "
    "LOC:city LOC:country LOC:mount LOC:other LOC:state "
    "NUM:code NUM:count NUM:date NUM:dist NUM:money NUM:ord NUM:other NUM:perc "
    "NUM:period NUM:speed NUM:temp NUM:volsize NUM:weight "
)
_CHUNKS = "ADJP ADVP CONJP INTJ LST NP PP PRT SBAR VP"


def _by_index(names: Sequence[str], first: int = 0) -> dict[str, str]:
    return {str(number): name for number, name in enumerate(names, start=first)}


def _dataset(
    name: str,
    task: Task,
    language: str,
    labels: Sequence[str],
    reader: Any,  # noqa: ANN401  a reader of any of the kinds
    files: Mapping[str, str],
    **options: Any,  # noqa: ANN401  of Dataset
) -> Dataset:
    readers = dict.fromkeys(files, reader) | options.pop("readers", {})
    return Dataset(
        name=name, task=task, language=language, labels=tuple(labels), files=files, readers=readers, **options
    )


def _both(entry: str) -> dict[str, str]:
    return {"train": f"{entry}-train", "dev": f"{entry}-dev"}


_DATASETS = (
    _dataset(
        "ag-news",
        "classification",
        "en",
        _NEWS,
        partial(readers.label_and_text, names=_by_index(_NEWS, 1)),
        {"train": "ag-news-train", "sample": "ag-news-test-sample"},
        segment="words",
        readers={"sample": partial(readers.title_and_text, names=_by_index(_NEWS, 1))},
        note="train and dev have descriptions only, the sample of the test set titles too",
    ),
    _dataset(
        "thucnews",
        "classification",
        "zh",
        _HEADLINES,
        partial(readers.text_and_label, names=_by_index(_HEADLINES)),
        {"train": "thucnews-dev"},
        segment="chinese",
    ),
    _dataset(
        "chnsenticorp",
        "classification",
        "zh",
        _SENTIMENT,
        partial(readers.label_and_text, names=_by_index(_SENTIMENT)),
        _both("chnsenticorp"),
        segment="chinese",
    ),
    _dataset(
        "sst2",
        "classification",
        "en",
        _SENTIMENT,
        partial(readers.text_and_label, names=_by_index(_SENTIMENT)),
        _both("sst2"),
    ),
    _dataset(
        "trec",
        "classification",
        "en",
        readers.QUESTIONS,
        partial(readers.questions, fine=False),
        {"train": "trec-train"},
    ),
    _dataset(
        "trec-fine",
        "classification",
        "en",
        _FINE.split(),
        partial(readers.questions, fine=True),
        {"train": "trec-train"},
    ),
    _dataset(
        "imdb", "classification", "en", _SENTIMENT, readers.reviews, {"train": "imdb-train-1600"}, segment="words"
    ),
    _dataset(
        "conll2003",
        "tagging",
        "en",
        ("LOC", "MISC", "ORG", "PER"),
        partial(readers.columns, width=4, column=3, scheme="iob1"),
        _both("conll2003"),
    ),
    _dataset(
        "conll2003-chunks",
        "tagging",
        "en",
        _CHUNKS.split(),
        partial(readers.columns, width=4, column=2, scheme="iob1"),
        _both("conll2003"),
    ),
    _dataset(
        "conll2003-pos",
        "tagging",
        "en",
        (),
        partial(readers.columns, width=4, column=1, scheme=None),
        _both("conll2003"),
        note="parts of speech of the Penn Treebank; no entities",
    ),
    _dataset(
        "cluener",
        "tagging",
        "zh",
        ("address", "book", "company", "game", "government", "movie", "name", "organization", "position", "scene"),
        readers.spans,
        _both("cluener"),
        segment="characters",
    ),
    _dataset(
        "resume-ner",
        "tagging",
        "zh",
        ("CONT", "EDU", "LOC", "NAME", "ORG", "PRO", "RACE", "TITLE"),
        partial(readers.columns, width=2, column=1, scheme="bmes"),
        _both("resume-ner"),
        segment="characters",
    ),
    _dataset(
        "cws",
        "tagging",
        "zh",
        ("word",),
        readers.segmented,
        {"train": "cws-sxu-train", "pku": "cws-pku-gold", "msr": "cws-msr-gold"},
        segment="characters",
        note="words as entities of one type; train and dev are of SXU, pku and msr of other standards",
    ),
    _dataset(
        "mrpc", "pairs", "en", tuple(readers.EQUIVALENCE.values()), readers.paraphrases, _both("mrpc"), segment="words"
    ),
    _dataset("sick", "pairs", "en", readers.INFERENCE, readers.related, _both("sick"), segment="words", scored=True),
    _dataset("rte", "pairs", "en", readers.ENTAILMENT, readers.entailed, _both("rte"), segment="words"),
    _dataset(
        "ocnli",
        "pairs",
        "zh",
        readers.INFERENCE,
        readers.inferences,
        {"train": "ocnli-train-10k"},
        segment="chinese",
        note="pairs without a majority label are left out",
    ),
    _dataset("ernie-match", "pairs", "zh", ("0", "1"), readers.matches, _both("ernie-match"), segment="chinese"),
    _dataset(
        "ernie-match-triples",
        "pairs",
        "zh",
        ("0", "1"),
        readers.triples,
        {"train": "ernie-match-triples", "dev": "ernie-match-dev"},
        segment="chinese",
        readers={"dev": readers.matches},
        note="each triple is two pairs, of a question with the right and with the wrong one",
    ),
    _dataset("dream", "choice", "en", (), readers.choices, _both("dream"), segment="words"),
    _dataset("c3", "choice", "zh", (), readers.choices, _both("c3"), segment="chinese"),
    _dataset("squad1", "span", "en", (), span_questions, {"train": "squad1-dev-24"}, segment="words", aside=4),
    _dataset("squad2", "span", "en", (), span_questions, {"train": "squad2-dev-8"}, segment="words", aside=4),
    _dataset("xquad-zh", "span", "zh", (), span_questions, {"train": "xquad-zh-24"}, segment="chinese", aside=4),
    _dataset("xquad-es", "span", "es", (), span_questions, {"train": "xquad-es-24"}, segment="words", aside=4),
    _dataset(
        "cmrc2018",
        "span",
        "zh",
        (),
        partial(span_questions, answers="repair"),
        {"train": "cmrc2018-trial", "dev": "cmrc2018-dev-part1"},
        segment="chinese",
        note="some answers do not stand where they are said to; the nearest place is taken",
    ),
)
