"""Sentences: hard cases of English and Chinese, ‖ where one ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.text.sentences import sentences

ENGLISH = r"""
The cat sat.‖ It slept.
One sentence without a stop
Is it so?‖ Yes!‖ Good.
Mr. Smith met Mrs. Jones.‖ They talked.
Dr. Brown and Prof. Green came.‖ Rev. White did not.
J. R. R. Tolkien wrote it.‖ C. S. Lewis read it.
George W. Bush was president.
It costs $3.50 in all.‖ That is 2.5 times more.
See Fig. 3 and Eq. 4 on p. 12.‖ No. 5 is alive.
Pages (pp. 3–9) are missing.‖ Look!
He works for Acme Inc. in Ohio.‖ She does not.
Acme Inc.‖ The company is old.
She bought apples, pears, etc.‖ Then she left.
Bring pens, paper, etc. to school.
He lives in the U.S. with his wife.
He lives in the U.S.‖ His wife does not.
The U.S. Army is large.
At 5 p.m. the bell rang.‖ At 6 a.m. it rang again.
It began at 5 p.m.‖ The bell rang.
He has a Ph.D. in physics.‖ He teaches.
She said, "Come here."‖ He came.
"Stop!" he cried.‖ Nobody heard.
"Why?" asked John.‖ "Because."
He asked, "Why?"‖ John did not know.
“Is it you?”‖ “Yes,” he said.
(He was late.)‖ She was not.
He left (at last).‖ She stayed.
They won (again!) and left.
Wait...‖ What was that?
He paused... and went on.
Well … maybe not.‖ Who knows?
What?!‖ No way!!‖ Really…
Yahoo! is a company.‖ So is Guess?, Inc. of Los Angeles.
E.g. this one, i.e. that one.‖ Fine.
Use tools, e.g. Python, cf. Perl.‖ They help.
Smith et al. Found nothing new.
It was Smith vs. Jones.‖ Jones won.
On Jan. 5 it snowed.‖ On Feb. 6 it rained.
It snowed in Jan.‖ It rained in Feb.
Born in 1905.‖ Died in 1980.
In 1998.‖ He was ten.
1. Open the box.‖ 2. Close it.
A. First point.‖ B. Second point.
IV. The fourth chapter
Version 2.0 is out.‖ Get it at www.example.org today.
Mail a.b@example.org.‖ We answer.
The file is read.me.‖ Open it.
St. Paul is in Minnesota.‖ Mt. Everest is not.
Gen. Lee met Lt. Col. Grant.‖ They shook hands.
Martin Luther King Jr. spoke.‖ All listened.
It was Martin Luther King Jr.‖ He spoke.
Vitamin C is good.‖ So is plan B.‖ The team agreed.
He chose plan B. Nobody knew.
The end is near.‖ ‘Run!’‖ They ran.
"I see."‖ "Do you?"
"I do.‖ It is red."‖ He smiled.
He saw the No. 1 seed.‖ There were 10.
Nos. 3 and 4 were sold.‖ 15 were left.
The temperature was −3.5 °C.‖ 20 people froze.
It rose by 5%.‖ $20 were lost.
Washington, D.C. is hot.‖ Boston is not.
The cat sat . ‖ It slept .
" The cat sat . "‖ It slept .
It was 3 @.@ 5 m .‖ The U.S. did not care .
He said : " No . "‖ She left .
"Gott ist tot."‖ Übermensch followed.
Él vino.‖ Élise no.
The iPhone came.‖ "It rings"?‖ Apple made it.
Is 5 > 3?‖ 5 is.
He read the A.B.C. of it all.
"""

CHINESE = """
今天天气很好。‖我们去公园。
没有句号的句子
你好吗？‖我很好！‖谢谢。
他来了；‖她走了。
他说：“我走了。”‖她没有回答。
“你好！”他说。
“你是谁？”‖“我是老师。”
“你好！”，他说。
他问：“为什么？”‖没有人知道。
“我走了。‖你留下。”‖她点点头。
他……走了。
我……我不知道。
“我……”‖他没有说完。
真的吗？！‖太好了！！
什么？？‖不会吧……
（他迟到了。）‖她没有。
他走了（终于）。‖她留下。
他说（很小声！），走吧。
《红楼梦》是小说。‖《西游记》也是。
我看了《你好，李焕英》！‖很好看。
「你來了。」‖「是。」
『你來了嗎？』他問。
【新闻】今天下雨。‖明天晴。
圆周率约为3.14。‖这是近似值。
价格是2.5元。‖太贵了！
他生于1905年。‖卒于1980年。
网址是www.example.cn。‖请访问。
版本2.0发布了。‖请下载。
他说：“好。”，然后走了。
“好。”——他说。
他来自U.S.A.。‖她来自北京。
我用iPhone。‖你呢？
他的名字是J.K.罗琳。‖她写书。
“今天（星期一）放假。”他说。
好吗?‖我很好!‖谢谢.
他说:"你好!"‖她笑了。
第一，要快；‖第二，要好。
一、介绍。‖二、方法。
１．介绍。‖２．方法。
甲说：“对。”‖乙说：“错。”
她问：“真的？”——“真的。”
天黑了。 ‖月亮出来了。
天黑了。　‖月亮出来了。
“天黑了。”他想。
“天黑了。”’‖他们回家。
你、我、他。‖我们。
他笑道：“好！‖好！‖好！”‖众人都笑了。
“走！‖快走！”
是吗？，她想。
啊！——他叫道。
“真的？”他笑着问。
“快来！”妈妈喊道，“要迟到了。”
。
？‖你
……
嗯……好吧。
“嗯……好吧。”他说。
怎么办…… ‖他想了想。
A公司（Inc.）成立了。‖B公司没有。
他得了100分。‖100分！
《论语》：“学而时习之，不亦说乎？”‖《孟子》不同。
他的书（第二版。）‖出版了。
The end.‖ 结束了。
结束了。‖The end.
我说OK.‖ 他说No!
温度是-3.5℃。‖很冷。
他在北京。‖她在上海；‖我在广州。
"""


def cases(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


@pytest.mark.parametrize("case", cases(ENGLISH) + cases(CHINESE))
def test_hard_cases(case):
    assert sentences(case.replace("‖", "")) == [part.strip() for part in case.split("‖")]


@pytest.mark.parametrize("space", ["\xa0", "\u202f", "\u3000", "\t", "  "])
def test_all_spaces_divide_words(space):
    found = ["It was Dr. Brown of the U.S. Army.", "He saw Fig. 3."]
    assert sentences(" ".join(found).replace(" ", space)) == [one.replace(" ", space) for one in found]


def test_there_are_many_cases():
    assert len(cases(ENGLISH)) >= 60
    assert len(cases(CHINESE)) >= 60


@given(st.lists(st.sampled_from([*"aB1 .!?…。！？；”\"')（，中\n", "Mr.", " The ", "etc."]), max_size=60).map("".join))
def test_nothing_is_lost_or_added(text):
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(one == one.strip() and one for one in found)
