"""Wherever a set lies and however it is packed, the same tensors come out."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.data.samples import PACK, Sample, cifar_sample, idx_sample, tar_bytes
from tribayes.data import NAMES, Split, class_names, load, load_digits


@pytest.fixture
def mnist(monkeypatch: pytest.MonkeyPatch) -> Sample:
    return idx_sample("mnist").use(monkeypatch)


@pytest.fixture
def cifar(monkeypatch: pytest.MonkeyPatch) -> Sample:
    return cifar_sample().use(monkeypatch)


def here(name: str, folder: Path | None = None) -> Split:
    return load(name, folder, download=False, progress=False)


def assert_mnist(data: Split, sample: Sample) -> None:
    contents = sample.contents
    assert data.train_images.shape == (12, 1, 4, 5)
    assert data.test_images.shape == (6, 1, 4, 5)
    assert data.train_images.flatten().tolist() == list(contents["train-images-idx3-ubyte"][16:])
    assert data.train_labels.tolist() == list(contents["train-labels-idx1-ubyte"][8:])
    assert data.test_images.flatten().tolist() == list(contents["t10k-images-idx3-ubyte"][16:])
    assert data.test_labels.tolist() == list(contents["t10k-labels-idx1-ubyte"][8:])


def assert_cifar(data: Split, sample: Sample) -> None:
    train = b"".join(content for name, content in sample.contents.items() if name.startswith("data"))
    assert data.train_images.shape == (20, 3, 32, 32)
    assert data.test_images.shape == (4, 3, 32, 32)
    for images, labels, content in (
        (data.train_images, data.train_labels, train),
        (data.test_images, data.test_labels, sample.contents["test_batch.bin"]),
    ):
        records = torch.tensor(list(content)).view(-1, 3073)
        assert labels.tolist() == records[:, 0].tolist()
        assert images.flatten(1).tolist() == records[:, 1:].tolist()
        # red, green, blue planes of 32 rows: the pixel in row 2, column 5 of the green plane
        assert images[1, 1, 2, 5] == records[1, 1 + 1024 + 2 * 32 + 5]


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", ""])
def test_idx_files_in_any_packing_and_folder(tmp_path: Path, mnist: Sample, suffix: str, folder: str) -> None:
    mnist.write(tmp_path / "d" / folder, suffix)
    assert_mnist(here("mnist", tmp_path / "d"), mnist)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("folder", ["cifar-10", "cifar-10/cifar-10-batches-bin", "", "cifar-10-batches-bin"])
def test_cifar_binaries_in_any_packing_and_folder(tmp_path: Path, cifar: Sample, suffix: str, folder: str) -> None:
    cifar.write(tmp_path / "d" / folder, suffix)
    assert_cifar(here("cifar-10", tmp_path / "d"), cifar)


@pytest.mark.parametrize("folder", ["cifar-10", ""])
def test_a_cifar_archive(tmp_path: Path, cifar: Sample, folder: str) -> None:
    files = {f"cifar-10-batches-bin/{name}": content for name, content in cifar.contents.items()}
    archive = tmp_path / folder / "cifar-10-binary.tar.gz"
    archive.parent.mkdir(exist_ok=True)
    archive.write_bytes(tar_bytes({"cifar-10-batches-bin/readme.html": b"<html>"} | files))
    assert_cifar(here("cifar-10", tmp_path), cifar)
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]  # nothing was extracted


def test_an_archive_may_complete_what_lies_beside_it(tmp_path: Path, cifar: Sample) -> None:
    cifar.write(tmp_path)
    for name in ("data_batch_2.bin", "test_batch.bin"):
        (tmp_path / name).unlink()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(tar_bytes(cifar.contents))
    assert_cifar(here("cifar-10", tmp_path), cifar)


def test_members_may_lie_in_several_places(tmp_path: Path, cache: Path, mnist: Sample) -> None:
    mnist.write(tmp_path / "d" / "mnist", ".gz")
    mnist.write(cache / "mnist", "")
    (tmp_path / "d/mnist/t10k-labels-idx1-ubyte.gz").unlink()
    assert_mnist(here("mnist", tmp_path / "d"), mnist)


def test_places_come_in_order(tmp_path: Path, cache: Path, mnist: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"data_dir": tmp_path / "first", "variable": tmp_path / "second", "cache": cache}
    for folder in places.values():
        mnist.write(folder / "mnist")
    monkeypatch.setenv("TRIBAYES_DATA", str(places["variable"]))
    (places["data_dir"] / "mnist/train-labels-idx1-ubyte").write_bytes(b"")
    with pytest.raises(ValueError, match=str(places["data_dir"])):
        here("mnist", places["data_dir"])
    assert_mnist(here("mnist"), mnist)
    (places["variable"] / "mnist/train-labels-idx1-ubyte").write_bytes(b"")
    with pytest.raises(ValueError, match=str(places["variable"])):
        here("mnist")
    monkeypatch.setenv("TRIBAYES_DATA", "")
    assert_mnist(here("mnist"), mnist)


@pytest.mark.parametrize("folder", [".", ""])
def test_the_folder_may_be_where_one_stands(
    tmp_path: Path, mnist: Sample, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    mnist.write(tmp_path / "mnist")
    monkeypatch.chdir(tmp_path)
    assert_mnist(here("mnist", Path(folder)), mnist)


def test_the_cache_is_in_the_home_folder_by_default(
    tmp_path: Path, mnist: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    mnist.write(tmp_path / ".cache/tribayes/mnist")
    assert_mnist(here("mnist"), mnist)


def test_types_and_devices(tmp_path: Path, mnist: Sample) -> None:
    mnist.write(tmp_path)
    data = here("mnist", tmp_path)
    assert [tensor.dtype for tensor in data] == [torch.uint8, torch.int64] * 2
    assert all(tensor.is_contiguous() for tensor in data)
    assert [tensor.device.type for tensor in data.to("meta")] == ["meta"] * 4
    assert isinstance(data.to("cpu"), Split)


def test_the_bar_says_what_is_read(tmp_path: Path, mnist: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    mnist.write(tmp_path)
    load("mnist", tmp_path, download=False)
    assert "reading mnist" in capsys.readouterr().err
    here("mnist", tmp_path)
    assert capsys.readouterr().err == ""


def test_digits_are_what_they_were() -> None:
    pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")
    data, same = load("digits"), load_digits()
    assert all(torch.equal(a, b) for a, b in zip(data, same, strict=True))
    assert data.train_images.shape == (1437, 1, 8, 8)
    assert data.test_images.shape == (360, 1, 8, 8)
    assert data.train_images.dtype == torch.float32
    assert (data.train_images.min(), data.train_images.max()) == (0, 1)
    assert data.test_labels[:5].tolist() == [0, 5, 0, 5, 0]


def test_every_set_has_ten_names_for_its_classes() -> None:
    assert NAMES == ("mnist", "fashion-mnist", "cifar-10", "digits")
    assert all(len(set(class_names(name))) == 10 for name in NAMES)
    assert class_names("cifar-10")[6] == "frog"
    assert class_names("digits") == tuple("0123456789")


@pytest.mark.parametrize("call", [load, class_names])
def test_an_unknown_name(call: Callable[[str], object]) -> None:
    text = r"`name` \(='svhn'\) must be one of mnist, fashion-mnist, cifar-10, digits; give one of these names."
    with pytest.raises(ValueError, match=text):
        call("svhn")


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"`data_dir` \(='.*gone'\) must be an existing folder; make it, or correct"):
        load("mnist", tmp_path / "gone")
    with pytest.raises(ValueError, match=r"`data_dir` \(='\\x00'\) must name a folder, without a zero byte"):
        load("mnist", "\0")
    monkeypatch.setenv("TRIBAYES_DATA", str(tmp_path / "lost"))
    with pytest.raises(ValueError, match=r"`\$TRIBAYES_DATA` \(='.*lost'\) must be an existing folder"):
        load("mnist")
