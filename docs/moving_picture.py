"""Draw images/moving.svg, the animation on the landing page: particles on their way to two targets.

    python docs/moving_picture.py

Left, the paper's mixture from a start at -10. Each particle keeps its own height under the curve, as a fraction of the
density, so that the dots fill the area evenly once the particles are right. Right, a banana with its contours. The
random moves of the first half of a run are left out: they would hide the flow.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot as plt

import steinflow as sf

WIDTH, HEIGHT, GAP = 380, 250, 24
SECONDS = 9.0
NUM_FRAMES, NUM_STILL = 30, 10


def mixture(x):
    """The log density of 1/3 N(-2, 1) + 2/3 N(2, 1)."""
    return jnp.logaddexp(jnp.log(1 / 3) - 0.5 * (x + 2) ** 2, jnp.log(2 / 3) - 0.5 * (x - 2) ** 2) - 0.919


def banana(x):
    """The log density, up to a constant, of a curved Gaussian."""
    return -0.5 * x[0] ** 2 - 2 * (x[1] - 0.5 * (x[0] ** 2 - 1)) ** 2


def film(log_density, start, num_steps):
    """Return recorded particles (frames, particles, dimensions), with more frames early, when most happens."""
    method = sf.SVGD(exploration=None)
    result = sf.fit(
        log_density,
        method,
        particles=start,
        num_steps=num_steps,
        progress=False,
        record={"x": lambda x: x},
        record_every=1,
    )
    frames = np.concatenate([np.asarray(start)[None], np.asarray(result.history["x"])])
    chosen = np.unique((num_steps * np.linspace(0, 1, NUM_FRAMES) ** 2.2).round().astype(int))
    return frames[chosen]


def panel(x, y, limits, colour):
    """Return circles that follow the frames, pause at the end, and start again."""
    to_pixels = pixels(limits)
    duration = f'dur="{SECONDS:g}s" repeatCount="indefinite"'
    lines = []
    for k in range(x.shape[1]):
        columns, rows = to_pixels(x[:, k], y[:, k])
        values = [";".join(f"{v:.1f}" for v in [*track, *NUM_STILL * [track[-1]]]) for track in (columns, rows)]
        lines.append(
            f'<circle r="3.1" fill="{colour}" fill-opacity=".75" cx="{columns[-1]:.1f}" cy="{rows[-1]:.1f}">'
            f'<animate attributeName="cx" {duration} values="{values[0]}"/>'
            f'<animate attributeName="cy" {duration} values="{values[1]}"/></circle>'
        )
    return lines


def pixels(limits):
    """Return the map from data to the coordinates of a panel."""
    (left, right), (low, high) = limits
    return lambda x, y: (
        WIDTH * (np.asarray(x) - left) / (right - left),
        HEIGHT * (1 - (np.asarray(y) - low) / (high - low)),
    )


def path(columns, rows, style):
    """Draw a line."""
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(columns, rows, strict=True))
    return f'<polyline points="{points}" {style}/>'


def mixture_panel():
    """Draw the curve, and dots that fill the area under it."""
    start = -10 + jax.random.normal(jax.random.key(0), (110,))
    x = film(mixture, start, 400)
    limits = (-13, 6), (-0.012, 0.31)
    heights = (np.arange(x.shape[1]) * 0.618034) % 1  # evenly spread, whatever the order
    grid = np.linspace(-13, 6, 200)
    columns, rows = pixels(limits)(grid, np.exp(mixture(grid)))
    curve = path(columns, rows, 'fill="#2a6fbb" fill-opacity=".10" stroke="#2a6fbb" stroke-width="2"')
    return [curve, *panel(x, heights * np.exp(mixture(x)), limits, "#2a6fbb")]


def banana_panel():
    """Draw contours, and dots that fill them."""
    start = jnp.array([-1.6, 3.2]) + 0.25 * jax.random.normal(jax.random.key(1), (130, 2))
    x = film(banana, start, 500)
    limits = (-3.4, 3.4), (-2.2, 4.2)
    a, b = np.meshgrid(np.linspace(-3.4, 3.4, 120), np.linspace(-2.2, 4.2, 120))
    density = np.exp(-0.5 * a**2 - 2 * (b - 0.5 * (a**2 - 1)) ** 2)
    figure = plt.figure()
    contours = figure.add_subplot().contour(a, b, density, levels=[0.03, 0.14, 0.4, 0.75])
    to_pixels, lines = pixels(limits), []
    for segments in contours.allsegs:
        for line in segments:
            columns, rows = to_pixels(line[::2, 0], line[::2, 1])
            lines.append(path(columns, rows, 'fill="none" stroke="#c25a1a" stroke-opacity=".45" stroke-width="1.3"'))
    return [*lines, *panel(x[..., 0], x[..., 1], limits, "#e0702b")]


def main():
    """Write the picture."""
    text = 'font-family="system-ui, sans-serif" font-size="14"'
    total = 2 * WIDTH + 3 * GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {HEIGHT + 56}" role="img">',
        "<title>Particles on their way to two posteriors</title>",
        "<style>text{fill:#26323f}@media(prefers-color-scheme:dark){text{fill:#dfe3ea}}</style>",
        f'<text x="{GAP}" y="26" {text}>Two modes, from a start that has seen neither</text>',
        f'<text x="{2 * GAP + WIDTH}" y="26" {text}>A banana, from a corner</text>',
        f'<g transform="translate({GAP} 40)">',
        *mixture_panel(),
        f'</g><g transform="translate({2 * GAP + WIDTH} 40)">',
        *banana_panel(),
        "</g></svg>",
    ]
    (Path(__file__).parent / "images" / "moving.svg").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
