# mypy: ignore-errors
"""The draw and the guards on a GPU: Triton kernels that make a tensor's noise where it is used.

A model's tensors are cut into blocks of `BLOCK` entries, all in one launch; a table says where each block lies. The
normals come from Philox, a counter-based generator: the backward pass makes them again instead of reading them.
A tensor's entry number i is made of the normals number n + i (its own) and n + i − 1 (its neighbour's), so blocks of
a tensor share a normal at their border; a gap between the numbers of two tensors keeps them independent.

Columns of the table, by row b for block b: where its tensor begins in memory (an address), the block's first entry
within the tensor, K, the tensor's number, its first entry in the flat output, the first number of its noise, and for
channels_last memory the sizes C (channels) and P (positions) that turn a row-major entry into a place in memory.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

ROUNDS = tl.constexpr(7)  # of Philox: passes BigCrush from 7 on (Salmon et al. 2011)
_MULTIPLIER = tl.constexpr(0xD256D193)
_WEYL = tl.constexpr(0x9E3779B9)
_UNIT = tl.constexpr(2.3283064365386963e-10)  # 2⁻³²
_TWO_PI = tl.constexpr(6.283185307179586)


@triton.jit
def philox(seed, counter):
    """Two 32-bit integers per counter, by Philox2x32: a seed's lower half is the key, its upper half a counter too."""
    key = seed.to(tl.uint32)
    left, right = counter, (seed >> 32).to(tl.uint32)
    for _ in tl.static_range(ROUNDS):
        left, right = tl.umulhi(left, _MULTIPLIER) ^ key ^ right, left * _MULTIPLIER
        key += _WEYL
    return left, right


@triton.jit
def _pair(seed, counter, FAST: tl.constexpr):
    """Two normals per counter, by Box and Muller."""
    a, b = philox(seed, counter)
    u = a.to(tl.float32) * _UNIT + 0.5 * _UNIT
    angle = (b.to(tl.float32) * _UNIT - 0.5) * _TWO_PI
    radius = tl.sqrt(-2.0 * _log(u, FAST))
    if FAST:
        x, y = radius * libdevice.fast_cosf(angle), radius * libdevice.fast_sinf(angle)
    else:
        x, y = radius * tl.cos(angle), radius * tl.sin(angle)
    return x, y


@triton.jit
def _log(x, FAST: tl.constexpr):
    if FAST:
        return libdevice.fast_logf(x)
    return tl.log(x)


@triton.jit
def _in_turns(x0, x1, x2, x3):
    """Four vectors as one, entry by entry in turns."""
    both = tl.join(tl.join(x0, x2), tl.join(x1, x3))
    return tl.reshape(both, (x0.shape[0] * 4,))


