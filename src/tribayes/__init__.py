"""tribayes: Bayesian deep learning with correlated weights.

    import tribayes as tb

    model = tb.to_bayesian(net)                                   # any nn.Module
    elbo = tb.ELBO(tb.Categorical(), data_size=len(train_set))    # the objective
    opt = torch.optim.SGD(tb.parameter_groups(model, lr=0.01), momentum=0.9, fused=True)
    tb.fit(model, elbo, loader, opt, epochs=5)                    # or a loop of your own
    pred = tb.predict(model, x)                                   # 200 sampled networks
    pred.label, pred.interval(0.95), pred.certain(0.95)

Raw parameters → law → draws → network → ELBO → history, and draws → predictive → intervals → report; a folder imports
only from those before it: `posterior`, `nn`, `inference`, `prediction`, `distributed`, `tables`, `sklearn`,
`integrations`, `plots`, `report`, `data`, `runs`, `recipes`, `own`, `serve`.
"""

from importlib import import_module
from types import ModuleType

from tribayes import inference, nn, prediction
from tribayes._allocator import keep_freed_memory
from tribayes.inference import *  # noqa: F403 - all its names are public here, too
from tribayes.nn.convert import kl, stabilise_, to_bayesian, to_deterministic
from tribayes.nn.module import BayesianModule
from tribayes.nn.sampling_network import SamplingNetwork
from tribayes.posterior import Prior, RelativePrior, TridiagonalNormal
from tribayes.prediction import *  # noqa: F403 - as of inference
from tribayes.prediction import metrics

__version__ = "0.2.0"

# `tb.plots` imports matplotlib when it is first used, `tb.sklearn` scikit-learn
_ON_DEMAND = ("distributed", "tables", "sklearn", "plots", "report", "data", "runs")


def __getattr__(name: str) -> ModuleType:
    if name in _ON_DEMAND:
        return import_module(f"tribayes.{name}")
    raise AttributeError(f"module 'tribayes' has no attribute {name!r}")


__all__ = [
    "BayesianModule",
    "Prior",
    "RelativePrior",
    "SamplingNetwork",
    "TridiagonalNormal",
    "keep_freed_memory",
    "kl",
    "metrics",
    "nn",
    "stabilise_",
    "to_bayesian",
    "to_deterministic",
]
__all__ += inference.__all__ + prediction.__all__
