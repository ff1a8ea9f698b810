"""`pm.Minibatch` in a PyMC model: the rows that it draws become arguments of the model's graphs.

PyMC draws rows inside of a graph, and every variable behind them has the length of the batch in its type. Here the same
graphs are built again, on rows of any number that come from outside: a minibatch, half of one, or all of them.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any


class Minibatched:
    """The part of a PyMC model that sees the rows of a `pm.Minibatch`.

    Args:
        model: the model.
        draws: all nodes that draw rows.

    Attributes:
        sources: the variables whose rows are drawn.
        rows: inputs of a graph in place of what is drawn.
        batch_size: how many rows PyMC would draw.
        observed: the observed variables that depend on them.

    Raises:
        ValueError: if a step on some rows would not estimate what all rows say.
    """

    def __init__(self, model, draws: Sequence[Any]):
        from pytensor.tensor.type import TensorType

        if len({node.inputs[-1] for node in draws}) > 1:  # the last input is the random state of a draw
            raise ValueError(
                "The model calls pm.Minibatch more than once, and each call draws rows of its own. Draw rows that "
                "belong together by one call: X, y = pm.Minibatch(X, y, batch_size=100)."
            )
        self._model = model
        self._draws = draws
        *self.sources, _ = draws[0].inputs
        *drawn, _ = draws[0].outputs
        self.rows = [TensorType(part.dtype, (None, *part.type.shape[1:]))() for part in drawn]
        self.batch_size: int = drawn[0].type.shape[0]
        self.observed = [rv for rv in model.observed_RVs if _draws([rv, model.rvs_to_values[rv]])]
        _check(model, self.observed)

    @classmethod
    def find(cls, model) -> "Minibatched | None":
        """Return what a model sees by way of a `pm.Minibatch`; None where it has none."""
        draws = _draws([*model.basic_RVs, *model.rvs_to_values.values(), *model.deterministics, *model.potentials])
        return cls(model, draws) if draws else None

    def depends(self, variable) -> bool:
        """Say whether a variable depends on the rows that are drawn."""
        return bool(_draws([variable]))

    def follow(self, outputs: Sequence[Any], rows: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
        """Return outputs on these rows in place of those drawn, with these values of the free variables."""
        drawn = {old: new for node in self._draws for old, new in zip(node.outputs[:-1], rows, strict=True)}
        observed = [rv for rv in self._model.observed_RVs if rv not in outputs]
        values = _replaced([self._model.rvs_to_values[rv] for rv in observed], drawn)
        return _replaced(outputs, {**drawn, **given, **dict(zip(observed, values, strict=True))})

    def log_likelihood(self, rv, rows: Sequence[Any], given: Mapping[Any, Any]) -> Any:
        """Return the log likelihood of every row, times the number of all rows by that of these."""
        import pymc as pm
        from pymc.variational.minibatch_rv import get_scaling
        from pytensor.graph.rewriting.utils import rewrite_graph

        variable, value = self._rebuilt(rv, rows, given)
        values: Any = pm.logp(variable, value) * get_scaling(rv.owner.inputs[1:], value.shape)
        # Of a component only its shape is left, and without this JAX would meet its random state.
        return rewrite_graph(values, include=("ShapeOpt", "canonicalize"))

    def drawn_anew(self, outputs: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
        """Return outputs on all rows, observed variables among them as random ones."""

        def one(output):
            if output in self.observed:
                return self._rebuilt(output, self.sources, given)[0]
            return self.follow([output], self.sources, given)[0]

        return [one(output) for output in outputs]

    def _rebuilt(self, rv, rows, given):
        """Return an observed variable, of as many rows as there are now, and its values."""
        from pymc.distributions.shape_utils import change_dist_size

        [value] = self.follow([self._model.rvs_to_values[rv]], rows, given)
        variable = self._of_any_length(rv.owner.inputs[0], rows, given)  # PyMC wraps what has a total_size
        ndim = value.ndim - variable.owner.op.ndim_supp
        size = (_num_rows(variable.owner, ndim, value), *tuple(value.shape)[1:ndim])
        return change_dist_size(variable, size), value

    def _of_any_length(self, variable, rows, given):
        """Return a random variable on these rows, to be resized by PyMC, which looks at nothing but its inputs."""
        from pymc.distributions.distribution import SymbolicRandomVariable
        from pytensor.graph.basic import Apply
        from pytensor.tensor.random.op import RandomVariable

        def is_component(each):  # of a mixture, say
            random = each.owner is not None and isinstance(each.owner.op, RandomVariable | SymbolicRandomVariable)
            return random and each not in given

        node = variable.owner
        components = {each: self._of_any_length(each, rows, given) for each in node.inputs if is_component(each)}
        rest = [each for each in node.inputs if each not in components]
        new = components | dict(zip(rest, self.follow(rest, rows, given), strict=True))
        # Not make_node: some distributions insist on the length of the batch.
        outputs = [_type_of_any_length(output)() for output in node.outputs]
        return Apply(node.op, [new[each] for each in node.inputs], outputs).outputs[variable.index]


def _type_of_any_length(variable):
    from pytensor.tensor.type import TensorType

    kind = variable.type
    return kind.clone(shape=(None,) * kind.ndim) if isinstance(kind, TensorType) else kind


def _num_rows(node, ndim, value):
    """The rows of a parameter, which follows new data; of the values where no parameter has any."""
    from pytensor.tensor.random.op import RandomVariable

    if isinstance(node.op, RandomVariable):
        parameters: Any = node.op.dist_params(node)
        for parameter, own in zip(parameters, node.op.ndims_params, strict=True):
            if parameter.ndim - own == ndim and not parameter.type.broadcastable[0]:
                return parameter.shape[0]
    return value.shape[0]


def _check(model, observed) -> None:
    from pymc.variational.minibatch_rv import MinibatchRandomVariable
    from pytensor.tensor.type_other import NoneConst

    for kind, variables in (("latent variables", model.free_RVs), ("potentials", model.potentials)):
        if inside := [variable.name for variable in variables if _draws([variable])]:
            raise ValueError(
                f"The {kind} {inside} depend on a pm.Minibatch, and PyMC does not scale them by the number of rows. "
                "Only observed variables with a total_size may depend on it."
            )

    def scaled(rv):
        return isinstance(rv.owner.op, MinibatchRandomVariable) and not NoneConst.equals(rv.owner.inputs[1])

    if unscaled := [rv.name for rv in observed if not scaled(rv)]:
        raise ValueError(
            f"The observed variables {unscaled} see a pm.Minibatch, but do not say of how many rows: give them "
            "total_size=len(y)."
        )


def _replaced(outputs, replace) -> list[Any]:
    """Return outputs with some variables replaced by others, of another length maybe; what stays as it is is shared."""
    from pymc.distributions.distribution import SymbolicRandomVariable
    from pytensor.compile.builders import OpFromGraph
    from pytensor.graph.traversal import toposort

    new = dict(replace)
    for node in toposort(outputs, blockers=list(replace)):
        inputs = [new.get(variable, variable) for variable in node.inputs]
        if all(map(operator.is_, inputs, node.inputs)):
            continue
        if isinstance(node.op, OpFromGraph) and not isinstance(node.op, SymbolicRandomVariable):
            # Its inner graph insists on the length of the batch.
            changed = _replaced(node.op.inner_outputs, dict(zip(node.op.inner_inputs, inputs, strict=True)))
        else:
            changed = node.op.make_node(*inputs).outputs
        new |= zip(node.outputs, changed, strict=True)
    return [new.get(output, output) for output in outputs]


def _draws(variables) -> list[Any]:
    """The nodes before these variables that draw rows."""
    from pymc.data import MinibatchOp
    from pytensor.graph.traversal import ancestors

    nodes = dict.fromkeys(variable.owner for variable in ancestors(variables))
    return [node for node in nodes if node is not None and isinstance(node.op, MinibatchOp)]
