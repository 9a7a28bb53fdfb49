"""Whether anything changed: every system trained at toy size, and checksums of all that comes out.

``python -m benchmarks fingerprints`` measures nothing. It trains each entry of :data:`TRAININGS` with one thread on
small texts that are made here, asks the model everything that it can answer, and compares the facts with those of
``results/fingerprints.json``. Only public doors are used: ``wenmai.train``, ``wenmai.resume`` and the command line.

The settings, the model's files and the answers are facts of their own, so that a setting that was renamed on purpose
changes one line only. Files that name the temporary folder have ``WORK`` in its place.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT
from wenmai.core.folder import writing_json
from wenmai.runs.environment import describe_environment

__all__ = ["SETTINGS", "TRAININGS", "Training", "check", "differences"]

Facts = dict[str, dict[str, str]]

SETTINGS = "settings"  # the facts that need no training: what each name of `wenmai systems` stands for
FAILED = "failed"  # the fact of a training or a question that ended in an error
_LONGEST = 300  # characters of an answer that is written down as it is
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_PASSING = ("second", "memory", "utilisation", "at")  # in names of figures that differ from run to run


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        system: The system.
        settings: Its settings; ``WORK`` is the folder of all runs, each of which has the name of its training.
        corpus: The name of one of the texts.
        start: The training that it continues.
        resumed: Train once more, interrupted after the first record, and see whether the files are the same.
        exports: Formats, each with the name of the file or folder to write.
    """

    system: str
    settings: str
    corpus: str = "text.txt"
    start: str | None = None
    resumed: bool = False
    exports: Mapping[str, str] = field(default_factory=dict)


# --- what is trained ------------------------------------------------------------------------------------------------

_SWEEP = "threads=1 epochs=2 vector_size=16 min_count=2"
_BUCKETS = f"{_SWEEP} buckets=2000"
_LABELS = "threads=1 vector_size=8 buckets=1000 word_ngrams=2 data.valid=WORK/labels-test.txt"
_TORCH = "threads=1 device=cpu epochs=2 batch_tokens=512 warmup=4"
_SMALL = f"{_TORCH} hidden_size=16 num_layers=2 vocab_size=300"
_NNLM = f"{_TORCH} hidden_size=16 embedding_size=12"
_GPT = f"{_SMALL} num_heads=2 max_length=32"
_XL = f"{_SMALL} num_heads=2 ffn_size=32 memory_length=16 segment_length=16"
_RECURRENT = f"{_SMALL} num_layers=1 embedding_size=12 learning_rate=0.01"
_TRANSFORMER = f"{_SMALL} num_heads=2 ffn_size=32 learning_rate=0.01"
_ENGINE = {"ctranslate2": "engine"}
_FASTTEXT = {"fasttext": "model.bin"}
_WORD2VEC = {"word2vec": "vectors.txt", "word2vec-binary": "vectors.bin"}

_SUPERVISED = {
    "softmax": "",
    "hs": "loss=hs",
    "ova": "loss=ova",
    "ns": "loss=ns",
    "deterministic": "deterministic=true",
    "subwords": "min_ngram=2 max_ngram=4",
    "pretrained": "vector_size=16 pretrained=WORK/word2vec-sgns",
}
_CLASSIFIER = {
    "softmax": "",
    "logistic": "buckets=0 method=logistic weighting=binary",
    "perceptron": "buckets=0 method=perceptron weighting=counts",
    "least-squares": "buckets=0 method=least-squares",
    "closed": "buckets=0 method=least-squares solver=closed",
    "vectors": "features=WORK/word2vec-sgns weighting=sif",
}
_SEQ2SEQ = {
    "luong": "attention=luong scorer=bilinear encoder=lstm",
    "dot": "attention=luong scorer=dot encoder=rnn bidirectional=false",
    "first-state": "context=first_state bidirectional=false reverse_source=true",
    "every-step": "context=every_step num_layers=2",
    "cnn": "encoder=cnn",
    "sampling": "scheduled_sampling=linear sampling_steps=8 validate_bleu=true",
}
_POSITIONS = {
    "learned": "positions=learned max_length=64 norm=pre",
    "shaw": "positions=shaw max_distance=4 activation=gelu",
    "none": "positions=none window=4",
    "two-vocabularies": "joint=false decoder_layers=1 attention_bias=false",
}

