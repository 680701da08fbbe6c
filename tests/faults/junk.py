"""Large files that are junk of each kind the product reads, and small ones that would be large once they are read."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

MEGA = 2**20


def _safetensors(header: bytes, length: int | None = None, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + body


def _facts(facts: str) -> bytes:
    """A file without tensors, whose facts are these."""
    return _safetensors(json.dumps({"__metadata__": {"tribayes": facts}}).encode())


def _png(width: int, height: int, rows: bytes, *more: tuple[bytes, bytes]) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    middle = b"".join(chunk(kind, content) for kind, content in more)
    return b"\x89PNG\r\n\x1a\n" + head + middle + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def _gif(frames: int) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", 4000, 4000, 0x80, 0, 0) + bytes(6)
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\x00"
    return head + frame * frames + b"\x3b"


def _tiff(pictures: int) -> bytes:
    """Pictures of one pixel, each with a directory of its own."""
    tags = ((256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, 1), (279, 1))
    entries = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    places = range(16 + len(entries) + 4, 16 + pictures * (len(entries) + 4), len(entries) + 4)
    chain = b"".join(entries + struct.pack("<I", place) for place in (*places, 0))
    return b"II*\0" + struct.pack("<I", 16) + bytes(8) + chain


def _tar(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _entry(name: str, size: int = 0, **more: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    for key, value in more.items():
        setattr(info, key, value)
    return info


def _parquet(folder: Path, rows: int, word: str) -> bytes:
    import pyarrow
    import pyarrow.parquet

    path = folder / "made.parquet"
    schema = pyarrow.schema([("word", pyarrow.string()), ("number", pyarrow.int64())])
    count = max(1, min(rows, 100_000_000 // len(word)))
    columns = [pyarrow.repeat(word, count), pyarrow.repeat(pyarrow.scalar(1), count)]
    part = pyarrow.Table.from_arrays(columns, schema=schema)
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as file:
        for _ in range(rows // count):
            file.write_table(part)
    return path.read_bytes()


# by what reads it: what it is → how it is made, `size` large where its size can be chosen
JUNK: Mapping[str, Mapping[str, Callable[[Path, int], bytes]]] = {
    "tensors": {
        "a header that says 2**62 bytes": lambda _, __: _safetensors(b"{}", 2**62),
        "a header that is all of the file": lambda _, n: _safetensors(b"{" + b" " * n),
        "a header nested deep": lambda _, n: _safetensors(b'{"a":' * (n // 5)),
        "a tensor of 2**60 numbers": lambda _, n: _safetensors(
            json.dumps({"a": {"dtype": "F32", "shape": [2**30, 2**30], "data_offsets": [0, n]}}).encode(), body=bytes(n)
        ),
        "many tensors without numbers": lambda _, n: _safetensors(
            b"{%b}" % b",".join(b'"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(n // 55))
        ),
        "facts that are many numbers": lambda _, n: _facts("[" + "1," * (n // 2) + "1]"),
        "facts nested deep": lambda _, n: _facts("[" * n),
        "facts that are a long text": lambda _, n: _facts(json.dumps("x" * n)),
        "zeros": lambda _, n: bytes(n),
    },
    "config": {
        "nested deep": lambda _, n: b"[" * n,
        "many numbers": lambda _, n: b"[" + b"1," * (n // 2) + b"1]",
        "a number of many digits": lambda _, n: b'{"seed": ' + b"9" * n + b"}",
        "zeros": lambda _, n: bytes(n),
    },
    "records": {
        "one long line": lambda _, n: b'{"iteration": ' + b"1" * n,
        "many short lines": lambda _, n: b"{}\n" * (n // 3),
        "many numbers": lambda _, n: b'{"tau": [' + b"1," * (n // 2) + b"1]}",
    },
    "csv": {
        "a giant cell": lambda _, n: b"a,b\n1," + b"x" * n,
        "a giant cell in quotes": lambda _, n: b'a,b\n1,"' + b"x\n" * (n // 2),
        "a giant cell and one wide letter": lambda _, n: b"a,b\n\xf0\x9f\x90\x9e" + b"x" * n,
        "many columns": lambda _, n: b"a," * (n // 2) + b"b\n",
        "many columns with names": lambda _, n: ",".join(map(str, range(n // 7))).encode() + b",1\n1\n",
        "many empty lines": lambda _, n: b"a,b\n" + b"\n" * n,
        "zeros": lambda _, n: bytes(n),
    },
    "parquet": {
        "many rows of one word": lambda folder, n: _parquet(folder, 10 * n, "x"),
        "many rows of one long word": lambda folder, n: _parquet(folder, n // 300, "x" * 100_000),
        "zeros": lambda _, n: b"PAR1" + bytes(n) + b"PAR1",
    },
    "image": {
        "a PNG of 5,000 million pixels": lambda _, __: _png(70_000, 70_000, b""),
        "a PNG of all pixels that may be": lambda _, __: _png(5000, 5000, bytes(5001 * 5000)),
        "a PNG with texts of a gigabyte": lambda _, n: _png(
            9, 9, bytes(90), *[(b"zTXt", b"a\0\0" + zlib.compress(bytes(MEGA), 9))] * (n // 1000)
        ),
        "a GIF of many pictures": lambda _, n: _gif(n // 15),
        "a TIFF of many pictures": lambda _, n: _tiff(n // 114),
        "zeros": lambda _, n: bytes(n),
    },
    "packed": {
        "a gzip of zeros": lambda _, n: gzip.compress(bytes(20 * n), 9),
        "many gzips in one": lambda _, n: gzip.compress(b"") * (n // 20),
        "not packed at all": lambda _, n: bytes(n),
    },
    "archive": {
        "a header of its own of all of it": lambda _, n: _tar(
            (_entry("x", 4 * n, type=tarfile.GNUTYPE_LONGNAME), bytes(4 * n))
        ),
        "a PAX header of all of it": lambda _, n: _tar((_entry("x", pax_headers={"comment": "x" * n}), b"")),
        "many members": lambda _, n: _tar(*[(_entry(str(number)), b"") for number in range(n // 512)]),
        "one large member": lambda _, n: _tar((_entry("x", 4 * n), bytes(4 * n))),
    },
}  # fmt: skip
