"""Nothing of the package unpickles, evaluates or imports what a file says: SECURITY.md promises it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tribayes

FILES = sorted(Path(tribayes.__file__).parent.rglob("*.py"))
UNTRUSTED = {"pickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "runpy"}
LOADERS = {"read_pickle", "to_pickle", "allow_pickle", "load_from_checkpoint", "weights_only"}
CALLS = {
    "torch.load", "torch.jit.load", "torch.export.load", "torch.hub.load", "torch.package.PackageImporter",
    "np.load", "numpy.load", "pd.read_pickle", "pandas.read_pickle", "torch.classes.load_library",
    "torch.ops.load_library",
}  # fmt: skip
BUILT_IN = {"eval", "exec", "compile", "__import__"}


def found_in(source: str) -> Iterator[str]:
    """What of a file's code would read a pickle or run what it read."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in UNTRUSTED)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNTRUSTED:
            yield str(node.module)
        elif isinstance(node, ast.keyword) and node.arg in LOADERS:
            yield str(node.arg)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILT_IN:
            yield node.func.id
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name in CALLS or node.attr in LOADERS:
                yield name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FILES[0].parent)))
def test_no_file_of_the_package_reads_what_could_run(path: Path) -> None:
    assert list(found_in(path.read_text())) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "import torch\ntorch.load('a.pt', weights_only=False)",
        "import torch\nread = torch.load",
        "np.load(path, allow_pickle=True)",
        "pandas.read_pickle(path)",
        "eval(text)",
    ],
)
def test_the_search_finds_what_it_looks_for(code: str) -> None:
    assert list(found_in(code))


def test_what_only_sounds_like_it_is_left_alone() -> None:
    assert list(found_in("model.eval()\nre.compile('x')\njson.load(file)\ntorch.compile(model)")) == []
