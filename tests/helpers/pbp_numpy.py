"""PBP as a plain NumPy loop, with gradients by hand: what the compiled one is checked and timed against."""

import numpy as np
from scipy.special import log_ndtr, ndtr

PRIOR = 6.0


class NumPyPBP:
    """One or more hidden layers; layers are (units, inputs + 1), the last column being the bias."""

    def __init__(self, means):
        self.means = [np.array(m, float) for m in means]
        self.variances = [np.full(m.shape, PRIOR / (PRIOR - 1)) for m in means]
        self.noise = self.precision = (PRIOR, PRIOR)
        self.factors = [
            [np.zeros(m.shape), np.full(m.shape, (PRIOR - 1) / PRIOR), np.zeros(m.shape), np.zeros(m.shape)]
            for m in means
        ]

    def epoch(self, X, y, order):
        for i in order:
            self.row(X[i], y[i])
        self.refine()

    def row(self, x, y):
        inputs, m, v = [], x, np.zeros_like(x)
        moments = []
        for layer, (M, V) in enumerate(zip(self.means, self.variances, strict=True)):
            if layer:
                moments.append((m, v))
                m, v = relu(m, v)
            m, v = np.append(m, 1.0), np.append(v, 0.0)
            inputs.append((m, v))
            n = M.shape[1]
            m, v = M @ m / np.sqrt(n), (V @ (v + m**2) + M**2 @ v) / n
        a, b = self.noise
        out_m, out_v = m[0], v[0]
        total = out_v + b / (a - 1)
        dm = np.array([(y - out_m) / total])
        dv = np.array([-0.5 / total + 0.5 * (y - out_m) ** 2 / total**2])
        gradients = []
        for layer in reversed(range(len(self.means))):
            M, V, (m, v) = self.means[layer], self.variances[layer], inputs[layer]
            n = M.shape[1]
            gradients.append((np.outer(dm, m) / np.sqrt(n) + 2 * M * np.outer(dv, v) / n, np.outer(dv, v + m**2) / n))
            if layer:
                into_m = M.T @ dm / np.sqrt(n) + 2 * m * (V.T @ dv) / n
                into_v = (V.T @ dv + (M**2).T @ dv) / n
                dm, dv = relu_gradient(*moments[layer - 1], into_m[:-1], into_v[:-1])
        for M, V, (gm, gv) in zip(self.means, self.variances, reversed(gradients), strict=True):
            new_m, new_v = M + V * gm, V - V**2 * (gm**2 - 2 * gv)
            valid = (new_v > 1e-100) & np.isfinite(new_m) & np.isfinite(new_v)
            M[valid], V[valid] = new_m[valid], new_v[valid]
        self.noise = gamma(a, b, out_v, y - out_m)

    def refine(self):
        a, b = self.precision
        for M, V, (fm, fv, fa, fb) in zip(self.means, self.variances, self.factors, strict=True):
            for index in np.ndindex(M.shape):
                v_c = 1 / (1 / V[index] - fv[index])
                m_c = v_c * (M[index] / V[index] - fm[index])
                a_c, b_c = a - fa[index], b + fb[index]
                if not (0 < v_c < 1e6 and b_c > 0 and a_c > 1):
                    continue
                s = b_c / (a_c - 1)
                M[index], V[index] = m_c * s / (v_c + s), v_c * s / (v_c + s)
                a, b = gamma(a_c, b_c, v_c, m_c)
                fm[index], fv[index] = M[index] / V[index] - m_c / v_c, 1 / V[index] - 1 / v_c
                fa[index], fb[index] = a - a_c, b_c - b
        self.precision = (a, b)


def gamma(a, b, v, r):
    z0, z1, z2 = (-0.5 * (np.log(v + s) + r**2 / (v + s)) for s in (b / (a - 1), b / a, b / (a + 1)))
    new_a = 1 / (np.exp(z2 - 2 * z1 + z0) * (a + 1) / a - 1)
    return new_a, 1 / (np.exp(z2 - z1) * (a + 1) / b - np.exp(z1 - z0) * a / b)


def _parts(m, v):
    sd = np.sqrt(v)
    z = m / sd
    g = np.exp(-0.5 * z**2 - 0.9189385332046727 - log_ndtr(z))
    return sd, z, g, ndtr(z)


def relu(m, v):
    sd, z, g, p = _parts(m, v)
    tau = sd * (g + z)
    mean = p * tau
    return mean, mean * tau * (1 - p) + p * v * (1 - g * (g + z))


def relu_gradient(m, v, dmean, dvariance):
    """E r = m p + sd f and E r^2 = (m^2 + v) p + m sd f, with p and f the normal cdf and density at m/sd."""
    sd, z, g, p = _parts(m, v)
    f = g * p
    mean = p * sd * (g + z)
    dsecond = dvariance  # variance = second moment - mean^2
    dfirst = dmean - 2 * mean * dvariance
    return dfirst * p + dsecond * 2 * mean, dfirst * f / (2 * sd) + dsecond * p
