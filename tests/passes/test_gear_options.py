"""Gears from options: what ATC's texts mean, and every fault of all options at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.ir import parse_graph
from gerules.passes.errors import PassError
from gerules.passes.gear_options import GearOptions, gear_text, read_gears
from gerules.passes.gears import GearKind, Gears

GRAPH = parse_graph("""
graph g:
    opset 18
    input x: f32[N, 3, H, W]
    input ids: i64[N, S]
    input fixed: f32[4]
    y = Relu(x)
    return y
""")
ONE = parse_graph("graph g:\n    opset 18\n    input x: f32[N, 3, 8, 8]\n    y = Relu(x)\n    return y\n")
NHWC = parse_graph("""
graph g:
    opset 18
    input x: f32[1, H, W, 3]
    y = Relu(x)
    return y
""")
FIXED = parse_graph("""
graph g:
    opset 18
    input x: f32[2]
    input s: f32[]
    y = Relu(x)
    return y
""")


def gears(options: GearOptions, shapes: dict[str, tuple[int, ...]] | None = None) -> Gears:
    found = read_gears(GRAPH, options, shapes)
    assert found is not None
    return found


def codes(
    options: GearOptions, shapes: dict[str, tuple[int, ...]] | None, graph: object = GRAPH
) -> list[str]:
    with pytest.raises(PassError) as caught:
        read_gears(graph, options, shapes)  # type: ignore[arg-type]
    return sorted(item.code.code for item in caught.value.diagnostics)


def test_no_option_is_no_gears() -> None:
    assert read_gears(GRAPH, GearOptions()) is None


def test_batch_sizes_go_to_all_inputs_with_an_open_batch() -> None:
    found = gears(GearOptions(batch=" 1, 2,8"), {"x": (-1, 3, 8, 8), "ids": (-1, 16)})
    assert found.kind is GearKind.BATCH
    assert [gear.values for gear in found.gears] == [(1,), (2,), (8,)]
    assert found.gears[1].shapes == ((2, 3, 8, 8), (2, 16), (4,))
    assert found.open_shapes == ((-1, 3, 8, 8), (-1, 16), (4,))
    assert found.max_shapes == ((8, 3, 8, 8), (8, 16), (4,))
    assert found.as_text() == "batch 1, 2, 8"


def test_image_sizes_are_height_and_width() -> None:
    found = gears(GearOptions(image="224,224;448,320;"), {"x": (1, 3, -1, -1), "ids": (1, 16)})
    assert [gear.shapes[0] for gear in found.gears] == [(1, 3, 224, 224), (1, 3, 448, 320)]
    last = read_gears(NHWC, GearOptions(image="2,3;4,5"))
    assert last is not None and last.gears[1].shapes == ((1, 4, 5, 3),)


def test_dims_go_through_the_inputs_in_the_order_of_the_user() -> None:
    shapes = {"ids": (-1, -1), "x": (-1, 3, 8, -1)}
    found = gears(GearOptions(dims="1,16,1,8;2,32,2,5"), shapes)
    assert found.order == ("ids", "x")
    assert found.gears[1].shapes == ((2, 3, 8, 5), (2, 32), (4,))
    assert found.find([(2, 3, 8, 5), (2, 32), None]) == 1
    assert found.find([(2, 3, 8, 5), (2, 16), None]) is None
    assert found.find_values([1, 16, 1, 8]) == 0
    assert found.max_shapes == ((2, 3, 8, 5), (2, 32), (4,))


def test_numbers_are_texts() -> None:
    assert (
        gear_text([1, 2]) == "1,2" and gear_text([(1, 2), (3, 4)]) == "1,2;3,4" and gear_text("5,6") == "5,6"
    )


@pytest.mark.parametrize(
    ("options", "shapes", "wanted"),
    [
        (GearOptions(batch="4"), {"x": (-1, 3, 8, 8)}, ["E10035"]),
        (GearOptions(batch=",".join(map(str, range(1, 102)))), {"x": (-1, 3, 8, 8)}, ["E10036"]),
        (GearOptions(dims="1,2;3"), {"x": (-1, 3, 8, 8)}, ["E10037"]),
        (GearOptions(image="8,8;9"), {"x": (-1, 3, 8, 8)}, ["E10037", "E10072"]),
        (GearOptions(batch="1,0"), {"x": (-1, 3, 8, 8)}, ["E10038"]),
        (GearOptions(batch="1,-2"), {"x": (-1, 3, 8, 8)}, ["E10038"]),
        (GearOptions(batch="1,2147483648"), {"x": (-1, 3, 8, 8)}, ["E10038"]),
        (GearOptions(batch="1,2,1,2,1"), {"x": (-1, 3, 8, 8)}, ["E10039", "E10039"]),
        (GearOptions(batch="1,2", dims="1;2"), {"x": (-1, 3, 8, 8)}, ["E10070"]),
        (GearOptions(batch="1,two"), {"x": (-1, 3, 8, 8)}, ["E10073"]),
        (GearOptions(batch=""), {"x": (-1, 3, 8, 8)}, ["E10073"]),
        (GearOptions(dims="1;;2"), {"x": (-1, 3, 8, 8)}, ["E10073"]),
        (GearOptions(dims="1,2;3,4"), {"x": (-1, 3, 8, 8)}, ["E10076"]),
        (GearOptions(batch="1,2"), {"x": (2, 3, 8, 8)}, ["E10074"]),
        (GearOptions(dims="1;2"), {"x": (2, 3, 8, 8)}, ["E10075"]),
        (GearOptions(image="1,1;2,2"), {"x": (2, 3, 8, 8)}, ["E10075"]),
        (GearOptions(batch="1,2"), {"x": (-1, -1, 8, 8)}, ["E10043"]),
        (GearOptions(batch="1,2"), {"z": (-1, 3)}, ["E10041"]),
        (GearOptions(is_hybrid=True), {"x": (-1, 3, 8, 8)}, ["E10003"]),
        # Everything at once: the text, the axes, the shapes.
        (
            GearOptions(batch="1,1,x,0", image="1,2;3"),
            {"x": (-1, 3, 8, 8), "z": (1,)},
            ["E10037", "E10038", "E10039", "E10041", "E10070", "E10072", "E10073"],
        ),
    ],
)  # fmt: skip
def test_faults(options: GearOptions, shapes: dict[str, tuple[int, ...]], wanted: list[str]) -> None:
    assert codes(options, shapes, ONE) == wanted


def test_faults_of_axes_name_the_input() -> None:
    assert codes(GearOptions(batch="1,2"), None) == ["E10071", "E10071"]  # x with H and W, ids with S
    assert codes(GearOptions(image="1,2;2,3"), None) == ["E10072", "E10072"]
    assert codes(GearOptions(batch="1,2"), None, FIXED) == ["E10074"]


def test_one_name_has_one_size_in_a_gear() -> None:
    shapes = {"x": (-1, 3, 8, 8), "ids": (-1, 16)}
    assert codes(GearOptions(dims="1,1;2,3"), shapes) == ["E10045"]


def test_what_is_no_tensor_of_known_rank_has_no_gears() -> None:
    graph = parse_graph("graph g:\n    opset 18\n    input x: f32[*]\n    y = Relu(x)\n    return y\n")
    assert codes(GearOptions(batch="1,2"), None, graph) == ["E10074", "E10077"]


@given(st.text(alphabet="0123456789,;- x²", max_size=20), st.sampled_from(list(GearKind)))
def test_no_text_breaks_the_reader(text: str, kind: GearKind) -> None:
    options = {
        GearKind.BATCH: GearOptions(batch=text),
        GearKind.IMAGE: GearOptions(image=text),
        GearKind.DIMS: GearOptions(dims=text),
    }[kind]
    try:
        found = read_gears(GRAPH, options)
    except PassError:
        return
    assert found is not None and len(found.gears) >= 2
