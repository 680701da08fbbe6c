"""Networks that cannot become random as they are: refused before anything is changed, with what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import nn

import tribayes as tb


def on_meta() -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(4, 3)


def of_inference_mode() -> nn.Module:
    with torch.inference_mode():
        return nn.Linear(4, 3)


def in_eight_bits() -> nn.Module:
    net = nn.Linear(4, 3)
    net.weight = nn.Parameter(net.weight.detach().to(torch.float8_e4m3fn))
    return net


REFUSED: dict[str, tuple[Callable[[], nn.Module], str, type[Exception]]] = {
    "without numbers": (
        on_meta,
        "`net` (='weight') must have numbers, but is on the meta device; fill it first: "
        "net.to_empty(device='cpu'), then load_state_dict.",
        ValueError,
    ),
    "without gradients": (
        of_inference_mode,
        "`net` (='weight') must be able to learn, but was made in torch.inference_mode(); "
        "build or load the network outside of it.",
        ValueError,
    ),
    "in eight bits": (
        in_eight_bits,
        "`net` (='weight') must be of a dtype that torch computes in, but is torch.float8_e4m3fn; "
        "convert it first, e.g. net.to(torch.bfloat16).",
        TypeError,
    ),
    "lazy where it is to be random": (
        lambda: nn.LazyLinear(3),
        "`net` (='weight') must be initialised; run one forward pass through the lazy module first.",
        ValueError,
    ),
    "spread over devices": (
        lambda: nn.DataParallel(nn.Linear(4, 3)),
        "`net` (='DataParallel') must be the network itself, not what spreads it over devices; "
        "convert net.module, and wrap the model afterwards.",
        ValueError,
    ),
    "a table with sparse gradients": (
        lambda: nn.Sequential(nn.EmbeddingBag(5, 4, sparse=True), nn.Linear(4, 3)),
        "`net` (='0.weight') must have dense gradients to be random, but its layer says sparse=True; "
        "build the layer with sparse=False, or leave it out with `where`.",
        ValueError,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_network_that_cannot_be_random(case: str) -> None:
    build, text, kind = REFUSED[case]
    with pytest.raises(kind, match="^" + re.escape(text) + "$"):
        tb.to_bayesian(build())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_torchscript_whole_or_as_a_part() -> None:
    scripted = torch.jit.script(nn.Linear(4, 3))
    for net, words in ((scripted, "it"), (nn.Sequential(nn.Linear(4, 4), scripted), "its part '1'")):
        with pytest.raises(ValueError, match=f"must be made of Python modules, but {words} is TorchScript; convert"):
            tb.to_bayesian(net)


def test_a_lazy_part_that_stays_fixed() -> None:
    net = nn.Sequential(nn.Linear(4, 5), nn.LazyLinear(3))
    with pytest.raises(ValueError, match=r"^`net` \(='1\.weight'\) must be initialised; run one forward pass"):
        tb.to_bayesian(net, where="0.*")


def test_a_class_is_no_function_of_names() -> None:
    with pytest.raises(
        TypeError, match=r"`where` \(=<class .*Linear'>\) must be a name pattern, a list of them, a fun"
    ):
        tb.to_bayesian(nn.Linear(4, 3), where=nn.Linear)


def test_a_table_with_sparse_gradients_may_stay_fixed() -> None:
    net = nn.Sequential(nn.EmbeddingBag(5, 4, sparse=True), nn.Linear(4, 3))
    assert tb.to_bayesian(net, where="1.*").random_names == ("1.weight", "1.bias")


@pytest.mark.parametrize("change", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_a_pass_leaves_on_the_network_does_not_keep_it_from_being_copied(
    change: Callable[[nn.Module], nn.Module],
) -> None:
    """These recompute a weight in every pass and leave it as an attribute, with a graph that torch refuses to copy."""
    torch.manual_seed(0)
    model, x = tb.to_bayesian(nn.Sequential(change(nn.Linear(4, 5)), nn.Linear(5, 3))), torch.randn(6, 4)
    model(x).sum().backward()
    assert not model.module[0].weight.is_leaf
    with torch.no_grad():
        means = model.eval().apply_weights({}, x)
        torch.testing.assert_close(tb.to_deterministic(model)(x), means)
    found, expected = tb.Ensemble(model, 5, loop=True).predict(x), tb.predict(model, x, 5, progress=False)
    torch.testing.assert_close(found.samples, expected.samples)
