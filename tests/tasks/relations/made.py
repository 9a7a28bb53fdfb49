"""Documents whose verbs say which relations they have, and settings of small trainings."""

import random

PLAIN = {"threads": 1, "epochs": 1, "batch_size": 4, "precision": "float32", "entity_size": 6, "distance_size": 3}


def records(count, seed=0, verbs=("likes", "hates"), filler=0):
    """A verb says which relation the first name has to the second; a third has none."""
    draw, found = random.Random(seed), []
    for number in range(count):
        one, other, third = draw.sample("abcdefgh", 3)
        verb = draw.choice(verbs)
        sentences = [[one, verb, other, *["x"] * filler], [third, "x"]]
        spans = [(one, 0, 0), (other, 0, 2), (third, 1, 0)]
        vertices = [[{"name": name, "sent_id": s, "pos": [at, at + 1], "type": "PER"}] for name, s, at in spans]
        labels = [{"h": 0, "t": 1, "r": verb, "evidence": [0]}]
        found.append({"title": str(number), "sents": sentences, "vertexSet": vertices, "labels": labels})
    return found
