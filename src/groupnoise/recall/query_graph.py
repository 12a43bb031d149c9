"""An ONNX graph that computes query vectors from item positions.

The graph computes what :class:`groupnoise.clicks.scoring.ScoringRule` does, for a batch of
histories: rows of one length, padded in front with -1, oldest click first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.evidence.recurrence import NORM_EPSILON, Recurrence
from groupnoise.clicks.scoring import MIN_TOTAL, ScoringRule
from groupnoise.core.checks import require
from groupnoise.exceptions import ParameterError
from groupnoise.recall.vectors import MatchingVectors

OPSET = 17
MAX_BYTES = (1 << 31) - (1 << 24)
"""Limit of the weights in one ONNX file."""


def write_query_graph(path: Path, vectors: MatchingVectors, scope: str | None = None) -> None:
    """Write the graph of the queries of a model whose histories are one query each.

    `scope` (one of "group", "last"): which clicks are used; by default as the model was trained.
    """
    onnx = require("onnx", extra="onnx")
    rule = vectors.rule.with_scope(scope)
    assert rule.n_clicks is not None  # a rule of one query per history has a window
    features = vectors.features(np.arange(len(vectors.targets)))
    if features.nbytes > MAX_BYTES:
        raise ParameterError(
            f"the vectors take {features.nbytes / 1e9:.1f} GB and a file of ONNX holds 2; make the "
            "queries in Python with groupnoise.recall.query_vectors."
        )
    graph = _Graph(onnx)
    clicks, is_click = _latest_clicks(graph, rule.n_clicks)
    at_click = graph("Gather", graph.constant(features), graph("Max", clicks, graph.constant(0)))
    if rule.normalization == "click":
        query = graph("Squeeze", at_click, graph.constant([1]))
    else:
        query = _evidence(graph, rule, at_click, is_click, vectors.dimension)
    one = graph("Unsqueeze", graph.constant(np.ones(1, dtype=np.float32)), graph.constant([0]))
    n_rows = graph("Shape", query, start=0, end=1)
    shape = graph("Concat", n_rows, graph.constant([1]), axis=0)
    graph("Concat", query, graph("Expand", one, shape), axis=1, output="query")
    graph.write(path, vectors.dimension + 1)


class _Graph:
    """A graph under construction: nodes and constants, numbered in order."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *inputs: str, output: str | None = None, **values: Any) -> str:
        name = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **values))
        return name

    def constant(self, value: Any) -> str:
        array: NDArray[Any] = np.asarray(value)
        if array.dtype.kind in "iu":
            array = array.astype(np.int64)
        name = f"constant_{len(self.constants)}"
        self.constants.append(
            self.onnx.numpy_helper.from_array(
                np.ascontiguousarray(array).reshape(array.shape), name
            )
        )
        return name

    def write(self, path: Path, width: int) -> None:
        helper, types = self.onnx.helper, self.onnx.TensorProto
        graph = helper.make_graph(
            self.nodes,
            "query_of_history",
            [helper.make_tensor_value_info("items", types.INT64, ["histories", "clicks"])],
            [helper.make_tensor_value_info("query", types.FLOAT, ["histories", width])],
            self.constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="groupnoise",
            ir_version=8,
        )
        self.onnx.checker.check_model(model)
        path.write_bytes(model.SerializeToString())


def _latest_clicks(graph: _Graph, n_clicks: int) -> tuple[str, str]:
    """Return the latest clicks, (histories, n_clicks) padded with -1, and the mask of clicks."""
    n_rows = graph("Shape", "items", start=0, end=1)
    shape = graph("Concat", n_rows, graph.constant([n_clicks]), axis=0)
    none = graph("Expand", graph.constant([[-1]]), shape)
    padded = graph("Concat", none, "items", axis=1)
    end = graph.constant([np.iinfo(np.int64).max])
    clicks = graph("Slice", padded, graph.constant([-n_clicks]), end, graph.constant([1]))
    return clicks, graph("GreaterOrEqual", clicks, graph.constant(0))