@triton.jit
def _normals(seed, first, BLOCK: tl.constexpr, FAST: tl.constexpr):
    """x_i and x_{i−1} for the BLOCK entries whose noise begins at number `first` (a multiple of 4).

    A thread makes the four neighbours that it will load and store, and once more the last normal before them: cheaper
    than asking another thread for it.
    """
    counter = (first // 2).to(tl.uint32) + tl.arange(0, BLOCK // 4).to(tl.uint32) * 2
    x0, x1 = _pair(seed, counter, FAST)
    x2, x3 = _pair(seed, counter + 1, FAST)
    _, before = _pair(seed, counter - 1, FAST)
    return _in_turns(x0, x1, x2, x3), _in_turns(before, x0, x1, x2)


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _coefficient(gamma):
    """t = tanh(γ/4), without cancellation near 0."""
    x = 0.25 * tl.abs(gamma)
    small = x * (1.0 - x * x * (1.0 / 3.0 - x * x * (2.0 / 15.0)))
    e = tl.exp(-2.0 * x)
    t = tl.where(x < 0.05, small, (1.0 - e) / (1.0 + e))
    return tl.where(gamma < 0, -t, t)


@triton.jit
def block_of(table_ptr, row, BLOCK: tl.constexpr, STRIDED: tl.constexpr, ALIGNED: tl.constexpr):
    """A row of the table: tensor, where the block begins in memory and in the flat output, its noise, its entries.

    Last comes whether the block is full. Entries are counted from where the block begins, or for channels_last memory
    from where the tensor does.
    """
    line = table_ptr + row * 8
    address, start, size = tl.load(line), tl.load(line + 1), tl.load(line + 2)
    tensor, offset, noise = tl.load(line + 3), tl.load(line + 4), tl.load(line + 5)
    local = tl.arange(0, BLOCK)
    inside = local < tl.minimum(size - start, BLOCK).to(tl.int32)  # what is left may be beyond 32 bits
    if STRIDED:
        channels, positions = tl.load(line + 6).to(tl.int32), tl.load(line + 7).to(tl.int32)
        entry, filter_size = start.to(tl.int32) + local, channels * positions
        filter_, rest = entry // filter_size, entry % filter_size
        place = filter_ * filter_size + (rest % positions) * channels + rest // positions
    else:
        address, offset, place = address + 4 * start, offset + start, local
    pointer = address.to(tl.pointer_type(tl.float32))
    if ALIGNED:
        pointer, offset = tl.multiple_of(pointer, 16), tl.multiple_of(offset, 4)
    full = size - start >= BLOCK
    return tensor, pointer, offset, noise, start, place, inside, full


@triton.jit
def load(pointers, inside, full, other: tl.constexpr):
    """A block's entries; a full block needs no mask, without which four are read at once."""
    if full:  # noqa: SIM108 - a branch, where `… if … else …` would be a choice among both
        value = tl.load(pointers)
    else:
        value = tl.load(pointers, mask=inside, other=other)
    return value


@triton.jit
def store(pointers, value, inside, full):
    """As `load`."""
    if full:
        tl.store(pointers, value)
    else:
        tl.store(pointers, value, mask=inside)


@triton.jit
def forward_kernel(
    table_ptr,
    delta_ptr,
    gamma_ptr,
    seed_ptr,
    out_ptr,
    total,
    prior_ptr,
    sums_ptr,
    KL: tl.constexpr,
    UNIFORM: tl.constexpr,
    STRIDED: tl.constexpr,
    ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
    FAST: tl.constexpr,
):
    """w = m + |m|(A x_i + B x_{i−1}); with KL, also what (30) sums over the block."""
    row, sample = tl.program_id(0), tl.program_id(1)
    tensor, means, offset, noise, start, place, inside, full = block_of(table_ptr, row, BLOCK, STRIDED, ALIGNED)
    t = _coefficient(tl.load(gamma_ptr + tensor))
    current = _softplus(tl.load(delta_ptr + tensor)) / tl.sqrt(1.0 + t * t)
    own, neighbour = _normals(tl.load(seed_ptr + sample), noise, BLOCK, FAST)
    m = load(means + place, inside, full, 1.0)
    w = m + tl.abs(m) * (current * (own + t * neighbour))
    target = out_ptr + sample.to(tl.int64) * total + offset  # 33 draws of 2²⁶ weights are beyond 32 bits
    store(target + place, w.to(out_ptr.dtype.element_ty), inside, full)
    if KL:  # noqa: SIM102 - this one is decided when the kernel is compiled
        if sample == 0:
            loc, scale = _prior(prior_ptr, tensor, start, inside, BLOCK, UNIFORM)
            inverse = 1.0 / scale
            ratio, distance = m * inverse, (m - loc) * inverse
            fixed = distance * distance + 2.0 * (tl.log(scale) - _log(tl.abs(m), FAST))
            tl.store(sums_ptr + 2 * row, tl.sum(tl.where(inside, fixed, 0.0)))
            tl.store(sums_ptr + 2 * row + 1, tl.sum(tl.where(inside, ratio * ratio, 0.0)))


@triton.jit
def _prior(prior_ptr, tensor, start, inside, BLOCK: tl.constexpr, UNIFORM: tl.constexpr):
    """loc and scale of a block's entries: by address, with a stride of 0 where one number serves all of a tensor.

    Uniform: one number serves in every tensor, and is all that is read.
    """
    line = prior_ptr + tensor * 4
    loc_at = tl.load(line).to(tl.pointer_type(tl.float32))
    scale_at = tl.load(line + 1).to(tl.pointer_type(tl.float32))
    if UNIFORM:
        loc, scale = tl.load(loc_at), tl.load(scale_at)
    else:
        entry = start + tl.arange(0, BLOCK)
        loc = tl.load(loc_at + entry * tl.load(line + 2), mask=inside, other=0.0)
        scale = tl.load(scale_at + entry * tl.load(line + 3), mask=inside, other=1.0)
    return loc, scale


@triton.jit
def divergence_kernel(
    sums_ptr,
    first_ptr,
    sizes_ptr,
    delta_ptr,
    gamma_ptr,
    squares_ptr,
    kl_ptr,
    RELATIVE: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Equation (30) of one tensor from the sums of its blocks; Σ m²/ζ² is kept for the backward pass.

    With a relative prior nothing is summed: Σ m²/ζ² = K/(1 + τ²), and the divergence is ½ K ln(1 + 1/τ²) − ½ ln det T.
    """
    tensor = tl.program_id(0)
    size = tl.load(sizes_ptr + tensor)
    tau, t = _softplus(tl.load(delta_ptr + tensor)), _coefficient(tl.load(gamma_ptr + tensor))
    square = t * t
    # ln det T = ln(1 − t^{2K+2}) − ln(1 − t²) − K ln(1 + t²)
    power = tl.exp((size + 1.0) * tl.log(tl.maximum(square, 1e-30)))
    determinant = tl.log(1.0 - power) - tl.log(1.0 - square) - size * _log1p(square)
    if RELATIVE:
        squares = size / (1.0 + tau * tau)
        twice = size * _log1p(1.0 / (tau * tau))
    else:
        fixed, squares = _total(sums_ptr, first_ptr, tensor, CHUNK)
        twice = fixed + tau * tau * squares - size * (1.0 + 2.0 * tl.log(tau))
    tl.store(kl_ptr + tensor, 0.5 * (twice - determinant))
    tl.store(squares_ptr + tensor, squares)


@triton.jit
def _log1p(x):
    """ln(1 + x) for x ≥ 0 without losing small x."""
    return tl.where(x < 0.01, x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - 0.25 * x))), tl.log(1.0 + x))


@triton.jit
def _total(sums_ptr, first_ptr, tensor, CHUNK: tl.constexpr):
    """The two sums over all blocks of a tensor, always in the same order."""
    begin, end = tl.load(first_ptr + tensor), tl.load(first_ptr + tensor + 1)
    left = tl.zeros((CHUNK,), tl.float32)
    right = tl.zeros((CHUNK,), tl.float32)
    for at in range(begin, end, CHUNK):
        row = at + tl.arange(0, CHUNK)
        left += tl.load(sums_ptr + 2 * row, mask=row < end, other=0.0)
        right += tl.load(sums_ptr + 2 * row + 1, mask=row < end, other=0.0)
    return tl.sum(left), tl.sum(right)


@triton.jit
def backward_kernel(
    table_ptr,
    delta_ptr,
    gamma_ptr,
    seed_ptr,
    grad_ptr,
    total,
    prior_ptr,
    grad_kl_ptr,
    out_ptr,
    sums_ptr,
    samples,
    KL: tl.constexpr,
    UNIFORM: tl.constexpr,
    STRIDED: tl.constexpr,
    ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
    FAST: tl.constexpr,
):
    """∂L/∂m, and the block's share of ∂L/∂A and ∂L/∂B; with KL, its gradient by m in the same pass."""
    row = tl.program_id(0)
    tensor, means, offset, noise, start, place, inside, full = block_of(table_ptr, row, BLOCK, STRIDED, ALIGNED)
    t = _coefficient(tl.load(gamma_ptr + tensor))
    tau = _softplus(tl.load(delta_ptr + tensor))
    current = tau / tl.sqrt(1.0 + t * t)
    m = load(means + place, inside, full, 1.0)
    sign = tl.where(m < 0, -1.0, 1.0)
    by_mean = tl.zeros((BLOCK,), tl.float32)
    by_current = tl.zeros((BLOCK,), tl.float32)
    by_previous = tl.zeros((BLOCK,), tl.float32)
    stride = total.to(tl.int64)
    for sample in range(samples):
        g = load(grad_ptr + sample * stride + offset + place, inside, full, 0.0).to(tl.float32)
        own, neighbour = _normals(tl.load(seed_ptr + sample), noise, BLOCK, FAST)
        by_mean += g + g * sign * (current * (own + t * neighbour))
        weighted = g * tl.abs(m)
        by_current += weighted * own
        by_previous += weighted * neighbour
    if KL:
        loc, scale = _prior(prior_ptr, tensor, start, inside, BLOCK, UNIFORM)
        precision = 1.0 / (scale * scale)
        by_mean += tl.load(grad_kl_ptr) * (((tau * tau + 1.0) * m - loc) * precision - 1.0 / m)
    store(out_ptr + offset + place, by_mean, inside, full)
    tl.store(sums_ptr + 2 * row, tl.sum(by_current))
    tl.store(sums_ptr + 2 * row + 1, tl.sum(by_previous))


@triton.jit
def scalars_kernel(
    sums_ptr,
    first_ptr,
    sizes_ptr,
    delta_ptr,
    gamma_ptr,
    squares_ptr,
    grad_kl_ptr,
    by_delta_ptr,
    by_gamma_ptr,
    KL: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """∂L/∂δ and ∂L/∂γ of one tensor (the chain rule of cpu.py, and of (30))."""
    tensor = tl.program_id(0)
    by_current, by_previous = _total(sums_ptr, first_ptr, tensor, CHUNK)
    delta, gamma = tl.load(delta_ptr + tensor), tl.load(gamma_ptr + tensor)
    tau, t = _softplus(delta), _coefficient(gamma)
    square = t * t
    shrink = 1.0 / tl.sqrt(1.0 + square)
    by_tau = (by_current + t * by_previous) * shrink
    by_t = (by_previous - t * by_current) * tau * shrink * shrink * shrink
    if KL:
        weight, size = tl.load(grad_kl_ptr), tl.load(sizes_ptr + tensor)
        by_tau += weight * (tau * tl.load(squares_ptr + tensor) - size / tau)
        power = tl.exp(size * tl.log(tl.maximum(square, 1e-30)))  # t^{2K}
        slope = t / (1.0 - square) - size * t / (1.0 + square) - (size + 1.0) * t * power / (1.0 - power * square)
        by_t -= weight * slope
    tl.store(by_delta_ptr + tensor, by_tau / (1.0 + tl.exp(-delta)))
    tl.store(by_gamma_ptr + tensor, by_t * (1.0 - square) * 0.25)


@triton.jit
def guard_kernel(
    table_ptr,
    blocks,
    delta_ptr,
    gamma_ptr,
    seed_ptr,
    tensors,
    smallest,
    smallest_delta,
    smallest_gamma,
    largest_gamma,
    COIN: tl.constexpr,
    GAMMA: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """All guards (parametrisation.py) in one launch: the means by blocks, and behind them the raw parameters."""
    row = tl.program_id(0)
    if row < blocks:
        _guard_means(table_ptr, row, seed_ptr, smallest, COIN, BLOCK)
    else:
        tensor = (row - blocks) * BLOCK + tl.arange(0, BLOCK)
        inside = tensor < tensors
        delta = tl.load(delta_ptr + tensor, mask=inside, other=0.0)
        tl.store(delta_ptr + tensor, tl.maximum(delta, smallest_delta), mask=inside)
        if GAMMA:
            _guard_gamma(gamma_ptr, tensor, inside, seed_ptr, smallest_gamma, largest_gamma, COIN)


@triton.jit
def _guard_means(table_ptr, row, seed_ptr, smallest, COIN: tl.constexpr, BLOCK: tl.constexpr):
    """Means closer to zero than `smallest` out to it: with their sign, or with a thrown one."""
    # in channels_last memory the blocks' places are others, but every place is visited once all the same
    _, means, _, noise, _, place, inside, _ = block_of(table_ptr, row, BLOCK, False, False)
    m = tl.load(means + place, mask=inside, other=1.0)
    near = tl.abs(m) < smallest
    if COIN:
        counter = noise.to(tl.uint32) + tl.arange(0, BLOCK).to(tl.uint32)
        positive = _coin(seed_ptr, counter)
    else:
        positive = m >= 0
    tl.store(means + place, tl.where(positive, smallest, -smallest), mask=inside & near)


@triton.jit
def _guard_gamma(gamma_ptr, tensor, inside, seed_ptr, smallest_gamma, largest_gamma, COIN: tl.constexpr):
    """γ out of (−smallest, smallest) by a thrown sign, and into its bounds."""
    gamma = tl.load(gamma_ptr + tensor, mask=inside, other=0.0)
    if COIN:
        # counted from where no mean is
        thrown = tl.where(_coin(seed_ptr, tensor.to(tl.uint32) + 0x80000000), smallest_gamma, -smallest_gamma)
        gamma = tl.where(tl.abs(gamma) < smallest_gamma, thrown, gamma)
    gamma = tl.minimum(tl.maximum(gamma, -largest_gamma), largest_gamma)
    tl.store(gamma_ptr + tensor, gamma, mask=inside)


@triton.jit
def _coin(seed_ptr, counter):
    """Heads or tails for each counter."""
    bits, _ = philox(tl.load(seed_ptr), counter)
    return (bits & 1) == 1
