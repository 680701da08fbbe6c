"""Every arm trains by the same loop and answers with probabilities."""

import pytest
import torch
from torch import Tensor, nn

from benchmarks import peers
from benchmarks.modern.arms import ARMS, Laplace, SharedBatch, Swag, build
from benchmarks.modern.last_layer import LastLayer, best_precision
from benchmarks.modern.swag import Passage, flat, put, renew_statistics
from benchmarks.modern.task import Task, warm_up_and_cosine
from benchmarks.modern.training import LostItsWay, OutOfTime, expected_bytes, task_of, train
from tests.benchmarks.modern.small import CLASSES, HELD_OUT, settings, study

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("tiny")


def silent(text: str) -> None:
    del text


def needs(arm: str) -> None:
    if arm == "ivon":
        try:
            peers.learner("IVON")
        except peers.NotInstalled as reason:
            pytest.skip(str(reason))


@pytest.mark.parametrize("network", ["tiny", "tiny-tokens"])
@pytest.mark.parametrize("arm", ARMS)
def test_three_steps_and_an_answer(arm: str, network: str) -> None:
    needs(arm)
    data = study()
    trained = train(settings(arm, network=network), data, silent)  # 48 images in batches of 16: three steps
    answer = trained.arm.predict(data.prepared(data.held_out))
    assert answer.shape == (1 if arm == "plain" else 3, HELD_OUT, CLASSES)
    assert answer.isfinite().all()
    torch.testing.assert_close(answer.sum(-1), torch.ones(len(answer), HELD_OUT))
    assert len(trained.losses) == 1
    if arm not in ("plain", "swag"):  # swag has seen its weights but once in three steps
        assert not torch.equal(answer[0], answer[1])
    assert torch.equal(trained.arm.predict(data.prepared(data.held_out)), answer)  # asked again, the same


@pytest.mark.parametrize("arm", ARMS)
def test_equal_seeds_give_equal_bits(arm: str) -> None:
    needs(arm)
    data = study()
    first, second, other = (train(settings(arm, seed=seed), data, silent) for seed in (0, 0, 1))
    images = data.prepared(data.held_out)
    assert torch.equal(first.arm.predict(images), second.arm.predict(images))
    assert first.losses == second.losses != other.losses


def test_all_arms_begin_with_the_same_weights() -> None:
    def first_weight(arm: str) -> Tensor:
        return build(Task(settings(arm), 48, 3, CPU), (3, 16, 16), CLASSES).network.head.weight

    for arm in set(ARMS) - {"ivon"}:
        assert torch.equal(first_weight(arm), first_weight("plain"))


def test_learning_goes_down() -> None:
    for arm in ("plain", "ours"):
        losses = train(settings(arm, epochs=8, options={"kl": 0.0} if arm == "ours" else {}), study(), silent).losses
        assert losses[-1] < 0.7 * losses[0]


def test_draws_for_parts_of_the_batch() -> None:
    """Two draws for halves: the mean of both halves' losses, and the divergence once."""
    one = build(Task(settings("ours", options={"draws": "halves"}), 48, 3, CPU), (3, 16, 16), CLASSES)
    images, labels = torch.randn(8, 3, 16, 16), torch.randint(CLASSES, (8,))
    objective = one.objective()  # type: ignore[attr-defined]  # `build` says only that it is an arm
    assert isinstance(objective, SharedBatch)
    stage = objective.stage(one.model)
    torch.manual_seed(3)
    nll, divergence, outputs = objective.parts(stage, images, labels)
    objective.draws = 1
    torch.manual_seed(3)
    parts = [objective.parts(stage, images[part], labels[part]) for part in (slice(4), slice(4, 8))]
    torch.testing.assert_close(nll, (parts[0][0] + parts[1][0]) / 2)
    torch.testing.assert_close(divergence, parts[0][1])
    torch.testing.assert_close(outputs, torch.cat([parts[0][2], parts[1][2]]))


def test_what_a_law_learned_is_told() -> None:
    trained = train(settings("ours_tridiagonal"), study(), silent)
    told = trained.arm.posterior()
    assert "head.weight" in told
    assert told["head.weight"]["tau"] > 0
    assert not train(settings("plain"), study(), silent).arm.posterior()


def test_everything_decays_as_in_a_plain_network_or_the_means_alone() -> None:
    for decay, others in (("all", 5e-4), ("means", 0.0)):
        arm = build(task_of(settings("ours", options={"decay": decay}), study()), (3, 16, 16), CLASSES)
        means = {id(mean) for _, mean in arm.model.means()}
        raw = {id(value) for value in arm.model.family.parameters()}
        for group in arm.optimizer.param_groups:
            for value in group["params"]:
                kind = 5e-4 if id(value) in means else 0.0 if id(value) in raw else others
                assert group["weight_decay"] == kind


def test_laplace_adopts_a_plain_network() -> None:
    data = study()
    plain = train(settings("plain"), data, silent)
    trained = train(settings("laplace"), data, silent, adopted=plain.arm.model.state_dict())
    whole = train(settings("laplace"), data, silent)
    images = data.prepared(data.held_out)
    assert trained.losses == []
    assert torch.equal(trained.arm.predict(images), whole.arm.predict(images))
    assert isinstance(trained.arm, Laplace)


