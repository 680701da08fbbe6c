"""What two processes do with a network of which each holds a part."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

import tribayes as tb
from tests.distributed.models import PRIORS, Network, bayesian, data, optimizer_of, sharded, state_of, trained
from tests.distributed.processes import Check

TRAININGS: dict[str, dict[str, Any]] = {  # each as one process makes it, too
    "sgd": {},
    "adamw": {"optimizer": "adamw"},
    "antithetic": {"estimator": "antithetic", "family": "diagonal"},
    "mean field": {"family": "mean_field"},
    "fixed prior": {"prior": PRIORS["fixed"]},
}
DRAWS = 500
OF_A_MODEL = ("family", "prior")


def share_of(rank: int) -> slice:
    return slice(4 * rank, 4 * rank + 4)


def split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the model, and those of its training."""
    of_model = {key: value for key, value in options.items() if key in OF_A_MODEL}
    return of_model, {key: value for key, value in options.items() if key not in OF_A_MODEL}


def draws(rank: int, _: Path) -> dict[str, Any]:
    model = sharded()
    torch.manual_seed(10 + rank)  # the first process's counts
    return {
        "one": detached(model.sample_weights(generator=3)),
        "three": detached(model.sample_weights(3, generator=4)),
        "of no seed": detached(model.sample_weights()),
        "rest": torch.rand(2),
        "sampler": model.sampler,
        "posterior": str(model.posterior()),
    }


def border(rank: int, _: Path) -> Tensor:
    """Draws (n, 5, 3) of a layer of which the first process holds three rows and the second two."""
    from torch.distributed.fsdp import fully_shard

    del rank
    model = one_layer()
    fully_shard(model)
    with torch.no_grad():
        return model.sample_weights(DRAWS, generator=0)["weight"]


def one_layer() -> tb.BayesianModule:
    torch.manual_seed(0)
    return tb.to_bayesian(torch.nn.Linear(3, 5, bias=False).double(), tau=0.2, rho=-0.45)


def divergences(rank: int, _: Path) -> dict[str, list[Tensor]]:
    """The divergence, and its gradient as `backward` leaves it, whole."""
    found = {}
    for name, prior in PRIORS.items():
        model = sharded(prior=prior)
        divergence = model.kl()
        divergence.backward()
        gradients = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
        found[name] = [divergence.detach(), {key: value.full_tensor() for key, value in gradients.items()}]
    del rank
    return found


def training(options: dict[str, Any], rank: int, _: Path) -> dict[str, Tensor]:
    of_model, of_training = split(options)
    return trained(sharded(**of_model), share_of(rank), **of_training)


def local_noise(rank: int, _: Path) -> dict[str, Tensor]:
    """Both processes on the same examples: noise by example must differ, and the parameters must not."""
    model = sharded()
    x, y = data()
    elbo = tb.ELBO(tb.Categorical(), data_size=20, estimator="local")
    step = tb.TrainingStep(model, elbo, optimizer_of(model, "sgd"), generator=5)
    terms = step(x, y)
    del rank
    return state_of(model) | {"outputs": terms.outputs}


def after_a_call(rank: int, _: Path) -> dict[str, Tensor]:
    """A call of the sharded module itself leaves its parameters gathered; the step must not learn those."""
    from torch.distributed.fsdp import fully_shard

    model = bayesian()
    fully_shard(model)
    x, y = (part[share_of(rank)] for part in data())
    with torch.no_grad():
        model(x)
    step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=20), optimizer_of(model, "sgd"), generator=5)
    with torch.no_grad():
        model(x)
    step(x, y)
    return state_of(model)


def prediction(rank: int, _: Path) -> Tensor:
    del rank
    return tb.predict(sharded(), data()[0], samples=5, progress=False).samples


