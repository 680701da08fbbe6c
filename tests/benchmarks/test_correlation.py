"""The study of correlations: laws beside dense ones, shifts of known energy, a rule that can say no, a whole round."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

import tribayes as tb
from benchmarks.correlation import __main__ as command
from benchmarks.correlation import running
from benchmarks.correlation.families import InsideKernels, MeanInput, RandomOrder, WithoutMean, mean_inputs
from benchmarks.correlation.laws import Along, Multiplicative, Neighbours, Separable, Structure
from benchmarks.correlation.plan import ARMS, DIAGONAL, SEEDS, SHARES, TASKS, TRIDIAGONAL, Job
from benchmarks.correlation.results import best_share, pays, pays_at
from benchmarks.correlation.running import Images, figures, run, trained
from benchmarks.correlation.shifts import BLURRED, NOISE, ROUGH, SMOOTH, shifted
from tribayes._files import read_json
from tribayes.posterior.prior import BestScale

K = 12


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def toeplitz(rho: float, size: int) -> Tensor:
    beside = torch.full((size - 1,), rho, dtype=torch.float64)
    return torch.eye(size, dtype=torch.float64) + torch.diag(beside, 1) + torch.diag(beside, -1)


def coefficient(rho: float) -> Tensor:
    return number(2 * rho / (1 + math.sqrt(1 - 4 * rho * rho)))


DIRECTIONS = torch.arange(1.0, K + 1, dtype=torch.float64).reshape(3, 4)
PLACES = torch.randperm(K, generator=torch.Generator().manual_seed(0))


def along() -> Tensor:
    blocks = [torch.eye(4, dtype=torch.float64) + (0.3**2 - 1) * torch.outer(u, u) / u.dot(u) for u in DIRECTIONS]
    return torch.block_diag(*blocks)


CASES: dict[str, tuple[Callable[[], Structure], Callable[[], Tensor]]] = {
    "neighbours": (lambda: Neighbours(coefficient(0.3), K), lambda: toeplitz(0.3, K)),
    "random order": (
        lambda: Neighbours(coefficient(-0.4), K, PLACES),
        lambda: toeplitz(-0.4, K)[PLACES][:, PLACES],
    ),
    "separable": (
        lambda: Separable((coefficient(0.2), coefficient(-0.45)), (2, 2, 3)),
        lambda: torch.block_diag(*2 * [torch.kron(toeplitz(0.2, 2), toeplitz(-0.45, 3))]),
    ),
    "along": (lambda: Along(number(0.3).log(), DIRECTIONS), along),
}


@pytest.mark.parametrize("case", CASES)
def test_structures_are_their_dense_matrices(case: str) -> None:
    structure, expected = (made() for made in CASES[case])
    mixing = structure.noise(torch.eye(structure.normals, dtype=torch.float64))  # what each normal does
    torch.testing.assert_close(mixing.T @ mixing, expected)
    torch.testing.assert_close(structure.log_determinant(), torch.logdet(expected))
    torch.testing.assert_close(structure.variances().double().expand(K), expected.diagonal())


@pytest.mark.parametrize("case", CASES)
def test_laws_are_dense_normals(case: str) -> None:
    structure, matrix = (made() for made in CASES[case])
    loc = torch.linspace(-2, 3, K, dtype=torch.float64)
    law = Multiplicative(loc, number(0.4), structure)
    covariance = 0.4**2 * loc.abs() * matrix * loc.abs().unsqueeze(-1)
    dense = MultivariateNormal(loc, covariance)
    torch.testing.assert_close(law.entropy(), dense.entropy())
    torch.testing.assert_close(law.variance, dense.variance)
    torch.testing.assert_close(law.relative_divergence(), BestScale().divergence(law))
    drawn = law.rsample((200_000,), generator=0)
    off = (drawn.T.cov() - covariance) / torch.outer(law.stddev, law.stddev)
    assert off.abs().max() < 5 * math.sqrt(2 / 200_000)  # 78 entries: by chance in 1 of 20,000 seeds


@pytest.mark.parametrize("family", [RandomOrder, InsideKernels, WithoutMean, MeanInput])
def test_without_correlation_all_are_the_diagonal_law(family: Any) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 4))
    own, diagonal = (tb.to_bayesian(net, family=one, tau=0.3) for one in (family, "diagonal"))
    torch.testing.assert_close(own.kl(), diagonal.kl())
    drawn = torch.stack([own.sample_weights(generator=seed)["2.weight"] for seed in range(500)])
    mean = own.module[2].weight  # type: ignore[index]  # a Sequential
    spread = drawn.std(0) / (0.3 * mean.abs())
    assert (spread - 1).abs().max() < 6 / math.sqrt(2 * 500)  # 48 weights: by chance in 1 of 10 million


@torch.no_grad()
def test_noise_without_mean_leaves_constant_inputs_alone() -> None:
    """With s = 0.01 along |m| a positive kernel answers a constant patch almost without noise, and others as before."""
    layer = nn.Conv2d(1, 1, 3, bias=False)
    nn.init.uniform_(layer.weight, 0.5, 1.5, generator=torch.Generator().manual_seed(0))
    model = tb.to_bayesian(layer, family=WithoutMean, tau=0.3)
    smooth, rough = torch.ones(1, 1, 3, 3), torch.tensor([1.0, -1.0]).repeat(5)[:9].reshape(1, 1, 3, 3)

    def spread(inputs: Tensor) -> float:
        draws = (model.sample_weights(generator=number) for number in range(500))
        return float(torch.stack([model.apply_weights(draw, inputs) for draw in draws]).std())

    before = spread(smooth), spread(rough)
    model.family.raw.fill_(math.log(0.01))  # type: ignore[operator, union-attr]  # of WithoutMean
    assert spread(smooth) < 0.02 * before[0]
    assert spread(rough) == pytest.approx(before[1], rel=0.1)


def test_the_mean_input_of_every_layer() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4))
    model = tb.to_bayesian(net, family=MeanInput)
    images = torch.rand(7, 2, 2, 2)
    found = mean_inputs(model, images)
    names = [name for name, _ in model.means()]
    torch.testing.assert_close(found[names.index("0.weight")], images.mean((0, 2, 3)))
    hidden = net[1](net[0](images)).flatten(1)
    torch.testing.assert_close(found[names.index("3.weight")], hidden.mean(0))


def test_white_and_smooth_noise_have_the_same_energy() -> None:
    images = torch.full((400, 1, 28, 28), 0.5)
    found = {(kind, strength): some - images for kind, strength, some in shifted(images)}
    for strength in NOISE:
        white, smooth = found[ROUGH, strength], found[SMOOTH, strength]
        torch.testing.assert_close(white.std(0), smooth.std(0))
        torch.testing.assert_close(white.std(), torch.tensor(strength), rtol=0.01, atol=0)
        beside = [float((one[..., 1:] * one[..., :-1]).mean() / one.square().mean()) for one in (white, smooth)]
        assert abs(beside[0]) < 0.02
        assert beside[1] > 0.9
    assert all(some.abs().max() < 1e-6 for (kind, _), some in found.items() if kind == BLURRED)  # of a plain ground


def networks(**clean_shifted_foreign: tuple[float, float, float]) -> dict[str, Any]:
    """Made-up results, the same on both data sets, with differences between seeds; "law at c" → three figures."""
    made = {}
    for key, (clean, shift, foreign) in clean_shifted_foreign.items():
        name, share = key.rsplit("_", 1)
        arm = next(arm for arm in ARMS if arm.name == name)
        for seed in range(SEEDS):
            more = 0.001 * seed
            made[Job(TASKS[0], arm, SHARES[int(share)], seed).name] = {
                "clean": {"nll": clean + more, "error": 0.1},
                **{kind: {"1": {"nll": shift + more**1.5}} for kind in (ROUGH, SMOOTH, BLURRED)},
                "foreign": {"other": {"entropy": foreign - more**1.5}},
            }
    return made


SAME = dict.fromkeys((f"diagonal_{number}" for number in range(3)), (0.10, 0.5, 0.8))


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        ((0.10, 0.4, 0.8), True),  # better under shift
        ((0.10, 0.5, 0.9), True),  # better about foreign images
        ((0.10, 0.5, 0.8), False),
        ((0.12, 0.4, 0.9), False),  # paid for on clean images
    ],
)
def test_the_rule(best: tuple[float, float, float], expected: bool) -> None:
    own = {f"tridiagonal_{number}": (0.2, 0.1, 1.0) for number in (0, 2)} | {"tridiagonal_1": best}
    found = networks(**SAME, **own)
    assert best_share(found, TASKS[0], TRIDIAGONAL) == SHARES[1]
    assert pays(found, TASKS[0], TRIDIAGONAL) is expected
    assert pays(networks(**SAME), TASKS[0], TRIDIAGONAL) is None


def test_what_only_the_larger_weight_buys_is_told_from_a_law() -> None:
    """Both laws alike: foreign images are told apart better at the second c, which only one of them likes best."""
    alike = [(0.10, 0.5, 0.8), (0.10, 0.5, 0.9), (0.2, 0.5, 0.8)]
    likes = {0: -0.0001, 1: 0.0001}  # hardly, and only beside the other c
    found = networks(
        **{
            f"{law}_{number}": (clean + sign * likes.get(number, 0), shift, foreign)
            for law, sign in (("diagonal", 1), ("tridiagonal", -1))
            for number, (clean, shift, foreign) in enumerate(alike)
        }
    )
    assert pays(found, TASKS[0], TRIDIAGONAL)
    assert not any(pays_at(found, TASKS[0], TRIDIAGONAL, share) for share in SHARES)
    better = networks(**SAME, tridiagonal_1=(0.10, 0.4, 0.8))
    assert pays_at(better, TASKS[0], TRIDIAGONAL, SHARES[1])


@pytest.fixture
def images() -> Images:
    source = torch.Generator().manual_seed(0)

    def some(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(10, (count,), generator=source)
        shown = 0.1 * torch.rand(count, 1, 28, 28, generator=source)
        for place, label in enumerate(labels.tolist()):
            shown[place, 0, 2 * label : 2 * label + 6] += 0.8
        return shown, labels

    return Images(*some(256), *some(40), {"kmnist": some(20)[0]})


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_every_law_learns(arm: Any, images: Images) -> None:
    job = Job(TASKS[0], arm, 0.1, 0)
    model = trained(job, images, epochs=20)
    found = figures(job, model, images)
    assert found["clean"]["error"] < 0.2  # by guessing 0.9
    assert found["foreign"].keys() == {"kmnist"}
    assert {len(row) for row in found["learned"].values()} == {3 if arm.family is InsideKernels else 2}
    if arm != DIAGONAL:
        moved = [value for row in found["learned"].values() for value in row[1:]]
        assert any(abs(value) > 0.02 and abs(value - 1) > 0.02 for value in moved)


def test_laws_begin_alike(images: Images) -> None:
    weights = [list(trained(Job(TASKS[0], arm, 0.1, 3), images, epochs=0).means()) for arm in ARMS]
    for other in weights[1:]:
        for (_, one), (_, two) in zip(weights[0], other, strict=True):
            assert torch.equal(one, two)


def test_a_round_stores_and_goes_on(images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "images_of", lambda *_: images)
    path, planned = tmp_path / "correlation.json", [Job(TASKS[0], arm, 0.1, 0) for arm in ARMS[:2]]
    assert run(planned[:1], path, None, math.inf, epochs=1) == 0
    first = read_json(path)["networks"]
    assert run(planned, path, None, seconds=-1, epochs=1) == 1
    assert run(planned, path, None, math.inf, epochs=1) == 0
    assert list(read_json(path)["networks"]) == [job.name for job in planned]
    assert read_json(path)["networks"][planned[0].name] == first[planned[0].name]


def test_the_page_says_what_the_results_say() -> None:
    command.main(["--check"])
