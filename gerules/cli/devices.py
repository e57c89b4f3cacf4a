"""`gerules devices`: what can be compiled for."""

from __future__ import annotations

from gerules.cli.guard import guarded
from gerules.cli.options import DebugOption, JsonOption, RulesOption
from gerules.cli.output import show, show_json
from gerules.cli.rules import load_book


@guarded
def devices_command(rules: RulesOption = None, json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the devices that can be compiled for, with their engines and main numbers.

    A device is a text in the rules: add your own with --rules.

    \b
    Examples:
      gerules devices
      gerules devices --rules my_board.ger --json
    """
    from gerules.ops import Schemas
    from gerules.passes.devices import device_names, find_device
    from gerules.report.device_list import describe_device, device_grid, engine_grid

    book = load_book(rules)
    schemas = Schemas()
    rows = [describe_device(find_device(book, name, schemas=schemas)) for name in device_names(book)]
    # What only others extend has no clock: it cannot be compiled for.
    rows = [row for row in rows if row.clock_mhz is not None]
    if json:
        show_json({"devices": [row.as_json() for row in rows]})
    else:
        show(device_grid(rows), "", engine_grid(rows))