def inside_another(rank: int, _: Path) -> dict[str, Tensor]:
    """A Bayesian layer in a network whose other layers are ordinary, all in parts."""
    from torch.distributed.fsdp import fully_shard

    model = mixed()
    fully_shard(model)
    return trained(model, share_of(rank))


def mixed() -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 5), torch.nn.Tanh(), tb.to_bayesian(torch.nn.Linear(5, 3), tau=0.3, rho=0.4)
    return torch.nn.Sequential(*layers).double()


def filled_whole(rank: int, folder: Path) -> Tensor:
    """What refusals advise: a model that is not sharded, filled from one that is, can be kept and copied."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    model, whole, path = sharded(), bayesian(), folder / f"whole-{rank}.safetensors"
    with torch.no_grad():
        whole.module.first.weight.zero_()
    whole.load_state_dict(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)))
    tb.save(whole, path, likelihood=tb.Categorical())
    loaded = tb.load(path, Network().double())
    expected = tb.predict(model, data()[0], samples=5, likelihood=tb.Categorical(), progress=False).samples
    return tb.predict(loaded, data()[0], samples=5, progress=False).samples - expected


def refusals(rank: int, folder: Path) -> dict[str, str]:
    from torch.distributed.fsdp import fully_shard

    partly = bayesian()
    fully_shard(partly.module.first)
    other_axis = tb.to_bayesian(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(2))))
    fully_shard(other_axis, shard_placement_fn=lambda p: torch.distributed.tensor.Shard(p.ndim - 1))
    whole_model, x = sharded(), data()[0]
    fused = torch.optim.SGD(tb.parameter_groups(whole_model, lr=0.1), fused=True)
    elbo = tb.ELBO(tb.Categorical(), data_size=20)
    tries = {
        "partly": lambda: partly.sample_weights(generator=0),
        "axis": lambda: other_axis.sample_weights(generator=0),
        "fused": lambda: tb.TrainingStep(whole_model, elbo, fused),
        "shared": lambda: tb.distributed.predict(whole_model, x),
        "kept": lambda: tb.save(whole_model, folder / f"refused-{rank}.safetensors", likelihood=tb.Categorical()),
        "copied": lambda: tb.to_deterministic(whole_model),
        "stacked": lambda: tb.Ensemble(whole_model, 2, likelihood=tb.Categorical()),
        "in a folder": lambda: trained_in_folder(whole_model, elbo, folder / f"refused-{rank}"),
    }
    return {name: refusal_of(attempt) for name, attempt in tries.items()}


def trained_in_folder(model: torch.nn.Module, elbo: tb.ELBO, folder: Path) -> object:
    optimizer = optimizer_of(model, "sgd")
    return tb.runs.Run.at(folder).train(model, elbo, optimizer, train=data(), iterations=1, progress=False)


def refusal_of(attempt: Any) -> str:
    try:
        attempt()
    except (ValueError, TypeError) as error:
        return str(error)
    return "not refused"


def detached(draw: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in draw.items()}


def saved(rank: int, folder: Path) -> dict[str, Tensor]:
    """A training of a few steps, kept by both processes, each its part."""
    model = sharded()
    optimizer = optimizer_of(model, "sgd")
    x, y = (part[share_of(rank)] for part in data())
    step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=20), optimizer, generator=5)
    step(x, y)
    save(model, optimizer, folder / "of-two")
    step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=20), optimizer, generator=6)
    step(x, y)
    return state_of(model)


def save(model: torch.nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict

    of_model, of_optimizer = get_state_dict(model, optimizer)
    checkpoint.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)


def load(model: torch.nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


CHECKS: dict[str, Check] = {
    "draws": draws,
    "border": border,
    "divergences": divergences,
    "local noise": local_noise,
    "after a call": after_a_call,
    "prediction": prediction,
    "inside another": inside_another,
    "filled whole": filled_whole,
    "refusals": refusals,
    "saved": saved,
} | {f"sharded, {name}": partial(training, options) for name, options in TRAININGS.items()}
