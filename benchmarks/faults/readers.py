"""The readers of files, each with good samples of what it reads, and with what it must not get wrong.

The formats are those that ``wenmai.formats`` announces, with what they write of the tiny examples as samples. The data
sets are those of ``wenmai.data.datasets``, with a sample for each reader. All other readers are in ``_others``.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.faults.damage import Damage, Sample, bombs, packed
from benchmarks.faults.oracles import FAITHFUL, decompressed_by_others, lines_of, naive_minimal_pairs, naive_pairs
from benchmarks.faults.samples import DATA_SETS, EXAMPLES_OF_TASKS, MINIMAL_PAIRS
from benchmarks.faults.subjects import Subject, Trained, answers, not_a_number, sample_of
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.compressed import reading
from wenmai.core.errors import WenmaiError
from wenmai.core.registry import find_system
from wenmai.data.corpus import Corpus
from wenmai.data.datasets import datasets
from wenmai.data.documents import CorpusStats
from wenmai.data.examples import ExamplesConfig, SpanExample, TaggedSentence, open_examples, require_known
from wenmai.data.labelled import LabelledConfig, LabelledStats, read_labelled
from wenmai.data.pairs import PairsStats, read_pairs
from wenmai.data.pretraining.prepared import read_prepared
from wenmai.data.pretraining.relevance import read_queries
from wenmai.data.readers import minimal_pairs
from wenmai.data.threads import read_threads
from wenmai.fasttext.lines import lines_of_tokens
from wenmai.formats.format import Format, formats
from wenmai.measures.words import read_analogies, read_similarity
from wenmai.runs.extraction import documents_of_files
from wenmai.runs.finetuned_estimator import read_classes
from wenmai.runs.formats import export_run, import_run
from wenmai.text.pieces import TokenizerConfig, TokenizerKind
from wenmai.text.settings import TextConfig
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.vocabulary_files import read_tokenizer
from wenmai.vectors.word2vec_files import read_counts
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["FORMATS", "subjects"]

Check = Callable[[Path], str | None]
STREAMS = ("text", "wiki text", "training data", "recipe")
"""Readers to which a user may give a pipe, such as that of another command."""
OUT = "imported"  # the run that an import makes, beside the file


def subjects(trained: Trained) -> list[Subject]:
    """Returns a subject for each reader."""
    return [
        *(_format_subject(one, trained) for one in formats().values() if one.read is not None),
        *_data_sets(),
        *_examples_of_tasks(),
        *_others(trained),
    ]


def _subject(
    name: str, samples: Callable[[], Sequence[Sample]], check: Check, *, share: float = 4, compressed: bool = True
) -> Subject:
    """A subject of which each sample is one file, which ``check`` is given."""
    made = cache(samples)

    def read(folder: Path) -> str | None:
        return check(_only_file(folder, made()))

    def damage() -> Damage:
        return Damage(made(), partial(bombs, made()[:1], compressed=compressed), streams=name.startswith(STREAMS))

    return Subject(name=name, make=damage, check=read, share=share)


def _only_file(folder: Path, samples: Sequence[Sample]) -> Path:
    """The file that was written; the name of a sample if it is missing."""
    known = {name for sample in samples for name in sample}
    return next((path for path in sorted(folder.iterdir()) if path.name in known), folder / next(iter(samples[0])))


# --- formats --------------------------------------------------------------------------------------------------------

FORMATS: dict[str, tuple[str, ...]] = {"word2vec": ("word2vec-binary", "glove")}
"""Other formats that the reader of a format takes too."""

SPEAKING: dict[str, tuple[str, ...]] = {"elmo": ("embed",)}
"""The verbs of what a format imports, where these are not all that the system has."""


def _format_subject(one: Format, trained: Trained) -> Subject:
    """Imports files as ``wenmai import`` does, lets the model speak, and compares it with the file."""
    samples = cache(partial(_written, one, trained))

    def check(folder: Path) -> str | None:
        given = folder / "model" if _in_folders(samples()) else _only_file(folder, samples())
        run = import_run(one.name, given, folder / OUT)
        if not_a_number(answers(run, SPEAKING.get(one.name))):
            return "an answer is no number"
        faithful = FAITHFUL.get(one.name)
        return None if faithful is None else faithful(given, run)

    def damage() -> Damage:
        return Damage(samples(), partial(bombs, samples()[:1], compressed=not _in_folders(samples())))

    return Subject(name=f"format {one.name}", make=damage, check=check, share=4)


def _in_folders(samples: Sequence[Sample]) -> bool:
    return any("/" in name for sample in samples for name in sample)


def _written(one: Format, trained: Trained) -> list[Sample]:
    """What the format writes of the runs of all systems, once for each content."""
    writers = [formats()[name] for name in (one.name, *FORMATS.get(one.name, ()))]
    samples: dict[bytes, Sample] = {}
    for system in EXAMPLES:
        run = trained(system)
        for writer in writers:
            if writer.write is None or not writer.takes(run.task.model, run.task.verbs):
                continue
            for ending in (".bin", ".ftz") if writer.name == "fasttext" else (".model",):
                target = trained.folder / "exports" / writer.name / system / f"model{ending}"
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    export_run(run, writer.name, target)
                except WenmaiError:
                    continue
                found = (
                    {f"model/{name}": content for name, content in sample_of(target).items()}
                    if target.is_dir()
                    else {target.name: target.read_bytes()}
                )
                samples.setdefault(b"".join(found.values()), found)
    if not samples:
        raise RuntimeError(f"the format {one.name} can be read, but no example can be written so: add a sample")
    return list(samples.values())


# --- data sets ------------------------------------------------------------------------------------------------------


def _data_sets() -> Iterator[Subject]:
    """A subject for each reader, in the first form in which a data set uses it."""
    known: dict[str, Any] = {}
    for one in datasets().values():
        for reader in one.readers.values():
            known.setdefault(reader.func.__name__ if isinstance(reader, partial) else reader.__name__, reader)
    for name, reader in known.items():
        if name == "columns":
            reader = partial(reader.func, width=4, column=3, scheme="iob1")
        content = DATA_SETS[name]
        data = content.encode("latin-1" if name == "questions" else "utf-8") if isinstance(content, str) else content
        yield _subject(f"data set {name}", partial(_one, f"{name}.txt", data), partial(_examples, reader), share=2)


def _one(name: str, content: bytes) -> list[Sample]:
    return [{name: content}]


def _examples(reader: Any, path: Path) -> str | None:
    """Reads all examples; none may have a text with line ends, which the lines of the file cannot hold."""
    for example in reader(path):
        texts = [part for part in example if isinstance(part, str)]
        if any("\n" in text for text in texts) and reader is not json.loads and path.suffix == ".tsv":
            return f"an example over several lines: {texts!r:.100}"
    return None


def _examples_of_tasks() -> Iterator[Subject]:
    for task, files in EXAMPLES_OF_TASKS.items():
        samples = [{name: content.encode()} for name, content in files.items()]
        yield _subject(f"examples for {task}", lambda samples=samples: samples, partial(_fine_tuning, task), share=2)


def _fine_tuning(task: Any, path: Path) -> str | None:
    """Reads all examples in the ways in which a fine-tuning and its verbs do."""
    repair = ExamplesConfig(bad_answers="repair", unlabelled="skip")
    found = open_examples(path, task, repair)
    stats = found.stats()
    if task != "regression" and found.fingerprint() != open_examples(list(found), task, repair).fingerprint():
        return "other examples from Python than from the file"
    if found.labels():
        require_known(found.labels(), found)
    if (number := sum(1 for _ in found)) != stats.examples:
        return f"{number} examples, {stats.examples} counted"
    for example in found:
        if isinstance(example, TaggedSentence) and len(example.tokens) != len(example.tags):
            return f"{len(example.tokens)} tokens, {len(example.tags)} tags"
        if isinstance(example, SpanExample):
            for text, start in example.answers:
                if start >= 0 and not example.context.startswith(text, start):
                    return f"{text!r} is not at {start}"
    _drawn(open_examples(path, task, repair, labelled=False))
    return None


# --- other readers --------------------------------------------------------------------------------------------------


def _others(trained: Trained) -> Iterator[Subject]:
    text, chinese = _beginning("text.txt"), "我们 在 北京\n\n<doc id=1>\n上下文 。\n</doc>\n".encode()
    named = b'<doc id="1" url="x" title="T">\n' + text + b"</doc>\n"
    compressed = [{f"text.txt{ending}": data} for ending, data in packed(text * 3).items()]
    double = [{f"double.txt{ending}": data + data} for ending, data in packed(text).items()]
    table = b'text,label,other\n"a ""b"", c",early,1\n"two\nlines",late,2\nd,early,3\n'
    records = b'{"text": "a b", "label": "early"}\n{"text": "c", "label": ["late", "early"]}\n'
    both = b'{"translation": {"en": "a b", "de": "B A"}}\n{"translation": {"en": "c", "de": "C"}}\n'
    labelled = _beginning("labels.txt")
    similar = b"# first\nlove\tsex\t6.77\ntiger\tcat\t7.35\nbook\tpaper\t7.46\n"
    analogies = b": capital\nAthens Greece Oslo Norway\nRome Italy Paris France\n: more\na b c d\n"
    plain: dict[str, tuple[list[Sample], Check]] = {
        "text": ([{"text.txt": text}, {"text.txt": chinese}], _text),
        "compressed text": ([*compressed, *double], _compressed),
        "wiki text": ([{"wiki.txt": named}], _text),
        "text in utf-16": ([{"utf16.txt": text.decode().encode("utf-16")}], _utf16),
        "labelled lines": ([{"labels.txt": labelled}], _labelled_lines),
        "labelled CSV": ([{"labels.csv": table}], partial(_labelled, _COLUMN_NAMES)),
        "labelled table": ([{"labels.tsv": b"a b\tearly\nc d\tlate\n"}], partial(_labelled, _COLUMN_NUMBERS)),
        "labelled JSON lines": ([{"labels.jsonl": records}], partial(_labelled, _COLUMN_NAMES)),
        "pairs": ([{"pairs.tsv": _beginning("pairs.tsv")}], _pairs),
        "pairs in JSON lines": ([{"pairs.jsonl": both}], _pairs),
        "minimal pairs": (MINIMAL_PAIRS, lambda path: naive_minimal_pairs(path, list(minimal_pairs(path)))),
        "word similarity": ([{"similar.tsv": similar}], _similarity),
        "analogies": ([{"questions.txt": analogies}], lambda path: _drawn(read_analogies(path))),
        "word pairs by gensim's name": ([{"similar.tsv": similar}], _pairs_of_words),
        "analogies by gensim's name": ([{"questions.txt": analogies}], _analogies_of_words),
        "classes of a classifier": (
            [{"classes.json": b'{"version": 1, "classes": ["bad", "good"]}'}],
            lambda path: None if len(read_classes(path, ["bad", "good"])) >= 2 else "too few classes",
        ),
        "counts of words": ([{"counts.txt": b"love 12\nbook 7\n"}], _counts),
        "documents to find relations in": (_DOCUMENTS, _extracted),
        "queries and titles": ([{"queries.tsv": b"query\ttitle\tlabel\na b\tc\t0\nd\te f\tweak\n"}], _queries),
        "rows of ids": ([{"rows.txt": b"1 5 6 2;0 0 0 0;0 1 2 3;-1 0 1 -1;1\n1 7 2;0 0 0;0 1 2;-1 0 -1;0\n"}], _ids),
        "dialogues": (
            [{"threads.jsonl": b'["a", "b", "c"]\n{"messages": [{"speaker": "A", "text": "d"}]}\n'}],
            _threads,
        ),
        "test lines of fastText": (
            [{"test.txt": _beginning("labels.txt")}],
            lambda path: _drawn(lines_of_tokens(path)),
        ),
    }
    for name, (samples, check) in plain.items():
        yield _subject(name, lambda samples=samples: samples, check)
    beside = {"source.txt": b"a b\nc\nd e\n", "target.txt": b"B A\nC\nE D\n"}
    yield Subject(name="pairs in two files", make=lambda: Damage([beside]), check=_pairs_of_two, share=2)
    yield _subject("stored word vectors", _stored, _stored_again)
    yield _subject("tokenizer.json", partial(_tokenizers, trained), _tokenizer)
    yield Subject(name="vocabulary and merges", make=_vocabulary_files, check=_vocabulary, share=2)
    yield _subject("recipe", partial(_recipes, trained), _recipe, share=2)
    for system in _one_of_each_source():
        data = EXAMPLES[system].data
        sample = partial(_one, data, TEXTS[data]["enough"].encode())
        check = partial(_read_to_train, trained, system)
        yield _subject(f"training data of {system}", sample, check, share=1, compressed=False)


def _words() -> WordVectors:
    words = [b"love", b"sex", b"tiger", b"cat", b"book", b"Athens", b"Greece", b"Oslo", b"Norway"]
    rows = np.random.default_rng(1).normal(size=(len(words), 4))
    return WordVectors([word.decode() for word in words], rows, range(len(words), 0, -1))


def _pairs_of_words(path: Path) -> str | None:
    found = _words().evaluate_word_pairs(path)
    return None if -1 <= found[1][0] <= 1 or np.isnan(found[1][0]) else f"a correlation of {found[1][0]}"


def _analogies_of_words(path: Path) -> str | None:
    accuracy, _ = _words().evaluate_word_analogies(path)
    return None if 0 <= accuracy <= 1 else f"an accuracy of {accuracy}"


def _counts(path: Path) -> str | None:
    return next((f"{word!r} {count} times" for word, count in read_counts(path).items() if count < 0), None)


def _stored() -> list[Sample]:
    with tempfile.TemporaryDirectory() as folder:
        _words().save(Path(folder) / "words")
        return [{"words": (Path(folder) / "words").read_bytes()}]


def _stored_again(path: Path) -> str | None:
    found = WordVectors.load(path)
    if len(found) != len(set(found.index_to_key)) or len(found) != len(found.vectors):
        return f"{len(found)} words, {len(found.vectors)} rows"
    return None if np.isfinite(found.vectors).all() else "numbers that are not finite"


_PUBTATOR = (
    b"1|t|Lithium\n1|a|It harms.\n1\t0\t7\tLithium\tChemical\tD1\n1\t11\t16\tharms\tDisease\tD2\n1\tCID\tD1\tD2\n"
)
_DOCUMENTS: list[Sample] = [
    {"article.txt": "Anna saw Bob's house. 我们在北京。\n".encode()},
    {"documents.json": TEXTS["relations.json"]["one"].encode()},
    {"abstracts.txt": _PUBTATOR},
]


class _Capitals:
    """Tags words with a capital letter."""

    def tag(self, sentences: Sequence[str]) -> list[Any]:
        found = []
        for text in sentences:
            words = re.finditer(r"[A-Z][\w']*", text)
            places = [SimpleNamespace(text=one[0], type="X", start=one.start(), end=one.end()) for one in words]
            found.append(SimpleNamespace(entities=places))
        return found


def _extracted(path: Path) -> str | None:
    """Reads documents; each mention must be made of words of its sentence."""
    for document in documents_of_files([path], _Capitals):
        for entity in document.entities:
            for one in entity.mentions:
                if not 0 <= one.start < one.end <= len(document.sentences[one.sentence]):
                    return f"the mention {one!r:.100}"
    return None


def _queries(path: Path) -> str | None:
    labels = {label for _, _, label in read_queries(path)}
    return None if labels <= {0, 1, 2} else f"the labels {labels}"


def _ids(path: Path) -> str | None:
    uneven = [row for _, row in read_prepared(path) if not len(row.tokens) == len(row.segments) == len(row.units)]
    return f"{len(uneven)} rows of several lengths" if uneven else None


def _threads(path: Path) -> str | None:
    empty = [thread for thread in read_threads(path) if not thread]
    return f"{len(empty)} dialogues without a turn" if empty else None


def _beginning(name: str) -> bytes:
    """A few lines."""
    return TEXTS[name]["enough"].encode()[:400].rpartition(b"\n")[0] + b"\n"


def _recipes(trained: Trained) -> list[Sample]:
    return [{"recipe.yaml": (trained(system).path / "recipe.yaml").read_bytes()} for system in ("word2vec", "gpt")]


_COLUMN_NAMES = LabelledConfig(text_column="text", label_column="label")
_COLUMN_NUMBERS = LabelledConfig(text_column="1", label_column="2")


def _drawn(found: Any) -> None:
    """Reads all there is."""
    for _ in found:
        pass


def _text(path: Path) -> str | None:
    stats = CorpusStats()
    lines = Corpus.of_paths([path]).lines(TextConfig(), stats=stats)
    found = "".join(line.text + "\n" * line.ends for line in lines)
    counted = CorpusStats()
    _drawn(Corpus.of_paths([path]).batches(TextConfig(), stats=counted))
    if stats.lines != counted.lines or stats.documents != counted.documents:
        return f"{stats.lines} lines one way, {counted.lines} the other"
    if stats.documents == 0 and (lost := lines_of(path, found)):
        return lost
    return None


def _utf16(path: Path) -> str | None:
    _drawn(Corpus.of_paths([path]).lines(TextConfig(encoding="utf-16"), stats=CorpusStats()))
    return None


def _compressed(path: Path) -> str | None:
    with reading(path) as file:
        content = file.read()
    expected = decompressed_by_others(path)
    return None if content == expected else f"{len(content)} bytes, others read {len(expected)}"


def _labelled_lines(path: Path) -> str | None:
    stats = LabelledStats()
    _drawn(read_labelled(path).read(stats))
    if stats.examples + stats.blank_lines + stats.skipped_lines + stats.unlabelled != stats.lines:
        return f"not all of the {stats.lines} lines are accounted for: {stats}"
    with reading(path) as file:
        content = file.read()
    expected = content.count(b"\n") + (not content.endswith(b"\n"))
    return None if stats.lines == expected else f"{stats.lines} lines of {expected}"


def _labelled(config: LabelledConfig, path: Path) -> str | None:
    stats = LabelledStats()
    for example in read_labelled(path, config).read(stats):
        if not example.labels or not all(example.labels):
            return f"no label: {example}"
    return None


def _pairs(path: Path) -> str | None:
    stats = PairsStats()
    found = list(read_pairs(path).read(stats))
    if len(found) + stats.empty != stats.lines:
        return f"{len(found)} pairs and {stats.empty} empty ones in {stats.lines} lines"
    return None if path.suffix != ".tsv" else naive_pairs(path, found)


def _pairs_of_two(folder: Path) -> str | None:
    stats = PairsStats()
    _drawn(read_pairs(f"{folder / 'source.txt'},{folder / 'target.txt'}").read(stats))
    return None


def _similarity(path: Path) -> str | None:
    return "a score is no number" if not_a_number([*read_similarity(path)]) else None


def _tokenizers(trained: Trained) -> list[Sample]:
    """Those of the examples, and one of each kind of pieces."""
    kept = [trained(system).path / "model" / "tokenizer.json" for system in ("gpt", "transformer")]
    others = (_tokenizer_of(kind).to_json().encode() for kind in _KINDS)
    return [{"tokenizer.json": content} for content in (*(path.read_bytes() for path in kept), *others)]


_KINDS: tuple[TokenizerKind, ...] = ("bpe", "unigram", "wordpiece", "byte-bpe", "characters")


def _tokenizer_of(kind: TokenizerKind) -> Tokenizer:
    lines = TEXTS["text.txt"]["enough"].splitlines()[:20]
    return Tokenizer.train(lines, TokenizerConfig(kind=kind, vocab_size=270 if kind == "byte-bpe" else 30))


def _vocabulary_files() -> Damage:
    """The two files of a tokenizer with pieces of bytes, and those of one with pieces of words."""
    model = json.loads(_tokenizer_of("byte-bpe").to_json())["model"]
    merges = "".join(f"{' '.join(merge)}\n" for merge in model["merges"])
    vocab = {token.replace("</s>", "<|endoftext|>"): number for token, number in model["vocab"].items()}
    sample = {"vocab.json": json.dumps(vocab).encode(), "merges.txt": f"#version: 0.2\n{merges}".encode()}
    sample |= {"vocab.txt": b"[UNK]\n[CLS]\n[SEP]\n", "tokenizer_config.json": b'{"do_lower_case": true}'}
    return Damage([sample], partial(bombs, [sample]))


_SAID = ["a b c", "", "h  unseen Äß\u0301 上下文 \U0001f600\u200d", "a" * 50, "</s><unk><s> [UNK]\n\t", "aaaa!" * 20]


def _tokenizer(path: Path) -> str | None:
    """Encodes and decodes; the ids must be those of the file."""
    return _speaks(Tokenizer.load(path))


def _speaks(tokenizer: Tokenizer) -> str | None:
    for text in _SAID:
        found = tokenizer.encode(text)
        if any(not 0 <= number < tokenizer.vocab_size for number in found.ids):
            return f"an id outside the vocabulary of {tokenizer.vocab_size}: {found.ids}"
        tokenizer.decode(found.ids)
        tokenizer.words(text)
    tokenizer.encode_batch(_SAID)
    return None


def _vocabulary(folder: Path) -> str | None:
    both = read_tokenizer(f"{folder / 'merges.txt'},{folder / 'vocab.json'}")
    return _speaks(both) or _speaks(read_tokenizer(folder)) or _speaks(read_tokenizer(folder / "vocab.txt"))


def _recipe(path: Path) -> str | None:
    found = read_recipe(path)
    task = find_system(found["system"]).load()
    recipe = Recipe.build(found["system"], task.sections, found["settings"])
    known = recipe.flat_settings()
    for name, value in found["settings"].items():
        if (
            isinstance(value, bool | int | float)
            and isinstance(known[name], bool | int | float)
            and type(known[name])(value) != known[name]
        ):
            return f"{name} is {value!r} in the file and {known[name]!r} in the recipe"
    return None


def _one_of_each_source() -> Iterator[str]:
    sources: Mapping[type, str] = {type(find_system(name).load().source): name for name in reversed(EXAMPLES)}
    return iter(sources.values())


def _read_to_train(trained: Trained, system: str, path: Path) -> str | None:
    """Reads and encodes what a training would read, without training."""
    start = EXAMPLES[system].start
    base = None if start is None else trained(start).model
    task = find_system(system).load()
    opened = task.source.open(str(path))
    given = {**EXAMPLES[system].settings}
    recipe = Recipe.build(system, task.sections, {**opened.hints, **_qualified(task, given)}, corpus=opened.names)
    data = task.source.read(recipe, opened.source, lambda *_: None, base)
    return None if data.describe() else "nothing is known of it"


def _qualified(task: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    from wenmai.config.recipe import settings_of

    places = {one.name: f"{one.section}.{one.name}" for one in settings_of(task.sections)}
    return {places[name]: value for name, value in settings.items()}
