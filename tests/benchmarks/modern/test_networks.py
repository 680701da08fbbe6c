"""The networks have the sizes that their papers give, and say what their last layer sees."""

import pytest
import torch
from torch import nn

from benchmarks.modern.networks import NETWORKS, Image

# counted by hand from the published architectures, with BatchNorm's and LayerNorm's parameters
SIZES = {
    ("resnet18", (3, 32, 32)): 11_173_962,
    ("wrn16-4", (3, 32, 32)): 2_748_890,
    ("lenet100", (1, 28, 28)): 520 + 25_050 + 80_100 + 1_010,
    ("vit", (3, 32, 32)): 9_408
    + 64 * 192
    + 6 * (4 * 192 + 3 * 192 * 193 + 192 * 193 + 768 * 193 + 192 * 769)
    + 384
    + 1_930,
}


@pytest.mark.parametrize(("name", "image"), SIZES, ids=str)
def test_sizes(name: str, image: Image) -> None:
    with torch.device("meta"):
        network = NETWORKS[name].build(image, 10, 0.0)
        assert network(torch.empty(2, *image)).shape == (2, 10)
    assert sum(parameter.numel() for parameter in network.parameters()) == SIZES[name, image]


@pytest.mark.parametrize(("name", "image"), SIZES, ids=str)
def test_dropout_changes_no_weight(name: str, image: Image) -> None:
    torch.manual_seed(0)
    with_it = NETWORKS[name].build(image, 10, 0.1)
    torch.manual_seed(0)
    without = NETWORKS[name].build(image, 10, 0.0)
    drops = [module for module in with_it.modules() if isinstance(module, nn.Dropout)]
    assert len(drops) == 1 + {"resnet18": 4, "wrn16-4": 3, "vit": 3, "lenet100": 2}[name]
    assert not any(isinstance(module, nn.Dropout) for module in without.modules())
    for one, other in zip(with_it.parameters(), without.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_head_sees_the_features() -> None:
    network = NETWORKS["lenet100"].build((1, 16, 16), 5, 0.0)
    images = torch.randn(3, 1, 16, 16)
    torch.testing.assert_close(network(images), network.head(network.features(images)))
