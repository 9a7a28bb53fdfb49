"""Every verb of every system has a model with the methods that the verb needs."""

from typing import get_type_hints

import pytest
from typing_extensions import get_protocol_members

from wenmai.core.registry import systems
from wenmai.inference.verbs import VERBS


@pytest.mark.parametrize("name", sorted(systems()))
def test_models_have_the_methods_of_their_verbs(name):
    task = systems()[name].load()
    model = get_type_hints(type(task).load)["return"]
    model = task.model if issubclass(task.model, model) else model  # a task for several kinds of models
    for verb in set(task.verbs) & set(VERBS):
        members = get_protocol_members(VERBS[verb])
        missing = {one for one in members if callable(getattr(VERBS[verb], one)) and not hasattr(model, one)}
        assert not missing, f"{verb} needs {missing}"
