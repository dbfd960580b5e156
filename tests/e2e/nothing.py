"""An application that has nothing to do: what a store looks like on its first day."""

from taskforge.sdk.app import TaskForge

forge = TaskForge(grace_seconds=1.0)
