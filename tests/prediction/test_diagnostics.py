"""Correlation taken away, and the uncertainty of each layer alone."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import same_tensors
from tests.prediction import brute
from tests.prediction.models import classifier, inputs, predict, refused, regressor, seeded
from tribayes.posterior.streams import Stream


class TestAblation:
    def test_only_the_correlation_is_gone(self) -> None:
        model = classifier(rho=-0.4)
        ablated = tb.ablate_correlation(model)
        before, after = list(model.posterior()), list(ablated.posterior())
        assert [row.rho for row in before] == pytest.approx([-0.4] * 4)
        assert [row.rho for row in after] == [0.0] * 4
        assert [(row.name, row.tau) for row in after] == [(row.name, row.tau) for row in before]
        assert same_tensors(ablated.module.state_dict(), model.module.state_dict())

    def test_the_model_itself_is_left_alone(self) -> None:
        model = classifier(rho=-0.4)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        ablated = tb.ablate_correlation(model)
        assert same_tensors(model.state_dict(), before)
        assert not {id(p) for p in model.parameters()} & {id(p) for p in ablated.parameters()}

    def test_it_is_the_model_that_never_had_any(self) -> None:
        """The same seed draws the same normals, so the predictions agree to the bit."""
        never = predict(classifier(rho=0.0), inputs(), 10).samples
        assert torch.equal(predict(tb.ablate_correlation(classifier(rho=-0.4)), inputs(), 10).samples, never)
        assert not torch.equal(predict(classifier(rho=-0.4), inputs(), 10).samples, never)

    def test_every_bayesian_module_is_reached(self) -> None:
        model = nn.Sequential(tb.nn.Linear(4, 3, rho=0.2), nn.Tanh(), tb.nn.Linear(3, 2, rho=0.3))
        ablated = tb.ablate_correlation(model)
        assert [row.rho for index in (0, 2) for row in ablated[index].posterior()] == [0.0] * 4

    def test_nothing_to_take_away_is_refused(self) -> None:
        model = classifier(family="diagonal", rho=0.0)
        text = (
            "`model` (='BayesianModule') must have correlations to take away; "
            'only family="tridiagonal" has correlations.'
        )
        with refused(text):
            tb.ablate_correlation(model)


def by_hand(model: tb.BayesianModule, x: Tensor, samples: int, names: list[str]) -> np.ndarray:
    """Outputs (S, N, C) of networks of which only the named tensors are drawn."""
    rows = []
    for sample in range(samples):
        draw = model.sample_weights(generator=Stream((0, sample, 0)))
        with torch.no_grad():
            rows.append(model.apply_weights({name: draw[name] for name in names}, x))
    return torch.stack(rows)


LAYERS = {"0": ["0.weight", "0.bias"], "2": ["2.weight", "2.bias"]}


class TestLayerReport:
    def test_each_layer_is_drawn_alone(self) -> None:
        """Mutual information by brute force, from draws restricted by hand."""
        model, x = classifier(), inputs()
        report = tb.layer_report(model, x, samples=12)
        assert [row.layer for row in report] == ["0", "2"]
        for row in (*report, report.everything):
            names = LAYERS.get(row.layer, [*LAYERS["0"], *LAYERS["2"]])
            probabilities = by_hand(model, x, 12, names).softmax(-1).numpy()
            assert row.epistemic == pytest.approx(np.mean(brute.information(probabilities)), rel=1e-10)
            assert row.std == pytest.approx(probabilities.std(0, ddof=1).mean(), rel=1e-10)

    def test_regression_reports_variances(self) -> None:
        model, x = regressor(), inputs()
        report = tb.layer_report(model, x, samples=12, likelihood=tb.Gaussian())
        for row in report:
            variance = by_hand(model, x, 12, LAYERS[row.layer]).numpy().var(0, ddof=1)
            assert row.epistemic == pytest.approx(variance.mean(), rel=1e-10)
            assert row.std == pytest.approx(np.sqrt(variance).mean(), rel=1e-10)

    def test_shares_add_up(self) -> None:
        report = tb.layer_report(classifier(), inputs(), samples=12)
        assert sum(row.share for row in report) == pytest.approx(1)
        total = sum(row.epistemic for row in report)
        assert [row.share for row in report] == pytest.approx([row.epistemic / total for row in report])

    def test_a_layer_of_known_weights_brings_nothing(self) -> None:
        model = classifier(tau={"0.*": 1e-10, "2.*": 0.5})
        first, second = tb.layer_report(model, inputs(), samples=12)
        assert first.share < 1e-6
        assert second.share == pytest.approx(1)

    def test_it_prints_and_is_plain_numbers(self) -> None:
        report = tb.layer_report(classifier(), inputs(), samples=12)
        plain = report.as_dict()
        assert list(plain) == ["0", "2", "all"]
        assert plain["2"] == {
            "epistemic": report.rows[1].epistemic,
            "std": report.rows[1].std,
            "share": report.rows[1].share,
        }
        lines = [line.split() for line in str(report).splitlines()]
        assert lines[0] == ["layer", "drawn", "epistemic", "std", "share"]
        assert lines[2][0] == "0"
        assert lines[2][-2:] == [f"{100 * report.rows[0].share:.0f}", "%"]
        assert lines[4][0] == "all"

    def test_a_bare_layer(self) -> None:
        report = tb.layer_report(tb.to_bayesian(nn.Linear(4, 3).double()), inputs(), samples=3)
        assert [row.layer for row in report] == ["(the module itself)"]

    def test_several_bayesian_modules(self) -> None:
        model = nn.Sequential(tb.nn.Linear(4, 3), nn.Tanh(), tb.to_bayesian(nn.Sequential(nn.Linear(3, 2)))).double()
        assert [row.layer for row in tb.layer_report(model, inputs(), samples=3)] == ["0", "2.0"]

    def test_names_that_look_like_patterns(self) -> None:
        class Named(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.ModuleDict({"[3x3]": nn.Linear(4, 3), "*": nn.Linear(3, 2)})

            def forward(self, x: Tensor) -> Tensor:
                return self.layers["*"](self.layers["[3x3]"](x).tanh())

        model = tb.to_bayesian(seeded(Named), tau={"layers.[*": 0.5, "*": 1e-10})
        shares = {row.layer: round(row.share, 3) for row in tb.layer_report(model, inputs(), samples=3)}
        assert shares == {"layers.[3x3]": 1.0, "layers.*": 0.0}