TRAININGS = {
    "word2vec-sgns": Training("word2vec-sgns", _SWEEP, resumed=True, exports=_WORD2VEC),
    "word2vec-sghs": Training("word2vec-sghs", _SWEEP),
    "word2vec-cbow-ns": Training("word2vec-cbow-ns", _SWEEP),
    "word2vec-cbow-hs": Training("word2vec-cbow-hs", _SWEEP),
    "word2vec-own-negatives": Training("word2vec", f"{_SWEEP} shared_negatives=false"),
    "word2vec-deterministic": Training("word2vec", f"{_SWEEP} deterministic=true"),
    "word2vec-deterministic-cbow": Training("word2vec", f"{_SWEEP} deterministic=true algorithm=cbow"),
    "word2vec-softmax": Training("word2vec", f"{_SWEEP} softmax=true negative=0"),
    "word2vec-true-gradient": Training("word2vec", f"{_SWEEP} algorithm=cbow true_gradient=true"),
    "word2vec-phrases": Training("word2vec", f"{_SWEEP} segment=words phrases=1 phrase_threshold=1 lowercase=true"),
    "word2vec-continued": Training("word2vec", "threads=1 epochs=2 old_rate=0.5", "more.txt", "word2vec-sgns"),
    "glove": Training("glove", f"{_SWEEP} epochs=5", resumed=True),
    "glove-both": Training("glove", f"{_SWEEP} output=both weighting=none"),
    "ppmi-svd": Training("ppmi-svd", "threads=1 vector_size=16 min_count=2"),
    "fasttext-skipgram": Training("fasttext-skipgram", _BUCKETS, resumed=True, exports=_FASTTEXT),
    "fasttext-cbow": Training("fasttext-cbow", _BUCKETS),
    "fasttext-hierarchical": Training("fasttext", f"{_BUCKETS} hierarchical=true"),
    "fasttext-continued": Training("fasttext", "threads=1 epochs=2", "more.txt", "fasttext-skipgram"),
    **{
        f"fasttext-supervised-{name}": Training(
            "fasttext-supervised",
            f"{_LABELS} {more}",
            "labels.txt",
            resumed=not more,
            exports={} if more else _FASTTEXT,
        )
        for name, more in _SUPERVISED.items()
    },
    **{
        f"classifier-{name}": Training("classifier", more, "labels.txt", resumed=not more)
        for name, more in _CLASSIFIER.items()
    },
    "ngram": Training("ngram", "order=3", exports={"arpa": "model.arpa"}),
    "ngram-kneser-ney": Training("ngram", "order=3 smoothing=kneser-ney"),
    "ngram-absolute": Training("ngram", "order=3 smoothing=absolute"),
    "ngram-add-k": Training("ngram", "order=3 smoothing=add-k k=0.1"),
    "ngram-mle": Training("ngram", "order=3 smoothing=mle"),
    "ngram-pruned": Training("ngram", "order=3 prune=0,0,1"),
    "ngram-characters": Training("ngram", "order=5 segment=characters"),
    "nnlm": Training("nnlm", f"{_NNLM} boundaries=masked", resumed=True),
    "nnlm-direct": Training("nnlm", f"{_NNLM} direct=true"),
    "rnnlm": Training("rnnlm", _SMALL, resumed=True),
    "rnnlm-gru": Training("rnnlm", f"{_SMALL} cell=gru tied=true"),
    "rnnlm-rnn": Training("rnnlm", f"{_SMALL} cell=rnn init_range=0.1 optimiser=sgd momentum=0.9 schedule=constant"),
    "gpt": Training("gpt", _GPT, resumed=True, exports={**_ENGINE, "huggingface": "huggingface"}),
    "gpt-post": Training("gpt", f"{_GPT} norm=post"),
    "gpt-window": Training("gpt", f"{_GPT} window=8 attention_dropout=0.1 optimiser=adamw weight_decay=0.1"),
    "gpt-masked": Training("gpt", f"{_GPT} boundaries=masked"),
    "gpt-averaged": Training("gpt", f"{_GPT} average=2 accumulation=2 kind=characters"),
    "gpt-continued": Training("gpt", f"{_TORCH} data.grow=20", "more.txt", "gpt"),
    "transformer-xl": Training("transformer-xl", _XL, resumed=True),
    "transformer-xl-adaptive": Training("transformer-xl", f"{_XL} cutoffs=50,100 div_value=2"),
    "transformer-xl-pre": Training("transformer-xl", f"{_XL} norm=pre shared_biases=false"),
    "seq2seq": Training("seq2seq", _RECURRENT, "pairs.tsv", resumed=True),
    **{f"seq2seq-{name}": Training("seq2seq", f"{_RECURRENT} {more}", "pairs.tsv") for name, more in _SEQ2SEQ.items()},
    "transformer": Training("transformer", _TRANSFORMER, "pairs.tsv", resumed=True, exports=_ENGINE),
    **{
        f"transformer-{name}": Training("transformer", f"{_TRANSFORMER} {more}", "pairs.tsv")
        for name, more in _POSITIONS.items()
    },
    "transformer-continued": Training("transformer", f"{_TORCH} learning_rate=0.01", "more.tsv", "transformer"),
}


