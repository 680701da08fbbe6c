"""Every bad argument of a conversion or a draw is refused in words: argument, value, requirement, remedy."""

import math
import re
from collections.abc import Callable

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.networks import NETWORKS, same_tensors

Call = Callable[[], object]


def net() -> nn.Module:
    return NETWORKS["MLP"].build()


def linear(value: float) -> nn.Linear:
    layer = nn.Linear(2, 2)
    nn.init.constant_(layer.weight, value)
    return layer


def converted(**options: object) -> Call:
    return lambda: tb.to_bayesian(net(), **options)


def is_refused(call: Call, text: str, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind, match="^" + re.escape(text) + "$"):
        call()


POSITIVE_TAU = "must be finite and positive; it is the standard deviation relative to |m|, such as 0.05."
RHO_RANGE = "must lie strictly between -0.5 and 0.5; choose a smaller correlation."
POSITIVE_SCALE = "must be finite and positive; it is a standard deviation"
NAMES = "0.weight, 0.bias, 2.weight, 2.bias"

VALUES: dict[str, tuple[Call, str]] = {
    "tau zero": (converted(tau=0.0), f"`tau` (=0.0) {POSITIVE_TAU}"),
    "tau negative": (converted(tau=-0.1), f"`tau` (=-0.1) {POSITIVE_TAU}"),
    "tau infinite": (converted(tau=math.inf), f"`tau` (=inf) {POSITIVE_TAU}"),
    "tau not a number": (converted(tau=math.nan), f"`tau` (=nan) {POSITIVE_TAU}"),
    "tau by pattern": (converted(tau={"*": -1}), f"`tau` (=-1) {POSITIVE_TAU}"),
    "rho half": (converted(rho=0.5), f"`rho` (=0.5) {RHO_RANGE}"),
    "rho minus half": (converted(rho=-0.5), f"`rho` (=-0.5) {RHO_RANGE}"),
    "rho not a number": (converted(rho=math.nan), f"`rho` (=nan) {RHO_RANGE}"),
    "rho by pattern": (converted(rho={"0.*": 0.1, "*": 3}), f"`rho` (=3) {RHO_RANGE}"),
    "rho for a family without": (
        converted(rho=0.1, family="diagonal"),
        "`rho` (=0.1) must be 0 for the family Diagonal, which has no correlation; "
        'leave it out, or use family="tridiagonal".',
    ),
    "prior scale zero": (lambda: tb.Prior(scale=0), f"`scale` (=0) {POSITIVE_SCALE}, such as 1.0."),
    "prior scale negative": (lambda: tb.Prior(scale=-1.0), f"`scale` (=-1.0) {POSITIVE_SCALE}, such as 1.0."),
    "prior scale tensor": (
        lambda: tb.Prior(scale=torch.tensor([1.0, 0.0, 2.0])),
        f"`scale` (=0.0 at (1,), 1 of 3 entries) {POSITIVE_SCALE}.",
    ),
    "prior loc infinite": (
        lambda: tb.Prior(loc=math.inf),
        "`loc` (=inf) must be finite and at most 1e10, since its square is computed with; pass e.g. 0.0.",
    ),
    "prior loc whose square is infinite": (
        lambda: tb.Prior(loc=-1e38),
        "`loc` (=-1e+38) must be finite and at most 1e10, since its square is computed with; pass e.g. 0.0.",
    ),
    "prior loc tensor": (
        lambda: tb.Prior(loc=torch.tensor([[math.nan, 1.0]])),
        "`loc` (=nan at (0, 0), 1 of 2 entries) must be finite and at most 1e10, since its square is computed with; "
        "check where it was computed.",
    ),
    "prior loc word": (
        lambda: tb.Prior(loc="pretraind"),
        "`loc` (='pretraind') must be a number, a tensor or \"pretrained\"; correct the word.",
    ),
    "prior of another shape": (
        converted(prior=tb.Prior(loc=torch.zeros(4, 6))),
        "`prior.loc` (=tensor of shape (4, 6), torch.float32) must be a scalar or have the shape (6, 4) of "
        "'0.weight'; give each tensor its own prior: prior={'pattern': tb.Prior(...), ...}.",
    ),
    "pattern for tau": (
        converted(tau={"conv*": 0.1}),
        f"`tau` (='conv*') must match a random parameter; choose among {NAMES}.",
    ),
    "pattern for prior": (
        converted(where="*weight", prior={"*bias": tb.Prior()}),
        "`prior` (='*bias') must match a random parameter; choose among 0.weight, 2.weight.",
    ),
    "where matches nothing": (
        converted(where="conv*"),
        f"`where` (='conv*') must match a parameter; choose among {NAMES}.",
    ),
    "one of several patterns matches nothing": (
        converted(where=["0.*", "1.*"]),
        f"`where` (='1.*') must match a parameter; choose among {NAMES}.",
    ),
    "where empty": (
        converted(where=[]),
        "`where` (=[]) must choose at least one parameter; these were passed over: 0.weight (no pattern matches), "
        "0.bias (no pattern matches), 2.weight (no pattern matches), 2.bias (no pattern matches).",
    ),
    "nothing by default": (
        lambda: tb.to_bayesian(nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 1).requires_grad_(False))),
        "`where` (=None) must choose at least one parameter; these were passed over: 0.weight (normalisation), "
        "0.bias (normalisation), 1.weight (frozen), 1.bias (frozen).",
    ),
    "no parameters": (
        lambda: tb.to_bayesian(nn.ReLU()),
        "`net` (='ReLU') must have parameters; there is nothing to make random in it.",
    ),
    "weights not finite": (
        lambda: tb.to_bayesian(linear(math.nan)),
        "`net` (='weight') must be finite, but holds NaN or infinity; repair the weights before converting.",
    ),
    "weights infinite": (
        lambda: tb.to_bayesian(linear(-math.inf)),
        "`net` (='weight') must be finite, but holds NaN or infinity; repair the weights before converting.",
    ),
    "lazy weights": (
        lambda: tb.to_bayesian(nn.LazyLinear(2)),
        "`net` (='weight') must be initialised; run one forward pass through the lazy module first.",
    ),
    "empty weights": (
        lambda: tb.to_bayesian(nn.ParameterList([torch.empty(0)])),
        "`net` (='0') must have at least one entry; leave it out with `where`.",
    ),
    "unknown family": (
        converted(family="tridiag"),
        "`family` (='tridiag') must be one of ['diagonal', 'mean_field', 'tridiagonal']; correct the word.",
    ),
    "no draws": (
        lambda: tb.nn.Linear(2, 2).sample_weights(0),
        "`n` (=0) must be at least 1; pass the number of draws, or nothing for a single one.",
    ),
    "weights of another shape": (
        lambda: tb.nn.Linear(3, 2).apply_weights({"weight": torch.zeros(5, 2, 3)}, torch.zeros(1, 3)),
        "`weights` (=(5, 2, 3)) must have the shape (2, 3) for 'weight'; for a stack of draws use "
        "torch.func.vmap(model.apply_weights, in_dims=(0, None)) or a loop.",
    ),
    "weights of another name": (
        lambda: tb.nn.Linear(3, 2).apply_weights({"bais": torch.zeros(2)}, torch.zeros(1, 3)),
        "`weights` (='bais') must name a random parameter of the network; choose among weight, bias.",
    ),
    "divergence of a plain network": (
        lambda: tb.kl(net()),
        "`model` (='Sequential') must contain a BayesianModule; convert it first: tribayes.to_bayesian(net).",
    ),
    "guards of a plain network": (
        lambda: tb.stabilise_(net()),
        "`model` (='Sequential') must contain a BayesianModule; convert it first: tribayes.to_bayesian(net).",
    ),
    "plain network to deterministic": (
        lambda: tb.to_deterministic(net()),
        "`model` (='Sequential') must contain a BayesianModule; convert it first: tribayes.to_bayesian(net).",
    ),
}

