"""transformers' Trainer for Bayesian models: its loss is the ELBO, its evaluation the averaged network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

try:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"training by transformers' Trainer needs {error.name}, which is not installed; "
        "install it with: pip install 'tribayes[transformers]'",
        name=error.name,
    ) from error

from tribayes._errors import refusal
from tribayes.inference.objective import ELBO, ELBOTerms
from tribayes.inference.optim import parameter_groups
from tribayes.inference.processes import CommonNoise
from tribayes.inference.validation import Validation
from tribayes.integrations.guarded import GuardedLoss, check_elbo, warn_of_data_size
from tribayes.nn.calling import TARGETS, inputs_and_targets
from tribayes.nn.convert import bayesian_modules
from tribayes.prediction.predict import Samples, predict

_OBJECTIVE = "elbo.safetensors"  # in a checkpoint, where the likelihood has parameters of its own
_IGNORED = -100  # the label that transformers' losses leave out


class TriBayesTrainer(transformers.Trainer):
    """`transformers.Trainer` with the ELBO in place of the network's own loss, which knows no divergence.

    Before each step come the guards; labels are taken out of a batch, so the network computes no loss of its own.
    "loss" in the logs is the ELBO's, beside "nll" and "kl". "eval_loss" is the NLL of the averaged network by the same
    8 draws every time. `trainer.predict(...)` gives averaged probabilities (means, where the likelihood is of values)
    by `samples` networks, and so does evaluation where there is a `compute_metrics`.

    Means learn with `learning_rate` and decay with `weight_decay`, scales and correlations have rates of their own
    (`tribayes.parameter_groups`). Checkpoints, resuming, accumulation (the divergence counts once), clipping, precision
    and schedules are the Trainer's.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones.
        args, options: as of the Trainer, by name.
        elbo: the objective; a `data_size` that is not the length of the training set is warned of.
        samples: who answers in predictions: see `tribayes.predict`.
        shift_labels: whether the outputs at a token are about the next one, as in causal language models, whose
            likelihood then is `Categorical(class_axis=-1, ignore_index=-100)`. Default: whether transformers lists the
            network among them.

    Example:
        >>> data = [{"input": torch.randn(4), "labels": number % 3} for number in range(8)]
        >>> elbo = tb.ELBO(tb.Categorical(), data_size=8)
        >>> args = transformers.TrainingArguments(
        ...     str(folder), max_steps=2, report_to="none", use_cpu=True, disable_tqdm=True
        ... )
        >>> trainer = TriBayesTrainer(tb.to_bayesian(nn.Linear(4, 3)), args, elbo=elbo, train_dataset=data)
        >>> result = trainer.train()
        {'train_runtime': ...}
        >>> trainer.predict(data).predictions.shape
        (8, 3)
    """

    loss_is_scaled_for_ga = False  # the mean over a batch

    def __init__(
        self,
        model: nn.Module,
        args: transformers.TrainingArguments | None = None,
        *,
        elbo: ELBO,
        samples: Samples = 200,
        shift_labels: bool | None = None,
        **options: Any,
    ) -> None:
        bayesian_modules(model)
        check_elbo(elbo)
        if options.get("compute_loss_func") is not None:
            raise refusal("compute_loss_func", options["compute_loss_func"], "be left out", "the ELBO is the loss")
        if args is not None and args.label_smoothing_factor:
            remedy = "pass it to the likelihood: tb.Categorical(label_smoothing=...)"
            raise refusal("label_smoothing_factor", args.label_smoothing_factor, "be 0", remedy)
        super().__init__(model=model, args=args, **options)
        self.elbo, self.samples = elbo.to(self.args.device), samples
        self.model_accepts_loss_kwargs = False  # of a loss by the network, which is not asked for one
        if self.args.label_names is None:
            self.label_names = ["labels"]  # found in a signature by the class, where a wrapper has none
        self._shifts = _predicts_the_next_token(model) if shift_labels is None else shift_labels
        self._loss: tuple[torch.optim.Optimizer, GuardedLoss] | None = None
        self._terms: ELBOTerms | None = None  # of the last step
        self._noise = _LearnedNoise(self.elbo)
        self.add_callback(self._noise)
        warn_of_data_size(elbo, self.train_dataset)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The optimizer that the arguments name, of groups as a Bayesian model wants them."""
        if self.optimizer is None:
            learning: Any = self.model if model is None else model
            make, options = self.optimizer_cls_and_kwargs or self.get_optimizer_cls_and_kwargs(self.args, learning)
            if not isinstance(make, type) or not issubclass(make, torch.optim.Optimizer):
                requirement = "be an optimizer that takes parameter groups"
                raise refusal("optim", make, requirement, "pass one of your own: optimizers=(optimizer, None)")
            rate, decay, likelihood = self.args.learning_rate, self.args.weight_decay, self.elbo.likelihood
            groups = parameter_groups(learning, options.get("lr", rate), likelihood=likelihood, weight_decay=decay)
            self.optimizer = make(groups, **options)
        return self.optimizer

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The ELBO of a batch; guards come first."""
        del num_items_in_batch  # the mean over examples has no use for a number of tokens
        assert self.optimizer is not None  # made before the first step
        if self._loss is None or self._loss[0] is not self.optimizer:
            self._loss = self.optimizer, GuardedLoss(model, self.elbo, self.optimizer)
            self._noise.common = CommonNoise(model, self.elbo)
        with self.accelerator.autocast():  # the Trainer puts it around `model.forward`, which draws pass by
            self._terms = self._loss[1](model, self._shifted(inputs), self.state.global_step)
        return (self._terms.loss, {"logits": self._terms.outputs}) if return_outputs else self._terms.loss

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """NLL by averaged draws, averaged probabilities, labels; each as far as it can be had and is wanted."""
        del ignore_keys  # of a network's answer, of which one part counts
        inputs = self._prepare_inputs(inputs)
        labels = loss = None
        with self.accelerator.autocast():
            if any(inputs.get(name) is not None for name in TARGETS):
                batch = self._shifted(inputs)
                labels = inputs_and_targets(inputs)[1]
                loss = torch.tensor(Validation([batch], model, self.elbo).nll(), device=self.args.device)
            if prediction_loss_only:
                return loss, None, None
            answer = predict(model, inputs, self.samples, likelihood=self.elbo.likelihood, progress=False)
        return loss, answer.mean.to(self.args.device), labels

    def _shifted(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch whose labels are those of the tokens that its outputs are about."""
        if not self._shifts:
            return batch
        inputs, targets = inputs_and_targets(batch)
        return {**inputs, "labels": F.pad(targets, (0, 1), value=_IGNORED)[..., 1:]}

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """As the Trainer; the terms of the last step go with its loss."""
        if "loss" in logs and self._terms is not None:
            logs = {**logs, "nll": self._terms.nll.item(), "kl": self._terms.kl.item()}
        super().log(logs, *args, **kwargs)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        assert self.model is not None
        held = self.model.state_dict() if state_dict is None else state_dict
        super()._save(output_dir, _untied(held))
        learned = self.elbo.state_dict()
        if learned and self.args.should_save:
            save_file(learned, Path(output_dir or str(self.args.output_dir)) / _OBJECTIVE)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_objective(resume_from_checkpoint)

    def _load_best_model(self) -> None:
        super()._load_best_model()
        if self.state.best_model_checkpoint is not None:
            self._load_objective(self.state.best_model_checkpoint)

    def _load_objective(self, folder: str) -> None:
        path = Path(folder) / _OBJECTIVE
        if path.exists():
            self.elbo.load_state_dict(load_file(path, str(self.args.device)))


class _LearnedNoise(transformers.TrainerCallback):
    """The Trainer sees to the gradients of its model, but knows nothing of a likelihood's own."""

    def __init__(self, elbo: ELBO) -> None:
        self._elbo = elbo
        self.common: CommonNoise | None = None  # of the processes, known from the first step on

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        if self.common is not None:
            self.common.average_()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._elbo.zero_grad()


def _predicts_the_next_token(model: nn.Module) -> bool:
    names = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    return any(type(module).__name__ in names for module in model.modules())


def _untied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors without shared memory, which safetensors refuses: tied weights are written under each of their names."""
    seen: set[int] = set()
    found = {}
    for name, value in state.items():
        found[name] = value.clone() if value.data_ptr() in seen else value
        seen.add(value.data_ptr())
    return found
