"""Runs that are not measured alike: what a comparison says of them."""

from types import SimpleNamespace

import pytest

import wenmai
from wenmai.data.examples import ExamplesConfig
from wenmai.runs.compare import compare
from wenmai.runs.measuring.examples import columns_notes


def reading(**columns):
    return SimpleNamespace(recipe=SimpleNamespace(sections={"data": ExamplesConfig(**columns)}))


def test_runs_that_read_other_columns_are_named():
    runs = [reading(label_column="label"), reading(label_column="topic"), reading()]
    assert columns_notes(runs) == [
        ["read with label_column=label: other runs read other columns"],
        ["read with label_column=topic: other runs read other columns"],
        [],
    ]
    assert columns_notes([reading(label_column="a"), reading(label_column="a")]) == [[], []]


@pytest.mark.parametrize("alike", [True, False])
def test_vectors_that_cover_other_pairs_are_named(tmp_path, alike):
    (tmp_path / "pairs.txt").write_text("one two 1\ntwo three 2\nthree four 3\nfour five 4\n")
    for name, words in (("small", "one two three four"), ("large", "one two three four five")):
        (tmp_path / f"{name}.txt").write_text(f"{words if not alike else 'one two three four'}\n" * 60)
        wenmai.train(
            "word2vec", tmp_path / f"{name}.txt", out=tmp_path / name, vector_size=4, min_count=1, threads=1, quiet=True
        )
    pairs = [str(tmp_path / "pairs.txt")]
    found = compare([tmp_path / "small", tmp_path / "large"], out=tmp_path / "both", similarity=pairs)
    told = "; other runs are measured on more or fewer of them"
    expected = (
        {}
        if alike
        else {"small, pairs": [f"3 of 4 have vectors{told}"], "large, pairs": [f"4 of 4 have vectors{told}"]}
    )
    assert found.notes == expected
