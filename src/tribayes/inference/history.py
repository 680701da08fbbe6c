"""What a training saw."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ValidationRecord:
    """What held-out examples said after an epoch: their mean NLL under the posterior predictive, nats per example.

    Example:
        >>> history = History(validation=[ValidationRecord(1, 20, nll=0.7), ValidationRecord(2, 40, nll=0.4)])
        >>> min(history.validation, key=lambda record: record.nll)
        ValidationRecord(epoch=2, step=40, nll=0.4)
    """

    epoch: int  # counted from 1
    step: int  # updates until then
    nll: float


@dataclass
class History:
    """What training saw, one value per step: the loss, and its two terms; and a record per epoch where it validated.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(1, 1)), torch.randn(8, 1)
        >>> elbo = tb.ELBO(tb.Gaussian(noise=0.1), data_size=8)
        >>> optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
        >>> history = tb.fit(model, elbo, [(x, 2 * x)], optimizer, epochs=3, progress=False)
        >>> len(history), list(history.as_dict())
        (3, ['loss', 'nll', 'kl'])
    """

    loss: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)
    validation: list[ValidationRecord] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loss)

    def as_dict(self) -> dict[str, list[float]]:
        """The values per step."""
        return {"loss": self.loss, "nll": self.nll, "kl": self.kl}
