"""The bars are the table's τ and ρ, tensor by tensor."""

from itertools import pairwise

import matplotlib.pyplot as plt
import pytest
from torch import nn

from tribayes.nn.convert import to_bayesian
from tribayes.nn.table import PosteriorRow, PosteriorTable
from tribayes.plots import posterior_bars

TABLE = PosteriorTable(
    (
        PosteriorRow("conv.weight", (4, 1, 3, 3), 36, 0.05, -0.31),
        PosteriorRow("conv.bias", (4,), 4, 0.6, 0.002),
        PosteriorRow("out.weight", (10, 4), 40, 0.2, 0.45),
    )
)


def test_bars_labels_and_names_are_the_tables() -> None:
    ax = posterior_bars(TABLE)
    left, right = ax.child_axes
    assert [bar.get_width() for bar in left.patches] == [0.05, 0.6, 0.2]
    assert [bar.get_width() for bar in right.patches] == [-0.31, 0.002, 0.45]
    assert [text.get_text() for text in left.texts] == ["0.050", "0.600", "0.200"]
    assert [text.get_text() for text in right.texts] == ["−0.310", "0.002", "0.450"]
    assert [text.get_text() for text in left.get_yticklabels()] == ["conv.weight", "conv.bias", "out.weight"]
    assert left.get_xlabel() == "τ, relative deviation"
    assert right.get_xlabel() == "ρ, correlation"


def test_both_axes_hold_zero_and_the_first_tensor_is_on_top() -> None:
    for panel in posterior_bars(TABLE).child_axes:
        low, high = panel.get_xlim()
        assert low <= 0 < high
        assert panel.get_ylim()[0] > panel.get_ylim()[1]


def test_it_draws_a_models_posterior_where_it_is_told() -> None:
    _, ax = plt.subplots()
    table = to_bayesian(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))).posterior()
    assert posterior_bars(table, ax=ax) is ax
    assert [bar.get_width() for bar in ax.child_axes[0].patches] == pytest.approx([row.tau for row in table])


def test_names_of_many_tensors_do_not_overlap() -> None:
    rows = [PosteriorRow(f"layer{i}.weight", (3,), 3, 0.1, 0.0) for i in range(120)]
    ax = posterior_bars(PosteriorTable(tuple(rows)))
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.child_axes[0].get_yticklabels()]
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"`table` \(='dict'\) must be a PosteriorTable; pass model.posterior\(\)"):
        posterior_bars(TABLE.as_dict())
    with pytest.raises(ValueError, match=r"`table` .* must hold at least one tensor"):
        posterior_bars(PosteriorTable(()))
