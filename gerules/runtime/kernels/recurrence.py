"""Recurrent networks: RNN, GRU and LSTM, forward, reverse or both, one product a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_flag, read_float, read_floats, read_int, read_text
from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, optional, required
from gerules.runtime.kernels.precision import round_to, widen

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]
Activation = Callable[[Array], Array]
State = tuple[Array, ...]
Step = Callable[[Array, State], State]

_DIRECTIONS: Final[Mapping[str, tuple[bool, ...]]] = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


@dataclass(frozen=True, slots=True)
class _Cell:
    """The weights of one direction: `[gates * hidden, ...]`, the two biases, the peepholes."""

    weight: Array
    recurrence: Array
    input_bias: Array
    hidden_bias: Array
    peepholes: Array | None
    activations: tuple[Activation, ...]
    clip: float

    def limit(self, x: Array) -> Array:
        """Return the input of an activation, clipped if the model says so."""
        return np.clip(x, -self.clip, self.clip) if self.clip > 0 else x


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    """Return an activation by name; those with parameters take the next of the lists."""
    plain = _PLAIN.get(name.lower())
    if plain is not None:
        return plain
    parametric = _PARAMETRIC.get(name.lower())
    if parametric is None:
        raise ValueError(f"activation {name} is unknown")
    function, alpha_default, beta_default = parametric
    alpha = next(alphas, alpha_default)
    beta = beta_default if beta_default is None else next(betas, beta_default)
    return lambda x: function(x, alpha, beta or 0.0)


_PLAIN: Final[Mapping[str, Activation]] = {
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "softplus": lambda x: np.logaddexp(x, x.dtype.type(0)),
}

_PARAMETRIC: Final[Mapping[str, tuple[Callable[[Array, float, float], Array], float, float | None]]] = {
    "affine": (lambda x, alpha, beta: alpha * x + beta, 1.0, 0.0),
    "leakyrelu": (lambda x, alpha, beta: np.where(x < 0, alpha * x, x), 0.01, None),
    "thresholdedrelu": (lambda x, alpha, beta: np.where(x > alpha, x, x.dtype.type(0)), 1.0, None),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), 1.0, 1.0),
    "hardsigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), 0.2, 0.5),
    "elu": (lambda x, alpha, beta: np.where(x < 0, alpha * np.expm1(x), x), 1.0, None),
}


def _simple_step(cell: _Cell) -> Step:
    bias = cell.input_bias + cell.hidden_bias

    def step(projected: Array, state: State) -> State:
        return (cell.activations[0](cell.limit(projected + state[0] @ cell.recurrence.T + bias)),)

    return step


def _gru_step(cell: _Cell, *, linear_before_reset: bool) -> Step:
    hidden = cell.recurrence.shape[1]
    gate, candidate = cell.activations
    gates_bias = (cell.input_bias + cell.hidden_bias)[: 2 * hidden]
    input_bias, hidden_bias = cell.input_bias[2 * hidden :], cell.hidden_bias[2 * hidden :]
    gates_matrix, candidate_matrix = cell.recurrence[: 2 * hidden].T, cell.recurrence[2 * hidden :].T

    def step(projected: Array, state: State) -> State:
        (h,) = state
        gates = gate(cell.limit(projected[:, : 2 * hidden] + h @ gates_matrix + gates_bias))
        update, reset = gates[:, :hidden], gates[:, hidden:]
        if linear_before_reset:
            recurrent = reset * (h @ candidate_matrix + hidden_bias)
        else:
            recurrent = (reset * h) @ candidate_matrix + hidden_bias
        new = candidate(cell.limit(projected[:, 2 * hidden :] + recurrent + input_bias))
        return ((1 - update) * new + update * h,)

    return step


def _lstm_step(cell: _Cell, *, couples_forget: bool) -> Step:
    hidden = cell.recurrence.shape[1]
    gate, candidate, output = cell.activations
    bias, matrix = cell.input_bias + cell.hidden_bias, cell.recurrence.T
    peepholes = np.zeros(3 * hidden, bias.dtype) if cell.peepholes is None else cell.peepholes
    see_input, see_output, see_forget = np.split(peepholes, 3)

    def step(projected: Array, state: State) -> State:
        h, c = state
        sums = projected + h @ matrix + bias
        i, o, f, new = (sums[:, at * hidden : (at + 1) * hidden] for at in range(4))
        i = gate(cell.limit(i + see_input * c))
        f = 1 - i if couples_forget else gate(cell.limit(f + see_forget * c))
        c = f * c + i * candidate(cell.limit(new))
        o = gate(cell.limit(o + see_output * c))
        return (o * output(c), c)

    return step


def _run(
    inputs: Inputs,
    attrs: Attrs,
    context: KernelContext,
    defaults: tuple[str, ...],
    n_gates: int,
    make_step: Callable[[_Cell], Step],
) -> list[Array]:
    """Run every direction, and return all hidden states and the last ones."""
    original = required(inputs, 0)
    by_batch = read_flag(attrs, "layout")
    x = widen(original).swapaxes(0, 1) if by_batch else widen(original)
    n_states = 2 if len(defaults) == 3 else 1
    directions = _DIRECTIONS.get(read_text(attrs, "direction", "forward").lower())
    if x.ndim != 3 or directions is None:
        raise ValueError(f"the input {list(original.shape)} or the direction does not fit")
    n_steps, batch, _ = x.shape
    given = optional(inputs, 4)
    lengths = np.full(batch, n_steps) if given is None else np.minimum(given.astype(np.int64), n_steps)
    cells = _cells(inputs, attrs, defaults, n_gates, len(directions))
    hidden = read_int(attrs, "hidden_size", cells[0].recurrence.shape[1])
    if any(cell.recurrence.shape != (n_gates * hidden, hidden) for cell in cells):
        raise ValueError(f"the weights do not fit hidden_size {hidden}")
    context.check_size((n_steps, len(directions), batch, hidden), x.dtype)
    y = np.zeros((n_steps, len(directions), batch, hidden), x.dtype)
    last = [np.zeros((len(directions), batch, hidden), x.dtype) for _ in range(n_states)]
    for at, is_reverse in enumerate(directions):
        start = tuple(_initial(inputs, 5 + state, at, by_batch, last[state][at]) for state in range(n_states))
        ends = _run_direction(x, cells[at], make_step(cells[at]), start, lengths, is_reverse, y[:, at])
        for state, end in enumerate(ends):
            last[state][at] = end
    results = [y.transpose(2, 0, 1, 3) if by_batch else y]
    results += [item.swapaxes(0, 1) if by_batch else item for item in last]
    return [round_to(item, original.dtype) for item in results[: max(1, context.n_outputs)]]


def _initial(inputs: Inputs, index: int, direction: int, by_batch: bool, zeros: Array) -> Array:
    given = optional(inputs, index)
    if given is None:
        return zeros
    return widen(given[:, direction] if by_batch else given[direction])


def _cells(
    inputs: Inputs, attrs: Attrs, defaults: tuple[str, ...], n_gates: int, n_directions: int
) -> list[_Cell]:
    weight, recurrence = widen(required(inputs, 1)), widen(required(inputs, 2))
    bias, peepholes = optional(inputs, 3), optional(inputs, 7)
    if weight.ndim != 3 or recurrence.ndim != 3 or weight.shape[0] != n_directions:
        raise ValueError(f"weights {list(weight.shape)} and {list(recurrence.shape)} do not fit")
    names = attrs.get("activations", defaults * n_directions)
    if not isinstance(names, tuple) or len(names) != len(defaults) * n_directions:
        raise ValueError(f"{len(defaults)} activations are needed for each direction")
    alphas = iter(read_floats(attrs, "activation_alpha") or ())
    betas = iter(read_floats(attrs, "activation_beta") or ())
    functions = [_activation(str(name), alphas, betas) for name in names]
    found: list[_Cell] = []
    for at in range(n_directions):
        size = n_gates * recurrence.shape[2]
        both = np.zeros(2 * size, weight.dtype) if bias is None else widen(bias[at])
        found.append(
            _Cell(
                weight[at],
                recurrence[at],
                both[:size],
                both[size:],
                None if peepholes is None else widen(peepholes[at]),
                tuple(functions[at * len(defaults) : (at + 1) * len(defaults)]),
                read_float(attrs, "clip", 0.0),
            )
        )
    return found


def _run_direction(
    x: Array, cell: _Cell, step: Step, state: State, lengths: Array, is_reverse: bool, y: Array
) -> State:
    """Write the hidden state after each step into `y`; sequences that have ended keep their state."""
    # The inputs of all steps in one product; only the recurrent half has to wait for its turn.
    projected = np.matmul(x, cell.weight.T)
    order = range(x.shape[0])
    for at in reversed(order) if is_reverse else order:
        alive = (at < lengths)[:, None]
        new = step(projected[at], state)
        if alive.all():
            state = new
            y[at] = new[0]
            continue
        # A reversed sequence that is short begins at its own end, with its initial state.
        state = tuple(np.where(alive, fresh, old) for fresh, old in zip(new, state, strict=True))
        y[at] = np.where(alive, new[0], x.dtype.type(0))
    return state


def rnn(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """RNN: one gate."""
    return _run(inputs, attrs, context, ("Tanh",), 1, _simple_step)


def gru(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """GRU: update, reset, candidate."""
    is_linear = read_flag(attrs, "linear_before_reset")
    return _run(
        inputs,
        attrs,
        context,
        ("Sigmoid", "Tanh"),
        3,
        lambda cell: _gru_step(cell, linear_before_reset=is_linear),
    )


def lstm(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """LSTM: input, output, forget, candidate; with peepholes and a coupled forget gate."""
    couples = read_flag(attrs, "input_forget")
    return _run(
        inputs,
        attrs,
        context,
        ("Sigmoid", "Tanh", "Tanh"),
        4,
        lambda cell: _lstm_step(cell, couples_forget=couples),
    )


KERNELS: Final[Mapping[str, Kernel]] = {"RNN": rnn, "GRU": gru, "LSTM": lstm}
