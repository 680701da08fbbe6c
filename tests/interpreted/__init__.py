"""The kernels of a GPU on a CPU, by Triton's interpreter: what they compute, though not how a GPU's compiler has it.

pip install triton
TRITON_INTERPRET=1 pytest tests/interpreted
"""
