"""BayesianModule: any network with random weights, by one mechanism.

The wrapped module's own parameters are the means. A draw is a dict of tensors; the network runs under it as a twin
(twin.py) that has these tensors in the places of its parameters. No layer is rewritten, and none needs to be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tribayes._errors import check_module, check_whole, refusal, wrong_type
from tribayes.nn.conversion import Options, Plan, check_patterns, check_priors, matches, plan_conversion
from tribayes.nn.own_loss import LossWatch, watch_own_loss
from tribayes.nn.places import Draw, check_weights, fingerprint, parameter_of, places_of, stack_of
from tribayes.nn.sharded import holds_shards, whole_twin
from tribayes.nn.table import PosteriorRow, PosteriorTable
from tribayes.nn.twin import Twin, adopt_compiled_names, plain_name
from tribayes.nn.wrapping import NetworksOwn, shown
from tribayes.nn.zeros import count_zeros, warn_of_zeros
from tribayes.posterior.draw.plain import flat, sources_of
from tribayes.posterior.family import Family, Law
from tribayes.posterior.parametrisation import Rule, guard_means_, rule_of
from tribayes.posterior.prior import AnyPrior, AnyTensorPrior, are_relative
from tribayes.posterior.shards import any_sharded, local, whole
from tribayes.posterior.streams import Randomness

_MOST_DRAWS = 2**31 - 1

_IN_USE: ContextVar[Mapping[int, Twin]] = ContextVar("twins by id of their model, of `using`")


class BayesianModule(nn.Module):
    """A network whose chosen parameters are random: w ~ q(w), one fresh draw per forward pass.

    Usually made by `tribayes.to_bayesian`, whose options it takes. The network is wrapped, not copied: its parameters
    become the means, with zeros moved to ±1e-6 (a random sign each), the smallest magnitude the law allows.

    Of the wrapped network, `.module`, plain public attributes are reached here, too (`model.config`), and `forward`
    has its signature. Its methods and parts know nothing of draws: `model.generate` is refused, and
    `with model.using(draw) as network:` has them under a draw. A pass changes nothing in the network, so several
    threads may run one model at once, each under its own draw.

    Example:
        >>> model = BayesianModule(nn.Linear(3, 2), tau=0.1)
        >>> model(torch.randn(5, 3)).shape
        torch.Size([5, 2])
        >>> sorted(model.sample_weights())
        ['bias', 'weight']
    """

    layout: Tensor
    _output: Any = None  # what counted in training (answer.py); no part of the state
    _loss_watch: LossWatch | None = None  # where the network computes a loss of its own
    _filled: bool = False  # from a `state_dict`, which does not say what outputs mean

    def __init__(self, module: nn.Module, *, generator: Randomness = None, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = plan_for(module, options)
        means = [candidate.parameter for candidate in plan.chosen]
        self._names = tuple(candidate.name for candidate in plan.chosen)
        # before the network, whose attributes show: torch refuses a buffer by the name of anything that is there
        self.register_buffer("layout", fingerprint(tuple(map(plain_name, self._names)), means))
        self.module = module
        self._given: Draw | None = None  # weights to use instead of fresh ones; set on twins only (stage.py)
        self._places = {candidate.name: places_of(module, candidate.names) for candidate in plan.chosen}
        self.priors = nn.ModuleList(
            prior.resolve(name, mean) for name, mean, prior in zip(self._names, means, plan.priors, strict=True)
        )
        if plan.family.multiplicative:
            self._leave_zero_(generator)
        self.family = plan.family(means, plan.tau, plan.rho)
        self.register_load_state_dict_post_hook(_note_state)

    @property
    def sampler(self) -> str:
        """What draws the weights, by where they are: "triton" on a GPU, "cpu", "sharded" in parts, or "plain" torch."""
        return self.family.sampler(self._means())

    @property
    def random_names(self) -> tuple[str, ...]:
        """Names, within the wrapped module, of the parameters that are random."""
        return self._names

    def means(self) -> Iterator[tuple[str, nn.Parameter]]:
        """(name, mean) of every random parameter."""
        for name in self._names:
            yield name, parameter_of(self.module, name)

    def _means(self) -> list[nn.Parameter]:
        return [mean for _, mean in self.means()]

    def _at_hand(self) -> tuple[Family, list[Tensor]]:
        """What draws: the family and the means; gathered, where processes hold parts that the family cannot draw."""
        means: list[Tensor] = list(self._means())
        if self.family.draws_shards or not any_sharded(means):
            return self.family, means
        gathered = whole_twin(self.family, {}, set()).network
        return cast(Family, gathered), [whole(mean) for mean in means]

    def laws(self) -> dict[str, Law]:
        """The distribution of each random tensor, flattened row by row to (K,)."""
        laws = self._at_hand()[0].laws([flat(whole(mean)) for mean in self._means()])
        return dict(zip(self._names, laws, strict=True))

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for place in ("_parameters", "_buffers", "_modules"):
            if place in own and name in own[place]:
                return own[place][name]
        if name.startswith("_") or "module" not in own.get("_modules", ()):  # private names are nobody else's
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        twin = self._twin_in_use()
        return shown(own["_modules"]["module"], name) if twin is None else getattr(twin.network, name)

    @NetworksOwn
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The network under one fresh draw of every random weight, in training and in evaluation mode alike."""
        if not torch.compiler.is_compiling():
            twin = self._twin_in_use()
            if twin is not None:
                return twin.network(*args, **kwargs)
        elif self._given is None and torch.compiler._is_exporting_flag:  # is_exporting() lies to compilers before 2.13
            remedy = "export tb.Ensemble(model), tb.SamplingNetwork(model) or the mean, tb.to_deterministic(model)"
            raise refusal(
                "model", type(self).__name__, "not draw anew by torch's generator where it is exported", remedy
            )
        weights = self.sample_weights() if self._given is None else self._given
        answer = self.apply_weights(weights, *args, **kwargs)
        if self._given is None and "labels" in kwargs:
            watch_own_loss(self, answer)
        return answer

    def sample_weights(self, n: int | None = None, *, generator: Randomness | Tensor = None) -> dict[str, Tensor]:
        """A draw as a value: name → tensor, differentiable in the posterior's parameters.

        Args:
            n: None for one draw; a number for that many, stacked along a new leading axis.
            generator: a torch.Generator or an integer seed of any size; None uses torch's global generator.
        """
        if n is not None:
            check_whole("n", n, "pass the number of draws, or nothing for a single one", least=1)
            if n > _MOST_DRAWS:
                raise refusal("n", n, f"be at most {_MOST_DRAWS:,}", "no memory holds more; draw in turn")
        family, means = self._at_hand()
        weights, _ = family.draw(means, generator, count=n)
        return dict(zip(self._names, weights, strict=True))

    def sample_weights_and_kl(self, *, generator: Randomness = None) -> tuple[dict[str, Tensor], Tensor]:
        """One draw as `sample_weights` would give it, and KL(q ‖ p), by the same passes over the means."""
        family, means = self._at_hand()
        self._divergence_is_asked()
        weights, divergence = family.draw(means, generator, priors=self._priors())
        assert divergence is not None  # priors were given
        return dict(zip(self._names, weights, strict=True)), divergence

    def apply_weights(self, weights: Draw, /, *args: Any, **kwargs: Any) -> Any:
        """The network under given weights, as `sample_weights` returns them.

        Weights that are not given stay at their means, so `apply_weights({}, x)` is the mean network. A stack of
        draws goes through `torch.func.vmap(model.apply_weights, in_dims=(0, None))(draws, x)` or a loop.
        """
        check_weights(weights, self._names, self.module)
        if torch.compiler.is_compiling():  # a traced call swaps nothing
            everywhere = {place: value for name, value in weights.items() for place in self._places[name]}
            return functional_call(self.module, everywhere, args, kwargs, tie_weights=False)
        twin = self.under(weights)
        outputs = twin.network(*args, **kwargs)
        twin.hand_back()
        return outputs

    def under(self, weights: Draw) -> Twin:
        """The network's twin with these weights in place."""
        replaced = {id(parameter_of(self.module, name)): value for name, value in weights.items()}
        return whole_twin(self.module, replaced, set()) if holds_shards(self.module) else Twin(self.module, replaced)

    @contextmanager
    def using(self, weights: Draw) -> Iterator[nn.Module]:
        """The network under given weights, for any code: its methods, its parts, a library that wants a plain network.

        What the `with` statement gives is a twin of the wrapped network with these weights in place. In the same thread
        `model(...)` and the attributes of `model` mean it, too, until the block ends; other threads, `predict` and a
        compiled model draw as ever. What the network sets on itself within is handed back when the block ends.

        Example:
            >>> model = tribayes.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
            >>> draw, x = model.sample_weights(generator=0), torch.randn(5, 4)
            >>> with model.using(draw) as network:
            ...     features = network[:2](x)
            ...     torch.equal(network[2](features), model(x))
            True
        """
        check_weights(weights, self._names, self.module)
        twin = self.under(weights)
        before = _IN_USE.set({**_IN_USE.get({}), id(self): twin})
        try:
            yield twin.network
        finally:
            _IN_USE.reset(before)
        twin.hand_back()

    def _twin_in_use(self) -> Twin | None:
        return _IN_USE.get({}).get(id(self))

    def kl(self) -> Tensor:
        """KL(q ‖ p) in nats, exact, summed over all random tensors: equation (30) with its constant.

        Infinite from a `Prior` where a mean is exactly zero: `tribayes.stabilise_` moves it.
        """
        family, means = self._at_hand()
        self._divergence_is_asked()
        return family.divergence(means, self._priors())

    def _divergence_is_asked(self) -> None:
        if self._loss_watch is not None:
            self._loss_watch.asked = True

    def log_prob(self, draw: Draw) -> Tensor:
        """ln q(w) in nats of a draw as `sample_weights` gives it, exact and in O(K); differentiable in draw and law.

        A scalar for one draw, (n,) for n of them stacked. A mean of zero has no density, where the noise is τ|m|.

        Example:
            >>> model = BayesianModule(nn.Linear(3, 2))
            >>> model.log_prob(model.sample_weights()).shape, model.log_prob(model.sample_weights(5)).shape
            (torch.Size([]), torch.Size([5]))
        """
        stack = stack_of(draw, dict(self.means()))
        terms = [law.log_prob(draw[name].reshape(*stack, -1).to(law.mean)) for name, law in self.laws().items()]
        return torch.stack([term.to(terms[0]) for term in terms]).sum(0)

    def set_prior(self, prior: AnyPrior | Mapping[str, AnyPrior]) -> None:
        """Other priors, for all random tensors or {name pattern: prior} for some; everything else stays as it is.

        `Prior(loc="pretrained")` takes the means of now. A model that is built anew for a state saved afterwards has to
        be given the same priors before it is loaded.

        Example:
            >>> model = BayesianModule(nn.Linear(3, 2))
            >>> model.set_prior(tribayes.Prior(loc="pretrained", scale=0.1))
            >>> model.set_prior({"bias": tribayes.RelativePrior()})
        """
        chosen = prior if isinstance(prior, Mapping) else {"*": prior}
        check_priors(chosen.values())
        names = [name for places in self._places.values() for name in places]
        check_patterns("prior", chosen, names, "a random tensor")
        found = [
            next((one for pattern, one in chosen.items() if matches(self._places[name], pattern)), None)
            for name in self._names
        ]
        columns = zip(self.means(), self._priors(), found, strict=True)
        # a new list: what was recorded or traced with the old one can tell
        self.priors = nn.ModuleList(old if new is None else new.resolve(*mean) for mean, old, new in columns)
        self.warn_of_zeros()

    def warn_of_zeros(self) -> None:
        """A warning where means are exactly zero though the noise is proportional to them (zeros.py)."""
        for infinite in (True, False):
            warn_of_zeros(count_zeros(self.means_without_density(infinite)), infinite)

    def means_without_density(self, infinite: bool) -> list[tuple[str, Tensor]]:
        """Random tensors for which a mean of zero is the end of the density, and of a finite divergence or not."""
        if not self.family.multiplicative:
            return []
        free = [self.family.divergence_without_means and relative for relative in are_relative(self._priors())]
        return [named for named, is_free in zip(self.means(), free, strict=True) if is_free is not infinite]

    def _priors(self) -> list[AnyTensorPrior]:
        return list(cast(Iterable[AnyTensorPrior], self.priors))

    @torch.no_grad()
    def posterior(self) -> PosteriorTable:
        """name, shape, K, τ and ρ of every random tensor."""
        family, means = self._at_hand()
        numbers = zip(self.means(), family.describe(means), strict=True)
        rows = (PosteriorRow(name, tuple(mean.shape), mean.numel(), *pair) for (name, mean), pair in numbers)
        return PosteriorTable(tuple(rows))

    @torch.no_grad()
    def stabilise_(self, rule: Rule, generator: Randomness = None) -> None:
        """Apply the numerical guards in place; `tribayes.stabilise_` is the public way."""
        if not isinstance(rule, Rule):
            raise wrong_type("rule", rule, "be a Rule", 'call tribayes.stabilise_(model, rule="closed_form")')
        means = self._means()
        if self.family.divergence_without_means:
            means = [mean for mean, free in zip(means, are_relative(self._priors()), strict=True) if not free]
        self.family.stabilise_(means, rule, generator)

    def load_pretrained(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load weights of the plain network, under their own names, as the means; zeros leave zero again."""
        if not isinstance(state_dict, Mapping) or not all(isinstance(name, str) for name in state_dict):
            remedy = "pass the state_dict() of the plain network"
            raise wrong_type("state_dict", state_dict, "be a dict name -> tensor", remedy)
        self.module.load_state_dict(state_dict, strict=strict)
        if self.family.multiplicative:
            self._leave_zero_(None)

    def extra_repr(self) -> str:
        weights = sum(mean.numel() for _, mean in self.means())
        return f"random: {len(self._names)} tensors, {weights:,} weights"

    @torch.no_grad()
    def _leave_zero_(self, generator: Randomness) -> None:
        means = [local(mean) for mean in self._means()]
        guard_means_(means, rule_of("paper"), sources_of(means, generator))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        adopt_compiled_names(self, state_dict, prefix)
        stored = state_dict.get(f"{prefix}layout")
        if isinstance(stored, Tensor) and not torch.equal(stored.cpu(), self.layout.cpu()):
            # the last argument is torch's list of error messages
            args[-1].append(
                "the checkpoint's random tensors differ from this model's in names or shapes; "
                "convert the same network with the same `where` before loading"
            )
        super()._load_from_state_dict(state_dict, prefix, *args)


def _note_state(module: BayesianModule, _: object) -> None:
    """After a state was loaded."""
    module._filled = True
    module.warn_of_zeros()


def plan_for(net: nn.Module, options: Options) -> Plan:
    """What converting this network will do; an error for one that is Bayesian already, in whole or in part."""
    check_module("net", net)
    for name, child in net.named_modules():
        if isinstance(child, BayesianModule):
            where = f"its part {name!r} is" if name else "it is"
            requirement = f"not be converted twice, but {where} a BayesianModule already"
            remedy = "use it as it is, or take tribayes.to_deterministic(net) first"
            raise refusal("net", type(net).__name__, requirement, remedy)
    return plan_conversion(net, **options)
