"""Downloads, from a server on this machine: cut off, wrong, too long, not there."""

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.mirror import Mirror
from tests.data.samples import Sample, cifar_sample, idx_sample, offered_by, sha256, tar_bytes
from tests.patience import PATIENCE
from tribayes.data import download, load
from tribayes.data.catalogue import Packed
from tribayes.data.download import DownloadError, fetch

CONTENT = bytes(range(256)) * 4000  # about a megabyte: several chunks
PACKED = Packed("file.gz", len(CONTENT), sha256(CONTENT), ())


def bring(folder: Path, *urls: str, packed: Packed = PACKED) -> Path:
    return fetch(replace(packed, urls=urls), folder, progress=False, timeout=PATIENCE)


def failures_of(folder: Path, *urls: str, packed: Packed = PACKED) -> list[str]:
    """What each mirror is said to have done; the file itself must not be there."""
    with pytest.raises(DownloadError) as caught:
        bring(folder, *urls, packed=packed)
    assert not (folder / packed.name).exists()
    return [line.removeprefix(f"{url}: ") for line, url in zip(str(caught.value).splitlines(), urls, strict=True)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_and_nothing_else(tmp_path: Path, mirror: Mirror) -> None:
    mirror.files["/file.gz"] = CONTENT
    path = bring(tmp_path / "new" / "folder", mirror.url("/file.gz"))
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["file.gz"]
    assert mirror.asked == [("/file.gz", None)]


def test_the_next_mirror_is_tried(tmp_path: Path, mirror: Mirror) -> None:
    mirror.files |= {"/wrong": CONTENT[::-1], "/right": CONTENT}
    path = bring(tmp_path, mirror.url("/absent"), mirror.url("/wrong"), mirror.url("/right"))
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["file.gz"]


def test_a_file_that_is_not_there(tmp_path: Path, mirror: Mirror) -> None:
    assert failures_of(tmp_path, mirror.url("/a"), mirror.url("/b")) == ["HTTP 404 Not Found"] * 2
    assert names(tmp_path) == []


def test_nobody_listens(tmp_path: Path) -> None:
    with Mirror() as gone:
        url = gone.url("/file.gz")
    assert "refused" in failures_of(tmp_path, url)[0]


def test_a_server_that_says_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.gz"
        with pytest.raises(DownloadError, match="timed out"):
            fetch(replace(PACKED, urls=(url,)), tmp_path, progress=False, timeout=0.1)


def test_cut_off_and_resumed_at_once(tmp_path: Path, mirror: Mirror) -> None:
    mirror.files["/file.gz"] = CONTENT
    mirror.cuts = [300_000, 200_000]
    assert bring(tmp_path, mirror.url("/file.gz")).read_bytes() == CONTENT
    assert mirror.asked == [("/file.gz", None), ("/file.gz", "bytes=300000-"), ("/file.gz", "bytes=500000-")]


def test_cut_off_for_good_and_resumed_the_next_time(tmp_path: Path, mirror: Mirror) -> None:
    mirror.files["/file.gz"] = CONTENT
    mirror.cuts = [300_000, 0]
    assert failures_of(tmp_path, mirror.url("/file.gz")) == ["cut off after 300,000 of 1,024,000 bytes"]
    assert names(tmp_path) == ["file.gz.part"]
    assert (tmp_path / "file.gz.part").read_bytes() == CONTENT[:300_000]
    mirror.asked.clear()
    assert bring(tmp_path, mirror.url("/file.gz")).read_bytes() == CONTENT
    assert mirror.asked == [("/file.gz", "bytes=300000-")]
    assert names(tmp_path) == ["file.gz"]


def test_it_gives_up_after_some_attempts(tmp_path: Path, mirror: Mirror) -> None:
    mirror.files["/file.gz"] = CONTENT
    mirror.cuts = [10] * 9
    assert failures_of(tmp_path, mirror.url("/file.gz")) == ["cut off after 50 of 1,024,000 bytes"]
    assert len(mirror.asked) == 5


def test_what_one_mirror_began_another_ends(tmp_path: Path, mirror: Mirror) -> None:
    mirror.files |= {"/a": CONTENT, "/b": CONTENT}
    mirror.cuts = [300_000, 0]
    assert bring(tmp_path, mirror.url("/a"), mirror.url("/b")).read_bytes() == CONTENT
    assert mirror.asked[-1] == ("/b", "bytes=300000-")


@pytest.mark.parametrize("ranges", ["ignored", "refused", "wrong"])
def test_a_mirror_that_cannot_resume_starts_over(tmp_path: Path, mirror: Mirror, ranges: str) -> None:
    mirror.files["/file.gz"] = CONTENT
    mirror.ranges = ranges
    (tmp_path / "file.gz.part").write_bytes(CONTENT[:1000])
    assert bring(tmp_path, mirror.url("/file.gz")).read_bytes() == CONTENT
    assert names(tmp_path) == ["file.gz"]


@pytest.mark.parametrize("size", [1000, len(CONTENT), len(CONTENT) + 1])
def test_a_part_of_another_file_is_thrown_away(tmp_path: Path, mirror: Mirror, size: int) -> None:
    mirror.files["/file.gz"] = CONTENT
    (tmp_path / "file.gz.part").write_bytes(b"x" * size)
    assert bring(tmp_path, mirror.url("/file.gz")).read_bytes() == CONTENT


def test_a_part_that_is_complete_needs_no_mirror(tmp_path: Path) -> None:
    (tmp_path / "file.gz.part").write_bytes(CONTENT)
    assert bring(tmp_path, "http://127.0.0.1:1/file.gz").read_bytes() == CONTENT


def test_wrong_content(tmp_path: Path, mirror: Mirror) -> None:
    mirror.files["/file.gz"] = wrong = CONTENT[:-1] + b"x"
    said = f"wrong content, with sha256 {sha256(wrong)}, not {PACKED.sha256}"
    assert failures_of(tmp_path, mirror.url("/file.gz")) == [said]
    assert names(tmp_path) == []


@pytest.mark.parametrize("size", [4000, len(CONTENT) + 1])
def test_a_length_that_is_announced_wrong_is_not_received(tmp_path: Path, mirror: Mirror, size: int) -> None:
    mirror.files["/file.gz"] = b"x" * size
    assert failures_of(tmp_path, mirror.url("/file.gz")) == [f"it offers {size:,} bytes, not 1,024,000"]
    assert names(tmp_path) == []


def test_an_answer_without_end_is_stopped(tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror.files["/file.gz"] = CONTENT * 50
    mirror.announced = False
    received = 0
    whole: Callable[..., Iterator[bytes]] = download._chunks

    def counted(response: object) -> object:
        nonlocal received
        for chunk in whole(response):
            received += len(chunk)
            yield chunk

    monkeypatch.setattr(download, "_chunks", counted)
    assert failures_of(tmp_path, mirror.url("/file.gz")) == ["it sends more than the 1,024,000 bytes of this file"]
    assert names(tmp_path) == []
    assert len(CONTENT) < received <= len(CONTENT) + 2**18


def test_a_length_that_is_not_announced(tmp_path: Path, mirror: Mirror) -> None:
    mirror.files["/file.gz"] = CONTENT
    mirror.announced = False
    assert bring(tmp_path, mirror.url("/file.gz")).read_bytes() == CONTENT


def test_only_the_web(tmp_path: Path, mirror: Mirror) -> None:
    local = tmp_path / "local"
    local.write_bytes(CONTENT)
    mirror.redirects |= {"/file": local.as_uri(), "/ftp": "ftp://127.0.0.1/x", "/web": mirror.url("/file.gz")}
    mirror.files["/file.gz"] = CONTENT
    urls = (local.as_uri(), mirror.url("/file"), mirror.url("/ftp"), "ftp://127.0.0.1/x")
    said = failures_of(tmp_path / "d", *urls)
    assert said[0] == "unknown url type: file"
    assert "is not allowed" in said[1]
    assert said[2:] == ["unknown url type: ftp"] * 2
    assert bring(tmp_path / "d", mirror.url("/web")).read_bytes() == CONTENT


def test_interrupted_by_hand_what_came_is_kept(tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror.files["/file.gz"] = CONTENT
    whole: Callable[..., Iterator[bytes]] = download._chunks

    def interrupted(response: object) -> object:
        yield next(whole(response))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download, "_chunks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bring(tmp_path, mirror.url("/file.gz"))
    assert names(tmp_path) == ["file.gz.part"]
    kept = (tmp_path / "file.gz.part").stat().st_size
    assert 0 < kept < len(CONTENT)
    bring(tmp_path, mirror.url("/file.gz"))
    assert mirror.asked[-1] == ("/file.gz", f"bytes={kept}-")


def test_several_at_once_download_once(tmp_path: Path, mirror: Mirror) -> None:
    pytest.importorskip("fcntl", reason="locks are those of POSIX")
    mirror.files["/file.gz"] = CONTENT
    threads = [threading.Thread(target=bring, args=(tmp_path, mirror.url("/file.gz"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert len(mirror.asked) == 1


def test_the_bar_is_shown(tmp_path: Path, mirror: Mirror, capsys: pytest.CaptureFixture[str]) -> None:
    mirror.files["/file.gz"] = CONTENT
    fetch(replace(PACKED, urls=(mirror.url("/file.gz"),)), tmp_path)
    shown = capsys.readouterr()
    assert "file.gz" in shown.err
    assert "100%" in shown.err
    assert shown.out == ""


# Through `load`


@pytest.fixture
def mnist(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Sample:
    """A small MNIST that the mirror offers."""
    sample = offered_by(idx_sample(), {}, lambda name: (mirror.url(f"/{name}"),)).use(monkeypatch)
    mirror.files = {f"/{name}.gz": gzip.compress(content, mtime=0) for name, content in sample.contents.items()}
    return sample


def test_load_downloads_what_is_missing_into_the_cache(
    tmp_path: Path, cache: Path, mirror: Mirror, mnist: Sample
) -> None:
    mnist.write(tmp_path / "d" / "mnist")
    (tmp_path / "d/mnist/t10k-labels-idx1-ubyte").unlink()
    data = load("mnist", tmp_path / "d", progress=False)
    assert data.test_labels.tolist() == list(mnist.contents["t10k-labels-idx1-ubyte"][8:])
    assert names(cache / "mnist") == ["t10k-labels-idx1-ubyte.gz"]
    load("mnist", progress=False)
    assert len(names(cache / "mnist")) == 4
    mirror.files.clear()
    load("mnist", progress=False)


def test_load_downloads_an_archive_once(cache: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    sample, name = cifar_sample(), "cifar-10-binary.tar.gz"
    archive = tar_bytes({f"cifar-10-batches-bin/{name}": content for name, content in sample.contents.items()})
    offered_by(sample, {name: archive}, lambda name: (mirror.url(f"/{name}"),)).use(monkeypatch)
    mirror.files[f"/{name}"] = archive
    assert load("cifar-10", progress=False).train_images.shape == (20, 3, 32, 32)
    assert mirror.asked == [(f"/{name}", None)]
    assert names(cache / "cifar-10") == [name]


def test_offline_without_data_it_says_what_to_put_where(
    tmp_path: Path, cache: Path, mirror: Mirror, mnist: Sample
) -> None:
    mnist.write(tmp_path / "d" / "mnist")
    for name in ("train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        (tmp_path / "d/mnist" / name).unlink()
    mirror.files.clear()
    images, labels = (mnist.member(name).packed for name in ("train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"))
    with pytest.raises(FileNotFoundError) as caught:
        load("mnist", tmp_path / "d", progress=False)
    assert str(caught.value).splitlines() == [
        "mnist is not complete: no train-images-idx3-ubyte, t10k-labels-idx1-ubyte (plain, .gz or .xz) in",
        f"  {tmp_path / 'd'} (nor beneath it in mnist, MNIST/raw)",
        f"  {cache} (nor beneath it in mnist, MNIST/raw)",
        "Downloading train-images-idx3-ubyte.gz failed:",
        f"  {images.urls[0]}: HTTP 404 Not Found",
        f"Put into {tmp_path / 'd' / 'mnist'}:",
        f"  train-images-idx3-ubyte.gz ({images.size:,} bytes, sha256 {images.sha256}), from {images.urls[0]}",
        f"  t10k-labels-idx1-ubyte.gz ({labels.size:,} bytes, sha256 {labels.sha256}), from {labels.urls[0]}",
    ]


def test_without_leave_to_download_nothing_is_asked_for(cache: Path, mirror: Mirror, mnist: Sample) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load("mnist", download=False)
    lines = str(caught.value).splitlines()
    assert "Nothing was downloaded: download=False." in lines
    assert f"Put into {cache / 'mnist'}:" in lines
    assert len([line for line in lines if ".gz (" in line]) == len(mnist.contents)
    assert mirror.asked == []
    assert not cache.exists()


def test_a_cache_that_cannot_be_written(cache: Path, mnist: Sample) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    assert mnist.dataset.name == "mnist"
    with pytest.raises(FileNotFoundError, match=f"Nothing could be written to {cache / 'mnist'}: "):
        load("mnist", progress=False)
