"""Examples that were prepared as ids, as the released ERNIE 1.0 reads them."""

import gzip
from collections import Counter

import numpy as np
import pytest

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_text import LinesConfig
from wenmai.data.masking import MaskingConfig
from wenmai.data.pretraining import Context, task_of
from wenmai.data.pretraining.prepared import read_prepared
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.running_text import read_language_data
from wenmai.text.pieces import StreamTokenizerConfig

VOCABULARY = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "，", *"的天地人和哈尔滨", "[UNK]"]


def line(*units: str, second: str = "", label: int = 1) -> str:
    """A row of units, each a string of characters, and the second text in one unit."""
    known = {token: number for number, token in enumerate(VOCABULARY)}
    first = [known[one] for unit in units for one in unit]
    inside = [int(place > 0) for unit in units for place in range(len(unit))]
    tokens, segments, marks = [1, *first, 2], [0] * (len(first) + 2), [-1, *inside, -1]
    if second:
        tokens += [*(known[one] for one in second), 2]
        segments += [1] * (len(second) + 1)
        marks += [*(int(place > 0) for place in range(len(second))), -1]
    fields = [tokens, segments, range(len(tokens)), marks]
    return ";".join(" ".join(map(str, field)) for field in fields) + f";{label}\n"


ROWS = [line("哈尔滨", "的", "天", second="地人", label=number % 2) for number in range(40)]


def made(tmp_path, name, *, segments=2, max_length=32, masking="token"):
    """The task, and the streams to train and to validate on of a text that does not matter."""
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\t{number}\n" for number, token in enumerate(VOCABULARY)))
    text = tmp_path / "text.txt"
    text.write_text("天地人和\n" * 40)
    data = read_language_data(
        Corpus.of_paths([text]),
        LinesConfig(),
        StreamTokenizerConfig(file=str(tmp_path / "vocab.txt")),
        inherited=None,
        roles=("cls", "sep", "mask"),
    )
    settings = TasksConfig(prepared_files=str(tmp_path / name))
    masks = MaskingConfig(masking=masking)
    context = Context(
        tokenizer=data.tokenizer, max_length=max_length, segments=segments, masking=masks, settings=settings
    )
    return task_of("prepared", context), *data.sentences(separator=data.tokenizer.sep_id)


def rows_of(task, stream, seed=1):
    plan = task.examples(stream, np.random.default_rng(seed))
    return [task.row(stream, plan, place) for place in range(len(plan.lengths))]


def test_rows_are_those_of_the_file(tmp_path):
    (tmp_path / "train.gz").write_bytes(gzip.compress("".join(ROWS).encode()))
    task, train, valid = made(tmp_path, "train.gz")
    task.require(train)
    rows = rows_of(task, train)
    assert len(rows) == 38
    assert len(rows_of(task, valid)) == 2  # one in 20
    assert len({row.labels for row in rows_of(task, valid)}) == 2  # though labels take turns in the file
    assert rows[0].tokens.tolist() == [1, 10, 11, 12, 5, 6, 2, 7, 8, 2]
    assert rows[0].segments.tolist() == [0] * 7 + [1] * 3
    assert rows[0].units.tolist() == [1, 1, 0, 0, 1, 1, 1, 1, 0, 1]
    assert Counter(task.classes[row.labels] for row in rows) == {"next": 19, "not next": 19}
    assert task.masking.masking == "unit"
    (tmp_path / "blank").write_text("\n" + "".join(ROWS))
    assert len(rows_of(*made(tmp_path, "blank")[:2])) == 38
    assert made(tmp_path, "train.gz", masking="released")[0].masking.masking == "released"


