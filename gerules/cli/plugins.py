"""`gerules plugins`: what other packages add, and whether it works."""

from __future__ import annotations

from gerules.cli.guard import guarded, warn
from gerules.cli.options import DebugOption, JsonOption
from gerules.cli.output import show, show_json


@guarded
def plugins_command(json: JsonOption = False, debug: DebugOption = False) -> None:
    """List what installed packages add: rules, devices, readers of models.

    A package says so by entry points: gerules.rules, gerules.devices and
    gerules.frontends. With GERULES_PLUGINS=0 none of them is used.

    \b
    Examples:
      gerules plugins
      gerules plugins --json
    """
    from gerules.pipeline.plugins import list_plugins
    from gerules.pipeline.toolchain import own_rules
    from gerules.report.plugin_list import plugin_grid

    found = list_plugins(own_rules())
    if json:
        show_json({"plugins": [item.as_json() for item in found]})
        return
    warn([item.fault for item in found if item.fault is not None])
    show(plugin_grid(found) if found else "no package adds anything to gerules")
