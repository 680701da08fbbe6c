"""The code that people read first: README's, CONTRIBUTING's and the demo run as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tribayes as tb

ROOT = Path(__file__).parent.parent


def code_of(page: str) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def run_blocks(page: str) -> dict[str, Any]:
    """All blocks of a page in one namespace, as a reader types them."""
    names: dict[str, Any] = {}
    for block in code_of(page):
        exec(compile(block, page, "exec"), names)
    return names


def test_readme_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="README's example takes its digits from scikit-learn")
    names = run_blocks("README.md")
    said = capsys.readouterr().out
    assert "test error" in said
    assert "certain:" in said
    assert names["pred"].summary(names["digits"].test_labels).error < 0.1
    assert names["terms"].loss.isfinite()


def test_every_page_with_code_is_run() -> None:
    pages = [path.name for path in ROOT.glob("*.md") if code_of(path.name)]
    assert sorted(pages) == ["CONTRIBUTING.md", "README.md"]


class TestOwnFamily:
    """The family of CONTRIBUTING.md, used for everything a family is there for."""

    def _model(self) -> tb.BayesianModule:
        family = run_blocks("CONTRIBUTING.md")["OneScale"]
        torch.manual_seed(0)
        return tb.to_bayesian(
            nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3)), family=family, tau=0.2, prior=tb.Prior()
        )

    def test_it_trains_and_predicts(self) -> None:
        model = self._model()
        x = torch.randn(300, 2)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        elbo = tb.ELBO(tb.Categorical(), data_size=300, kl_weight=0.01)
        optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.02))
        start = model.family.log_scale.detach().clone()
        history = tb.fit(model, elbo, [(x, y)], optimizer, epochs=150, progress=False)
        assert history.nll[-1] < 0.5 * history.nll[0]
        assert (model.family.log_scale != start).all()
        pred = tb.predict(model, x, 50, progress=False)
        assert pred.summary(y).error < 0.15
        assert (pred.std > 0).all()

    def test_it_draws_from_the_law_it_names(self) -> None:
        # 2,000 draws of 32 weights: each deviation is off by more than 6 standard errors with probability 2e-9
        model = self._model()
        draws = model.sample_weights(2000, generator=1)["0.weight"]
        scale = model.family.log_scale[0].exp()
        assert ((draws.std(0) / scale - 1).abs() < 6 / (2 * 2000) ** 0.5).all()

    def test_its_divergence_is_the_sum_over_its_weights(self) -> None:
        model = self._model()
        expected = sum(
            torch.distributions.kl_divergence(
                torch.distributions.Normal(mean, scale), torch.distributions.Normal(0.0, 1.0)
            ).sum()
            for (_, mean), scale in zip(model.means(), model.family.log_scale.exp(), strict=True)
        )
        torch.testing.assert_close(model.kl(), expected)

    def test_it_is_saved_and_loaded(self, tmp_path: Path) -> None:
        model, other = self._model(), self._model()
        with torch.no_grad():
            model.family.log_scale.sub_(1.0)
        torch.save(model.state_dict(), tmp_path / "weights.pt")
        other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
        x = torch.randn(4, 2)
        ours, theirs = (tb.predict(one, x, 5, progress=False).samples for one in (model, other))
        assert torch.equal(ours, theirs)

    def test_what_knows_laws_by_their_class_takes_it(self) -> None:
        model = self._model()
        x, y = torch.randn(8, 2), torch.randint(3, (8,))
        assert tb.ELBO(tb.Categorical(), data_size=8, estimator="local")(model, x, y).loss.isfinite()


def test_the_demo_runs_to_its_report(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the demo takes its digits from scikit-learn")
    pytest.importorskip("matplotlib", reason="the demo draws its report")
    command = [sys.executable, ROOT / "examples" / "digits.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "would go to a person" in done.stdout
    page = (tmp_path / "runs/demo/report.html").read_text()
    assert "Handwritten digits" in page
