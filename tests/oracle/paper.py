"""The equations of Section III of the paper, written out one by one in float64 NumPy.

This is a reference to compare against: every formula stands as printed, evaluated by the recursion and the
loops the paper gives. One layer's parameter vector is treated at a time, so the layer index j is dropped.

Inside the functions arrays are shifted so that `m[i]` is the paper's m_i and `c[0]` is its c_0. Arguments and
results are ordinary arrays: a holds a_1, ..., a_K and c holds c_1, ..., c_{K-1}.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def _from_one(values: npt.ArrayLike) -> Array:
    """Put an unused entry in front, so that values[i] is the paper's entry i."""
    return np.concatenate(([np.nan], np.asarray(values, dtype=np.float64)))


def _from_zero(c: npt.ArrayLike) -> Array:
    """Put c_0 := 0 (18), or its derivative, zero too (text under (39)), in front of c_1, ..., c_{K-1}."""
    return np.concatenate(([0.0], np.asarray(c, dtype=np.float64)))


def tau_of(delta: float) -> float:
    """(22)."""
    return math.log(1 + math.exp(delta))


def rho_of(gamma: float) -> float:
    """(23)."""
    return 1 / (1 + math.exp(-gamma)) - 1 / 2


def _w_delta(delta: float) -> float:
    """w_delta of the text under (39): the derivative of (22)."""
    return math.exp(delta) / (1 + math.exp(delta))


def _w_gamma(gamma: float) -> float:
    """w_gamma of the text under (39): the derivative of (23)."""
    return math.exp(-gamma) / (1 + math.exp(-gamma)) ** 2


def factor(m: npt.ArrayLike, tau: float, rho: float) -> tuple[Array, Array]:
    """(18)-(21): a_1, ..., a_K and c_1, ..., c_{K-1}, with the paper's signs.

    Paper: (20) is 0/0 at rho = 0, so rho must not be zero when K > 1.
    """
    m = _from_one(m)
    count = len(m) - 1
    a = np.full(count + 1, np.nan)
    c = np.zeros(count)  # (18) is c[0]
    for i in range(1, count):
        c[i] = rho * tau**2 * m[i] * m[i + 1] / math.sqrt(tau**2 * m[i] ** 2 - c[i - 1] ** 2)  # (19)
        a[i] = rho * tau**2 * abs(m[i]) * abs(m[i + 1]) / c[i]  # (20)
    a[count] = math.sqrt(tau**2 * m[count] ** 2 - c[count - 1] ** 2)  # (21)
    return a[1:], c[1:]


def lower_bidiagonal(a: npt.ArrayLike, c: npt.ArrayLike) -> Array:
    """(17)."""
    a = np.asarray(a, dtype=np.float64)
    c = np.asarray(c, dtype=np.float64)
    lower = np.zeros((len(a), len(a)))
    for row in range(len(a)):
        lower[row, row] = a[row]
    for row in range(len(c)):
        lower[row + 1, row] = c[row]
    return lower


def covariance(m: npt.ArrayLike, tau: float, rho: float) -> Array:
    """Sigma from the variances and covariances stated in the text under (21), without L."""
    m = np.asarray(m, dtype=np.float64)
    sigma = np.zeros((len(m), len(m)))
    for row in range(len(m)):
        sigma[row, row] = tau**2 * m[row] ** 2
    for row in range(len(m) - 1):
        sigma[row, row + 1] = rho * tau**2 * abs(m[row]) * abs(m[row + 1])
        sigma[row + 1, row] = sigma[row, row + 1]
    return sigma


def sample(m: npt.ArrayLike, a: npt.ArrayLike, c: npt.ArrayLike, x: npt.ArrayLike) -> Array:
    """(25)-(27)."""
    m, a, x = _from_one(m), _from_one(a), _from_one(x)
    c = _from_zero(c)
    w = np.full(len(m), np.nan)
    w[1] = m[1] + a[1] * x[1]  # (25)
    for i in range(2, len(m)):
        w[i] = m[i] + c[i - 1] * x[i - 1] + a[i] * x[i]  # (26), and (27) for i = K
    return w[1:]