def test_a_list_says_how_often_units_are_masked(tmp_path):
    (tmp_path / "a").write_text("".join(ROWS[:20]))
    (tmp_path / "b").write_text("".join(ROWS[20:]))
    (tmp_path / "list").write_text(f"a\t1.0\n{tmp_path / 'b'}\t0.0\n")
    task, train, _ = made(tmp_path, "list")
    units = [row.units.tolist() for row in rows_of(task, train)]
    whole = sum(row == [1, 1, 0, 0, 1, 1, 1, 1, 0, 1] for row in units)
    assert whole >= 18
    assert units == [[1, 1, 0, 0, 1, 1, 1, 1, 0, 1]] * whole + [[1] * 10] * (38 - whole)
    assert [source["path"].rpartition("/")[2] for source in task.sources] == ["list", "a", "b"]
    (tmp_path / "list").write_text("a\t0.3\nb\t0.3\n")
    task, train, _ = made(tmp_path, "list")
    drawn = [rows_of(task, train, seed)[0].units.all() for seed in range(400)]
    assert abs(np.mean(drawn) - 0.7) < 0.1


def test_rows_that_are_too_long_are_left_out(tmp_path):
    (tmp_path / "train").write_text("".join([*ROWS, line("天" * 30)]))
    task, train, _ = made(tmp_path, "train", max_length=12)
    assert len(rows_of(task, train)) == 38
    assert task.notes == [f"{tmp_path / 'train'}: 1 of 41 rows are longer than max_length=12, and are left out"]
    with pytest.raises(CorpusError, match="has 0 rows of at most max_length=9 tokens"):
        made(tmp_path, "train", max_length=9)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 2;0 0;0 1;-1 -1\n", "line 2 .*has 4 fields, not 5"),
        ("1 2;0 0;0 1;-1;1\n", "its first fields have 2, 2, 2, 1 numbers"),
        ("1 x 2;0 0 0;0 1 2;-1 0 -1;1\n", "line 2"),
        ("1 5 2;0 0 0;0 1 2;-1 0 -1;2\n", "the label is '2', not 0 or 1"),
        ("1 5 2;0 0 0;0 1 2;-1 3 -1;1\n", "seg_labels are not all -1, 0 or 1"),
        ("1 5 2;0 0 0;0 2 1;-1 0 -1;1\n", "pos_ids do not count from 0"),
        (f"1 {1 << 40} 2;0 0 0;0 1 2;-1 0 -1;1\n", "line 2"),
        ("1 5000 2;0 0 0;0 1 2;-1 0 -1;1\n", "another vocabulary.*ids from 14 on.*file=vocab.txt"),
        ("5 5 2;0 0 0;0 1 2;-1 0 -1;1\n", "line 2: .*does not begin with 1 and end with 2"),
        ("1 5 2;0 3 0;0 1 2;-1 0 -1;1\n", "line 2: has the segment 3; set segments=4"),
        ("1 5 2;0 -3 0;0 1 2;-1 0 -1;1\n", "line 2: has the segment -3; expected token_ids"),
        (";;;;1\n", "line 2 .*it has no tokens"),
    ],
)
def test_lines_of_another_form_are_refused(tmp_path, content, message):
    (tmp_path / "train").write_text(ROWS[0] + content)
    with pytest.raises(CorpusError, match=message):
        made(tmp_path, "train")


@pytest.mark.parametrize(
    ("content", "message"), [("", "is empty"), ("a\n", "line 1 is 'a'"), ("a\t2\n", "line 1"), ("b\t0.5\n", "b")]
)
def test_lists_of_another_form_are_refused(tmp_path, content, message):
    (tmp_path / "list").write_text(content)
    with pytest.raises(CorpusError, match=message):
        made(tmp_path, "list")


def test_the_file_has_to_be_named():
    settings = TasksConfig()
    with pytest.raises(SettingError, match="prepared_files=FILE"):
        task_of("prepared", Context(tokenizer=None, max_length=9, masking=MaskingConfig(), settings=settings))


def test_a_line_of_the_released_data_is_read(tmp_path):
    """The form of the demo data: [CLS] 他 用 [SEP] 了 [SEP]."""
    (tmp_path / "a").write_text("1 5 6 2 7 2;0 0 0 0 1 1;0 1 2 3 4 5;-1 0 1 -1 0 -1;0\n")
    ((number, row),) = read_prepared(tmp_path / "a")
    assert number == 1
    assert (row.tokens.tolist(), row.units.tolist(), row.label) == ([1, 5, 6, 2, 7, 2], [-1, 0, 1, -1, 0, -1], 0)
