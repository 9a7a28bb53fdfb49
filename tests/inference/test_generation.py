"""Writing on, with a model whose next token is known."""

import contextlib
import threading

import pytest
import torch

from wenmai.core.errors import SettingError
from wenmai.decode.protocol import Step
from wenmai.inference import generation
from wenmai.inference.generation import GenerationConfig, generate, stream

LETTERS = "$abcdefgh?"  # $ ends a line, ? is never written


class Row:
    """Remembers the last token of each row."""

    def __init__(self, rows):
        self.rows = rows

    @property
    def batch_size(self):
        return len(self.rows)

    def select(self, rows):
        self.rows = self.rows[rows]


class Alphabet:
    """Writes the next letter with probability ``sure``, and ends behind the last one."""

    device = "cpu"

    def __init__(self, sure=0.9, max_length=None):
        self.sure, self.max_length, self.capacity, self.seen = sure, max_length, None, []

    def read(self, tokens, *, rows, capacity):
        self.capacity, self.seen = capacity, list(tokens)
        return Row(torch.zeros(rows, dtype=torch.int64))

    def step(self, tokens, state):
        state.rows = tokens
        rest = (1 - self.sure) / (len(LETTERS) - 1)
        probabilities = torch.full((len(tokens), len(LETTERS)), rest)
        probabilities[torch.arange(len(tokens)), (tokens + 1) % (len(LETTERS) - 1)] = self.sure
        return Step(probabilities.log())


class Letters:
    eos_id = 0
    continues_words = False
    suppressed = frozenset({len(LETTERS) - 1})

    def encode(self, text):
        return [LETTERS.index(letter) for letter in text]

    def decode(self, tokens):
        return "".join(LETTERS[token] for token in tokens)


def written(prompt="", writer=None, **options):
    return generate(writer or Alphabet(), Letters(), prompt, GenerationConfig(**options))


def test_the_most_likely_text_is_written_to_its_end():
    (found,) = written("ab", temperature=0)
    assert (found.text, found.reason, found.cut) == ("cdefgh", "end", 0)
    assert found.log_prob == pytest.approx(7 * torch.tensor(0.9).log().item(), rel=1e-5)


def test_no_more_tokens_are_written_than_asked_for():
    (found,) = written("a", temperature=0, max_tokens=3)
    assert (found.text, found.reason) == ("bcd", "length")
    assert len(found.tokens) == 3


def test_a_stop_string_ends_the_text_before_it():
    (found,) = written("", temperature=0, stop=("ef", "zz"))
    assert (found.text, found.reason) == ("abcd", "stop")


def test_the_end_of_a_line_may_be_written_over():
    (found,) = written("gh", temperature=0, max_tokens=4, past_end=True)
    assert found.text == "$abc"


def test_draws_follow_the_seed_and_never_write_what_is_not_text():
    first, second = (written("a", count=20, seed=seed, writer=Alphabet(0.3)) for seed in (1, 2))
    assert [one.text for one in first] == [one.text for one in written("a", count=20, seed=1, writer=Alphabet(0.3))]
    assert [one.text for one in first] != [one.text for one in second]
    assert not any("?" in one.text for one in first)
    assert len({one.text for one in first}) > 10


def test_the_most_likely_k_or_mass_can_be_asked_for():
    for options in ({"top_k": 1}, {"top_p": 0.5}, {"temperature": 1e-3}):
        assert written("a", **options)[0].text == "bcdefgh"


def test_a_beam_gives_the_best_texts_in_order():
    found = written("a", beam=3, count=3)
    assert found[0].text == "bcdefgh"
    assert [one.log_prob for one in found] == sorted((one.log_prob for one in found), reverse=True)


class Forking(Alphabet):
    """Behind b comes c or, less often, d."""

    def step(self, tokens, state):
        found = super().step(tokens, state)
        found.logits[tokens == 2] = torch.tensor([0.0, 0.0, 0.0, 0.6, 0.4, *[0.0] * (len(LETTERS) - 5)]).log()
        return found