def kl(m: npt.ArrayLike, delta: float, gamma: float, prior_loc: npt.ArrayLike, prior_scale: float) -> float:
    """(30), last line, with the additive constant that the line above it leaves out."""
    m = np.asarray(m, dtype=np.float64)
    mu = np.broadcast_to(np.asarray(prior_loc, dtype=np.float64), m.shape)
    count = len(m)
    tau = tau_of(delta)
    zeta = prior_scale
    a, _ = factor(m, tau, rho_of(gamma))
    log_determinant = sum(math.log(a_i**2) for a_i in a)  # the logarithm of (29)
    # ln|zeta^2 I| = K ln zeta^2, and -p of (28) is -K.
    constant = count * math.log(zeta**2) - count
    spread = tau**2 / zeta**2 * sum(m_i**2 for m_i in m)
    shift = 1 / zeta**2 * sum((m_i - mu_i) ** 2 for m_i, mu_i in zip(m, mu, strict=True))
    return float(1 / 2 * (-log_determinant + spread + shift + constant))


def _c_entry_m(i: int, k: int, m: Array, c: Array, tau: float, rho: float, previous: float) -> float:
    """(37): the derivative of c_i with respect to m_k; previous is that of c_{i-1}."""
    u = tau**2 * m[i] ** 2 - c[i - 1] ** 2
    v = rho * tau**2 * m[i + 1]
    entry = 0.0  # k > i + 1
    if k < i:
        entry = (rho * tau**2 * m[i] * m[i + 1]) * u ** (-3 / 2) * c[i - 1] * previous
    elif k == i:
        entry = v * (math.sqrt(u) - m[i] * u ** (-1 / 2) * (tau**2 * m[i] - c[i - 1] * previous)) / u
    elif k == i + 1:
        entry = rho * tau**2 * m[i] / math.sqrt(u)
    return entry


def _a_entry_m(i: int, k: int, m: Array, c: Array, tau: float, rho: float, c_derivative: float) -> float:
    """(40): the derivative of a_i, i < K, with respect to m_k; c_derivative is that of c_i."""
    entry = 0.0  # k > i + 1
    if k < i:
        entry = (rho * tau**2 * abs(m[i]) * abs(m[i + 1])) * (-1) * c[i] ** (-2) * c_derivative
    elif k == i:
        bracket = np.sign(m[i]) * c[i] - abs(m[i]) * c_derivative
        entry = rho * tau**2 * abs(m[i + 1]) * bracket / c[i] ** 2
    elif k == i + 1:
        bracket = np.sign(m[i + 1]) * c[i] - abs(m[i + 1]) * c_derivative
        entry = rho * tau**2 * abs(m[i]) * bracket / c[i] ** 2
    return entry


def _a_last_entry_m(k: int, m: Array, c: Array, tau: float, c_derivative: float) -> float:
    """(43): the derivative of a_K with respect to m_k; c_derivative is that of c_{K-1}."""
    last = len(m) - 1
    y = tau**2 * m[last] ** 2 - c[last - 1] ** 2
    entry: float = y ** (-1 / 2) * (tau**2 * m[last] - c[last - 1] * c_derivative)  # k = K
    if k < last:
        entry = (-1) * y ** (-1 / 2) * c[last - 1] * c_derivative
    return entry


def c_derivative_m(m: npt.ArrayLike, tau: float, rho: float) -> Array:
    """(37): entry [i, k] is the derivative of c_i with respect to m_k, shape (K - 1, K)."""
    c = _from_zero(factor(m, tau, rho)[1])
    m = _from_one(m)
    count = len(m) - 1
    derivative = np.zeros((count, count + 1))  # row 0 belongs to c_0
    for i in range(1, count):
        for k in range(1, count + 1):
            derivative[i, k] = _c_entry_m(i, k, m, c, tau, rho, derivative[i - 1, k])
    return derivative[1:, 1:]


