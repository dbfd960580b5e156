"""Installs what tests need from Debian, where this user may: `make test` calls it. Elsewhere those
tests say why they are left out."""

import os
import shutil
import subprocess
import sys

# the program that a test looks for, and the package that brings it
PACKAGES = {
    "chromium": "chromium",
    "curl": "curl",
    "ip": "iproute2",
    "nginx": "nginx-light",
    "openssl": "openssl",
    "prometheus": "prometheus",
    "strace": "strace",
}


def main() -> int:
    missing = sorted({package for name, package in PACKAGES.items() if not shutil.which(name)})
    if not missing:
        return 0
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        print(f"note: tests that need {', '.join(missing)} are left out; install them to run those")
        return 0
    print(f"installing {', '.join(missing)} for the tests")
    # Debian starts a service with its package; tests start their own.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", *missing]):
        done = subprocess.run(
            [apt, *command], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(f"note: apt-get {command[0]} failed: {done.stderr.strip()[-300:]}")
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