@pytest.mark.parametrize("penalty", [1.0, 1.5])
def test_a_stop_string_ends_the_texts_of_a_beam_as_it_ends_others(penalty):
    options = {"stop": ("bc",), "repetition_penalty": penalty}
    (drawn,) = written("", writer=Forking(), temperature=0, **options)
    (found,) = written("", writer=Forking(), beam=3, **options)
    assert (found.text, found.tokens, found.reason) == ("a", (1, 2, 3), "stop") == (drawn.text, drawn.tokens, "stop")
    assert found.log_prob == pytest.approx(drawn.log_prob, rel=1e-5)


def test_texts_of_a_beam_stay_in_order_behind_stop_strings_and_come_once():
    found = written("", writer=Forking(sure=0.99), beam=4, count=4, stop=("d",))
    assert [one.tokens for one in found[:2]] == [(1, 2, 3, 4), (1, 2, 4)]
    assert len({one.tokens for one in found}) == len(found)
    assert [one.log_prob for one in found] == sorted((one.log_prob for one in found), reverse=True)


def test_what_was_written_comes_again_less():
    class Stubborn(Alphabet):
        def step(self, tokens, state):
            state.rows = tokens
            probabilities = torch.full((len(tokens), len(LETTERS)), 0.1 / 7)
            probabilities[:, 1:4] = torch.tensor([0.5, 0.25, 0.15])
            return Step(probabilities.log())

    (found,) = written("", writer=Stubborn(), temperature=0, max_tokens=4)
    assert found.text == "aaaa"
    (found,) = written("", writer=Stubborn(), temperature=0, max_tokens=4, repetition_penalty=3.0)
    assert found.text[:3] == "abc"


def test_a_text_is_shown_as_it_is_written_and_never_what_may_become_a_stop_string():
    pieces = list(stream(Alphabet(), Letters(), "", GenerationConfig(temperature=0, stop=("efx", "gh"))))
    assert pieces == ["a", "b", "c", "d", "ef"]
    assert "".join(stream(Alphabet(), Letters(), "ab", GenerationConfig(temperature=0))) == "cdefgh"


def test_an_error_while_writing_reaches_who_reads():
    class Broken(Alphabet):
        def step(self, tokens, state):
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(stream(Broken(), Letters(), "", GenerationConfig(temperature=0)))


def test_of_a_long_prompt_the_end_is_read(caplog):
    writer = Alphabet(max_length=6)
    (found,) = written("abcdef", writer=writer, temperature=0, max_tokens=2)
    assert (found.text, found.cut) == ("gh", 1)  # a
    assert "longer than the model reads: 1 token cut off its beginning" in caplog.text
    assert writer.seen == Letters().encode("bcde")
    assert writer.capacity == 4 + 2
    (found,) = written("", writer=Alphabet(max_length=6), temperature=0, max_tokens=6)
    assert found.text == "abcdef"
    with pytest.raises(SettingError, match="it can generate 6 at most"):
        written("a", writer=Alphabet(max_length=6), max_tokens=7)


def test_of_a_prompt_that_fits_nothing_is_left_out_unless_so_many_tokens_are_asked_for():
    (found,) = written("abcd", writer=Alphabet(max_length=6), temperature=0)
    assert (found.text, found.cut, found.reason) == ("ef", 0, "length")
    (found,) = written("abcdefg", writer=Alphabet(max_length=6), temperature=0)
    assert (found.text, found.cut) == ("h", 3)  # abc
    (found,) = written("abc", writer=Alphabet(max_length=1), temperature=0)
    assert (found.text, found.cut) == ("d", 2)  # ab


def test_a_text_that_has_ended_meets_no_stop_string_in_what_would_follow():
    """Rows that have ended stay among the others as long as most go on."""

    class Uneven(Alphabet):
        def step(self, tokens, state):
            found = super().step(tokens, state)
            if len(tokens) == 5 and self.seen is not None:
                found.logits[0] = torch.tensor([0.0, *[-20.0] * (len(LETTERS) - 1)])  # $: the line ends
                self.seen = None
            return found

    found = written("", writer=Uneven(sure=0.999999), count=5, stop=("b",))
    assert [one.text for one in found] == ["", *["a"] * 4]
    assert [one.reason for one in found] == ["end", *["stop"] * 4]