def a_derivative_m(m: npt.ArrayLike, tau: float, rho: float) -> Array:
    """(40) and (43): entry [i, k] is the derivative of a_i with respect to m_k, shape (K, K)."""
    c = _from_zero(factor(m, tau, rho)[1])
    c_jacobian = np.pad(c_derivative_m(m, tau, rho), ((1, 0), (1, 0)))
    m = _from_one(m)
    count = len(m) - 1
    derivative = np.zeros((count + 1, count + 1))
    for k in range(1, count + 1):
        for i in range(1, count):
            derivative[i, k] = _a_entry_m(i, k, m, c, tau, rho, c_jacobian[i, k])
        derivative[count, k] = _a_last_entry_m(k, m, c, tau, c_jacobian[count - 1, k])
    return derivative[1:, 1:]


def c_derivative_tau(m: npt.ArrayLike, tau: float, rho: float) -> Array:
    """(38) without its factor w_delta: the derivatives of c_1, ..., c_{K-1} with respect to tau.

    The recursion inside (38) runs over the derivative of c_{i-1} by tau, not by delta.
    """
    c = _from_zero(factor(m, tau, rho)[1])
    m = _from_one(m)
    derivative = np.zeros(len(c))
    for i in range(1, len(c)):
        u = tau**2 * m[i] ** 2 - c[i - 1] ** 2
        v = rho * tau**2 * m[i + 1]
        inner = tau * m[i] ** 2 - c[i - 1] * derivative[i - 1]
        derivative[i] = v * m[i] * (2 * math.sqrt(u) - tau * u ** (-1 / 2) * inner) / (tau * u)
    return derivative[1:]


def c_derivative_rho(m: npt.ArrayLike, tau: float, rho: float) -> Array:
    """(39) without its factor w_gamma: the derivatives of c_1, ..., c_{K-1} with respect to rho."""
    c = _from_zero(factor(m, tau, rho)[1])
    m = _from_one(m)
    derivative = np.zeros(len(c))
    for i in range(1, len(c)):
        u = tau**2 * m[i] ** 2 - c[i - 1] ** 2
        inner = -c[i - 1] * derivative[i - 1]
        derivative[i] = tau**2 * m[i] * m[i + 1] * (math.sqrt(u) - rho * u ** (-1 / 2) * inner) / u
    return derivative[1:]


def c_derivative_delta(m: npt.ArrayLike, delta: float, gamma: float) -> Array:
    """(38)."""
    return _w_delta(delta) * c_derivative_tau(m, tau_of(delta), rho_of(gamma))


def c_derivative_gamma(m: npt.ArrayLike, delta: float, gamma: float) -> Array:
    """(39)."""
    return _w_gamma(gamma) * c_derivative_rho(m, tau_of(delta), rho_of(gamma))


def a_derivative_delta(m: npt.ArrayLike, delta: float, gamma: float) -> Array:
    """(41) and (44)."""
    tau, rho = tau_of(delta), rho_of(gamma)
    c = _from_zero(factor(m, tau, rho)[1])
    c_by_tau = _from_zero(c_derivative_tau(m, tau, rho))
    m = _from_one(m)
    last = len(m) - 1
    derivative = np.full(last + 1, np.nan)
    for i in range(1, last):
        bracket = 2 * c[i] - tau * c_by_tau[i]
        derivative[i] = _w_delta(delta) * rho * tau * abs(m[i]) * abs(m[i + 1]) * bracket / c[i] ** 2  # (41)
    y = tau**2 * m[last] ** 2 - c[last - 1] ** 2
    bracket = tau * m[last] ** 2 - c[last - 1] * c_by_tau[last - 1]
    derivative[last] = _w_delta(delta) * y ** (-1 / 2) * bracket  # (44)
    return derivative[1:]


def a_derivative_gamma(m: npt.ArrayLike, delta: float, gamma: float) -> Array:
    """(42) and (45)."""
    tau, rho = tau_of(delta), rho_of(gamma)
    c = _from_zero(factor(m, tau, rho)[1])
    c_by_rho = _from_zero(c_derivative_rho(m, tau, rho))
    m = _from_one(m)
    last = len(m) - 1
    derivative = np.full(last + 1, np.nan)
    for i in range(1, last):
        bracket = c[i] - rho * c_by_rho[i]
        derivative[i] = _w_gamma(gamma) * tau**2 * abs(m[i]) * abs(m[i + 1]) * bracket / c[i] ** 2  # (42)
    y = tau**2 * m[last] ** 2 - c[last - 1] ** 2
    derivative[last] = _w_gamma(gamma) * y ** (-1 / 2) * (-c[last - 1] * c_by_rho[last - 1])  # (45)
    return derivative[1:]


