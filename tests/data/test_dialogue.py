"""Threads from JSON, and the dialogue language model."""

import json
import lzma
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.masking import MaskingConfig
from wenmai.data.pretraining import Context, task_of
from wenmai.data.pretraining.dialogue import _fitting
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.pretraining.task import set_aside
from wenmai.data.threads import Turn, read_threads
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

KDCONV = [
    {"name": "x", "messages": [{"message": f"turn{thread} number{turn}"} for turn in range(5)]} for thread in range(60)
]
TRAIN, HELD = SimpleNamespace(held_out=False), SimpleNamespace(held_out=True)


def written(folder: Path, content: str, name="threads.jsonl") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def lines(*values) -> str:
    return "\n".join(json.dumps(value) for value in values) + "\n"


def dialogue(path: Path, *, max_length=24, segments=2, **settings):
    words = (
        [f"turn{number}" for number in range(60)] + [f"number{number}" for number in range(5)] + ["a", "b", "c", "d"]
    )
    tokenizer = Tokenizer.train([" ".join(words)] * 2, TokenizerConfig(kind="whitespace", vocab_size=200, min_count=1),
                                roles=("cls", "sep", "mask"))  # fmt: skip
    config = TasksConfig(dialogue_threads=str(path), **settings)
    context = Context(
        tokenizer=tokenizer, max_length=max_length, segments=segments, masking=MaskingConfig(), settings=config
    )
    return task_of("dialogue", context)


def rows(task, stream, seed=0):
    plan = task.examples(stream, np.random.default_rng(seed))
    found = [task.row(stream, plan, place) for place in range(len(plan.lengths))]
    assert [len(row.tokens) for row in found] == plan.lengths.tolist()
    return found


@pytest.mark.parametrize(
    "content",
    [
        lines(["a", "b", "c"], ["d", "e"]),
        json.dumps([["a", "b", "c"], ["d", "e"]]),
        json.dumps([{"messages": [{"message": "a"}, {"message": " b "}, {"message": "c"}]}, ["d", "e"]], indent=1),
        "\n" + lines({"posts": [{"text": "a"}, {"text": "b"}, {"text": "c"}, {"text": " "}]}, ["d", "e"]),
        lines({"posts": [{"text": "a"}, {"text": "b"}, {"text": "c"}, {"text": None}]}, ["d", "e"]),
    ],
)  # fmt: skip
def test_forms_of_files(tmp_path, content):
    found = read_threads(written(tmp_path, content))
    assert [[turn.text for turn in thread] for thread in found] == [["a", "b", "c"], ["d", "e"]]
    assert [turn.speaker for turn in found[0]] == ["0", "1", "0"]


def test_one_list_may_be_longer_than_a_line_of_text(tmp_path, monkeypatch):
    monkeypatch.setattr("wenmai.data.lines.MAX_LINE", 64)
    threads = [["a", "b", "c"], ["d", "e"]] * 9
    found = read_threads(written(tmp_path, json.dumps(threads)))
    assert [[turn.text for turn in thread] for thread in found] == threads
    with pytest.raises(CorpusError, match="line 1 is longer than"):
        read_threads(written(tmp_path, json.dumps({"messages": ["a"] * 99})))


def test_speakers_are_read(tmp_path):
    thread = [{"speaker": "A", "text": "a"}, {"speaker": "B", "text": "b"}, {"speaker": "B", "text": "c"}]
    assert read_threads(written(tmp_path, lines(thread))) == [(Turn("a", "A"), Turn("b", "B"), Turn("c", "B"))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json\n", "line 1: is not JSON"),
        (lines(["a", "b"]) + "{\n", "line 2: is not JSON"),
        ("[1\n", "is not JSON"),
        (lines(["a", 5]), r"line 1: '5' is no turn of a dialogue; expected a dialogue a line"),
        (lines({"text": "a"}), "is no dialogue; expected"),
        (lines("a"), "'a' is no dialogue"),
        ('["\\ud800"]\n', "lone surrogate"),
        ("\n\n", "has no dialogue"),
        (lines([], [" "]), "has no dialogue"),
    ],
)
def test_files_that_have_no_dialogues(tmp_path, content, message):
    with pytest.raises(CorpusError, match=message):
        read_threads(written(tmp_path, content))


