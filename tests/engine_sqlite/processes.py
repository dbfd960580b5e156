"""Other processes that use the same file."""

import subprocess


class Child:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def line(self) -> str:
        """The next line it prints; empty once it is gone."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def lines(self) -> list[str]:
        """What is left of its output, up to its end. The last line may be torn by a kill."""
        assert self.process.stdout is not None
        text = self.process.stdout.read()
        return text[: text.rfind("\n") + 1].split()

    def kill(self) -> None:
        self.process.kill()

    def wait(self, seconds: float = 60) -> tuple[int, str]:
        """How it ended, and what it complained of."""
        _, complaints = self.process.communicate(timeout=seconds)
        return self.process.returncode, complaints

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
