"""Words with which a sentence says how it is related to the one before it, in English and Chinese.

They were collected for this project: the connectives that grammars name for addition, contrast, cause, condition, time,
example and conclusion, where they can begin a sentence.
"""

from collections.abc import Mapping

__all__ = ["CONNECTIVES"]

_ENGLISH = """
    also, in addition, additionally, furthermore, moreover, besides, similarly, likewise, and, or, but, however,
    yet, still, nevertheless, nonetheless, instead, conversely, by contrast, in contrast, on the other hand,
    although, though, even though, while, whereas, despite this, therefore, thus, hence, consequently, as a
    result, accordingly, because, since, so, for this reason, if, unless, otherwise, then, later, afterwards,
    subsequently, meanwhile, previously, before, after, when, finally, eventually, first, second, for example,
    for instance, in particular, specifically, especially, indeed, in fact, in other words, overall, in general,
    generally, in short, perhaps, unfortunately
"""
_CHINESE = """
    同时，此外，另外，而且，并且，还有，同样，不仅如此，但，但是，然而，不过，可是，却，相反，反之，虽然，尽管，尽管如此，
    因此，所以，因而，于是，从而，结果，由于，因为，由此，为此，如果，假如，只要，只有，除非，否则，然后，随后，之后，后来，
    接着，此后，此前，当时，最后，最终，终于，首先，其次，例如，比如，特别是，尤其是，其中，事实上，其实，也就是说，
    换句话说，总之，一般来说，总的来说，当然，可能，不幸的是
"""


def _cut(text: str, mark: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for part in text.split(mark) if (one := " ".join(part.split()))))


CONNECTIVES: Mapping[str, tuple[str, ...]] = {
    "english": _cut(_ENGLISH.replace("\n", " "), ","),
    "chinese": _cut(_CHINESE, "，"),
}
"""By the language of a text."""
