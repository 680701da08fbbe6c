"""A Bayesian model as a LightningModule: Lightning trains, what it trains with is the ELBO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

try:
    import lightning
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"training by Lightning needs {error.name}, which is not installed; "
        "install it with: pip install 'tribayes[lightning]'",
        name=error.name,
    ) from error

from tribayes.inference.objective import ELBO
from tribayes.inference.optim import parameter_groups
from tribayes.inference.validation import Validation
from tribayes.integrations.guarded import GuardedLoss, check_elbo, warn_of_data_size
from tribayes.nn.calling import inputs_and_targets
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.stage import posterior_rows
from tribayes.prediction.predict import Samples, predict
from tribayes.prediction.predictive_base import Predictive

_RANDOMNESS = "tribayes_random_state"  # its place in a checkpoint


class BayesianLightningModule(lightning.LightningModule):
    """A Bayesian model with its objective, for `lightning.Trainer`; subclass it to change any of its steps.

    A training step is `TrainingStep`'s up to the backward pass: guards, a fresh draw, the ELBO with the weight of the
    divergence at this update. Gradient clipping, accumulation (the divergence counts once), precision, devices and
    checkpoints are Lightning's. Batches are as `tribayes.fit` takes them.

    Logged are "loss", "nll" and "kl" of steps; after each epoch "tau/…" and "rho/…" of every random tensor; and
    "validation/nll" (or "test/nll"), the NLL of the averaged network by the same 8 draws every time. `trainer.predict`
    gives a `Predictive` for each batch; `Predictive.merge(parts, along="examples")` makes one of them.

    A checkpoint has model, objective, optimizer and torch's random state. A training that is resumed from the end of an
    epoch (`trainer.fit(..., ckpt_path=...)`) ends on a CPU with the bits of one that was not stopped; within an epoch
    Lightning does not know which examples were seen.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones.
        elbo: the objective; a `data_size` that is not the length of the training set is warned of.
        lr: the means' learning rate, or {name pattern: rate} (`parameter_groups`).
        weight_decay: of the means.
        optimizer: makes an optimizer of parameter groups.
        scheduler: makes a schedule of an optimizer; it advances with every update.
        samples: who answers in `trainer.predict`: see `tribayes.predict`.

    Example:
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> data = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(3, (8,))), batch_size=4)
        >>> elbo = tb.ELBO(tb.Categorical(), data_size=8)
        >>> module = BayesianLightningModule(tb.to_bayesian(nn.Linear(4, 3)), elbo, lr=0.01)
        >>> quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
        >>> trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", enable_model_summary=False, **quiet)
        >>> trainer.fit(module, data)
        >>> tb.Predictive.merge(trainer.predict(module, data), along="examples").mean.shape
        torch.Size([8, 3])
    """

    def __init__(
        self,
        model: nn.Module,
        elbo: ELBO,
        lr: float | dict[str, float],
        *,
        weight_decay: float | None = None,
        optimizer: Callable[[list[dict[str, Any]]], torch.optim.Optimizer] = torch.optim.Adam,
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
        samples: Samples = 200,
    ) -> None:
        super().__init__()
        bayesian_modules(model)
        check_elbo(elbo)
        self.model, self.elbo, self.samples = model, elbo, samples
        elbo.stage(model)  # the model remembers the likelihood, also where a checkpoint will fill it
        self.lr, self._weight_decay = lr, weight_decay  # under this name Lightning's Tuner looks for a rate
        self._optimizer, self._scheduler = optimizer, scheduler
        self._loss: GuardedLoss | None = None
        self._random_state: dict[str, Tensor] | None = None  # of a checkpoint to go on from

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The network under one fresh draw."""
        return self.model(*args, **kwargs)

    def configure_optimizers(self) -> Any:
        groups = parameter_groups(self.model, self.lr, likelihood=self.elbo.likelihood, weight_decay=self._weight_decay)
        optimizer = self._optimizer(groups)
        if self._scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self._scheduler(optimizer), "interval": "step"}}

    def on_train_start(self) -> None:
        loader: Any = self.trainer.train_dataloader
        if getattr(loader, "batch_size", None) is not None:  # else its data set may hold batches, not examples
            warn_of_data_size(self.elbo, loader.dataset)
        self._loss = GuardedLoss(self.model, self.elbo, self.trainer.optimizers[0])

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch, with its graph: Lightning takes the gradient."""
        del batch_idx
        assert self._loss is not None  # made when the training starts
        terms = self._loss(self.model, batch, self.global_step)
        self.log_dict({"loss": terms.loss, "nll": terms.nll, "kl": terms.kl}, batch_size=_count(batch))
        return terms.loss

    def on_train_epoch_end(self) -> None:
        rows = posterior_rows(self.model)
        self.log_dict({f"tau/{name}": row.tau for name, row in rows.items()})
        self.log_dict({f"rho/{name}": row.rho for name, row in rows.items()})

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        del batch_idx
        self._held_out("validation/nll", batch)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        del batch_idx
        self._held_out("test/nll", batch)

    def _held_out(self, name: str, batch: Any) -> None:
        nll = Validation([batch], self.model, self.elbo).nll()
        self.log(name, nll, on_epoch=True, prog_bar=True, sync_dist=True, batch_size=_count(batch))

    def predict_step(self, batch: Any, batch_idx: int = 0) -> Predictive:
        """What sampled networks, the same for every batch, say about it; labels in it are not looked at."""
        del batch_idx
        answer: Predictive = predict(
            self.model, iter([batch]), self.samples, likelihood=self.elbo.likelihood, progress=False
        )
        return answer

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        checkpoint[_RANDOMNESS] = state

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._random_state = checkpoint.get(_RANDOMNESS)

    def on_fit_start(self) -> None:
        """A resumed training goes on with the random numbers of its checkpoint; asking a loaded model does not."""
        state, self._random_state = self._random_state, None
        if state is not None:
            torch.set_rng_state(state["cpu"].cpu())
            if "cuda" in state and self.device.type == "cuda":
                torch.cuda.set_rng_state(state["cuda"].cpu(), self.device)


def _count(batch: Any) -> int:
    """Examples of a batch."""
    return len(inputs_and_targets(batch)[1])