TYPES: dict[str, tuple[Call, str]] = {
    "tau": (
        converted(tau="0.1"),
        "`tau` (='0.1') must be a number; it is the standard deviation relative to |m|, such as 0.05.",
    ),
    "tau as a tensor": (
        converted(tau=torch.tensor(0.1, dtype=torch.float64)),
        "`tau` (=0.1) must be a number; it is the standard deviation relative to |m|, such as 0.05.",
    ),
    "rho": (converted(rho="0"), "`rho` (='0') must be a number; pass e.g. 0.0."),
    "prior": (
        converted(prior=0.1),
        "`prior` (=0.1) must be a tribayes.Prior or RelativePrior; pass e.g. tb.Prior(loc=0.0, scale=1.0).",
    ),
    "prior loc": (
        lambda: tb.Prior(loc=None),
        '`loc` (=None) must be a number, a tensor or "pretrained"; pass e.g. 0.0.',
    ),
    "prior scale": (
        lambda: tb.Prior(scale="1"),
        "`scale` (='1') must be a number; it is a standard deviation, such as 1.0.",
    ),
    "where": (
        converted(where=3),
        "`where` (=3) must be a name pattern, a list of them, a function (name, parameter) -> bool or None; "
        "pass e.g. where='fc*'.",
    ),
    "family": (
        converted(family=nn.Linear),
        "`family` (=<class 'torch.nn.modules.linear.Linear'>) must be a name or a subclass of "
        "tribayes.posterior.Family; pass a name.",
    ),
    "net": (
        lambda: tb.to_bayesian(3),
        "`net` (=3) must be a torch.nn.Module; pass the network itself.",
    ),
    "complex weights": (
        lambda: tb.to_bayesian(nn.Linear(2, 2, dtype=torch.complex64)),
        "`net` (='weight') must be real, but is torch.complex64; leave it out with `where`.",
    ),
    "number of draws": (
        lambda: tb.nn.Linear(2, 2).sample_weights(True),
        "`n` (=True) must be a whole number; pass the number of draws, or nothing for a single one.",
    ),
    "weights": (
        lambda: tb.nn.Linear(2, 2).apply_weights(torch.zeros(2, 2), torch.zeros(1, 2)),
        "`weights` (=tensor of shape (2, 2), torch.float32) must be a dict name -> tensor; "
        "pass what sample_weights() returns.",
    ),
    "a weight": (
        lambda: tb.nn.Linear(2, 2).apply_weights({"weight": 3}, torch.zeros(1, 2)),
        "`weights` (=3) must have a tensor for 'weight'; pass what sample_weights() returns.",
    ),
    "a weight to be used": (
        lambda: tb.nn.Linear(2, 2).using({"weight": None}).__enter__(),
        "`weights` (=None) must have a tensor for 'weight'; pass what sample_weights() returns.",
    ),
    "a weight to be judged": (
        lambda: tb.nn.Linear(1, 1).log_prob({"weight": torch.zeros(1, 1), "bias": [0.0]}),
        "`draw` (=[0.0]) must have a tensor for 'bias'; pass what sample_weights() returns.",
    ),
    "generator": (
        lambda: tb.nn.Linear(2, 2).sample_weights(generator=1.0),
        "`generator` (=1.0) must be a torch.Generator, an integer seed or None; "
        "pass e.g. generator=0 or generator=torch.Generator(device).manual_seed(0).",
    ),
}