def test_last_layer_is_the_dense_gauss_newton_of_factors() -> None:
    """Covariance of the logits against the dense inverse of A ⊗ B + δ."""
    torch.manual_seed(0)
    head, features = nn.Linear(3, CLASSES), torch.randn(50, 3)
    layer = LastLayer.fit(head, [features[:20], features[20:]], precision=0.7)
    seen = torch.cat([features, torch.ones(50, 1)], 1).double()
    p = head(features).double().softmax(-1)
    curvature = (torch.diag_embed(p) - p[:, :, None] * p[:, None, :]).mean(0)
    dense = torch.kron(curvature, seen.T @ seen) + 0.7 * torch.eye(4 * CLASSES).double()
    jacobian = torch.kron(torch.eye(CLASSES).double(), seen[0][None])  # logits of one image by the weights, row by row
    expected = jacobian @ torch.linalg.inv(dense) @ jacobian.T
    rotated = (seen[:1] @ layer.inputs).square() @ (1 / (torch.outer(layer.input_values, layer.output_values) + 0.7))
    found = layer.outputs @ rotated[0].diag() @ layer.outputs.T
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_precision_by_evidence_is_where_the_derivative_vanishes() -> None:
    """Without curvature's help the evidence wants δ = P / ‖W‖² where the data say much."""
    weights, large = torch.full((2, 3), 0.5).double(), torch.full((3,), 1e9).double()
    assert best_precision(weights, large, large[:2]) == pytest.approx(6 / 1.5, rel=0.15)


def test_passage_has_the_moments_of_what_it_saw() -> None:
    torch.manual_seed(0)
    seen = torch.randn(30, 5) * torch.tensor([0.0, 0.1, 1.0, 2.0, 3.0]) + 4
    passage = Passage(rank=10)
    for weights in seen:
        passage.see(weights)
    torch.testing.assert_close(passage.mean, seen.mean(0))
    assert len(passage.deviations) == 10
    drawn = torch.stack([passage.sample(torch.Generator().manual_seed(seed)) for seed in range(2000)])
    deviations = torch.stack(list(passage.deviations))
    expected = 0.5 * seen.var(0, correction=0) + deviations.square().sum(0) / 18
    torch.testing.assert_close(drawn.mean(0), seen.mean(0), atol=0.3, rtol=0)
    torch.testing.assert_close(drawn.var(0), expected, rtol=0.15, atol=1e-6)  # 2,000 draws: 3 % by chance


def test_weights_go_out_and_come_back() -> None:
    network = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    weights = flat(network)
    put(weights + 1, network)
    torch.testing.assert_close(flat(network), weights + 1)
    assert network.weight.is_contiguous(memory_format=torch.channels_last)


def test_renewed_statistics_are_means_over_batches() -> None:
    norm = nn.BatchNorm1d(2)
    batches = [torch.randn(8, 2) + 3, torch.randn(8, 2) - 1]
    renew_statistics(norm, batches)
    torch.testing.assert_close(norm.running_mean, (batches[0].mean(0) + batches[1].mean(0)) / 2)
    assert norm.momentum == 0.1


def test_swag_holds_its_rate() -> None:
    arm = build(Task(settings("swag"), 48, 100, CPU), (3, 16, 16), CLASSES)
    assert isinstance(arm, Swag)
    assert arm.rate(99) == arm.rate(75) == warm_up_and_cosine(75, 100) > 0
    assert arm.rate(40) == warm_up_and_cosine(40, 100)


def test_swag_draws_networks_that_differ() -> None:
    data = study()
    trained = train(settings("swag", epochs=4), data, silent)
    answer = trained.arm.predict(data.prepared(data.held_out))
    assert isinstance(trained.arm, Swag)
    assert trained.arm.passage.count == 3  # the last quarter of twelve steps
    assert not torch.equal(answer[0], answer[1])


def test_the_schedule() -> None:
    rates = [warm_up_and_cosine(step, 200) for step in range(201)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == 1 == rates[9]
    assert rates[105] == pytest.approx(0.5, abs=1e-9)
    assert rates[200] == pytest.approx(0)


def test_time_and_numbers_are_watched() -> None:
    with pytest.raises(OutOfTime):
        train(settings("plain", epochs=3), study(), silent, time_left=lambda: -1.0)
    with pytest.raises(LostItsWay):
        train(settings("plain", lr=1e30, network="tiny-tokens"), study(), silent)


def test_a_run_is_told_before_it_begins() -> None:
    small, large = (expected_bytes(settings("plain", batch=batch), study()) for batch in (8, 16))
    assert 0 < small < large
    assert task_of(settings("plain", epochs=5), study()).steps == 15


def test_the_prior_may_be_chosen() -> None:
    for options in ({"prior": "relative", "kl": "auto"}, {"prior": 0.5, "tau": 0.1}):
        train(settings("ours", options=options), study(), silent)
