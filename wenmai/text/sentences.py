"""Sentences of running text, by rules for English and Chinese.

A sentence ends at ``. ! ?`` with the quotation marks and brackets that close behind it, if white space follows and the
next word has no small letter. It does not end at the full stop of an abbreviation, of an initial, or of the number of a
list; where an abbreviation may end a sentence too (``etc.``, ``U.S.``), it does if a word follows that often begins
one.

In Chinese a sentence ends at ``。！？；`` with what closes behind it, unless a comma or the like follows, or who said
what was quoted; at ``……`` only with a quotation mark behind it. ``! ?`` and ``.`` of ASCII need no white space between
Chinese characters.

What is cut apart and joined with what stood between is the text again.
"""

import re

from wenmai.text.ranges import EAST_ASIAN

__all__ = ["VERSION", "sentences"]

VERSION = 2
"""Grows with every change by which a text has other sentences."""

_CLOSE = "\"'”’»)]）】」』》〉〕"
_STOP = re.compile(f"[.!?…。！？；｡]+[{re.escape(_CLOSE)}]*")
_GAP = re.compile(r"\s+[\"'“‘«(\[（「『《〈]*")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?(?!\.\w)\.?")
_CLOSED = re.compile(r"\s+\"(?=\s|$)")  # of text with spaces between all marks
_GOES_ON = "，、；：。！？…—,:;"  # with the sentence, behind the end of one that is quoted
_LAST = re.compile(r"\S*\Z")
_LONGEST = 64  # characters of a word before a full stop that are looked at: more than any abbreviation has
_CHINESE = re.compile(f"[{EAST_ASIAN}]")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")  # U.S, e.g, Ph.D below
_LIST = re.compile(r"\d{1,3}|[A-Za-z]|[ivx]{1,4}|[IVX]{1,4}")
# By whom what was quoted was said.
_SAID = re.compile(r"[^没沒不，。！？；：“”「」『』\s]{1,8}(?:[说說问問喊叫想]|(?<!知)道|(?<!回)答)(?:[。，]|$)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# No sentence ends at these.
_NEVER = _words("""
    Mr mr Mrs mrs Ms ms Mx Dr dr Prof prof Rev Hon Gov Sen Rep Gen Col Lt Capt Cpt Cmdr Sgt Maj Adm Messrs Mme Mlle
    St Mt Ft Fr Br Supt Det Insp vs v viz cf Cf e.g E.g i.e I.e eg ie al approx ca resp incl esp
""")
# Nor at these if a number follows.
_NUMBERED = _words("""
    No no Nos nos Nr p pp P Pp Fig fig Figs figs Eq eq Eqs eqs Vol vol Vols vols Ch ch Sec sec Art Op op
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec
""")
# And at these only if a word follows that often begins a sentence.
_RARELY = _words("""
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thurs Fri
    Inc inc Ltd ltd Co co Corp corp LLC plc Bros Jr jr Sr sr Esq etc Dept dept Univ Assn hrs Ave Blvd Rd Tel tel Ext
    Ph.D M.D B.Sc M.Sc LL.B
""")
_BEGINNERS = _words("""
    The A An This That These Those There Then Thus Here He She It We They You I His Her Its Our Their My Your
    In On At By For From With After Before During Since While When Where Why How What Who Although Though If As
    But And Or So Yet However Moreover Meanwhile Also Both Many Most Some All Each Every No Not One Two
    Is Are Was Were Did Do Does Has Have Had Can Could Will Would Should Let Once Another Today Later
""")


def sentences(text: str) -> list[str]:
    """Returns the sentences of a line of running text, without white space around them; none of a blank one."""
    found = []
    begin = 0
    for stop in _STOP.finditer(text):
        start, end = stop.span()
        if start >= begin and (end := _end(text, begin, start, end)):
            found.append(text[begin:end].strip())
            begin = end
    if rest := text[begin:].strip():
        found.append(rest)
    return found


def _end(text: str, begin: int, start: int, end: int) -> int:
    """Returns where the sentence from ``begin`` on ends, if it does at the stop from ``start`` to ``end``; else 0."""
    marks = text[start:end] if end == start + 1 else text[start:end].rstrip(_CLOSE)
    if not marks.isascii() and marks.strip(".!?…"):
        behind = text[end : end + 2].lstrip()[:1]
        quoted = len(marks) < end - start
        return 0 if behind and (behind in _GOES_ON or (quoted and _SAID.match(text, end))) else end
    if end < len(text) and not text[end].isspace():
        chinese = _CHINESE.match(text, end) and start and _CHINESE.match(text, start - 1) and text[end] not in _GOES_ON
        return end if chinese and ("…" not in marks or len(marks) < end - start) else 0
    if text.startswith(' "', end) and (closed := _CLOSED.match(text, end)) and text.count('"', begin, end) % 2:
        end = closed.end()
    gap = _GAP.match(text, end)
    if gap is None or (after := gap.end()) == len(text):
        return end
    first = text[after]
    if first.islower() or (first in _GOES_ON and first != "—"):
        return 0
    if marks == ".":
        return end if _ends_at(text, begin, start, after) else 0
    return 0 if first.isdigit() and "." in marks else end


def _ends_at(text: str, begin: int, start: int, after: int) -> bool:
    """Whether a sentence ends at the full stop at ``start``, the next word being that at ``after``."""
    last = _LAST.search(text, max(begin, start - _LONGEST), start)
    word = (last[0] if last else "").lstrip("\"'“‘«([（")
    if word in _NEVER or (word in _NUMBERED and text[after].isdigit()):
        return False
    if _LIST.fullmatch(word) and not text[begin : start - len(word)].strip("\"'“‘«([（ \t"):
        return False
    if word in _RARELY or _DOTTED.fullmatch(word) or (len(word) == 1 and word.isupper()):
        following = _WORD.match(text, after)
        return following is not None and following[0] in _BEGINNERS
    return True
