"""The registry of evaluation data, and the readers of its files."""

import gzip
import io
import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data import datasets as datasets_module
from wenmai.data import readers
from wenmai.data.catalogue import find
from wenmai.data.datasets import (
    ChoiceExample,
    PairExample,
    SpanExample,
    TaggedSentence,
    TextExample,
    datasets,
    find_dataset,
    open_labelled,
)
from wenmai.data.encoded_labelled import encode_labelled
from wenmai.data.labelled import LabelledConfig, LabelledStats
from wenmai.data.readers import bio_tags
from wenmai.data.tags import bioes_labels, bioes_tags, with_outside
from wenmai.text.settings import TextConfig

SIZES = {  # examples of train and dev
    "ag-news": (7180, 820),
    "thucnews": (9022, 978),
    "chnsenticorp": (5965, 600),
    "sst2": (6920, 872),
    "trec": (4924, 528),
    "trec-fine": (4924, 528),
    "imdb": (1445, 155),
    "conll2003": (14041, 3250),
    "conll2003-chunks": (14041, 3250),
    "conll2003-pos": (14041, 3250),
    "cluener": (10748, 672),
    "resume-ner": (3821, 463),
    "cws": (15430, 1685),
    "mrpc": (3576, 500),
    "sick": (4500, 500),
    "rte": (1244, 139),
    "ocnli": (9034, 951),
    "ernie-match": (1999, 100),
    "ernie-match-triples": (3998, 100),
    "dream": (6116, 2040),
    "c3": (5856, 1825),
    "squad1": (4681, 742),
    "squad2": (2454, 463),
    "xquad-zh": (493, 121),
    "xquad-es": (493, 121),
    "cmrc2018": (1000, 1493),
}
FORMS = {
    "classification": TextExample,
    "tagging": TaggedSentence,
    "pairs": PairExample,
    "span": SpanExample,
    "choice": ChoiceExample,
}
KINDS = {"pairs": "sentence-pairs", "span": "question-answering", "choice": "multiple-choice"}