def _evidence(graph: _Graph, rule: ScoringRule, at_click: str, is_click: str, dim: int) -> str:
    """Return the summed evidence of the clicks plus the outputs of recurrent encoders."""
    by_block = [np.asarray(weights, dtype=np.float32) for weights in rule.position_weights]
    n_clicks = rule.n_clicks or 1
    # (clicks, dim): the weight of a click by its place in the window, oldest first.
    weights = np.repeat(np.stack(by_block, axis=1)[:n_clicks][::-1], rule.block_widths, axis=1)
    exponents = np.repeat(np.asarray(rule.exponents, dtype=np.float32), rule.block_widths)
    mask = graph("Cast", is_click, to=graph.onnx.TensorProto.FLOAT)
    columns = graph("Unsqueeze", mask, graph.constant([2]))
    weight = graph.constant(weights)
    weighted = graph("Mul", graph("Mul", at_click, columns), weight)
    summed = graph("ReduceSum", weighted, graph.constant([1]), keepdims=0)
    total = graph("Max", graph("MatMul", mask, weight), graph.constant(np.float32(MIN_TOTAL)))
    query = graph("Mul", summed, graph("Pow", total, graph.constant(-exponents)))
    for encoder in rule.encoders:
        reading = _recurrent_query(graph, encoder, at_click, is_click)
        sides = [encoder.begin, dim - encoder.begin - encoder.width]
        padded = graph("Pad", reading, graph.constant([0, sides[0], 0, sides[1]]))
        query = graph("Add", query, padded)
    return query


def _recurrent_query(graph: _Graph, encoder: Recurrence, at_click: str, is_click: str) -> str:
    """Return the output of a recurrent encoder, (histories, width)."""
    named = encoder.named_weights()

    def linear(value: str, name: str, rows: slice = slice(None)) -> str:
        product = graph("MatMul", value, graph.constant(named[f"{name}.weight"][rows].T))
        offset = named.get(f"{name}.bias")
        return product if offset is None else graph("Add", product, graph.constant(offset[rows]))

    def norm(value: str, name: str) -> str:
        scale, offset = (graph.constant(named[f"{name}.{part}"]) for part in ("weight", "bias"))
        return graph("LayerNormalization", value, scale, offset, epsilon=NORM_EPSILON)

    def latest(value: str, axis: int) -> str:
        end = graph.constant([np.iinfo(np.int64).max])
        begin = graph.constant([-encoder.length])
        return graph("Slice", value, begin, end, graph.constant([axis]))

    one, hidden = graph.constant(np.float32(1)), encoder.hidden
    columns = graph("Unsqueeze", latest(is_click, 1), graph.constant([2]))
    inputs = graph(
        "Slice",
        latest(at_click, 1),
        graph.constant([encoder.begin]),
        graph.constant([encoder.begin + encoder.width]),
        graph.constant([2]),
    )
    states = norm(linear(inputs, "project"), "input_norm")
    for number in range(encoder.n_layers):
        layer = f"layers.{number}"
        entry = norm(states, f"{layer}.recurrence_norm")
        kept = graph("Sigmoid", linear(entry, f"{layer}.gates", slice(0, hidden)))
        # Before the first click the state stays zero.
        kept = graph("Where", columns, kept, one)
        value = linear(entry, f"{layer}.gates", slice(hidden, 2 * hidden))
        new = graph("Mul", graph("Sub", one, kept), value)
        memory = _linear_recurrence(graph, kept, new, hidden)
        gate = linear(entry, f"{layer}.gates", slice(2 * hidden, None))
        opened = graph("Mul", gate, graph("Sigmoid", gate))
        states = graph("Add", states, linear(graph("Mul", memory, opened), f"{layer}.read"))
        wide = graph("Relu", linear(norm(states, f"{layer}.perceptron_norm"), f"{layer}.expand"))
        states = graph("Add", states, linear(wide, f"{layer}.reduce"))
    last = graph("Gather", states, graph.constant(-1), axis=1)
    return linear(norm(last, "output_norm"), "answer")


def _linear_recurrence(graph: _Graph, kept: str, new: str, hidden: int) -> str:
    """Return h_t = kept_t * h_{t-1} + new_t for every click of every history."""
    helper, types = graph.onnx.helper, graph.onnx.TensorProto
    rows = [helper.make_tensor_value_info(name, types.FLOAT, None) for name in ("h", "a", "b")]
    outputs = [helper.make_tensor_value_info(name, types.FLOAT, None) for name in ("next", "each")]
    steps = [
        helper.make_node("Mul", ["a", "h"], ["faded"]),
        helper.make_node("Add", ["faded", "b"], ["next"]),
        helper.make_node("Identity", ["next"], ["each"]),
    ]
    body = helper.make_graph(steps, "recurrence", rows, outputs)
    n_rows = graph("Shape", new, start=0, end=1)
    shape = graph("Concat", n_rows, graph.constant([hidden]), axis=0)
    initial = graph("Expand", graph.constant(np.zeros((1, 1), dtype=np.float32)), shape)
    memory = f"memory_{len(graph.nodes)}"
    graph.nodes.append(
        helper.make_node(
            "Scan",
            [initial, kept, new],
            [f"{memory}_last", memory],
            body=body,
            num_scan_inputs=2,
            scan_input_axes=[1, 1],
            scan_output_axes=[1],
        )
    )
    return memory
