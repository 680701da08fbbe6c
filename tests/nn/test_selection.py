"""Which parameters become random: the default, name patterns, a predicate, and the dry run that shows it."""

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import NETWORKS, Tied, any_network, bayesian, inputs_of, same_tensors
from tribayes.nn.conversion import Where
from tribayes.posterior.family import FAMILIES

LINEAR_AROUND_NORM = ("0.weight", "0.bias", "3.weight", "3.bias")

CHOSEN_BY_DEFAULT = {
    "MLP": ("0.weight", "0.bias", "2.weight", "2.bias"),
    "BatchNorm": LINEAR_AROUND_NORM,
    "LayerNorm": LINEAR_AROUND_NORM,
    "GroupNorm": LINEAR_AROUND_NORM,
    "Attention": (
        "attention.in_proj_weight",
        "attention.in_proj_bias",
        "attention.out_proj.weight",
        "attention.out_proj.bias",
    ),
    "tied weights": ("embedding.weight",),
    "shared submodule": ("first.weight", "first.bias"),
    "frozen parameters": ("head.weight", "head.bias"),
    "buffers": ("temperature", "head.weight", "head.bias"),
}


class CustomRMSNorm(nn.Module):
    """Another library's normalisation, known by its class name alone."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(2))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.gain * inputs


class NormAct2d(CustomRMSNorm):
    """With an activation."""


class Gain(CustomRMSNorm):
    """By the name of its base."""


class Scaled(nn.BatchNorm2d):
    """A subclass of torch's under another name."""


class NormalLinear(nn.Linear):
    """A name that only begins like one."""


@pytest.mark.parametrize("name", CHOSEN_BY_DEFAULT)
def test_by_default_all_but_frozen_and_normalisation(name: str) -> None:
    assert bayesian(name).random_names == CHOSEN_BY_DEFAULT[name]


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(2),
        nn.BatchNorm3d(2),
        nn.InstanceNorm1d(2, affine=True),
        nn.SyncBatchNorm(2),
        nn.RMSNorm(2),
        nn.GroupNorm(1, 2),
        CustomRMSNorm(),
        NormAct2d(),
        Gain(),
        Scaled(2),
    ],
)
def test_a_normalisation_layer_is_known_by_its_class_and_its_name(norm: nn.Module) -> None:
    plan = tb.to_bayesian(nn.Sequential(nn.Linear(2, 2), norm), dry_run=True)
    assert [candidate.name for candidate in plan.chosen] == ["0.weight", "0.bias"]
    assert {row["reason"] for name, row in plan.as_dict().items() if name.startswith("1.")} == {"normalisation"}


@pytest.mark.parametrize(
    "name",
    [
        "BatchNormAct2d",
        "EvoNorm2dS0a",
        "LayerNormAct",
        "T5LayerNorm",
        "RmsNorm2dFp32",
        "RmsNormActFp32",
        "MambaRMSNormGated",
    ],
)
def test_names_that_other_libraries_give_their_normalisation(name: str) -> None:
    kind = type(name, (nn.Module,), {})
    net = nn.Sequential(nn.Linear(2, 2), kind())
    net[1].gain = nn.Parameter(torch.ones(2))
    assert tb.to_bayesian(net).random_names == ("0.weight", "0.bias")


def test_a_name_that_begins_like_a_normalisation_is_none() -> None:
    assert tb.to_bayesian(NormalLinear(2, 2)).random_names == ("weight", "bias")


@any_network
def test_a_frozen_parameter_stays_out_of_every_default(name: str) -> None:
    model = bayesian(name)
    frozen = {key for key, p in model.module.named_parameters() if not p.requires_grad}
    assert frozen.isdisjoint(model.random_names)
    assert bool(frozen) == (name == "frozen parameters")


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("0.weight", ("0.weight",)),
        ("*bias", ("0.bias", "2.bias")),
        (["2.*", "0.bias"], ("0.bias", "2.weight", "2.bias")),
        (("0.*",), ("0.weight", "0.bias")),
        (lambda name, parameter: name.startswith("2") and parameter.ndim == 2, ("2.weight",)),
    ],
)
def test_where_chooses_by_pattern_or_predicate(where: Where, names: tuple[str, ...]) -> None:
    assert bayesian("MLP", where=where).random_names == names


def test_where_reaches_normalisation_and_frozen_parameters() -> None:
    assert bayesian("LayerNorm", where="1.*").random_names == ("1.weight", "1.bias")
    assert bayesian("frozen parameters", where="projection.weight").random_names == ("projection.weight",)


def test_a_frozen_parameter_made_random_keeps_its_mean_and_learns_its_noise() -> None:
    model = bayesian("frozen parameters", where="projection.*")
    model(inputs_of("frozen parameters")).sum().backward()
    assert model.module.projection.weight.grad is None
    assert model.family.delta.grad.all()


@pytest.mark.parametrize("alias", ["embedding.weight", "decoder.weight"])
def test_a_tied_weight_is_chosen_by_any_of_its_names(alias: str) -> None:
    by_pattern = tb.to_bayesian(Tied(), where=alias)
    by_predicate = tb.to_bayesian(Tied(), where=lambda name, _: name == alias)
    assert by_pattern.random_names == by_predicate.random_names == ("embedding.weight",)


def test_weights_that_were_not_chosen_are_the_same_in_every_call() -> None:
    model, seen = bayesian("MLP", where="2.*"), []
    model.module[0].register_forward_hook(lambda *call: seen.append(call[-1]))
    inputs = inputs_of("MLP")
    assert (model(inputs) != model(inputs)).all()
    assert torch.equal(seen[0], seen[1])


DRY_RUN = """\
parameter  shape   K  becomes  because          tau    rho  prior
---------  -----  --  -------  -------------  -----  -----  -------------------
0.weight   3×4    12  random   default        0.100  0.000  N(pretrained, 0.5²)
0.bias     3       3  random   default        0.050  0.200  relative
1.weight   3       3  fixed    normalisation      -      -
1.bias     3       3  fixed    normalisation      -      -
2.weight   2×3     6  fixed    frozen             -      -
2.bias     2       2  fixed    frozen             -      -
2 tensors with 15 weights become random.
"""


def test_a_dry_run_prints_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2).requires_grad_(False))
    prior = {"0.weight": tb.Prior(loc="pretrained", scale=0.5)}
    tb.to_bayesian(net, tau={"*weight": 0.1}, rho={"*bias": 0.2}, prior=prior, dry_run=True)
    assert capsys.readouterr().out == DRY_RUN


@any_network
def test_a_dry_run_changes_nothing_and_says_what_a_conversion_does(name: str) -> None:
    net, untouched = NETWORKS[name].build(), NETWORKS[name].build()
    plan = tb.to_bayesian(net, dry_run=True)
    assert same_tensors(net.state_dict(), untouched.state_dict())
    assert tuple(candidate.name for candidate in plan.chosen) == tb.to_bayesian(net).random_names
    assert plan.as_dict().keys() == dict(net.named_parameters()).keys()


def test_the_family_is_the_diagonal_one_unless_a_correlation_is_named() -> None:
    """A ρ of 0 is a start from which it is learned."""
    kinds = {"diagonal": {}, "tridiagonal": {"rho": 0.0}, "mean_field": {"family": "mean_field"}}
    for name, options in kinds.items():
        assert type(tb.to_bayesian(nn.Linear(3, 2), **options).family) is FAMILIES[name]
    by_pattern = tb.to_bayesian(nn.Linear(3, 2), rho={"bias": 0.2})
    assert [row.rho for row in by_pattern.posterior().rows] == pytest.approx([0.0, 0.2])
