r"""Control functionals: averages over states, less what a smooth function with mean zero explains of them.

For any smooth $\phi$ Stein's identity says that $E[\phi \cdot s + \nabla \cdot \phi] = 0$ under the target. The control
variates of `recollection.py` take $\phi$ linear. Here it is a function of a reproducing kernel, fitted to what is
averaged (Oates, Girolami & Chopin, arXiv:1410.2392): with $k_0$ the Stein kernel of an inverse multiquadric, the fit to
half of the chains is

$$f(x) \approx c + \sum_j a_j\, k_0(x, x_j), \qquad (K_0 + \lambda I)\, a = f - c, \qquad \mathbf 1^\top a = 0,$$

and the average of $f - \sum_j a_j k_0(\cdot, x_j)$ over the other half keeps its expectation, whatever the fit is
worth. In few dimensions it explains nearly all: the weights of two modes that chains seldom pass between follow from
the shape of the density between them. How much is left to chance, the scatter of the chains says, as it does without.

It is for means. Of squares it explains little where tails are heavy, and there the scatter is small where a tail was
missed: the smaller error would be that of the smaller sd.
"""

import numpy as np

from steinflow.stein.discrepancy import imq_stein_matrix

_FITTED = 500  # states of each half; the time that a fit takes grows as their cube
_RIDGE = 0.01  # of the mean diagonal; 1e-4 follows the kink of a Laplace density, and misses its mean by 0.08 sds


def average(points: np.ndarray, scores: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the averages of values, and their standard errors by the scatter of the chains.

    Args:
        points: states in coordinates of about unit covariance, of shape (m, n, d), n being the number of chains.
        scores: there, in the same coordinates.
        values: there, of shape (m, n, p).
    """
    half = points.shape[1] // 2
    given = [each.astype(np.float32) for each in (points, scores, values)]  # twice as fast; chance leaves far more open
    first, second = ([each[:, part] for each in given] for part in (np.s_[:half], np.s_[half:]))
    rest = np.append(_unexplained(first, second), _unexplained(second, first), axis=1)
    by_chain = np.mean(rest, axis=0)
    return np.mean(by_chain, axis=0), np.std(by_chain, axis=0) * len(by_chain) ** -0.5


def _unexplained(chains, others):
    """Return the values of chains, less what a fit to those of the others explains."""
    points, scores, values = (each.reshape(-1, each.shape[-1]) for each in chains)
    some = slice(None, None, -(-others[0][..., 0].size // _FITTED))
    x, s, f = (each.reshape(-1, each.shape[-1])[some] for each in others)
    gram = imq_stein_matrix(x, s, x, s, x.shape[1])
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram)
    solved = np.linalg.solve(gram, np.append(np.ones_like(x[:, :1]), f, axis=1))
    ones, given = solved[:, :1], solved[:, 1:]
    weights = given - ones * (np.sum(given, axis=0) / np.sum(ones))
    return (values - imq_stein_matrix(points, scores, x, s, x.shape[1]) @ weights).reshape(chains[2].shape)
