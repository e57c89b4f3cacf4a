"""Partition: which engine runs each node, and which nodes run as one unit; beside the graph, as data."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gerules.errors import table
from gerules.ir import Graph, Node, TensorType
from gerules.passes.clusters import find_clusters
from gerules.passes.errors import PassError
from gerules.passes.placement import Annotations, BodyOf, Placement, place_nodes
from gerules.target import Device

DEFAULT_STATIC_LIMIT: Final = 4
"""Source: `ge.exec.static_model_ops_lower_limit`, 4 by default."""

_FORCED: Final = ("_force_unknown_shape", "_is_unknown_shape")
"""Attributes that make a node dynamic. Source: the Graph Engine's names for them."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that run as one unit on one engine, in topological order."""

    id: int
    engine: str
    is_static: bool
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """How a graph is divided among the engines of a device.

    `clusters` stand in an order in which they can run. `reasons` says for nodes that are not on the
    first engine that has their operator, why. `bodies` holds the partitions of bodies that run node by
    node, by the node they belong to and their name.
    """

    device: str
    engine_of: Mapping[int, str]
    cluster_of: Mapping[int, int]
    clusters: tuple[Cluster, ...]
    n_demoted: int = 0
    reasons: Mapping[int, str] = field(default_factory=dict[int, str])
    bodies: Mapping[tuple[int, str], Partition] = field(
        default_factory=lambda: dict[tuple[int, str], "Partition"]()
    )

    @property
    def is_static(self) -> bool:
        """Whether every cluster is static."""
        return all(cluster.is_static for cluster in self.clusters)

    def as_json(self) -> dict[str, object]:
        """Return the partition as plain values."""
        return {
            "device": self.device,
            "n_demoted": self.n_demoted,
            "clusters": [
                {
                    "id": cluster.id,
                    "engine": cluster.engine,
                    "is_static": cluster.is_static,
                    "nodes": list(cluster.nodes),
                }
                for cluster in self.clusters
            ],
            "reasons": {str(node): reason for node, reason in self.reasons.items()},
            "bodies": [
                {"node": node, "body": name, **inner.as_json()} for (node, name), inner in self.bodies.items()
            ],
        }


def partition_graph(
    graph: Graph,
    device: Device,
    *,
    annotations: Annotations | None = None,
    excluded: Collection[str] = (),
    static_limit: int = DEFAULT_STATIC_LIMIT,
    body_of: BodyOf | None = None,
) -> Partition:
    """Place the nodes of a graph, and cluster those that can run as one unit.

    A node is dynamic when a size of what it reads or gives is not known. In a graph with dynamic nodes
    a connected static part of fewer than `static_limit` nodes is demoted to dynamic.

    Args:
        annotations: What rules say of nodes; see `place_nodes`.
        excluded: Engines that are not used.
        static_limit: Fewest nodes of a static part; -1 makes the whole graph dynamic.
        body_of: Gives the definitions of operators; see `place_nodes`.

    Raises:
        PassError: E10003 for a limit below -1; E50001 and E50013 as `place_nodes`.

    Cost: linear in nodes and edges, but for one sort of the clusters.
    """
    if static_limit < -1:
        raise PassError(
            table.BAD_OPTION,
            option="static_model_ops_lower_limit",
            value=static_limit,
            reason="it is a number of nodes, or -1",
            remedy="give -1, 0 or more",
        )
    placement = place_nodes(graph, device, annotations=annotations, excluded=excluded, body_of=body_of)
    return _partition(graph, device, placement, static_limit)


def _partition(graph: Graph, device: Device, placement: Placement, static_limit: int) -> Partition:
    is_static, n_demoted = _static_nodes(graph, static_limit)
    colours: dict[int, Hashable] = {
        node: (placement.engine_of[node], is_static[node]) for node in graph.nodes
    }
    clusters = tuple(
        Cluster(place, placement.engine_of[nodes[0]], is_static[nodes[0]], tuple(nodes))
        for place, nodes in enumerate(find_clusters(graph, colours))
    )
    bodies = {
        (node, name): _partition(graph.nodes[node].bodies[name].graph, device, inner, static_limit)
        for (node, name), inner in placement.bodies.items()
    }
    return Partition(
        device.name,
        placement.engine_of,
        {node: cluster.id for cluster in clusters for node in cluster.nodes},
        clusters,
        n_demoted,
        placement.reasons,
        bodies,
    )


def _static_nodes(graph: Graph, limit: int) -> tuple[dict[int, bool], int]:
    """Say of each node whether it is static, and how many were demoted."""
    is_static = {node.id: limit != -1 and _is_static(graph, node) for node in graph.nodes.values()}
    if limit == -1 or all(is_static.values()):
        return is_static, 0
    n_demoted = 0
    for nodes in find_clusters(graph, is_static):
        if is_static[nodes[0]] and len(nodes) < limit:
            n_demoted += len(nodes)
            is_static.update(dict.fromkeys(nodes, False))
    return is_static, n_demoted


def _is_static(graph: Graph, node: Node) -> bool:
    if any(node.attrs.get(name) for name in _FORCED):
        return False
    for value in (*node.reads(), *node.writes()):
        type = graph.type_of(value)
        if not isinstance(type, TensorType) or not type.is_static:
            return False
    return True


def check_partition(graph: Graph, device: Device, partition: Partition) -> list[str]:
    """Return what is wrong with a partition, in words; empty when it is sound.

    Checked: every node in exactly one cluster, engines that have their nodes' operators, clusters of
    one engine and kind, each connected, no cycle between clusters, their order.
    """
    found: list[str] = []
    seen: dict[int, int] = {}
    engines = {engine.name: engine for engine in device.engines}
    for cluster in partition.clusters:
        if cluster.engine not in engines:
            found.append(f"cluster {cluster.id} is on {cluster.engine}, which the device does not have")
        for node in cluster.nodes:
            if node in seen:
                found.append(f"node {node} is in clusters {seen[node]} and {cluster.id}")
            seen[node] = cluster.id
            if node not in graph.nodes:
                found.append(f"cluster {cluster.id} has {node}, which is no node of the graph")
                continue
            if partition.engine_of.get(node) != cluster.engine:
                found.append(
                    f"node {node} is on {partition.engine_of.get(node)} in a cluster of {cluster.engine}"
                )
            record = graph.nodes[node]
            has = cluster.engine in engines and record.op in engines[cluster.engine].ops
            if not has and not record.bodies:
                found.append(f"{cluster.engine} does not have {record.op} of node {node}")
            if cluster.is_static and not _is_static(graph, record):
                found.append(f"node {node} is dynamic in a static cluster")
    found += [f"node {node} is in no cluster" for node in graph.nodes if node not in seen]
    if found:
        return found
    position = {cluster.id: place for place, cluster in enumerate(partition.clusters)}
    neighbours: dict[int, set[int]] = {}
    for node in graph.nodes.values():
        for value in node.reads():
            source = graph.producer.get(value)
            if source is None:
                continue
            one, two = seen[source], seen[node.id]
            if one == two:
                neighbours.setdefault(source, set()).add(node.id)
                neighbours.setdefault(node.id, set()).add(source)
            elif position[one] >= position[two]:
                found.append(f"cluster {one} is to run before {two} and does not stand before it")
    for cluster in partition.clusters:
        reached, pending = {cluster.nodes[0]}, [cluster.nodes[0]]
        while pending:
            fresh = neighbours.get(pending.pop(), set()) - reached
            reached |= fresh
            pending += fresh
        if len(reached) != len(cluster.nodes):
            found.append(f"cluster {cluster.id} falls apart into unconnected parts")
    return found