@pytest.mark.parametrize("case", VALUES)
def test_a_bad_value_is_refused_in_words(case: str) -> None:
    is_refused(*VALUES[case])


@pytest.mark.parametrize("case", TYPES)
def test_a_bad_type_is_refused_in_words(case: str) -> None:
    is_refused(*TYPES[case], kind=TypeError)


REMEDY = "use it as it is, or take tribayes.to_deterministic(net) first."


@pytest.mark.parametrize("dry_run", [True, False])
def test_converting_twice_is_refused(dry_run: bool) -> None:
    model = tb.to_bayesian(net())
    is_refused(
        lambda: tb.to_bayesian(model, dry_run=dry_run),
        f"`net` (='BayesianModule') must not be converted twice, but it is a BayesianModule already; {REMEDY}",
    )
    is_refused(
        lambda: tb.to_bayesian(nn.Sequential(nn.Linear(2, 2), tb.nn.Linear(2, 2)), dry_run=dry_run),
        f"`net` (='Sequential') must not be converted twice, but its part '1' is a BayesianModule already; {REMEDY}",
    )


@pytest.mark.parametrize(
    "options", [{"tau": 0.0}, {"prior": tb.Prior(loc=torch.zeros(7))}, {"where": "no*"}, {"rho": 1.0}]
)
def test_a_refused_network_is_left_as_it_was(options: dict[str, object]) -> None:
    plain = nn.Linear(3, 2)
    nn.init.zeros_(plain.bias)
    before = {key: value.clone() for key, value in plain.state_dict().items()}
    with pytest.raises(ValueError, match="must"):
        tb.to_bayesian(plain, **options)
    assert same_tensors(plain.state_dict(), before)
