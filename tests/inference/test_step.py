"""One training step on a CPU: guards, draw, gradient and update as in a loop of one's own, to the last bit.

Recorded steps are compared with these in tests/gpu/test_step.py.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

import tribayes as tb
from tests.compiling import draws_are_compiled
from tests.networks import any_family, bayesian, inputs_of, same_tensors
from tribayes.inference.memory import remember
from tribayes.inference.recorded import held_by

STEPS = 5
LABELS = torch.tensor([0, 1, 1])
OPTIMIZERS: dict[str, Callable[[list[dict[str, object]]], torch.optim.Optimizer]] = {
    "SGD": lambda groups: torch.optim.SGD(groups, momentum=0.9),
    "SGD fused": lambda groups: torch.optim.SGD(groups, momentum=0.9, fused=True),
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "RMSprop": torch.optim.RMSprop,
}


def batches(count: int = STEPS) -> list[tuple[Tensor, Tensor]]:
    return [(inputs_of("MLP") + shift, LABELS) for shift in range(count)]


def elbo(**options: object) -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), **{"data_size": 12, **options})


def sgd(model: nn.Module, **options: object) -> torch.optim.SGD:
    return torch.optim.SGD(tb.parameter_groups(model, lr=0.01, **options), momentum=0.9)


def loop(
    model: nn.Module,
    objective: tb.ELBO,
    optimizer: torch.optim.Optimizer,
    data: list[tuple[Tensor, Tensor]],
    *,
    rule: str = "closed_form",
    clip: float | None = None,
    generator: torch.Generator | None = None,
    after: Callable[[], object] = lambda: None,
) -> list[list[float]]:
    """Training as one would write it: what `TrainingStep` must be equal to."""
    rows = []
    for number, (inputs, targets) in enumerate(data):
        tb.stabilise_(model, rule, generator)
        terms = objective(model, inputs, targets, step=number, generator=generator)
        optimizer.zero_grad()
        terms.loss.backward()
        if clip is not None:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            nn.utils.clip_grad_value_(parameters, clip)
        optimizer.step()
        after()
        rows.append([terms.nll.item(), terms.kl.item()])
    return rows


def taken(
    step: tb.TrainingStep, data: list[tuple[Tensor, Tensor]], after: Callable[[], object] = lambda: None
) -> list[list[float]]:
    """NLL and divergence of every step; its loss, which is not what it descends by, is checked to rounding."""
    rows = []
    for inputs, targets in data:
        nu = step.elbo.nu(step.count)
        terms = step(inputs, targets)
        after()
        rows.append([terms.nll.item(), terms.kl.item()])
        assert terms.loss.item() == pytest.approx(rows[-1][0] + nu * rows[-1][1], rel=1e-14)
    return rows


# equal to a loop


@any_family
@pytest.mark.parametrize("samples", [1, 2])
def test_steps_are_the_loop_written_out(family: str, samples: int) -> None:
    model = bayesian("MLP", family=family)
    twin, objective = copy.deepcopy(model), elbo(samples=samples)
    torch.manual_seed(0)
    step = tb.TrainingStep(model, objective, sgd(model))
    ours = taken(step, batches())
    torch.manual_seed(0)
    assert loop(twin, objective, sgd(twin), batches()) == ours
    assert same_tensors(model.state_dict(), twin.state_dict())
    assert step.count == STEPS
    assert not step.captured  # there is no GPU to record


@any_family
def test_a_learned_noise_learns_as_in_the_loop(family: str) -> None:
    results = []
    for run in (True, False):
        model, likelihood = bayesian("MLP", family=family), tb.Gaussian(noise=0.5, learned=True).double()
        objective = tb.ELBO(likelihood, data_size=12)
        optimizer = sgd(model, likelihood=likelihood)
        data = [(inputs, torch.ones(3, 2, dtype=torch.float64)) for inputs, _ in batches()]
        torch.manual_seed(0)
        if run:
            rows = taken(tb.TrainingStep(model, objective, optimizer), data)
        else:
            rows = loop(model, objective, optimizer, data)
        results.append((rows, model.state_dict(), likelihood.noise.item()))
    assert results[0][0] == results[1][0]
    assert same_tensors(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]
    assert abs(results[0][2] - 0.5) > 1e-3


@pytest.mark.parametrize("estimator", ["plain", "local", "antithetic"])
def test_every_estimator_is_used_as_in_the_loop(estimator: str) -> None:
    model, objective = bayesian("MLP"), elbo(estimator=estimator, samples=2)
    twin = copy.deepcopy(model)
    torch.manual_seed(0)
    ours = taken(tb.TrainingStep(model, objective, sgd(model)), batches())
    torch.manual_seed(0)
    assert loop(twin, objective, sgd(twin), batches()) == ours
    assert same_tensors(model.state_dict(), twin.state_dict())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_any_optimizer_steps_as_in_the_loop(name: str) -> None:
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    ours, theirs = (
        OPTIMIZERS[name](tb.parameter_groups(one, lr=0.01, correlation_lr_multiplier=1.0)) for one in (model, twin)
    )
    torch.manual_seed(0)
    rows = taken(tb.TrainingStep(model, elbo(), ours), batches())
    torch.manual_seed(0)
    assert loop(twin, elbo(), theirs, batches()) == rows
    assert same_tensors(model.state_dict(), twin.state_dict())


@pytest.mark.parametrize("rule", ["closed_form", "paper"])
def test_the_guards_are_those_of_the_rule(rule: str) -> None:
    model = bayesian("MLP")
    with torch.no_grad():
        model.module[0].weight[:3] = 1e-9
        model.family.delta.fill_(-8.0)
        model.family.gamma.fill_(1e-3)
    twin = copy.deepcopy(model)
    torch.manual_seed(0)
    ours = taken(tb.TrainingStep(model, elbo(), sgd(model), rule=rule), batches())
    torch.manual_seed(0)
    assert loop(twin, elbo(), sgd(twin), batches(), rule=rule) == ours
    assert same_tensors(model.state_dict(), twin.state_dict())


def test_the_two_rules_differ() -> None:
    losses = []
    for rule in ("closed_form", "paper"):
        model = bayesian("MLP")
        with torch.no_grad():
            model.family.delta.fill_(-8.0)
        losses.append(taken(tb.TrainingStep(model, elbo(), sgd(model), rule=rule, generator=0), batches(1))[0][1])
    assert losses[0] > losses[1] + 1  # a divergence of τ = 3e-4 against one of 0.01


def test_clip_is_that_of_the_loop() -> None:
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    free = copy.deepcopy(model)
    torch.manual_seed(0)
    ours = taken(tb.TrainingStep(model, elbo(), sgd(model), clip=0.01), batches())
    torch.manual_seed(0)
    assert loop(twin, elbo(), sgd(twin), batches(), clip=0.01) == ours
    assert same_tensors(model.state_dict(), twin.state_dict())
    torch.manual_seed(0)
    assert taken(tb.TrainingStep(free, elbo(), sgd(free)), batches()) != ours


def test_clip_bounds_every_entry_of_the_gradient() -> None:
    """A bias at ±1e-6 feels ν/m = 1e6 of the divergence; clipped, plain SGD moves it by lr times the bound."""
    model = tb.to_bayesian(nn.Linear(2, 1).requires_grad_(), where="bias", prior=tb.Prior(), generator=0)
    with torch.no_grad():
        model.module.bias.fill_(1e-6)
    objective = tb.ELBO(tb.Gaussian(), data_size=4, kl_weight=4.0)
    batch = torch.zeros(4, 2), torch.zeros(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    tb.TrainingStep(model, objective, optimizer, clip=0.1)(*batch)
    assert model.module.bias.item() == pytest.approx(1e-6 + 0.05, rel=1e-6)
    with pytest.raises(ValueError, match=r"`clip` \(=0\) must be finite and positive; it bounds"):
        tb.TrainingStep(model, objective, optimizer, clip=0)


def test_a_step_guards_before_it_computes() -> None:
    model = bayesian("MLP")
    with torch.no_grad():
        model.module[0].weight.zero_()
        model.family.gamma.fill_(100.0)
    with pytest.warns(UserWarning, match="means are exactly zero"):
        step = tb.TrainingStep(model, elbo(), sgd(model))
    terms = step(*batches()[0])
    assert terms.loss.isfinite()
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_step_is_one_step_of_fit() -> None:
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    torch.manual_seed(0)
    terms = tb.TrainingStep(model, elbo(), sgd(model))(*batches()[0])
    torch.manual_seed(0)
    history = tb.fit(twin, elbo(), batches()[:1], sgd(twin), progress=False)
    assert history.loss == [terms.loss.item()]
    assert same_tensors(model.state_dict(), twin.state_dict())


def test_a_batch_of_another_shape_is_a_step_like_any_other() -> None:
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    data = batches()
    data[2] = (data[2][0][:1], LABELS[:1])
    torch.manual_seed(0)
    ours = taken(tb.TrainingStep(model, elbo(), sgd(model)), data)
    torch.manual_seed(0)
    assert loop(twin, elbo(), sgd(twin), data) == ours


def test_capture_may_be_turned_off() -> None:
    model = bayesian("MLP")
    step = tb.TrainingStep(model, elbo(), sgd(model), capture=False)
    taken(step, batches())
    assert not step.captured


# schedules


def test_a_schedule_of_the_divergence_is_asked_for_the_step() -> None:
    asked: list[int] = []

    def weight(step: int) -> float:
        asked.append(step)
        return min(1.0, step / 3)

    model, objective = bayesian("MLP"), elbo(kl_weight=weight)
    step = tb.TrainingStep(model, objective, sgd(model))
    terms = [step(*batch) for batch in batches()]
    assert asked == list(range(STEPS))
    for number, (loss, nll, divergence, _) in enumerate(terms):
        torch.testing.assert_close(loss, nll + min(1.0, number / 3) / 12 * divergence, rtol=1e-14, atol=0)
    step.count = 0  # a run that is resumed says where it is
    asked.clear()
    step(*batches()[0])
    assert asked == [0]


def test_a_schedule_of_the_divergence_trains_as_in_the_loop() -> None:
    model, objective = bayesian("MLP"), elbo(kl_weight=lambda step: 1.0 / (step + 1))
    twin = copy.deepcopy(model)
    torch.manual_seed(0)
    ours = taken(tb.TrainingStep(model, objective, sgd(model)), batches())
    torch.manual_seed(0)
    assert loop(twin, objective, sgd(twin), batches()) == ours
    assert same_tensors(model.state_dict(), twin.state_dict())


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]] = {
    "LambdaLR": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step),
    "StepLR": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1),
    "OneCycleLR": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        max_lr=0.05,
        total_steps=STEPS + 1,
        base_momentum=[0.85, 0.0, 0.0],  # none for scales and correlations
        max_momentum=[0.95, 0.0, 0.0],
    ),
    "CosineAnnealingLR": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_schedule_of_the_rate_goes_on(name: str) -> None:
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    ours, theirs = sgd(model), sgd(twin)
    torch.manual_seed(0)
    rows = taken(tb.TrainingStep(model, elbo(), ours), batches(), SCHEDULERS[name](ours).step)
    torch.manual_seed(0)
    assert loop(twin, elbo(), theirs, batches(), after=SCHEDULERS[name](theirs).step) == rows
    assert same_tensors(model.state_dict(), twin.state_dict())


# randomness


@any_family
def test_a_seed_decides_a_training_and_leaves_torchs_generator_alone(family: str) -> None:
    model = bayesian("MLP", family=family)
    state = torch.get_rng_state()
    rows = []
    for seed in (10**40, 10**40, 10**40 + 1):
        one = copy.deepcopy(model)
        rows.append(taken(tb.TrainingStep(one, elbo(), sgd(one), rule="paper", generator=seed), batches()))
        torch.manual_seed(0)  # is nothing to it
        torch.set_rng_state(state)
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]
    assert torch.equal(torch.get_rng_state(), state)
    assert len({row[0] for row in rows[0]}) == STEPS


@pytest.mark.parametrize("estimator", ["plain", "local", "antithetic"])
def test_a_generator_is_used_as_in_the_loop(estimator: str) -> None:
    model, objective = bayesian("MLP"), elbo(estimator=estimator, samples=2)
    twin = copy.deepcopy(model)
    source, again = (torch.Generator().manual_seed(4) for _ in range(2))
    state = torch.get_rng_state()
    ours = taken(tb.TrainingStep(model, objective, sgd(model), generator=source), batches())
    assert loop(twin, objective, sgd(twin), batches(), generator=again) == ours
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(source.get_state(), again.get_state())  # which is where a run goes on from


def test_without_a_generator_torchs_own_is_used() -> None:
    model = bayesian("MLP")
    state = torch.get_rng_state()
    tb.TrainingStep(model, elbo(), sgd(model))(*batches()[0])
    assert not torch.equal(torch.get_rng_state(), state)


# models


class Two(nn.Module):
    """Two Bayesian parts and an ordinary one, of which a part is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one = tb.nn.Linear(4, 6, generator=0)
        self.norm = nn.BatchNorm1d(6)
        self.two = tb.nn.Linear(6, 6, family="mean_field")
        self.head = nn.Linear(6, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.norm(self.one(inputs)))
        return self.head(self.two(torch.tanh(self.two(hidden))))


