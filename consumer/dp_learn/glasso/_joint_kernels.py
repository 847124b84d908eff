"""Compiled proximal operators of coupled entries (see `joint`), exact, one entry of all periods after the other.

Along a chain by dynamic programming. The derivative of the least cost of all periods so far, as a function of this
one's value, is a monotone polyline. A penalised difference clips it, a squared one tilts it, and an absolute value
breaks it at zero. Over all pairs by divide and conquer: at the best common value, the cheapest cut takes those with the
smallest derivatives.

Nothing is validated; `out` is overwritten.

Legend: a points, c their weights and l the absolute values', of shapes (K, M), (K,) and (K, M); x and v the polyline.

References
----------
Johnson (2013), A dynamic programming algorithm for the fused lasso and L0-segmentation, JCGS 22(2). Hochbaum (2001), An
efficient algorithm for image segmentation, Markov random fields and related problems, JACM 48(4).
"""

import numpy as np

from dp_bundle.base.machine import njit
from dp_learn.matrices.linalg import Array

ROUNDING = 1e-14  # relative: a cut that gains less is none


@njit()
def shrink_chain(a: Array, c: Array, l: Array, coupling: Array, squared: bool, out: Array) -> None:  # noqa: E741
    """Minimise ``sum c/2 (z - a)^2 + l |z|`` plus coupling times ``|dz|`` of neighbours, or half of its square."""
    n_periods, n_entries = a.shape
    size = 2 * n_periods * 2 + 4
    x, v = np.empty((n_periods, size)), np.empty((n_periods, size))
    length, left, right = np.empty(n_periods, dtype=np.int64), np.empty(n_periods), np.empty(n_periods)
    low, high = np.empty(n_periods), np.empty(n_periods)

    for m in range(n_entries):
        n = int(np.int64(1))  # no literal, so that what takes it is compiled once
        x[0, 0], v[0, 0], first, last = 0.0, 0.0, 0.0, 0.0
        for k in range(n_periods):
            y, d = x[k], v[k]
            for i in range(n):
                d[i] += c[k] * (y[i] - a[k, m])
            first += c[k]
            last += c[k]
            if l[k, m] > 0.0:
                n = _break_at_zero(y, d, n, first, last, l[k, m])
            length[k], left[k], right[k] = n, first, last
            if k == n_periods - 1:
                break

            g = coupling[k, m]
            if squared and g > 0.0:  # the polyline stays, and the next one is tilted
                for i in range(n):
                    x[k + 1, i], v[k + 1, i] = y[i] + d[i] / g, d[i]
                first, last = first / (1.0 + first / g), last / (1.0 + last / g)
                continue
            low[k], high[k] = _find(y, d, n, first, last, -g), _find(y, d, n, first, last, g)
            count = 0
            if np.isfinite(g):
                x[k + 1, 0], v[k + 1, 0], count = low[k], -g, 1
            for i in range(n):
                if -g < d[i] < g:
                    x[k + 1, count], v[k + 1, count] = y[i], d[i]
                    count += 1
            if np.isfinite(g):
                x[k + 1, count], v[k + 1, count] = high[k], g
                count, first, last = count + 1, 0.0, 0.0
            n = count

        z = _find(x[n_periods - 1], v[n_periods - 1], n, first, last, 0.0)
        out[n_periods - 1, m] = z
        for k in range(n_periods - 2, -1, -1):
            g = coupling[k, m]
            if squared and g > 0.0:
                z = _find_tilted(x[k], v[k], length[k], left[k], right[k], g, z)
            else:
                z = min(max(z, low[k]), high[k])
            out[k, m] = z


@njit()
def _break_at_zero(x: Array, v: Array, n: int, left: float, right: float, height: float) -> int:
    """Add ``height sign(x)`` to a polyline; return how many points it has."""
    first, last = 0, n
    while first < n and x[first] < 0.0:
        first += 1
    while last > first and x[last - 1] > 0.0:
        last -= 1
    if first < last:
        below, above = v[first], v[last - 1]
    else:
        below = _value(x, v, n, left, right, 0.0)
        above = below

    shift = 2 - (last - first)  # there are to be two points at zero
    if shift > 0:
        for i in range(n - 1, last - 1, -1):
            x[i + shift], v[i + shift] = x[i], v[i]
    else:
        for i in range(last, n):
            x[i + shift], v[i + shift] = x[i], v[i]
    n += shift
    for i in range(first):
        v[i] -= height
    x[first], v[first], x[first + 1], v[first + 1] = 0.0, below - height, 0.0, above + height
    for i in range(first + 2, n):
        v[i] += height
    return n


