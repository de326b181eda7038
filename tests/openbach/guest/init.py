# SPDX-License-Identifier: GPL-3.0-or-later
"""Process 1 of the platform's guest: mount what it needs, run inside.py, power off.

The kernel starts it with RUN_DIR and CODE_DIR, directories of the host, in the environment: the
run's own, and OpenBACH (layer.py). It is copied into the platform's tree as /init.py.
"""

import ctypes
import os

RUN, CODE, PROJECT = "/run/openbach", "/srv", "/opt/openbach-run"
BIND, READ_ONLY, POWER_OFF = 4096, 1, 0x4321FEDC
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": f"{PROJECT}/src:{PROJECT}/tests/openbach:{CODE}/python",
}

libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, point: str, options: str = "", flags: int = 0, source: str = "none") -> None:
    """Attach a file system to a directory. Raises OSError."""
    os.makedirs(point, exist_ok=True)
    if libc.mount(source.encode(), point.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"mounting {kind} ({options})", point)


def main() -> None:
    """Run the platform until its driver ends, and power off, whatever goes wrong."""
    try:
        mount("proc", "/proc")
        mount("sysfs", "/sys")
        for directory in ("/run", "/tmp", "/root", "/mnt"):
            mount("tmpfs", directory)
        mount("devpts", "/dev/pts")
        mount("tmpfs", "/dev/shm")
        mount("hostfs", RUN, os.environ["RUN_DIR"])
        mount("hostfs", CODE, os.environ["CODE_DIR"], READ_ONLY)
        mount("none", PROJECT, flags=BIND, source=f"{RUN}/project")
        for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
            os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
        words = ["/usr/bin/python3", f"{PROJECT}/tests/openbach/inside.py"]
        driver = os.posix_spawn(words[0], words, ENVIRONMENT)
        while True:  # whose parents have ended are this process's to wait for
            ended, status = os.wait()
            if ended == driver:
                break
        with open(f"{RUN}/exit_code", "w") as file:
            file.write(str(os.waitstatus_to_exitcode(status)))
    except BaseException:  # process 1 that ends is a panic of the kernel
        import traceback

        traceback.print_exc()
    finally:
        os.sync()
        libc.reboot(POWER_OFF)


if __name__ == "__main__":
    main()