@pytest.mark.parametrize("samples", [1, 2])
def test_a_model_of_several_parts_is_trained_as_in_the_loop(samples: int) -> None:
    torch.manual_seed(3)
    model = Two().double()
    twin, objective = copy.deepcopy(model), elbo(samples=samples)
    torch.manual_seed(0)
    ours = taken(tb.TrainingStep(model, objective, sgd(model)), batches())
    torch.manual_seed(0)
    assert loop(twin, objective, sgd(twin), batches()) == ours
    assert same_tensors(model.state_dict(), twin.state_dict())
    assert model.norm.num_batches_tracked == STEPS * samples
    assert all(p.grad is not None for p in model.parameters())


def test_a_model_may_change_its_mode_between_steps() -> None:
    model = Two().double()
    step = tb.TrainingStep(model, elbo(), sgd(model))
    step(*batches()[0])
    model.eval()
    step(*batches()[1])
    assert model.norm.num_batches_tracked == 1
    model.train()
    step(*batches()[2])
    assert model.norm.num_batches_tracked == 2


def test_a_network_may_take_several_inputs() -> None:
    model = tb.to_bayesian(nn.Bilinear(2, 3, 1))
    step = tb.TrainingStep(model, tb.ELBO(tb.Gaussian(), data_size=4), sgd(model))
    assert step((torch.randn(4, 2), torch.randn(4, 3)), torch.zeros(4, 1)).outputs.shape == (4, 1)


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@draws_are_compiled
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_takes_the_same_steps(in_place: bool) -> None:
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    counter = CompileCounterWithBackend("aot_eager")
    if in_place:
        twin.compile(backend=counter)
    compiled = twin if in_place else torch.compile(twin, backend=counter)
    for trained in (model, compiled):
        torch.manual_seed(0)
        taken(tb.TrainingStep(trained, elbo(), sgd(trained)), batches())
    assert counter.frame_count == 1
    for name, value in model.state_dict().items():
        torch.testing.assert_close(twin.state_dict()[name], value, rtol=1e-12, atol=1e-14)