@pytest.fixture
def mirror(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    return shared_data


def test_every_set_is_in_the_catalogue():
    assert set(datasets()) == set(SIZES)
    for name, dataset in datasets().items():
        assert dataset.name == name
        assert set(dataset.readers) == set(dataset.files)
        for entry in dataset.files.values():
            assert find(entry).language == dataset.language
            assert find(entry).kind == KINDS.get(dataset.task, dataset.task)
        assert dataset.licence
        TextConfig(**dataset.text_settings)


@pytest.mark.shared_data
@pytest.mark.parametrize("name", SIZES)
def test_the_splits_have_their_sizes_and_labels(mirror, name):
    dataset = find_dataset(f"data:{name}")
    found = {split: list(dataset.read(split)) for split in ("dev",) if split in dataset.files}
    if len(found) < 1 or name in ("sst2", "mrpc", "rte", "sick", "ernie-match", "chnsenticorp", "c3"):
        found = {split: list(dataset.read(split)) for split in ("train", "dev")}
        assert len(found["train"]) == SIZES[name][0]
    assert len(found["dev"]) == SIZES[name][1]
    labels: Counter[str] = Counter()
    for example in (example for split in found.values() for example in split):
        assert type(example) is FORMS[dataset.task]
        if dataset.task == "tagging":
            assert len(example.tokens) == len(example.tags) > 0
            labels.update(tag[2:] if dataset.labels else tag for tag in example.tags if tag != "O")
        elif dataset.task == "span":
            assert example.question
            assert example.impossible == (not example.answers)
            for answer in example.answers:
                assert answer.start < 0 or example.context.startswith(answer.text, answer.start)
        elif dataset.task == "choice":
            assert all(example.turns)
            assert example.question
            assert 0 <= example.answer < len(example.options) in (3, 4)
        else:
            assert example.label
            labels[example.label] += 1
            assert "\n" not in example[0]
    if dataset.labels:
        assert set(labels) <= set(dataset.labels)
        assert len(dataset.labels) - len(labels) <= (2 if dataset.task == "tagging" else 0)


@pytest.mark.shared_data
def test_entities_of_conll_are_the_known_ones(mirror):
    tags = Counter(tag for sentence in find_dataset("conll2003").read("dev") for tag in sentence.tags)
    assert {kind: tags[f"B-{kind}"] for kind in ("LOC", "MISC", "ORG", "PER")} == {
        "LOC": 1837,
        "MISC": 922,
        "ORG": 1341,
        "PER": 1842,
    }
    assert sum(tags.values()) == 51362


@pytest.mark.shared_data
def test_what_is_set_aside_is_not_trained_on(mirror):
    dataset = find_dataset("ocnli")
    train, dev = ({example.first for example in dataset.read(split)} for split in ("train", "dev"))
    assert not train & dev
    assert len(train) > 5 * len(dev)


@pytest.mark.shared_data
def test_questions_are_as_many_as_published(mirror):
    found = [example for split in ("train", "dev") for example in find_dataset("squad2").read(split)]
    assert (len(found), sum(example.impossible for example in found)) == (2917, 1477)
    sides = [{(one.title, one.context) for one in find_dataset("squad1").read(split)} for split in ("train", "dev")]
    assert len(sides[0] | sides[1]) == 1023
    assert not {title for title, _ in sides[0]} & {title for title, _ in sides[1]}


@pytest.mark.shared_data
@pytest.mark.parametrize(("split", "sentences"), [("pku", 1944), ("msr", 3985)])
def test_words_of_other_standards(mirror, split, sentences):
    found = list(find_dataset("cws").read(split))
    assert len(found) == sentences
    assert {tag for sentence in found for tag in sentence.tags} == {"B-word", "I-word"}


@pytest.mark.shared_data
def test_a_set_is_labelled_text_for_training(mirror):
    texts = open_labelled("data:trec", LabelledConfig(), TextConfig())
    stats = LabelledStats()
    found = list(texts.read(stats))
    assert (len(found), stats.examples, stats.files) == (4924, 4924, 1)
    assert {len(example.labels) for example in found} == {1}
    assert texts.repeatable
    assert texts.sources == ("data:trec",)
    dev = open_labelled(["data:trec/dev"], LabelledConfig(), TextConfig())
    assert len(list(dev)) == 528
    assert dev.fingerprint() != texts.fingerprint()
    with pytest.raises(SettingError, match="no classes of texts"):
        open_labelled("data:conll2003", LabelledConfig(), TextConfig())


def test_sets_of_one_file_have_different_labels(tmp_path, monkeypatch):
    path = tmp_path / "trec.txt"
    path.write_text("HUM:ind Who is it ?\nNUM:date When was it ?\nLOC:city Where is it ?\n" * 20)
    monkeypatch.setattr(datasets_module, "get", lambda name: path)
    monkeypatch.setattr(datasets_module, "_is_set_aside", lambda example, one_in: False)
    coarse, fine = (
        encode_labelled(open_labelled(name, LabelledConfig(), TextConfig())) for name in ("data:trec", "data:trec-fine")
    )
    assert list(coarse.label_names) == ["HUM", "NUM", "LOC"]
    assert list(fine.label_names) == ["HUM:ind", "NUM:date", "LOC:city"]


def test_unknown_names_suggest_others(tmp_path):
    with pytest.raises(SettingError, match="did you mean 'sst2'"):
        find_dataset("data:sst")
    with pytest.raises(SettingError, match=r"no split 'test'.*train, dev"):
        find_dataset("sst2").read("test")
    path = tmp_path / "a.txt"
    path.write_text("__label__x words\n")
    assert [example.labels for example in open_labelled(str(path), LabelledConfig(), TextConfig())] == [("x",)]


# --- tags ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "given", "expected"),
    [
        ("iob1", "I-A I-A O I-A B-A I-B", "B-A I-A O B-A B-A B-B"),
        ("iob2", "B-A I-A I-A O B-A B-A", "B-A I-A I-A O B-A B-A"),
        ("bmes", "S-A B-A M-A E-A O B-B E-B S-B", "B-A B-A I-A I-A O B-B I-B B-B"),
        ("bmes", "M-A E-A E-A", "B-A I-A B-A"),
        ("iob1", "", ""),
    ],
)
def test_schemes_become_one(scheme, given, expected):
    assert " ".join(bio_tags(given.split(), scheme)) == expected


