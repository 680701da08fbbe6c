"""IVON: an optimizer that is a posterior. The network stays as it is; the optimizer draws and learns."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from ivon import IVON
from torch import Tensor

from benchmarks.learners import LEARNING_RATE, Learner


class Ivon(Learner):
    """IVON puts new tensors in the place of parameters and of its state; a CUDA graph reads and writes fixed ones.

    So on a GPU what a step has made is copied back to where the next replay looks for it: three copies of the weights
    more than its own loop has.
    """

    def __init__(self, task: object, device: torch.device) -> None:
        super().__init__(task, device)
        if device.type == "cuda":
            self.note = "its new parameters and state are copied back, so that a graph can go on from them"
            self._places = [value.data for value in self.model.parameters()]
            self._state = [(group, name, group[name]) for group in self._groups() for name in ("momentum", "hess")]

    def make_optimizer(self) -> torch.optim.Optimizer:
        # debias=False: the correction is a new number on the host at every step
        return IVON(self.model.parameters(), lr=LEARNING_RATE, ess=self.task.data_size, debias=False)

    def outputs(self, images: Tensor) -> Tensor:
        with self.optimizer.sampled_params():
            return self.model(images)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.task.precision(self.device):
            return F.cross_entropy(self.model(images), labels)

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.optimizer.sampled_params(train=True):
            self.optimizer.zero_grad()
            loss = self.loss(images, labels)
            loss.backward()
        self.optimizer.step()
        if self.device.type == "cuda":
            self._put_back()
        return loss

    def _groups(self) -> list[dict[str, object]]:
        return self.optimizer.param_groups

    @torch.no_grad()
    def _put_back(self) -> None:
        made = [value.data for value in self.model.parameters()]
        torch._foreach_copy_(self._places, made)
        for value, place in zip(self.model.parameters(), self._places, strict=True):
            value.data = place
        for group, name, place in self._state:
            place.copy_(group[name])
            group[name] = place