# --- texts ----------------------------------------------------------------------------------------------------------

_SYLLABLES = ("ba", "do", "fi", "ka", "lu", "me", "no", "pi", "ra", "su", "te", "vo")
_WORDS = [first + second for first in _SYLLABLES for second in _SYLLABLES]
_TOPICS = ("Sky", "Sea", "Land")


def write_texts(folder: Path) -> None:
    """Writes the texts, the same ones always: words of a topic stand together, frequent ones first in the list."""
    draw = random.Random(7)

    def sentence(topic: int, words: Sequence[str] = _WORDS) -> list[str]:
        """Words that are followed by one of two others, most of them of the topic."""
        found = [words[topic]]
        for _ in range(int(4 + 8 * draw.random())):
            rank = int(len(words) ** draw.random()) - 1  # Zipf's law
            follower = words.index(found[-1]) * 2 + 1
            found.append(words[(follower if draw.random() < 0.5 else 3 * rank + topic) % len(words)])
        return found

    def text(lines: int, words: Sequence[str] = _WORDS) -> str:
        return "".join(" ".join(sentence(line % len(_TOPICS), words)) + "\n" for line in range(lines))

    def labelled(lines: int) -> str:
        topics = [int(len(_TOPICS) * draw.random()) for _ in range(lines)]
        return "".join(f"__label__{_TOPICS[topic]} {' '.join(sentence(topic))}\n" for topic in topics)

    def pairs(lines: int) -> str:
        """The translation is backwards, with another ending."""
        sources = [sentence(line % len(_TOPICS), _WORDS[:40]) for line in range(lines)]
        return "".join(f"{' '.join(one)}\t{' '.join(word + 'n' for word in reversed(one))}\n" for one in sources)

    newer = [*_WORDS[:60], *(f"{word}la" for word in _WORDS[:40])]
    texts = {
        "text.txt": text(1200),
        "more.txt": text(300, newer),
        "test.txt": text(5) + "unknown words here\n",
        "labels.txt": labelled(300),
        "labels-test.txt": labelled(40),
        "pairs.tsv": pairs(300),
        "more.tsv": pairs(100),
        "pairs-test.tsv": pairs(8),
        "similarity.tsv": "".join(
            f"{_WORDS[n]}\t{_WORDS[(5 * n) % 40]}\t{10 * draw.random():.2f}\n" for n in range(1, 30)
        ),
        "analogy.txt": ": topics\n" + "".join(" ".join(_WORDS[n : n + 4]) + "\n" for n in range(20)),
    }
    for name, content in texts.items():
        (folder / name).write_text(content, encoding="utf-8")


