"""All tensors of a model drawn by one operation, whose backward pass makes the noise again instead of keeping it.

`operation` registers it with torch: a Triton kernel on a GPU (`kernels`, `launch`), plain torch on a CPU (`reference`).
"""
