"""Random graphs for properties: element-wise, shape arithmetic, constants, duplicates, branches."""

from __future__ import annotations

from hypothesis import strategies as st

UNARY = ["Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Identity"]
BINARY = ["Add", "Mul", "Sub", "Max"]


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 14) -> str:
    """Return the text of a graph over f32 values of shape [2, 3, 4, 4], with constants that fold."""
    lines = [
        "graph random:",
        "    opset 18",
        "    input x: f32[2, 3, 4, 4]",
        "    input y: f32[2, 3, 4, 4]",
        "    c0: const f32[2, 3, 4, 4] = fill(0.5)",
        "    c1: const f32[] = -1.25",
        "    c2: const f32[3, 1, 1] = [0.5, 1.0, 2.0]",
        "    c3: const f32[3, 1, 1] = [0.5, 1.0, 2.0]",
    ]
    full = ["x", "y", "c0"]
    small = ["c1", "c2", "c3"]
    for place in range(draw(st.integers(1, max_nodes))):
        # Recent values are favoured: deep graphs find more than wide ones.
        pick = st.sampled_from(full[-4:] if draw(st.booleans()) else full)
        kind = draw(st.integers(0, 6))
        name = f"v{place}"
        if kind <= 1:
            lines.append(f"    {name} = {draw(st.sampled_from(UNARY))}({draw(pick)})")
        elif kind <= 3:
            other = draw(st.one_of(pick, st.sampled_from(small)))
            lines.append(f"    {name} = {draw(st.sampled_from(BINARY))}({draw(pick)}, {other})")
        elif kind == 4:
            op = draw(st.sampled_from(BINARY))
            lines.append(f"    {name} = {op}({draw(st.sampled_from(small))}, {draw(st.sampled_from(small))})")
            small.append(name)
            continue
        elif kind == 5:
            value = draw(pick)
            lines.append(f"    {name}_s: i64[?] = Shape({value})")
            lines.append(f"    {name}_r = Reshape({draw(pick)}, {name}_s)")
            lines.append(f"    {name} = Add({name}_r, c1)")
        else:
            condition = draw(st.integers(0, 1))
            one, two = draw(pick), draw(pick)
            lines += [
                f"    {name}_c: const bool[] = {condition}",
                f"    {name} = If({name}_c):",
                "        then_branch:",
                f"            capture p: f32[2, 3, 4, 4] = {one}",
                f"            q = {draw(st.sampled_from(UNARY))}(p)",
                "            return q",
                "        else_branch:",
                f"            capture p: f32[2, 3, 4, 4] = {two}",
                "            k: const f32[] = 3.0",
                "            q = Mul(p, k)",
                "            return q",
            ]
        full.append(name)
    outputs = draw(st.lists(st.sampled_from(full[2:]), min_size=1, max_size=3, unique=True))
    return "\n".join([*lines, f"    return {', '.join(outputs)}", ""])
