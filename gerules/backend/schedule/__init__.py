"""Schedules: an order with a low peak, streams by engine, as few events as correctness needs."""

from gerules.backend.schedule.errors import ScheduleError
from gerules.backend.schedule.events import Event, find_events
from gerules.backend.schedule.lives import (
    find_accesses,
    find_horizons,
    find_lifetimes,
    find_touches,
    prove_in_place,
)
from gerules.backend.schedule.order import Order, choose_order, order_lower_bound, peak_bytes
from gerules.backend.schedule.schedule import Schedule, ScheduleFlaw, build_schedule, check_schedule
from gerules.backend.schedule.streams import EngineRule, StreamOptions, assign_streams
from gerules.backend.schedule.tasks import Task, TaskGraph, build_task_graph, workspace_id

__all__ = [
    "EngineRule",
    "Event",
    "Order",
    "Schedule",
    "ScheduleError",
    "ScheduleFlaw",
    "StreamOptions",
    "Task",
    "TaskGraph",
    "assign_streams",
    "build_schedule",
    "build_task_graph",
    "check_schedule",
    "choose_order",
    "find_accesses",
    "find_events",
    "find_horizons",
    "find_lifetimes",
    "find_touches",
    "order_lower_bound",
    "peak_bytes",
    "prove_in_place",
    "workspace_id",
]