# --- what is asked --------------------------------------------------------------------------------------------------

_PROMPT = f"{_WORDS[0]} {_WORDS[1]}"
_VECTORS = {
    "nearest": ("nearest", "RUN", _WORDS[3]),
    "analogy": ("analogy", "RUN", *_WORDS[:3]),
    "evaluation": ("evaluate", "RUN", "--similarity", "WORK/similarity.tsv", "--analogy", "WORK/analogy.txt"),
}
_LANGUAGE = {
    "scores": ("score", "RUN", "WORK/test.txt", "--tokens"),
    "scores alone": ("score", "RUN", "--context", "fresh", "WORK/test.txt"),
    "next": ("next", "RUN", _PROMPT, "--topn", "5"),
    "greedy": ("generate", "RUN", _PROMPT, "--greedy", "--max-tokens", "20"),
    "drawn": ("generate", "RUN", _PROMPT, "--count", "2", "--top-k", "20", "--max-tokens", "20"),
    "beam": ("generate", "RUN", _PROMPT, "--beam", "3", "--max-tokens", "12"),
    "evaluation": ("evaluate", "RUN", "--on", "WORK/test.txt"),
}
_LABELLING = {
    "labels": ("classify", "RUN", "WORK/labels-test.txt", "--k", "3"),
    "evaluation": ("evaluate", "RUN", "--on", "WORK/labels-test.txt"),
}
_SOURCES = (f"{_WORDS[0]} {_WORDS[3]} {_WORDS[7]}", " ".join(_WORDS[5:12]))
_TRANSLATING = {
    "beam": ("translate", "RUN", *_SOURCES, "--n-best", "2"),
    "greedy": ("translate", "RUN", *_SOURCES, "--beam", "1"),
    "drawn": ("translate", "RUN", *_SOURCES, "--sample", "--top-k", "20"),
    "coverage": ("translate", "RUN", *_SOURCES, "--length-penalty", "gnmt", "--coverage", "0.2"),
    "evaluation": ("evaluate", "RUN", "--on", "WORK/pairs-test.tsv", "--tokenize", "none"),
}
_QUESTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "word2vec": _VECTORS,
    "glove": _VECTORS,
    "ppmi": _VECTORS,
    "fasttext-supervised": _LABELLING,
    "fasttext": _VECTORS | {"of an unknown word": ("nearest", "RUN", "babala")},
    "classifier": _LABELLING,
    "seq2seq": _TRANSLATING,
    "transformer-xl": _LANGUAGE | {"no memory": ("score", "RUN", "WORK/test.txt", "--memory", "0")},
    "transformer": _TRANSLATING,
}


def _questions(system: str) -> dict[str, tuple[str, ...]]:
    return next((found for name, found in _QUESTIONS.items() if system.startswith(name)), _LANGUAGE)


class _RefusedError(Exception):
    """A command that ended with a message to the user; it is on standard error."""