def test_three_turns_with_roles_and_fakes(tmp_path):
    task = dialogue(written(tmp_path, lines(*KDCONV)))
    task.require(TRAIN)
    tokenizer = task.context.tokenizer
    found, held = rows(task, TRAIN), rows(task, HELD)
    assert (len(found), len(held)) == (57 * 3, 3 * 3)  # one dialogue in 20 is held out
    assert task.classes == ("real", "fake")
    kinds = Counter(row.labels for row in found)
    assert 60 < kinds[1] < 110
    seen = {True: set(), False: set()}
    for part, some in ((False, found), (True, held)):
        for row in some:
            assert row.tokens[0] == tokenizer.cls_id
            assert np.flatnonzero(row.tokens == tokenizer.sep_id).tolist() == [3, 6, 9]
            assert row.segments.tolist() == [0, 0, 0, 0, 1, 1, 1, 0, 0, 0]  # QRQ
            threads = [tokenizer.token(int(row.tokens[place])) for place in (1, 4, 7)]
            turns = [int(tokenizer.token(int(row.tokens[place]))[6:]) for place in (2, 5, 8)]
            seen[part] |= set(threads)
            if row.labels == 0:
                assert len(set(threads)) == 1
                assert turns == list(range(turns[0], turns[0] + 3))
            else:
                assert sorted(Counter(threads).values()) == [1, 2]  # one turn of another dialogue
    assert not seen[True] & seen[False]
    fakes = [row for row in found if row.labels]
    odd = Counter()
    for row in fakes:
        threads = row.tokens[[1, 4, 7]].tolist()
        odd[next(place for place in range(3) if threads.count(threads[place]) == 1)] += 1
    assert set(odd) == {0, 1, 2}
    again = rows(task, TRAIN)
    assert [row.tokens.tolist() for row in again] == [row.tokens.tolist() for row in found]
    assert [row.tokens.tolist() for row in rows(task, TRAIN, seed=1)] != [row.tokens.tolist() for row in found]


def test_roles_are_those_of_the_speakers(tmp_path):
    def said(*speakers):
        return [{"speaker": speaker, "text": "a b"[: 1 + 2 * (place % 2)]} for place, speaker in enumerate(speakers)]

    threads = [said("x", "y", "y"), said("x", "x", "y"), said("x", "y", "x"), said("x", "x", "x"), said("x", "y", "z")]
    task = dialogue(written(tmp_path, lines(*(threads * 10))))
    patterns = set()
    for row in rows(task, TRAIN):
        turn = np.cumsum(row.tokens == task.context.tokenizer.sep_id)  # the turn of each token but [SEP]
        patterns.add("".join("QR"[row.segments[turn == number][0 if number == 0 else 1]] for number in range(3)))
    assert patterns == {"QRR", "QQR", "QRQ"}


def test_long_turns_are_cut(tmp_path):
    threads = [["a " * 40, "b " * 3, "c " * 30], ["d", "d", "d"]] * 10
    task = dialogue(written(tmp_path, lines(*threads)), max_length=24, dialogue_fake=0.001)
    long = [row for row in rows(task, TRAIN) if len(row.tokens) > 12]
    tokenizer = task.context.tokenizer
    assert long
    for row in long:
        assert len(row.tokens) == 24
        assert [row.tokens.tolist().count(tokenizer.id(word)) for word in "abc"] == [9, 3, 8]