def test_a_plain_network_is_trained_by_its_likelihood() -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    twin = copy.deepcopy(net)
    ours, theirs = (torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9) for one in (net, twin))
    step = tb.TrainingStep(net, tb.MaximumLikelihood(tb.Categorical()), ours)
    for inputs, targets in batches():
        terms = step(inputs, targets)
        loss = nn.functional.cross_entropy(twin(inputs), targets)
        theirs.zero_grad()
        loss.backward()
        theirs.step()
        assert terms.loss.item() == terms.nll.item() == loss.item()
        assert terms.kl.item() == 0
    assert same_tensors(net.state_dict(), twin.state_dict())


def test_the_likelihood_of_a_plain_network_as_terms() -> None:
    net = nn.Bilinear(2, 3, 1)
    inputs, targets = (torch.randn(4, 2), torch.randn(4, 3)), torch.randn(4, 1)
    terms = tb.MaximumLikelihood(tb.Gaussian())(net, inputs, targets)
    torch.testing.assert_close(terms.loss, tb.Gaussian().nll(net(*inputs), targets).mean())
    assert torch.equal(terms.outputs, net(*inputs))
    terms.loss.backward()
    assert net.weight.grad is not None


@pytest.mark.parametrize(
    ("kind", "keeps"), [("plain", False), ("attribute", True), ("buffer", True), ("in place", False)]
)
def test_a_network_that_keeps_state_in_python_is_noticed(kind: str, keeps: bool) -> None:
    """By what a pass leaves behind: a recording would not repeat it."""

    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(4, 2), 0
            self.register_buffer("total", torch.zeros(()))

        def forward(self, inputs: Tensor) -> Tensor:
            if kind == "attribute":
                self.calls += 1
            elif kind == "buffer":
                self.total = self.total + 1
            elif kind == "in place":
                self.total += 1
            return self.layer(inputs)

    for model in (tb.to_bayesian(Keeping()), nn.Sequential(tb.to_bayesian(Keeping()), nn.Identity()), Keeping()):
        objective = elbo()
        remember(model, objective.likelihood)  # as a step does when it is made
        before = held_by(model)
        if any(isinstance(module, tb.BayesianModule) for module in model.modules()):
            objective(model, inputs_of("MLP").float(), LABELS)
        else:
            model(inputs_of("MLP").float())
        after = held_by(model)
        same = len(before) == len(after) and all(one is other for one, other in zip(before, after, strict=True))
        assert same != keeps


