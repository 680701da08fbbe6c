"""A file that is not what it should be is refused by its name, with what is wrong with it."""

import gzip
import lzma
import os
import pickle
import re
import tarfile
import tracemalloc
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


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Where an archive would be found, and no file beside it."""
    (tmp_path / "d").mkdir()
    return tmp_path / "d" / "cifar-10-binary.tar.gz"


def test_bad_archives(archive: Path, cifar: Sample) -> None:
    folder, path = archive.parent, archive
    whole = tar_bytes(cifar.contents)

    path.write_bytes(whole[: len(whole) // 2])
    assert refusal_of("cifar-10", folder, path).startswith("is truncated: its packed data end too early")
    path.write_bytes(b"<html>")
    assert refusal_of("cifar-10", folder, path) == "is corrupt: it cannot be unpacked (Not a gzipped file (b'<h'))"
    path.write_bytes(tar_bytes({name: cifar.contents[name] for name in list(cifar.contents)[:-1]}))
    assert refusal_of("cifar-10", folder, path) == "holds no test_batch.bin"
    path.write_bytes(tar_bytes(cifar.contents | {"data_batch_2.bin": b"short"}))
    said = "(data_batch_2.bin) is truncated: it holds 5 of 12,292 bytes"
    assert refusal_of("cifar-10", folder, path) == said


def write_archive(path: Path, contents: dict[str, bytes], *extra: tuple[tarfile.TarInfo, int]) -> None:
    """A tar.gz that begins with `extra` headers, each followed by so many zero bytes, before its files."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        for entry, length in extra:
            file.write(entry.tobuf(tarfile.GNU_FORMAT))
            for _ in range(length // 2**20):
                file.write(bytes(2**20))
            file.write(bytes(length % 2**20))
        file.write(gzip.decompress(tar_bytes(contents)))


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type, entry.linkname = size, kind, link
    return entry


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path, archive: Path, cifar: Sample) -> None:
    link = header("test_batch.bin", kind=tarfile.SYMTYPE, link=str(tmp_path / "test_batch.bin"))
    others = {name: content for name, content in cifar.contents.items() if name != "test_batch.bin"}
    write_archive(archive, others, (link, 0))
    assert refusal_of("cifar-10", archive.parent, archive) == "holds no test_batch.bin"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (tarfile.GNUTYPE_LONGNAME, "././@LongLink"),
        (tarfile.XHDTYPE, "./PaxHeaders/x"),
        (tarfile.REGTYPE, "junk"),
        (tarfile.REGTYPE, "data_batch_1.bin"),
    ],
)
@pytest.mark.parametrize("size", [2**26, 2**40, -(2**40), -512])
def test_an_entry_of_an_archive_is_not_read_when_it_is_too_large(
    archive: Path, cifar: Sample, kind: bytes, name: str, size: int
) -> None:
    write_archive(archive, cifar.contents, (header(name, size, kind), min(max(size, 0), 2**26)))
    tracemalloc.start()
    said = refusal_of("cifar-10", archive.parent, archive)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    room = sum(map(len, cifar.contents.values())) + 2**20
    assert said == f"holds more than the {room:,} bytes that its members take"
    assert peak < 2**22


def test_an_archive_of_too_many_entries_is_refused(archive: Path, cifar: Sample) -> None:
    write_archive(archive, cifar.contents, *[(header("data_batch_9.bin"), 0)] * 94)
    load("cifar-10", archive.parent, download=False, progress=False)
    write_archive(archive, cifar.contents, *[(header("data_batch_9.bin"), 0)] * 95)
    assert refusal_of("cifar-10", archive.parent, archive) == "holds no test_batch.bin"


def test_what_follows_the_files_of_an_archive_is_not_read(archive: Path, cifar: Sample) -> None:
    archive.write_bytes(tar_bytes(cifar.contents) + gzip.compress(bytes(2**26), 1) + b"no gzip")
    load("cifar-10", archive.parent, download=False, progress=False)


def test_headers_of_other_kinds_are_passed_over(archive: Path, cifar: Sample) -> None:
    extended = (header("./PaxHeaders/x", 512, tarfile.XHDTYPE), 512)
    folder = (header("cifar-10-batches-bin", kind=tarfile.DIRTYPE), 0)
    write_archive(archive, cifar.contents, folder, extended, (header("readme.html", 88), 512))
    load("cifar-10", archive.parent, download=False, progress=False)


PICKLES = ["cifar-10-python.tar.gz", "cifar-10-batches-py/data_batch_1", "data_batch_1", "data_batch_1.gz"]


@pytest.mark.parametrize("place", ["", "cifar-10"])
@pytest.mark.parametrize("name", PICKLES)
def test_pickles_are_not_read_and_the_error_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    cifar_sample().use(monkeypatch)
    path = tmp_path / "d" / place / name
    path.parent.mkdir(parents=True)
    path.write_bytes(pickle.dumps(Harmful(tmp_path / "ran")))
    with pytest.raises(FileNotFoundError) as caught:
        load("cifar-10", tmp_path / "d", download=False, progress=False)
    seen = path.parent if path.parent.name == "cifar-10-batches-py" else path
    lines = str(caught.value).splitlines()
    remedy = "get cifar-10-binary.tar.gz instead, or let it be downloaded (download=True)."
    assert f"{seen} is pickled, and nothing pickled is read; {remedy}" in lines
    assert lines[-1].startswith("  cifar-10-binary.tar.gz (170,052,171 bytes, sha256 c4a38c50")
    assert not (tmp_path / "ran").exists()


class Harmful:
    """Pickles to a call that makes a folder."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_pickles_named_as_binaries_are_refused_by_their_content(tmp_path: Path, cifar: Sample) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(pickle.dumps(cifar.contents["data_batch_1.bin"]))
    assert refusal_of("cifar-10", tmp_path, path) == "is too long: it holds more than 12,292 bytes"


def test_without_pickles_nothing_is_said_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar_sample().use(monkeypatch)
    (tmp_path / "data_batch_1.bin").write_bytes(b"")
    with pytest.raises(FileNotFoundError) as caught:
        load("cifar-10", tmp_path, download=False)
    assert "pickled" not in str(caught.value)


def test_binaries_beside_pickles_are_read(tmp_path: Path, cifar: Sample) -> None:
    assert "test_batch.bin" in cifar.contents
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"never opened")
    load("cifar-10", tmp_path, download=False, progress=False)