def kl_gradient(
    m: npt.ArrayLike, delta: float, gamma: float, prior_loc: npt.ArrayLike, prior_scale: float
) -> tuple[Array, float, float]:
    """(46)-(48): the derivatives of the KL divergence with respect to m, delta and gamma."""
    m = np.asarray(m, dtype=np.float64)
    mu = np.broadcast_to(np.asarray(prior_loc, dtype=np.float64), m.shape)
    tau, rho, zeta = tau_of(delta), rho_of(gamma), prior_scale
    a, _ = factor(m, tau, rho)
    a_by_m = a_derivative_m(m, tau, rho)
    by_m = np.zeros(len(m))
    for k in range(len(m)):
        total = sum(1 / a[i] * a_by_m[i, k] for i in range(len(m)))
        by_m[k] = -total + tau**2 / zeta**2 * m[k] + 1 / zeta**2 * (m[k] - mu[k])  # (46)
    return by_m, _kl_by_delta(m, delta, gamma, zeta), _kl_by_gamma(m, delta, gamma)


def _kl_by_delta(m: Array, delta: float, gamma: float, zeta: float) -> float:
    """(47)."""
    tau = tau_of(delta)
    a, _ = factor(m, tau, rho_of(gamma))
    a_by_delta = a_derivative_delta(m, delta, gamma)
    total = sum(1 / a[i] * a_by_delta[i] for i in range(len(m)))
    norm = sum(m_i**2 for m_i in m)
    return float(-total + math.exp(delta) / (1 + math.exp(delta)) * tau / zeta**2 * norm)


def _kl_by_gamma(m: Array, delta: float, gamma: float) -> float:
    """(48)."""
    a, _ = factor(m, tau_of(delta), rho_of(gamma))
    a_by_gamma = a_derivative_gamma(m, delta, gamma)
    return float(-sum(1 / a[i] * a_by_gamma[i] for i in range(len(m))))


def _w_derivative_shared(c_derivative: Array, a_derivative: Array, x: npt.ArrayLike) -> Array:
    """(35) and (36), which have one form: the derivatives of w by delta or by gamma."""
    c_derivative, a_derivative, x = _from_zero(c_derivative), _from_one(a_derivative), _from_one(x)
    x[0] = 0.0  # Paper: (35) and (36) name x_0 at i = 1; (25) has no such term.
    derivative = np.full(len(x), np.nan)
    for i in range(1, len(x)):
        derivative[i] = c_derivative[i - 1] * x[i - 1] + a_derivative[i] * x[i]
    return derivative[1:]


def _w_entry_m(i: int, k: int, x: Array, previous: float, a_derivative: float) -> float:
    """(34): the derivative of w_i with respect to m_k; previous and a_derivative: of c_{i-1}, a_i."""
    entry: float = previous * x[i - 1] + a_derivative * x[i]  # k != i
    if k == i:
        entry = 1 + previous * x[i - 1] + a_derivative * x[i]
    return entry