class _Work:
    """A folder with the texts and the runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        write_texts(self.folder)

    def facts(self, name: str) -> Iterator[tuple[str, str]]:
        """Trains, and yields the name and the value of each fact."""
        if name == SETTINGS:
            for system in json.loads(self._wenmai("systems", "--json")):
                settings = json.loads(self._wenmai("systems", system["name"], "--json"))
                chosen = {f"{one['section']}.{one['name']}": one["default"] for one in settings}
                yield system["name"], _digest(json.dumps(chosen).encode())
            return
        training, run = TRAININGS[name], self._run(name)
        yield "recipe.yaml", self._file(run / "recipe.yaml")
        yield from self._files(run / "model")
        summary = json.loads((run / "summary.json").read_bytes())
        yield "summary", self._shown(_lasting({key: value for key, value in summary.items() if key != "run"}))
        if (records := run / "metrics.jsonl").exists():
            lines = [_lasting(json.loads(line)) for line in records.read_text(encoding="utf-8").splitlines()]
            yield "records", self._shown(lines)
        for what, question in _questions(training.system).items():
            arguments = [str(run) if word == "RUN" else word.replace("WORK", str(self.folder)) for word in question]
            try:
                printed = self._wenmai(*arguments, "--json")
            except _RefusedError as refusal:  # such as a penalty on attention that a model does not have
                yield what, str(refusal).replace(str(self.folder), "WORK")
                continue
            answers = [_lasting(json.loads(line)) for line in printed.splitlines()]
            yield what, self._shown(answers[0] if len(answers) == 1 else answers)
        for form, target in training.exports.items():
            written = self.folder / f"{name}.{form}" / target
            written.parent.mkdir()
            self._wenmai("export", str(run), form, str(written))
            yield from ((f"export {form} {file}", value) for file, value in self._files(written.parent))
        if training.resumed:
            again = dict(self._files(self._interrupted(name) / "model"))
            yield "resumed", "the same files" if again == dict(self._files(run / "model")) else "other files"

    def _run(self, name: str) -> Path:
        """The run of a training, trained if it is not there."""
        out = self.folder / name
        if not out.exists():
            self._train(name, out)
        return out

    def _train(self, name: str, out: Path, **watched: Any) -> None:
        import wenmai

        training = TRAININGS[name]
        for other in re.findall(r"WORK/([\w-]+)(?: |$)", training.settings):
            self._run(other)
        start = None if training.start is None else self._run(training.start)
        given = training.settings.replace("WORK", str(self.folder))
        settings: dict[str, Any] = dict(one.split("=", 1) for one in given.split())
        wenmai.train(training.system, self.folder / training.corpus, out=out, start=start, **settings, **watched)

    def _interrupted(self, name: str) -> Path:
        """The run of a training that is interrupted in its middle, and resumed."""
        import wenmai
        from wenmai.runs.train import Watcher

        class Impatient(Watcher):
            def record(self, record: Any) -> None:
                raise KeyboardInterrupt

        out = self.folder / f"{name}-interrupted"
        try:
            self._train(name, out, watcher=Impatient())
        except KeyboardInterrupt:
            wenmai.resume(out)
            return out
        raise RuntimeError(f"{name}: the training cannot be interrupted: it has no records")

    def _wenmai(self, *arguments: str) -> str:
        """What a ``wenmai`` command prints."""
        from wenmai.cli.main import main

        with redirect_stdout(StringIO()) as printed:
            code = main(arguments)
        if code != 0:
            raise _RefusedError(f"`wenmai {' '.join(arguments)}` ended with exit code {code}")
        return printed.getvalue()

    def _files(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Checksums of files, but for the manifest, which has checksums itself."""
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "manifest.json":
                yield str(path.relative_to(folder)), self._file(path)

    def _file(self, path: Path) -> str:
        return _digest(path.read_bytes().replace(str(self.folder).encode(), b"WORK"))

    def _shown(self, value: Any) -> str:
        """A value as it is, or its beginning and its checksum if it is long."""
        text = json.dumps(value, ensure_ascii=False).replace(str(self.folder), "WORK")
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... {_digest(text.encode())}"


def _lasting(value: Any) -> Any:
    """A value without figures of time and memory."""
    if isinstance(value, dict):
        return {
            name: _lasting(one)
            for name, one in value.items()
            if not any(word in name.split("_") or f"{word}s" in name.split("_") for word in _PASSING)
        }
    return [_lasting(one) for one in value] if isinstance(value, list) else value


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


# --- comparing ------------------------------------------------------------------------------------------------------


