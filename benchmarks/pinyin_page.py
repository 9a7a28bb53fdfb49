"""The ladder on the pages about pinyin: error rates of letters without spaces and tones, by converter and set."""

from benchmarks.result import Result, Row
from benchmarks.section import table

__all__ = ["ladder"]

FORM = "unspaced"
PARTS = ("ladder", "networks")
RUNGS = {  # from below, with their names in Chinese
    "words": "只有词表",
    "character bigram": "字的二元语法",
    "character 5-gram": "字的五元语法",
    "words and 5-gram": "词与字的五元语法",
    "letters": "逐字母的网络",
    "encoder": "编码器",
    "with the encoder": "词、五元语法与编码器",
}
IN_CHINESE = {"typed by hand": "手工输入"}
MARK = "↑"
NOTES = (
    "CER with 95 % intervals. {mark}: more errors than the row above.",
    "CER，附 95 % 区间。{mark}：错误比上一行多。",
)
WHY = (
    " The character bigram has more errors than words alone on {worse} of {all} sets: a word list already has the "
    "frequencies of whole words, and a bigram knows one character before.",
    "在 {all} 个测试集中的 {worse} 个上，字的二元语法比只有词表错得多：词表本来就有整个词的频率，而二元语法只知道前面的"
    "一个字。",
)


def ladder(result: Result, *, chinese: bool) -> str:
    """Returns the table of the ladder and what is to say about it."""
    rows = [row for row in result.rows if row["part"] in PARTS and row["form"] == FORM and row["rung"] in RUNGS]
    found = {(row["rung"], row["set"]): row for row in rows}
    if not rows:
        return "Not measured yet.\n" if not chinese else "尚未测量。\n"
    sets: dict[str, int] = {}
    for row in rows:
        sets.setdefault(row["set"], row["sentences"])
    cells, worse = [], dict.fromkeys(RUNGS, 0)
    before: dict[str, float] = {}
    for rung, name in RUNGS.items():
        if not any(one == rung for one, _ in found):
            continue
        line: dict[str, object] = {("模型" if chinese else "model"): name if chinese else rung}
        for one, sentences in sets.items():
            cell = "-"
            if row := found.get((rung, one)):
                is_worse = row["cer"] > before.get(one, row["cer"])
                worse[rung] += is_worse
                cell = _cell(row, sentences) + f" {MARK}" * is_worse
                before[one] = row["cer"]
            line[_heading(one, sentences, chinese)] = cell
        cells.append(line)
    note = NOTES[chinese].format(mark=MARK)
    if worse["character bigram"]:
        note += WHY[chinese].format(worse=worse["character bigram"], all=len(sets))
    return f"{table(cells)}\n{note}\n"


def _heading(name: str, sentences: int, chinese: bool) -> str:
    return f"{IN_CHINESE.get(name, name)}，{sentences:,} 句" if chinese else f"{name}, {sentences:,} sentences"


def _cell(row: Row, sentences: int) -> str:
    """The rate of a row with its interval; with the number of the sentences where it is not that of the heading."""
    rate = f"{row['cer']:.4f} [{row['cer_low']:.4f}, {row['cer_high']:.4f}]"
    return rate if row["sentences"] == sentences else f"{rate} ({row['sentences']:,})"