@pytest.mark.parametrize(("scheme", "tag"), [("iob1", "E-A"), ("bmes", "X-A"), ("iob2", "B-"), ("bmes", "o")])
def test_a_tag_of_no_scheme_is_refused(scheme, tag):
    with pytest.raises(ValueError, match=tag):
        bio_tags([tag], scheme)


# --- forms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("O B-A I-A I-A O", "O B-A I-A E-A O"),
        ("B-A B-A I-A", "S-A B-A E-A"),
        ("B-A B-B O B-B I-B", "S-A S-B O B-B E-B"),
        ("", ""),
    ],
)
def test_tags_that_mark_ends(given: str, expected: str):
    found = bioes_tags(given.split())
    assert " ".join(found) == expected
    assert " ".join(bio_tags(found, "bioes")) == given
    assert set(found) <= set(bioes_labels(with_outside("AB")))


def test_labels_that_mark_ends_are_in_the_order_of_their_types():
    assert bioes_labels(with_outside("BA")) == ["O", "B-B", "I-B", "E-B", "S-B", "B-A", "I-A", "E-A", "S-A"]


def written(path: Path, text: str | bytes) -> Path:
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_csv_of_news(tmp_path):
    path = written(tmp_path / "a.csv", 'label,content\n1,"a, ""b""\nc"\n4,d\n')
    names = {"1": "World", "4": "Sci"}
    assert list(readers.label_and_text(path, names)) == [TextExample('a, "b" c', "World"), TextExample("d", "Sci")]
    path = written(tmp_path / "b.csv", '"1","title","text"\n')
    assert list(readers.title_and_text(path, names)) == [TextExample("title text", "World")]


def test_overlapping_spans_keep_the_first(tmp_path):
    record = {"text": "abcdef", "label": {"x": {"bcd": [[1, 3]]}, "y": {"cd": [[2, 3]], "f": [[5, 5]]}}}
    path = written(tmp_path / "a.json", json.dumps(record) + "\n")
    (sentence,) = readers.spans(path)
    assert sentence.tags == ("O", "B-x", "I-x", "I-x", "O", "B-y")


def test_reviews_in_a_tar(tmp_path):
    path = tmp_path / "reviews.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("a/pos/1_9.txt", "good<br /><br />film"), ("a/neg/2_1.txt", "bad"), ("a/README", "no")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    assert list(readers.reviews(path)) == [TextExample("good film", "positive"), TextExample("bad", "negative")]
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(CorpusError, match=r"reviews\.tar\.gz"):
        list(readers.reviews(path))


def test_questions_with_answers_to_choose_from(tmp_path):
    path = written(tmp_path / "a.json.gz", json.dumps([DIALOGUE, DIALOGUE]))
    one, other, *again = readers.choices(path)
    assert one == ChoiceExample(("M: Tea?", "W: Yes."), "Who drinks?", ("The man.", "The woman."), 1)
    assert (other.question, other.answer) == ("What?", 0)
    assert again == [one, other]


