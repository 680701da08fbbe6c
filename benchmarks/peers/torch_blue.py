"""torch_blue: networks converted as a whole, draws vectorised by vmap."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_blue import vi
from torch_blue.vi.distributions import Categorical

from benchmarks.learners import Learner


class TorchBlue(Learner):
    """Converted by its own `convert_to_vimodule`, with its usual loss, which estimates the divergence from the draw.

    Its loss with the closed form makes tensors on the host at every step, which a CUDA graph cannot hold.
    """

    def converted(self, network: nn.Module) -> nn.Module:
        if _forget_running_statistics(network):
            self.note = "BatchNorm without running statistics, which vmap cannot write"
        vi.convert_to_vimodule(network, keep_weights=True)
        self._criterion = vi.KullbackLeiblerLoss(Categorical(), dataset_size=self.task.data_size)
        return network

    def outputs(self, images: Tensor) -> Tensor:
        return self.model(images, samples=1).as_subclass(torch.Tensor)[0]

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.task.precision(self.device):
            drawn = self.model(images, samples=1)
            loss = self._criterion(drawn, labels) / self.task.data_size
        return loss.as_subclass(torch.Tensor)


def _forget_running_statistics(network: nn.Module) -> bool:
    """Whether there were any."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.track_running_stats = False
        norm.running_mean = norm.running_var = norm.num_batches_tracked = None
    return bool(norms)