@njit()
def _find(x: Array, v: Array, n: int, left: float, right: float, target: float):  # type: ignore[no-untyped-def]
    """Return where a polyline has a value."""
    if target <= v[0]:
        return x[0] + (target - v[0]) / left if left > 0.0 and target < v[0] else x[0]
    if target >= v[n - 1]:
        return x[n - 1] + (target - v[n - 1]) / right if right > 0.0 and target > v[n - 1] else x[n - 1]
    i = 0
    while v[i + 1] < target:
        i += 1
    return x[i] + (x[i + 1] - x[i]) * ((target - v[i]) / (v[i + 1] - v[i]))


@njit()
def _value(x: Array, v: Array, n: int, left: float, right: float, at: float):  # type: ignore[no-untyped-def]
    """Return the value of a polyline where it has no point."""
    if at <= x[0]:
        return v[0] + left * (at - x[0])
    if at >= x[n - 1]:
        return v[n - 1] + right * (at - x[n - 1])
    i = 0
    while x[i + 1] < at:
        i += 1
    return v[i] + (v[i + 1] - v[i]) * ((at - x[i]) / (x[i + 1] - x[i]))


@njit()
def _find_tilted(x: Array, v: Array, n: int, left: float, right: float, g: float, z: float):  # type: ignore[no-untyped-def]
    """Return the y at which ``y + v(y) / g = z``."""
    if z <= x[0] + v[0] / g:
        return x[0] + (z - x[0] - v[0] / g) / (1.0 + left / g)
    if z >= x[n - 1] + v[n - 1] / g:
        return x[n - 1] + (z - x[n - 1] - v[n - 1] / g) / (1.0 + right / g)
    i = 0
    while x[i + 1] + v[i + 1] / g < z:
        i += 1
    begin, end = x[i] + v[i] / g, x[i + 1] + v[i + 1] / g
    return x[i] + (x[i + 1] - x[i]) * ((z - begin) / (end - begin))


@njit()
def shrink_pairs(a: Array, c: Array, l: Array, coupling: Array, out: Array) -> None:  # noqa: E741
    """Minimise ``sum c/2 (z - a)^2 + l |z|`` plus the entry's coupling times ``|z_k - z_l|`` of all pairs k < l."""
    n_periods, n_entries = a.shape
    order, linear = np.empty(n_periods, dtype=np.int64), np.empty(n_periods)
    waiting = np.empty((n_periods + 1, 2), dtype=np.int64)
    slope = np.empty(n_periods)

    for m in range(n_entries):
        g, n_waiting = coupling[m], 1
        linear[:] = 0.0
        for k in range(n_periods):
            order[k] = k
        waiting[0, 0], waiting[0, 1] = 0, n_periods
        while n_waiting:
            n_waiting -= 1
            start, end = waiting[n_waiting]
            weight = point = bound = 0.0
            for i in range(start, end):
                k = order[i]
                weight, point, bound = weight + c[k], point + c[k] * a[k, m] - linear[k], bound + l[k, m]
            z = max(abs(point) - bound, 0.0) * np.sign(point) / weight

            cut = 0
            for side in (1.0, -1.0):  # those that would be larger, and those that would be smaller
                sign = np.sign(z) if z != 0.0 else side
                for i in range(start, end):
                    k = order[i]
                    slope[i] = side * (c[k] * (z - a[k, m]) + linear[k] + sign * l[k, m])
                cut = _cheapest_cut(order, slope, start, end, g)
                if cut:
                    for i in range(start, end):
                        linear[order[i]] += side * g * (end - start - cut) if i < start + cut else -side * g * cut
                    waiting[n_waiting], waiting[n_waiting + 1] = (start, start + cut), (start + cut, end)
                    n_waiting += 2
                    break
            if not cut:
                for i in range(start, end):
                    out[order[i], m] = z


@njit()
def _cheapest_cut(order: Array, slope: Array, start: int, end: int, g: float) -> int:
    """Return how many to cut off, after these are sorted by their slopes, which are overwritten; 0 if none pays."""
    size = 0.0
    for i in range(start, end):
        key, own, place = slope[i], order[i], i
        size += abs(key)
        while place > start and slope[place - 1] > key:
            slope[place], order[place] = slope[place - 1], order[place - 1]
            place -= 1
        slope[place], order[place] = key, own

    best, least, total = 0, -ROUNDING * (size + 1e-300), 0.0
    for count in range(1, end - start):
        total += slope[start + count - 1]
        cost = total + g * count * (end - start - count)
        if cost < least:
            best, least = count, cost
    return best
