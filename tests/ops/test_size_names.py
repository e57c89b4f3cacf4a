"""Names for sizes that nothing is known of: one for each, the same wherever the size is the same."""

from __future__ import annotations

from gerules.ir import Graph, TensorType, parse_graph
from gerules.ops import Schemas, infer_graph
from gerules.ops.dims import at_most, broadcast_dims
from gerules.ops.size_names import own_names, without_names

SCHEMAS = Schemas()
TEXT = """
graph g:
    opset 17
    input x: f32[N, 4]
    n = NonZero(x)
    t = Transpose(n, perm=[1, 0])
    v = GatherND(x, t)
    r = Relu(v)
    s = Add(v, r)
    m = NonZero(s)
    return s, m
"""


def shapes(graph: Graph) -> dict[str, object]:
    return {
        value.name: value.type.shape for value in graph.values.values() if isinstance(value.type, TensorType)
    }


def test_a_size_keeps_its_name_and_another_has_another() -> None:
    found = shapes(infer_graph(parse_graph(TEXT), SCHEMAS, names_sizes=True))
    (_, size), other = found["n"], found["m"]  # type: ignore[misc]  # a tuple of two
    assert found["t"] == (size, 2) and found["v"] == found["r"] == found["s"] == (size,)
    assert other == (1, other[1]) and other[1] not in (size, "?", "N")  # type: ignore[index]  # a tuple


def test_without_the_wish_it_stays_unknown() -> None:
    assert shapes(infer_graph(parse_graph(TEXT), SCHEMAS))["s"] == ("?",)


def test_names_stay_when_types_are_inferred_again() -> None:
    once = infer_graph(parse_graph(TEXT), SCHEMAS, names_sizes=True)
    again = infer_graph(once, SCHEMAS, names_sizes=True)
    assert shapes(again) == shapes(once)


def test_names_can_be_taken_back() -> None:
    graph = parse_graph(TEXT)
    named = infer_graph(graph, SCHEMAS, names_sizes=True)
    assert shapes(without_names(named, own_names(graph))) == shapes(infer_graph(graph, SCHEMAS))


def test_a_name_of_the_model_is_not_taken() -> None:
    plain = infer_graph(parse_graph(TEXT), SCHEMAS, names_sizes=True)
    ((_, name),) = [shapes(plain)["n"]]  # type: ignore[misc]  # a tuple of two
    text = TEXT.replace("N,", f"{name},")
    found = shapes(infer_graph(parse_graph(text), SCHEMAS, names_sizes=True))
    assert found["n"] == (2, f"{name}_")


def test_bodies_name_nothing() -> None:
    """A size in the body of a loop may be another in each turn."""
    text = """
graph g:
    opset 17
    input x: f32[N, 4]
    input k: i64[]
    v = Loop(k, none, x):
        body:
            input i: i64[]
            input c: bool[]
            input a: f32[*]
            b = NonZero(a)
            d = Cast(b, to=f32)
            return c, d
    return v
"""
    found = infer_graph(parse_graph(text), SCHEMAS, names_sizes=True)
    (node,) = found.nodes.values()
    assert "'u" not in str(list(shapes(node.bodies["body"].graph).values()))


def test_a_part_from_the_start_is_at_most_the_name() -> None:
    """Position embeddings are cut to the length of the text, and added to what has that length."""
    text = """
graph g:
    opset 17
    input ids: i64[B, S]
    input x: f32[B, S, 8]
    table: const f32[1, 128, 8] = random(1)
    shape = Shape(ids)
    one: const i64[1] = [1]
    zero: const i64[1] = [0]
    size = Gather(shape, one, axis=0)
    p = Slice(table, zero, size, one)
    y = Add(x, p)
    return y
"""
    found = shapes(infer_graph(parse_graph(text), SCHEMAS))
    assert found["p"] == (1, "min(S,128)", 8) and found["y"] == ("B", "S", 8)


def test_the_smaller_of_a_name_and_a_number() -> None:
    assert broadcast_dims("N", "min(N,128)") == "N" == broadcast_dims("min(N,128)", "N")
    assert broadcast_dims("M", "min(N,128)") == "?" and broadcast_dims("min(N,128)", 1) == "min(N,128)"
    assert at_most("N", 1) == "?"  # 1 may be less than N, and broadcast