@pytest.mark.parametrize(
    ("sizes", "room", "wanted"), [([9, 1, 9], 11, [5, 1, 5]), ([1, 2, 3], 6, [1, 2, 3]), ([5, 5, 5], 10, [3, 3, 4])]
)
def test_the_longest_are_cut(sizes, room, wanted):
    assert _fitting(sizes, room) == wanted


def test_dialogues_that_the_vocabulary_of_the_text_lacks(tmp_path):
    def threads(known, unknown):
        turn = " ".join(["a"] * known + ["elsewhere"] * unknown)
        return written(tmp_path, lines(*[[turn] * 3] * 9))

    assert dialogue(threads(9, 1)).notes == ()
    path = threads(7, 3)
    assert dialogue(path).notes == [f"{path}: the vocabulary lacks 30% of its pieces"]
    with pytest.raises(CorpusError, match="lacks 60% of its pieces; give a file in its language, or leave"):
        dialogue(threads(4, 6))


def test_what_cannot_be_learned_from(tmp_path):
    path = written(tmp_path, lines(*KDCONV[:3]))
    with pytest.raises(CorpusError, match=r"threads\.jsonl: has 3 dialogues, but fake turns are from others"):
        dialogue(path)
    with pytest.raises(CorpusError, match="no dialogue has three turns of two speakers"):
        dialogue(written(tmp_path, lines(*[["a", "b"]] * 9)))
    with pytest.raises(CorpusError, match="nothing"):
        dialogue(tmp_path / "nothing")
    path = written(tmp_path, lines(*KDCONV))
    for segments in (0, 1):
        with pytest.raises(SettingError, match=f"has segments={segments}; set segments=2"):
            dialogue(path, segments=segments)
    with pytest.raises(SettingError, match="max_length=7 at least"):
        dialogue(path, max_length=6)
    context = Context(tokenizer=dialogue(path).context.tokenizer, max_length=24, masking=MaskingConfig(),
                      settings=TasksConfig())  # fmt: skip
    with pytest.raises(SettingError, match=r"dialogue_threads=FILE"):
        task_of("dialogue", context)
    assert dialogue(path).sources == dialogue(path).sources
    other = dialogue(written(tmp_path, lines(*KDCONV[:50]), "other.jsonl"))
    assert other.sources[0]["sha256"] != dialogue(path).sources[0]["sha256"]
    assert [Path(one["path"]).name for one in other.sources] == ["other.jsonl"]


def test_dialogues_of_use_may_all_be_in_one_part(tmp_path):
    short, whole = ["a", "b"], ["a", "b", "c"]
    aside = set_aside(range(60))
    assert aside.sum() == 3
    task = dialogue(written(tmp_path, lines(*[short if one else whole for one in aside])))
    task.require(TRAIN)
    with pytest.raises(CorpusError, match=r"threads\.jsonl: no dialogue to validate on has three turns"):
        task.require(HELD)
    task = dialogue(written(tmp_path, lines(*[whole if one else short for one in aside])))
    with pytest.raises(CorpusError, match="no dialogue to train on has three turns"):
        task.require(TRAIN)


def test_few_dialogues_are_held_out_too(tmp_path):
    for count in (4, 5, 19, 39, 40):
        task = dialogue(written(tmp_path, lines(*KDCONV[:count])))
        held, train = rows(task, HELD), rows(task, TRAIN)
        assert len(held) >= 6
        assert len(held) + len(train) == 3 * count
        assert all(len({*row.tokens[[1, 4, 7]].tolist()}) == 1 + row.labels for row in [*held, *train])


@pytest.mark.shared_data
def test_kdconv(shared_data, tmp_path):
    packed = shared_data / "kdconv" / "film_dev.json.xz"
    found = read_threads(packed)
    plain = tmp_path / "film.json"
    plain.write_bytes(lzma.decompress(packed.read_bytes()))
    assert read_threads(plain) == found
    assert len(found) == 150
    assert found[0][0].text == "知道恋恋笔记本这部电影吗？"
