"""A file that is not what it should be is refused by its name, with what is wrong with it."""

import gzip
import io
import lzma
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.data.samples import CIFAR_SHAPE, Sample, cifar_sample, idx_bytes, idx_sample, tar_bytes
from tribayes.data import load

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
REMEDY = "; replace it, or remove it so that another copy is found or downloaded."


def refusal_of(name: str, folder: Path, path: Path) -> str:
    """What is said about the file at `path`, between its name and the remedy."""
    with pytest.raises(ValueError) as caught:
        load(name, folder, download=False, progress=False)
    text = str(caught.value)
    assert text.startswith(f"{path} ")
    assert text.endswith(REMEDY)
    return text.removeprefix(f"{path} ").removesuffix(REMEDY)


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.fixture
def mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    sample = idx_sample("mnist").use(monkeypatch)
    sample.write(tmp_path)
    return sample


@pytest.fixture
def cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    sample = cifar_sample().use(monkeypatch)
    sample.write(tmp_path)
    return sample


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        (IMAGES, lambda c: c[:-1], "is truncated: it holds 255 of 256 bytes"),
        (IMAGES, lambda c: c[:10], "is truncated: it ends within the header, after 10 bytes"),
        (LABELS, lambda _: b"", "is truncated: it ends within the header, after 0 bytes"),
        (IMAGES, lambda c: c + b"\0" * 9, "is too long: it holds more than 256 bytes"),
        (IMAGES, lambda _: b"<html>", "is not an IDX file: it begins with the bytes 3c 68 74 6d"),
        (IMAGES, lambda c: c[:2] + b"\x0d" + c[3:], "has the wrong type: its header says float32, not uint8"),
        (
            IMAGES,
            lambda _: idx_bytes(torch.zeros(12, 5, 4, dtype=torch.int64)),
            "has the wrong shape: its header says (12, 5, 4), not (12, 4, 5)",
        ),
        (
            IMAGES,
            lambda _: idx_bytes(torch.zeros(12, dtype=torch.int64)),
            "has the wrong shape: its header says (12,), not (12, 4, 5)",
        ),
        (LABELS, lambda c: c[:-1] + b"\x0a", "holds a label of 10, while labels go from 0 to 9"),
    ],
)
@pytest.mark.usefixtures("mnist")
def test_bad_idx_file(tmp_path: Path, name: str, spoil: Callable[[bytes], bytes], said: str) -> None:
    path = tmp_path / name
    path.write_bytes(spoil(path.read_bytes()))
    assert refusal_of("mnist", tmp_path, path) == said


def test_a_single_wrong_bit(tmp_path: Path, mnist: Sample) -> None:
    path = tmp_path / IMAGES
    path.write_bytes(flipped(path.read_bytes(), 100))
    said = refusal_of("mnist", tmp_path, path)
    assert re.fullmatch(r"is corrupt: the sha256 of its content is [0-9a-f]{64}, not ([0-9a-f]{64})", said)
    assert said.endswith(mnist.member(IMAGES).sha256)


def test_files_of_the_other_set_with_the_same_names(
    tmp_path: Path, mnist: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    fashion = idx_sample("fashion-mnist", seed=1).use(monkeypatch)
    fashion.write(tmp_path)
    assert refusal_of("mnist", tmp_path, tmp_path / IMAGES).endswith(
        f"{mnist.member(IMAGES).sha256}; it is fashion-mnist's"
    )
    load("fashion-mnist", tmp_path, download=False, progress=False)


@pytest.mark.parametrize(
    ("suffix", "spoil", "said"),
    [
        (".gz", lambda c: gzip.compress(c)[:-9], "is truncated: its packed data end too early"),
        (".xz", lambda c: lzma.compress(c)[:-9], "is truncated: its packed data end too early"),
        (".gz", lambda c: c, r"is corrupt: it cannot be unpacked \(Not a gzipped file .*\)"),
        (".xz", lambda c: c, r"is corrupt: it cannot be unpacked \(Input format not supported by decoder\)"),
        (".gz", lambda c: flipped(gzip.compress(c), -6), r"is corrupt: it cannot be unpacked \(CRC check failed .*\)"),
        (".xz", lambda c: flipped(lzma.compress(c), 40), r"is corrupt: it cannot be unpacked \(.*\)"),
        (".gz", lambda c: gzip.compress(c + bytes(10**7)), "is too long: it holds more than 256 bytes"),
        (".xz", lambda c: lzma.compress(c + bytes(10**7)), "is too long: it holds more than 256 bytes"),
    ],
)
@pytest.mark.usefixtures("mnist")
def test_bad_packing(tmp_path: Path, suffix: str, spoil: Callable[[bytes], bytes], said: str) -> None:
    plain = tmp_path / IMAGES
    path = tmp_path / (IMAGES + suffix)
    path.write_bytes(spoil(plain.read_bytes()))
    plain.unlink()
    assert re.fullmatch(said, refusal_of("mnist", tmp_path, path))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c: c[:-1], "is truncated: it holds 12,291 of 12,292 bytes"),
        (lambda c: c + b"\0", "is too long: it holds more than 12,292 bytes"),
        (lambda c: c[:3073] + b"\xff" + c[3074:], "holds a label of 255, while labels go from 0 to 9"),
        (lambda c: flipped(c, 9999), "is corrupt: the sha256 of its content is "),
    ],
)
@pytest.mark.usefixtures("cifar")
def test_bad_cifar_file(tmp_path: Path, spoil: Callable[[bytes], bytes], said: str) -> None:
    assert CIFAR_SHAPE == (4, 3073)
    path = tmp_path / "data_batch_3.bin"
    path.write_bytes(spoil(path.read_bytes()))
    assert refusal_of("cifar-10", tmp_path, path).startswith(said)


def test_bad_archives(tmp_path: Path, cifar: Sample) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    path = folder / "cifar-10-binary.tar.gz"
    whole = tar_bytes(cifar.contents)

    path.write_bytes(whole[: len(whole) // 2])
    assert refusal_of("cifar-10", folder, path).startswith("is truncated: its packed data end too early")
    path.write_bytes(b"<html>")
    assert refusal_of("cifar-10", folder, path) == "is corrupt: it cannot be unpacked (not a gzip file)"
    path.write_bytes(tar_bytes({name: cifar.contents[name] for name in list(cifar.contents)[:-1]}))
    assert refusal_of("cifar-10", folder, path) == "holds no test_batch.bin and no test_batch"
    path.write_bytes(tar_bytes(cifar.contents | {"data_batch_2.bin": b"short"}))
    said = "(data_batch_2.bin) is truncated: it holds 5 of 12,292 bytes"
    assert refusal_of("cifar-10", folder, path) == said


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path, cifar: Sample) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    path = folder / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in cifar.contents.items():
            entry = tarfile.TarInfo(name)
            if name == "test_batch.bin":
                entry.type, entry.linkname = tarfile.SYMTYPE, str(tmp_path / name)
            else:
                entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    assert refusal_of("cifar-10", folder, path) == "holds no test_batch.bin and no test_batch"