LABELS = {"0": "no", "1": "yes"}
QUESTION = {"question": "What?", "choice": ["tea", "milk", "ale"], "answer": "tea"}
DIALOGUE = [
    ["M: Tea?", "W: Yes."],
    [{"question": "Who drinks?", "choice": ["The man.", "The woman."], "answer": "The woman."}, QUESTION],
    "1-1",
]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (lambda p: readers.text_and_label(p, LABELS), "good\t1\nbad\n", "line 2 is 'bad'; expected 2 columns"),
        (lambda p: readers.text_and_label(p, LABELS), "good\t7\n", "line 1 is '7'; expected one of the labels 0, 1"),
        (lambda p: readers.text_and_label(p, LABELS), b"good\t1\n\xff\t1\n", "line 2 is not utf-8"),
        (lambda p: readers.text_and_label(p, LABELS), "", "is empty"),
        (lambda p: readers.label_and_text(p, LABELS), "label,review\n1,a\n1,a,b\n", "line 3 .* 2 columns with commas"),
        (lambda p: readers.label_and_text(p, LABELS), 'label,review\n1,"a\n', "line 2: is not CSV"),
        (lambda p: readers.questions(p, fine=True), "DESC what\n", "COARSE:fine"),
        (lambda p: readers.columns(p, 2, 1, "bmes"), "x B-A\ny\n", "line 2 is 'y'; expected 2 columns"),
        (lambda p: readers.columns(p, 2, 1, "bmes"), "x O\n\ny Q-A\n", "sentence of line 3: the tag 'Q-A'"),
        (readers.spans, '{"text": "ab", "label": {"x": {"b": [[0, 0]]}}}\n', "line 1 .* characters 0 to 0"),
        (readers.spans, '{"text": "ab", "label": {"x": {"ab": [[0, 9]]}}}\n', "line 1 .* characters 0 to 9"),
        (readers.spans, '{"text": "ab", "label": {"x": {"ab": [[0, 9223372036854775807]]}}}\n', "line 1"),
        (readers.spans, '{"text": "ab", "label": {"x": {"": [[1, 0]]}}}\n', "line 1"),
        (readers.spans, "[" * 100_000 + "\n", "line 1"),
        (readers.paraphrases, "a\tb\tc\td\te\n1\t2\t3\t4\n", "line 2 .* 5 columns"),
        (readers.related, "h\th\th\th\th\n1\ta\tb\t9\tNEUTRAL\n", "line 2 is '9'; expected a score"),
        (readers.entailed, "h\th\th\th\n1\ta\tb\tmaybe\n", "line 2 is 'maybe'"),
        (readers.inferences, '{"sentence1": "a"}\n', "sentence1, sentence2 and label"),
        (readers.inferences, '{"sentence1": "a", "sentence2": "b", "label": "x"}\n', "line 1 is 'x'"),
        (readers.matches, "a\tb\t2\n", "line 1 is '2'"),
        (readers.triples, "a\tb\n", "3 columns"),
        (readers.reviews, "no archive", "not a whole tar archive"),
        (readers.choices, "[[", "is not JSON"),
        (readers.choices, "[" * 100_000, "is not JSON"),
        (readers.choices, b'[["\xff"]]', "is not JSON"),
        (readers.choices, '{"data": []}', "no list of texts"),
        (readers.choices, "[[1, 2]]", "text 1: .* expected .turns"),
        (readers.choices, json.dumps([DIALOGUE, [["a"], [QUESTION | {"answer": "x"}], "2"]]), "text 2: .*not in list"),
        (readers.choices, json.dumps([[["a"], [QUESTION | {"choice": ["x"], "answer": "x"}], "1"]]), "fewer than two"),
        (readers.choices, json.dumps([[["a", ""], [QUESTION], "1"]]), "'' is no text"),
        (readers.choices, json.dumps([[["a"], [QUESTION | {"choice": "yn", "answer": "y"}], "1"]]), "'yn' is no list"),
    ],
)
def test_malformed_rows_are_errors_with_line_numbers(tmp_path, read, text, message):
    path = written(tmp_path / "file.txt.gz", text)
    with pytest.raises(CorpusError, match=message):
        list(read(path))
    with pytest.raises(CorpusError, match="no such file"):
        list(read(tmp_path / "missing"))


def test_endless_lines_are_refused(tmp_path):
    path = written(tmp_path / "a.gz", b"x" * (3 << 20))
    with pytest.raises(CorpusError, match="line 1 is longer than a megabyte"):
        list(readers.matches(path))


def test_pairs_without_a_majority_are_left_out(tmp_path):
    records = [{"sentence1": "a", "sentence2": "b", "label": label} for label in ("-", "neutral")]
    path = written(tmp_path / "a.json", "".join(json.dumps(record) + "\n" for record in records))
    assert list(readers.inferences(path)) == [PairExample("a", "b", "neutral")]
