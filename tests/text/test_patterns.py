"""Regular expressions of tokenizers: those in use are tame, those that take forever are not."""

import re
import subprocess
import sys

import pytest

from wenmai.text import pieces
from wenmai.text.patterns import Wild, shortest_match

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
KNOWN = {
    "GPT-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "Llama 3": rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{REST}",
    "GPT-4o": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?|\p{{N}}{{1,3}}|{REST}",
    "Kimi": rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lo}}&&[^\p{{Han}}]]*"
    rf"[\p{{Ll}}\p{{M}}&&[^\p{{Han}}]]+{CONTRACTIONS}?|{REST}",
    "Ling": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "DeepSeek": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
    r""" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "DeepSeek, Chinese": "[一-龥぀-ゟ゠-ヿ]+",
    "DeepSeek, spaces": r"\s+$",
    "BLOOM": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "Falcon": "[0-9][0-9][0-9]",
    "CLIP": r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "XLM-R": " {2,}",
    "Chameleon": r"([\t\n]|    |  )",
    "Jais": r"\s{512}(?!\S)|\s{1,2}(?!\S)|\s{1}",
    "ours": pieces._RUNS,
    "ours, spaces": r"[\s▁]+",
    "ours, special tokens": "|".join(
        rf"{re.escape(c)}(?={'|'.join(re.escape(f'|{n}>') for n in range(99))})" for c in r"<\["
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_patterns_in_use_are_tame(name):
    assert shortest_match(KNOWN[name]) == {"XLM-R": 2, "Falcon": 3}.get(name, 1)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*b",
        "(a|aa)+$",
        "(?:a?){30}a",
        "(a{1,9}){1,9}b",
        r"\p{N}{1,3}+x",
        "a**b",
        "a+{2}",
        "a*a*a*b",
        "a+a+$",
        "(?:a+b)a+(?=c)",
        "a*(?:a+b)",
        "a?" * 30 + "a" * 30,
        "(a|a)" * 30 + "b",
        "a{0,500}a{0,500}a{0,500}b",
        r"(a)\1",
        r"(?<n>a)\g<n>",
        "(?=.*a)",
        "(?<=a+)b",
        "(?i)a|b",
        "(?x)a b",
        r"\K",
        "[]a]",
        "[a",
        "(a",
        "a)",
        "+a",
        "a{",
        "{2}" * 3,
        "(" * 1000,
        "[" * 1000,
        "a|" * 100_000,
        "x" * 500_000,
        "\\",
    ],
)
def test_patterns_that_could_take_forever_or_cannot_be_judged_are_wild(pattern):
    with pytest.raises(Wild):
        shortest_match(pattern)


@pytest.mark.parametrize(
    ("pattern", "shortest"),
    [("", 0), ("a*", 0), ("ab?c{2}", 3), ("abc|de", 2), ("(?:ab|c)d", 2), (r"\b$^", 0), ("(?!abc)", 0), ("a{,3}", 0)],
)
def test_the_shortest_match_is_known(pattern, shortest):
    assert shortest_match(pattern) == shortest


SLOW = r"""
import sys
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split
for text in ("a" * 2000, "a" * 2000 + "!", " " * 2000 + "x", "aB" * 1000 + "\n", "'" * 2000, "1" * 2000):
    Split(Regex(sys.argv[1]), "isolated").pre_tokenize_str(text)
"""
TAMEST = ["a+$", "a*a+", r"[^b]+b", "a{0,19}a+$", r"(?:a|a)(?:a|a)(?:a|a)(?:a|a)a+b"]


@pytest.mark.parametrize("pattern", [*TAMEST, KNOWN["GPT-4o"], KNOWN["DeepSeek"]])
def test_what_is_tame_ends_soon(pattern):
    shortest_match(pattern)
    subprocess.run([sys.executable, "-c", SLOW, pattern], check=True, timeout=30)
