"""Updates are those of torch, also where parameters have their first gradients at different times."""

import pytest
import torch
from torch import nn

from wenmai.training.optimiser import Optimiser
from wenmai.training.settings import LoopConfig

KINDS = {
    "sgd": (torch.optim.SGD, {}),
    "adam": (torch.optim.Adam, {"betas": (0.9, 0.98), "eps": 1e-9}),
    "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.98), "eps": 1e-8}),
}


@pytest.mark.parametrize(
    ("kind", "momentum", "decay"), [("sgd", 0.0, 0.0), ("sgd", 0.9, 0.0), ("adam", 0.0, 0.0), ("adamw", 0.0, 0.1)]
)
def test_a_parameter_may_have_its_first_gradient_later(kind, momentum, decay):
    torch.manual_seed(2)
    ours = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])
    theirs = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])
    theirs.load_state_dict(ours.state_dict())
    config = LoopConfig(optimiser=kind, momentum=momentum, weight_decay=decay, beta2=0.98)
    optimiser = Optimiser(config, ours, peak_rate=0.1, share=lambda name, epoch: 1.0, epoch=0)
    of_torch, options = KINDS[kind]
    options = {**options, **({"momentum": momentum} if kind == "sgd" else {})}
    groups = [{"params": [one], "weight_decay": decay if one.dim() > 1 else 0.0} for one in theirs.parameters()]
    naive = of_torch(groups, lr=0.1, foreach=False, **options)
    for step in range(6):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            for mine, its in zip(one.parameters(), other.parameters(), strict=True):
                its.grad = torch.randn_like(its) if number == 0 or step >= 3 else None
                mine.grad = None if its.grad is None else its.grad.clone()
        optimiser.gradients()
        optimiser.step(0.1)
        naive.step()
        for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)
