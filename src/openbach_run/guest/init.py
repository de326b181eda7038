# SPDX-License-Identifier: GPL-3.0-or-later
"""Process 1 of the guest: mount what a run needs, run openbach_run.guest.main, power off.

The kernel starts it with RUN_DIR and CODE_DIR, directories of the host, in the environment. It is
copied into the guest tree as /init.py; everything else comes from CODE_DIR, a snapshot of the
repository's guest code.
"""

import ctypes
import os
import sys

RUN_POINT = "/run/openbach"
CODE_POINT = "/opt/openbach-run"
KEPT = ("OPENBACH_RUN_QLOG",)
"""Arguments of the kernel that stay in the environment: KEEPS_QLOG of agent.py."""
READ_ONLY = 1  # MS_RDONLY
POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF

libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, point: str, options: str = "", flags: int = 0) -> None:
    """Attach a file system without a device to a directory. Raises OSError."""
    os.makedirs(point, exist_ok=True)
    if libc.mount(kind.encode(), point.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"mounting {kind} ({options})", point)


def mount_all() -> None:
    """Mount the kernel's file systems, and the host's directories of the run and of the code."""
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    # The guest tree is read-only and the same for all runs: what a run writes is in memory.
    for directory in ("/run", "/tmp", "/root", "/var/lib", "/var/log", "/opt/openbach/agent"):
        mount("tmpfs", directory)
    mount("devpts", "/dev/pts")
    mount("tmpfs", "/dev/shm")
    # hostfs shows a directory of the host as a file system of UML (Documentation/virt/uml).
    mount("hostfs", RUN_POINT, os.environ["RUN_DIR"])
    mount("hostfs", CODE_POINT, os.environ["CODE_DIR"], READ_ONLY)


def make_devices() -> None:
    """Make the device of tunnels, and the links to a process's own descriptors."""
    if not os.path.exists("/dev/net/tun"):
        os.makedirs("/dev/net", exist_ok=True)
        os.mknod("/dev/net/tun", 0o20666, os.makedev(10, 200))
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")


def link_jobs() -> None:
    """Link jobs where a real agent has them: /opt/openbach/agent/jobs/<job>."""
    os.makedirs("/opt/openbach/agent/jobs", exist_ok=True)
    for job in sorted(os.listdir(f"{CODE_POINT}/jobs")):
        os.symlink(f"{CODE_POINT}/jobs/{job}", f"/opt/openbach/agent/jobs/{job}")


def main() -> None:
    """Run the scenario, and power off, whatever goes wrong."""
    try:
        mount_all()
        make_devices()
        link_jobs()
        # The kernel's arguments are process 1's environment; a job must not see the host's paths.
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        os.environ.clear()
        os.environ.update(
            PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/root", LANG="C.UTF-8", PYTHONHASHSEED="0"
        )
        os.environ.update(kept)
        os.chdir("/root")
        # Only now, since CODE_POINT has just been mounted.
        sys.path.insert(0, f"{CODE_POINT}/src")
        from openbach_run.guest.main import main as run

        run()
    # There is nobody to raise to: process 1 that ends is a panic of the kernel.
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os.sync()
        libc.reboot(POWER_OFF)


if __name__ == "__main__":
    main()
