"""What tests that compile have in common."""

import pytest

# torch's compiler looks at the .grad of draws it is handed; it hides the warning of that from users, not from pytest
draws_are_compiled = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
