"""Names of the axes of parameters, and of the positions on them, as bambi has them."""

import itertools

import numpy as np

from steinflow.models.formulas.design import Design, column_names
from steinflow.models.formulas.predictors import Predictor
from steinflow.targets.observations import Labels


def labels_of(predictors: dict[str, Predictor], designs: dict[str, Design], levels: tuple[str, ...] | None) -> Labels:
    """Return the names of axes and positions of all parameters; levels are those of the response."""
    dims, coords = {}, {}
    for name, predictor in predictors.items():
        _label(predictor, designs[name], (levels or ())[1:], dims, coords)
        if predictor.has_thresholds and levels is not None:
            dims["threshold"] = ("threshold_dim",)
            coords["threshold_dim"] = [f"{low} | {high}" for low, high in itertools.pairwise(levels)]
    return Labels(dims, coords)


def _label(predictor, design, classes, dims, coords):
    """Name the axes of all parameters of a linear predictor."""
    last = ("response_dim",) if predictor.outputs else ()
    if predictor.outputs:
        coords["response_dim"] = list(classes)
        dims[predictor.named("Intercept")] = last
    for term, source in zip(predictor.terms, design.common, strict=True):
        dims[predictor.named(term.name)] = _axis(predictor.named(term.name) + "_dim", term, source, coords) + last
    for block, terms, levels in zip(predictor.blocks, design.groups, design.levels, strict=True):
        factor = f"{block.factor}__factor_dim"
        coords[factor] = list(levels)
        effects = []
        for term, source in zip(block.terms, terms, strict=True):
            own = _axis(f"{term.name.removesuffix('|' + block.factor)}__expr_dim", term, source.expr, coords)
            dims[predictor.named(term.name)] = (factor, *own, *last)
            dims[predictor.named(f"{term.name}_sigma")] = (*own, *last)
            short = term.name.removesuffix("|" + block.factor)
            effects += [f"{short}[{column}]" for column in column_names(source.expr)] if own else [short]
        if block.correlated:
            name = predictor.named(block.correlations)
            pairs = zip(*np.tril_indices(block.width, -1), strict=True)
            coords[f"{name}_dim"] = [f"{effects[column]}, {effects[row]}" for row, column in pairs]
            dims[name] = (f"{name}_dim", *last)


def _axis(name, term, source, coords) -> tuple[str, ...]:
    if not term.is_vector:
        return ()
    coords[name] = column_names(source)
    return (name,)