def check(results: Path, *, only: Sequence[str] = (), write: bool = False) -> None:
    """Computes the facts, and compares them with those of the file, or writes the file.

    Args:
        results: The folder of the file.
        only: Names of trainings; none: all of them.
        write: Write what was found instead of comparing.

    Raises:
        SystemExit: if any fact differs, or no training has one of the names.
    """
    if unknown := [name for name in only if name not in {SETTINGS, *TRAININGS}]:
        raise SystemExit(f"no training is called {', '.join(unknown)}; there are: {SETTINGS}, {', '.join(TRAININGS)}")
    path = results / "fingerprints.json"
    known = json.loads(path.read_bytes()) if path.exists() else {"machine": _machine(), "facts": {}}
    machine = _machine()
    for name in sorted({*machine, *known["machine"]}):
        if machine.get(name) != known["machine"].get(name):
            print(f"{name} is {machine.get(name)}; the file is from {known['machine'].get(name)}: bytes may differ")
    found = _in_one_thread(only or (SETTINGS, *TRAININGS))
    if failed := [name for name, facts in found.items() if FAILED in facts]:
        raise SystemExit(f"failed: {', '.join(failed)}; the messages are above")
    if write:
        facts = (known["facts"] if only else {}) | found
        writing_json(path, {"machine": machine, "facts": {name: facts[name] for name in sorted(facts)}})
        print(f"wrote {path}")
        return
    expected = {name: facts for name, facts in known["facts"].items() if not only or name in only}
    changed = differences(expected, found)
    print(*changed, sep="\n")
    count = sum(map(len, found.values()))
    if changed:
        raise SystemExit(f"{len(changed)} differences in {count} facts of {len(found)} trainings")
    print(f"nothing changed: {count} facts of {len(found)} trainings")


def differences(expected: Facts, found: Facts) -> list[str]:
    """Returns a line for each fact that changed, is new, or is missing."""
    lines = []
    for name in sorted({*expected, *found}):
        before, now = expected.get(name, {}), found.get(name, {})
        for fact in dict.fromkeys([*before, *now]):
            if before.get(fact) != now.get(fact):
                lines.append(f"{name}: {fact}: was {before.get(fact, 'not there')}, is {now.get(fact, 'not there')}")
    return lines


def _in_one_thread(names: Sequence[str]) -> Facts:
    """Computes facts in a process of its own, in which the libraries have one thread too; prints them."""
    found: Facts = {name: {} for name in names}
    with tempfile.TemporaryDirectory(prefix="wenmai-fingerprints-") as work:
        environment = os.environ | dict.fromkeys(_ONE_THREAD, "1")
        environment |= {"WENMAI_CACHE": f"{work}/cache", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "benchmarks.fingerprints", work, *names]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                name, fact, value = json.loads(line)
                found[name][fact] = value
                print(f"{name}: {fact}: {value}", flush=True)
        if process.returncode != 0:
            raise SystemExit("the trainings stopped; the message is above")
    return found


def _machine() -> dict[str, Any]:
    """What the bytes may depend on."""
    from llvmlite.binding import get_host_cpu_features

    named = ("python", "processor", "numpy", "numba", "llvmlite", "scikit-learn")
    found = {name: value for name, value in describe_environment().items() if name in named}
    found |= {name: version(name) for name in ("torch", "tokenizers", "sacrebleu", "safetensors")}
    return found | {"vector_units": " ".join(sorted(name for name, has in get_host_cpu_features().items() if has))}


if __name__ == "__main__":
    place = _Work(Path(sys.argv[1]))
    for chosen in sys.argv[2:]:
        try:
            for of, result in place.facts(chosen):
                print(json.dumps([chosen, of, result]), flush=True)
        except Exception as problem:  # the others are to be seen too
            traceback.print_exc()
            print(json.dumps([chosen, FAILED, f"{type(problem).__name__}: {problem}"]), flush=True)
