"""How results show themselves in a shell, in a notebook and as data frames."""

import sys
from types import SimpleNamespace

import pytest

from wenmai.core.errors import SettingError
from wenmai.core.showing import Shown, Table, Tabled


class Model(Shown):
    def _facts(self):
        return {"words": 15090, "loss": 1.23456, "kind": "<b>", "missing": None}


class Result(Tabled):
    def table(self):
        return Table.of([{"set": "a&b", "value": 0.123456, "none": None}, {"set": "文", "value": 12345.6, "n": 3}])


def test_a_model_shows_its_facts():
    assert repr(Model()) == "Model(words=15090, loss=1.235, kind='<b>')"
    page = Model()._repr_html_()
    for part in ("<b>Model</b>", "15,090", "1.235", "&lt;b&gt;"):
        assert part in page
    assert "missing" not in page


def test_a_result_shows_its_table():
    assert repr(Result()) == "set  value   n\na&b  0.1235  -\n文   12,346  3"
    page = Result()._repr_html_()
    assert "<th>set</th><th>value</th><th>n</th>" in page
    assert "a&amp;b" in page


def test_a_data_frame_has_the_rows_as_they_are(monkeypatch):
    made = []
    fake = SimpleNamespace(DataFrame=lambda rows, columns: made.append((rows, columns)))
    monkeypatch.setitem(sys.modules, "pandas", fake)
    Result().to_dataframe()
    assert made == [([["a&b", 0.123456, None], ["文", 12345.6, 3]], ["set", "value", "n"])]


def test_without_pandas_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingError, match="pip install pandas"):
        Result().to_dataframe()