def test_a_stream_that_nobody_reads_any_more_ends():
    class Endless(Alphabet):
        steps = 0

        def step(self, tokens, state):
            self.steps += 1
            return super().step(torch.zeros_like(tokens), state)

    writer, before = Endless(), set(threading.enumerate())
    pieces = stream(writer, Letters(), "", GenerationConfig(temperature=0, max_tokens=1_000_000))
    next(pieces)
    pieces.close()
    started = set(threading.enumerate()) - before
    for thread in started:
        thread.join(20)
    assert not any(thread.is_alive() for thread in started)
    assert writer.steps < 1_000_000


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 0},
        {"count": 0},
        {"temperature": -1},
        {"temperature": 1e39},
        {"temperature": float("inf")},
        {"temperature": float("nan")},
        {"top_p": 0},
        {"top_p": 1.5},
        {"top_k": 0},
        {"repetition_penalty": 0},
        {"repetition_penalty": 1e-300},
        {"repetition_penalty": float("inf")},
        {"seed": -1},
        {"seed": 2**64},
        {"beam": 2, "temperature": 0.5},
        {"beam": 2, "count": 3},
        {"temperature": 0, "top_k": 2},
        {"temperature": 0, "count": 2},
        {"greedy": True, "temperature": 0.5},
        {"greedy": True, "beam": 2},
        {"greedy": True, "top_p": 0.5},
        {"stop": ("",)},
        {"stop": "end"},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(SettingError):
        GenerationConfig(**options)


def test_what_was_expected_of_an_option_is_told():
    with pytest.raises(SettingError, match=r"temperature=inf: expected 0 \(the most likely token\) to 1000"):
        GenerationConfig(temperature=float("inf"))
    with pytest.raises(SettingError, match=r"repetition_penalty=1e-300: expected 0.01 to 100"):
        GenerationConfig(repetition_penalty=1e-300)
    with pytest.raises(SettingError, match="seed=99999999999999999999: expected 0 to 18446744073709551615"):
        GenerationConfig(seed=99999999999999999999)
    assert len(written("a", seed=2**64 - 1, max_tokens=3)) == 1


@pytest.mark.parametrize("temperature", [1e-39, 1e-300, 5e-324])
def test_the_colder_the_more_likely_is_what_is_written(temperature):
    assert written("a", temperature=temperature)[0].text == "bcdefgh"
    assert written("a", temperature=temperature, top_k=3, top_p=0.5)[0].text == "bcdefgh"


def test_several_texts_cannot_be_shown_as_they_are_generated():
    with pytest.raises(SettingError, match="one sampled text"):
        next(stream(Alphabet(), Letters(), "", GenerationConfig(count=2)))


def test_greedy_is_temperature_zero():
    assert written("ab", greedy=True) == written("ab", temperature=0)


def test_an_option_that_does_not_exist_is_named():
    with pytest.raises(SettingError, match="no option 'max_token' of generation; did you mean 'max_tokens'"):
        GenerationConfig.of({"max_token": 3})


@pytest.mark.parametrize("options", [{"beam": 2}, {"temperature": 0}], ids=str)
def test_the_search_works_where_the_model_is(options, monkeypatch):
    asked = []

    def search(*_, device, **__):
        asked.append(device)
        return [[]] if "beam" in options else []

    writer = Alphabet()
    writer.device = torch.device("cpu", 0)
    monkeypatch.setattr(generation, "beam_search" if "beam" in options else "sample", search)
    with pytest.raises(ValueError, match="shorter") if "beam" not in options else contextlib.nullcontext():
        generate(writer, Letters(), "a", GenerationConfig(**options))
    assert asked == [writer.device]