# what is returned, what is refused


@pytest.mark.parametrize("samples", [1, 2])
def test_the_terms_have_no_graph(samples: int) -> None:
    model = bayesian("MLP")
    step = tb.TrainingStep(model, elbo(samples=samples), sgd(model))
    terms = step(*batches()[0])
    assert isinstance(terms, tb.ELBOTerms)
    assert all(term.grad_fn is None and not term.requires_grad for term in terms)
    assert terms.outputs.shape == ((3, 2) if samples == 1 else (2, 3, 2))
    with pytest.raises(RuntimeError, match="does not require grad"):
        terms.loss.backward()


def _step(**options: object) -> Callable[[], tb.TrainingStep]:
    def make() -> tb.TrainingStep:
        model = bayesian("MLP")
        given = {"elbo": elbo(), "optimizer": sgd(model), **options}
        return tb.TrainingStep(model, given.pop("elbo"), given.pop("optimizer"), **given)

    return make


BOUND = "it bounds the absolute value of every entry of the gradient."
REFUSED = {
    "elbo": (
        _step(elbo="ELBO"),
        TypeError,
        "`elbo` (='ELBO') must be an ELBO; pass e.g. tb.ELBO(tb.Categorical(), data_size=len(dataset)).",
    ),
    "likelihood for an elbo": (
        _step(elbo=tb.Categorical()),
        TypeError,
        "`elbo` (=Categorical()) must be an ELBO; pass e.g. tb.ELBO(tb.Categorical(), data_size=len(dataset)).",
    ),
    "optimizer": (
        _step(optimizer=0.1),
        TypeError,
        "`optimizer` (=0.1) must be a torch optimizer; pass e.g. torch.optim.SGD(tb.parameter_groups(model, lr=0.01)).",
    ),
    "clip of zero": (_step(clip=0), ValueError, f"`clip` (=0) must be finite and positive; {BOUND}"),
    "clip negative": (_step(clip=-1.0), ValueError, f"`clip` (=-1.0) must be finite and positive; {BOUND}"),
    "clip infinite": (_step(clip=math.inf), ValueError, f"`clip` (=inf) must be finite and positive; {BOUND}"),
    "clip no number": (_step(clip="1"), TypeError, f"`clip` (='1') must be a number; {BOUND}"),
    "rule": (
        _step(rule="papers"),
        ValueError,
        "`rule` (='papers') must be one of ['closed_form', 'paper']; correct the word.",
    ),
    "capture": (_step(capture=True), ValueError, '`capture` (=True) must be "auto" or False; correct the word.'),
    "capture by another word": (
        _step(capture="always"),
        ValueError,
        "`capture` (='always') must be \"auto\" or False; correct the word.",
    ),
    "generator": (
        _step(generator="0"),
        TypeError,
        "`generator` (='0') must be a torch.Generator, an integer seed or None; "
        "pass e.g. generator=0 or generator=torch.Generator(device).manual_seed(0).",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_arguments_are_refused_in_words(case: str) -> None:
    make, kind, text = REFUSED[case]
    with pytest.raises(kind, match="^" + re.escape(text) + "$"):
        make()


def test_a_plain_network_has_no_divergence_to_descend() -> None:
    net = nn.Linear(4, 2).double()
    text = "`model` (='Linear') must contain a BayesianModule; convert it first: tribayes.to_bayesian(net)."
    with pytest.raises(ValueError, match=re.escape(text)):
        tb.TrainingStep(net, elbo(), torch.optim.SGD(net.parameters(), lr=0.1))(*batches()[0])


def test_an_error_in_a_step_leaves_the_weights_as_they_were() -> None:
    model = bayesian("MLP")
    step = tb.TrainingStep(model, elbo(), sgd(model))
    step(*batches()[0])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        step(torch.ones(3, 7, dtype=torch.float64), LABELS)
    assert same_tensors(model.state_dict(), before)
    step(*batches()[1])
    assert not same_tensors(model.state_dict(), before)


@pytest.mark.parametrize("accumulated", [False, True])
def test_an_interrupt_that_meets_torch_while_it_puts_its_modes_back(
    accumulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = bayesian("MLP")
    step = tb.TrainingStep(model, elbo(), sgd(model))
    take = (lambda: step.accumulate(batches()[:2])) if accumulated else (lambda: step(*batches()[0]))
    take()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch.no_grad, "__exit__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            take()
    assert torch.is_grad_enabled()
    take()
