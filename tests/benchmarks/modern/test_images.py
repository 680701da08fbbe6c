"""Images are read from the files described, packed without loss, and found again."""

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.modern import images as source
from benchmarks.modern.packing import coded, decoded, pack_arrays, unpack_arrays


@pytest.fixture(autouse=True)
def _no_data_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRIBAYES_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def numbers(*shape: int, high: int = 256, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape, dtype=np.uint8)


def records(path: Path, count: int, label_bytes: int, high: int) -> np.ndarray:
    table = numbers(count, label_bytes + 3072)
    table[:, :label_bytes] %= high
    path.parent.mkdir(parents=True, exist_ok=True)
    data = table.tobytes()
    path.write_bytes(lzma.compress(data, preset=0) if path.suffix == ".xz" else data)
    return table


@pytest.mark.parametrize("channels", [1, 3])
def test_coding_is_undone_exactly(channels: int) -> None:
    images = numbers(5, channels, 7, 6)
    assert np.array_equal(decoded(coded(images)), images)


def test_smooth_images_become_zeros() -> None:
    ramp = np.arange(8, dtype=np.uint8)
    image = np.broadcast_to(ramp + ramp[:, None], (1, 3, 8, 8))
    assert np.count_nonzero(coded(image)[0, :, 1:, 1:]) == 0
    assert np.count_nonzero(coded(image)[0, ::2]) == 0  # red and blue equal green


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_give_the_arrays_back(tmp_path: Path, parts: int) -> None:
    arrays = {"images": numbers(7, 3, 4, 4), "labels": numbers(7, high=10), "votes": np.linspace(0, 1, 20)}
    paths = pack_arrays(arrays, "made-up", tmp_path, parts)
    assert len(paths) == parts
    restored = unpack_arrays("made-up", tmp_path)
    assert restored.keys() == arrays.keys()
    for key, array in arrays.items():
        assert restored[key].dtype == array.dtype
        assert np.array_equal(restored[key], array)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no part of made-up-1-of"):
        unpack_arrays("made-up", tmp_path)
    paths = pack_arrays({"labels": numbers(6)}, "made-up", tmp_path, 2)
    paths[0].unlink()
    with pytest.raises(FileNotFoundError, match=r"does not hold made-up-1-of-2\.npz; carry all parts there"):
        unpack_arrays("made-up", tmp_path)


def test_what_was_unpacked_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = [torch.from_numpy(numbers(6, 3, 32, 32)), torch.arange(6), torch.from_numpy(numbers(4, 3, 32, 32))]
    made = source.Images(*tensors, torch.arange(4), 10)
    others = {"near": torch.from_numpy(numbers(3, 3, 32, 32, seed=1))}
    shares = torch.full((4, 10), 0.1, dtype=torch.float64)
    with monkeypatch.context() as patch:
        patch.setattr(source, "load", lambda *_: made)
        patch.setattr(source, "foreign", lambda *_: others)
        patch.setattr(source, "votes", lambda *_: shares)
        source.main(["pack", "--data", "cifar10", "--parts", "2", "--to", str(tmp_path / "packed")])
    source.main(["unpack", "--data", "cifar10", "--at", str(tmp_path / "packed"), "--to", str(tmp_path)])
    found = source.load("cifar10", tmp_path)
    for part in ("train_images", "train_labels", "test_images", "test_labels"):
        assert getattr(found, part).dtype == getattr(made, part).dtype
        assert torch.equal(getattr(found, part), getattr(made, part))
    assert torch.equal(source.votes(tmp_path), shares)
    capsys.readouterr()
    foreign = source.foreign("cifar10", tmp_path, 2)
    assert torch.equal(foreign["near"], others["near"][:2])
    assert "far" not in foreign
    assert "without far foreign images: no svhn-recropped/test-10000.bin" in capsys.readouterr().out


def test_cifar100_is_shuffled_and_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = source._records  # the real sets are larger than a test should write
    monkeypatch.setattr(source, "_records", lambda path, _, label_bytes: read(path, 40, label_bytes))
    test = records(tmp_path / "cifar-100" / "test.bin.xz", 40, 2, high=100)
    with pytest.raises(FileNotFoundError, match=r"no cifar-100/train\.bin .* run `python build\.py GIT_DIR OUT`"):
        source.load("cifar100", tmp_path)
    assert torch.equal(source.foreign("cifar10", tmp_path, 40)["near"].flatten(1), torch.from_numpy(test[:, 2:]))
    train = records(tmp_path / "cifar-100" / "train.bin", 40, 2, high=100)
    found = source.load("cifar100", tmp_path)
    assert torch.equal(found.test_labels, torch.from_numpy(test[:, 1]).long())
    assert found.classes == 100
    assert not torch.equal(found.train_labels, torch.from_numpy(train[:, 1]).long())
    pairs = zip(found.train_labels.tolist(), found.train_images.numpy(), strict=True)
    labelled = {(label, image.tobytes()) for label, image in pairs}
    assert labelled == {(int(row[1]), row[2:].tobytes()) for row in train}


def test_letters_and_votes(tmp_path: Path) -> None:
    letters = numbers(10_000, 28, 28, high=2)
    (tmp_path / "kmnist").mkdir()
    content = gzip.compress(bytes(16) + letters.tobytes(), compresslevel=1)
    (tmp_path / "kmnist" / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    found = source.foreign("fashion", tmp_path, 5)
    assert torch.equal(found["far"], torch.from_numpy(letters[:5, None]))
    (tmp_path / "cifar-10h").mkdir()
    np.save(tmp_path / "cifar-10h" / "cifar10h-counts.npy", np.array([[1, 3], [50, 0]]))
    assert torch.equal(source.votes(tmp_path), torch.tensor([[0.25, 0.75], [1, 0]], dtype=torch.float64))


def test_a_wrong_file_or_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "svhn-recropped" / "test-10000.bin"
    records(path, 2, 1, high=10)
    with pytest.raises(ValueError, match="holds 6,146 bytes unpacked, not 30,730,000"):
        source.foreign("cifar100", tmp_path, 2)
    with pytest.raises(ValueError, match="there is no data set 'svhn'; give one of cifar10, cifar100, fashion"):
        source.load("svhn", tmp_path)
