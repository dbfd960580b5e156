"""What hatchling runs before it packs a wheel: the dashboard goes in. An editable install takes the
files where they lie, and builds nothing."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DashboardHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        if version == "editable":
            return
        tool = runpy.run_path(str(Path(self.root) / "tools" / "build_dashboard.py"))
        if tool["build"]():
            raise RuntimeError("the dashboard cannot be built, so neither can the wheel")
