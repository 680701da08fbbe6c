"""What tests that compile have in common."""

import pytest

# what torch warns of while it compiles, and hides from users or means as advice
draws_are_compiled = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning",  # it looks at the draws it is handed
    "ignore:.*should not be instantiated. Methods on autograd functions:DeprecationWarning",  # torch 2.11
    "ignore:TensorFloat32 tensor cores for float32 matrix multiplication available:UserWarning",  # on a GPU
)
