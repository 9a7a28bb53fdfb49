"""What the tests of fine-tuning share: settings, losses, and encoders that were trained."""

import numpy as np
import torch

import wenmai

PLAIN = {"threads": 1, "epochs": 1, "learning_rate": 0.01, "batch_size": 8, "precision": "float32"}


def loss_of(job, places):
    with torch.no_grad():
        return job.loss(job.module.eval(), np.array(places), 0)


def vectors_of(job, places):
    """The vectors that the head takes, of one item after the other."""
    model = job.fine_tuned
    job.module.eval()
    with torch.no_grad():
        return [model.module(model.fed([job._train.items[place]])[0])[0].double() for place in places]


def encoder_of(run):
    return {name: tensor.clone() for name, tensor in run.model.module.encoder.state_dict().items()}


def tuned(base, data, tmp_path, task, start, **settings):
    out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    return wenmai.finetune(base(start), data(task), task=task, out=out, quiet=True, **{**PLAIN, **settings})