def _backward_m(
    m: npt.ArrayLike,
    tau: float,
    rho: float,
    x: npt.ArrayLike,
    dloss_dw: npt.ArrayLike,
    prior_loc: npt.ArrayLike,
    prior_scale: float,
    nu: float,
) -> Array:
    """The pseudocode's part "Compute the derivatives of L_VI^k with respect to m_j"; its l is i here."""
    a_one, c_one = factor(m, tau, rho)
    a, c = _from_one(a_one), _from_zero(c_one)
    mu = _from_one(np.broadcast_to(np.asarray(prior_loc, dtype=np.float64), np.shape(m)))
    m, x, dloss_dw = _from_one(m), _from_one(x), _from_one(dloss_dw)
    x[0] = 0.0  # Paper: (34) at i = 1 names x_0, which does not exist; (25) has no such term.
    zeta = prior_scale
    count = len(m) - 1
    diff_m = np.zeros(count + 1)
    for k in range(1, count + 1):
        # Paper: set to zero only once, before this loop, so that k + 1 would begin with the derivative of
        # c_{K-1} by m_k where the pseudocode's own note wants that of c_0, which is zero for every k.
        c_old_deriv = 0.0
        for i in range(1, count):
            c_new_deriv = _c_entry_m(i, k, m, c, tau, rho, c_old_deriv)  # (37)
            a_deriv = _a_entry_m(i, k, m, c, tau, rho, c_new_deriv)  # (40)
            w_deriv = _w_entry_m(i, k, x, c_old_deriv, a_deriv)  # (34)
            diff_m[k] += dloss_dw[i] * w_deriv  # (31)
            diff_m[k] -= nu * a_deriv / a[i]  # (46)
            c_old_deriv = c_new_deriv
        i = count
        a_deriv = _a_last_entry_m(k, m, c, tau, c_old_deriv)  # (43)
        w_deriv = _w_entry_m(i, k, x, c_old_deriv, a_deriv)  # (34)
        diff_m[k] += dloss_dw[i] * w_deriv  # (31)
        diff_m[k] -= nu * a_deriv / a[i]  # (46)
        diff_m[k] += nu * (tau**2 / zeta**2 * m[k] + 1 / zeta**2 * (m[k] - mu[k]))  # (46)
    return diff_m[1:]


def backward(
    m: npt.ArrayLike,
    delta: float,
    gamma: float,
    x: npt.ArrayLike,
    dloss_dw: npt.ArrayLike,
    prior_loc: npt.ArrayLike,
    prior_scale: float,
    nu: float,
    kappa: float,
) -> tuple[Array, float, float]:
    """The pseudocode's backward pass: (31)-(33) plus nu times (46)-(48), the part by gamma times kappa."""
    m = np.asarray(m, dtype=np.float64)
    dloss_dw = np.asarray(dloss_dw, dtype=np.float64)
    diff_m = _backward_m(m, tau_of(delta), rho_of(gamma), x, dloss_dw, prior_loc, prior_scale, nu)

    c_by_delta = c_derivative_delta(m, delta, gamma)  # (38)
    a_by_delta = a_derivative_delta(m, delta, gamma)  # (41) and (44)
    w_by_delta = _w_derivative_shared(c_by_delta, a_by_delta, x)  # (35)
    diff_delta = sum(dloss_dw[i] * w_by_delta[i] for i in range(len(m)))  # (32)
    diff_delta += nu * _kl_by_delta(m, delta, gamma, prior_scale)  # (47)

    c_by_gamma = c_derivative_gamma(m, delta, gamma)  # (39)
    a_by_gamma = a_derivative_gamma(m, delta, gamma)  # (42) and (45)
    w_by_gamma = _w_derivative_shared(c_by_gamma, a_by_gamma, x)  # (36)
    diff_gamma = sum(dloss_dw[i] * w_by_gamma[i] for i in range(len(m)))  # (33)
    diff_gamma += nu * _kl_by_gamma(m, delta, gamma)  # (48)
    diff_gamma *= kappa
    return diff_m, float(diff_delta), float(diff_gamma)


def guard(m: npt.ArrayLike, delta: float, gamma: float, coin: Callable[[], bool]) -> tuple[Array, float, float]:
    """The pseudocode's "Guarantee numerical stability"; coin() True stands for the positive value."""
    m = np.array(m, dtype=np.float64)
    if -0.04000533 < gamma < 0.04000533:
        gamma = 0.04000533 if coin() else -0.04000533
    if gamma > 10:
        gamma = 10.0
    if gamma < -10:
        gamma = -10.0
    if delta < -4.600166:
        delta = -4.600166
    for k in range(len(m)):
        if -0.000001 < m[k] < 0.000001:
            m[k] = 0.000001 if coin() else -0.000001
    return m, delta, gamma
