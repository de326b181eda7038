# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a program in namespaces of its own, with the guest tree as its root.

A program by itself, started by boundary.py:

    python3 enter.py user|root CGROUP ROOT CODE RUN PROGRAM [ARGUMENT]...

    keeper      in the host's namespaces: lives as long as its standard input is open, then ends the
                rest
      outer     in the new namespaces: user (if the mode is `user`), mount, network, PID, IPC, UTS
        PROGRAM   process 1 in there

Nothing of it is known by a name outside: when process 1 ends, so do all processes, and with them
the namespaces and mounts. It ends with `outer`, and that with the keeper, however that ends. CGROUP
is a directory to make for the run, and to remove at its end; "" for none.

Of the host's files there are ROOT and CODE (read-only) and RUN. Of its devices those of DEVICES.
The kernel's settings in /proc/sys are read-only but for net/, which is the namespace's own.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from types import FrameType

# linux/sched.h, linux/mount.h, linux/prctl.h, asm/unistd_64.h
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
MOUNT_ATTR_RDONLY, AT_FDCWD, AT_RECURSIVE = 1, -100, 0x8000
SYS_PIVOT_ROOT, SYS_MOUNT_SETATTR = 155, 442
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24

USER, ROOT = "user", "root"
CANNOT = 125
"""Exit code where the host does not allow what the mode needs; the reason is on stderr."""
ALL_IDS = "0 0 65536"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun")
LINKS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
WRITABLE = ("run", "tmp", "root", "var/lib", "var/log", "opt/openbach/agent")
"""Directories that are writable, as the guest's init has them."""
READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""Parts of /proc with which the host's root would change the host."""
CAPABILITIES = (*range(14), 14, 15, 18, 19, 21, 23, 24, 31)
"""Capabilities that process 1 may have (linux/capability.h). Not among them: modules (16), raw I/O
(17), reboot (22), date (25), devices (27), kernel log (34)."""
LAST_CAPABILITY = 63
REMOVAL_LIMIT_S = 5.0

libc = ctypes.CDLL(None, use_errno=True)


def must(result: int, what: str) -> None:
    """Exit with the error of a C function whose result is negative; `what` names what was tried."""
    if result < 0:
        cannot(f"{what}: {os.strerror(ctypes.get_errno())}")


def cannot(why: str) -> None:
    """Write the reason to stderr, and exit."""
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    os._exit(CANNOT)


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str = "") -> None:
    """Attach a file system to a directory. Exits if it fails."""
    fs_type = None if kind is None else kind.encode()
    must(
        libc.mount(source.encode(), target.encode(), fs_type, flags, options.encode()),
        f"mounting {source} on {target}",
    )


def bind(source: str, target: str) -> None:
    """Mount a file or directory of the host, with all mounts below it, at another place."""
    mount(source, target, None, MS_BIND | MS_REC)


def set_read_only(target: str) -> None:
    """Make a mount read-only, with all that is mounted below it (mount_setattr(2))."""
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    done = libc.syscall(
        SYS_MOUNT_SETATTR,
        AT_FDCWD,
        target.encode(),
        AT_RECURSIVE,
        attributes,
        ctypes.sizeof(attributes),
    )
    must(done, f"making {target} read-only")


def write(file: str, text: str) -> None:
    """Write a text to a file."""
    with open(file, "w") as opened:
        opened.write(text)


# The keeper


def keep(mode: str, cgroup: str, command: list[str]) -> int:
    """Start the rest, wait for its end or for that of the caller, and return the exit code."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is not for the run
    # Two pipes: the child says that its namespaces are there, the keeper that its ids are mapped.
    # From inside only one id could be mapped (user_namespaces(7)).
    ready, tell = os.pipe()
    mapped, go = os.pipe()
    child = os.fork()
    if not child:
        # The child's copies of the keeper's ends: with them open it would not see the keeper's end.
        os.close(ready)
        os.close(go)
        outer(mode, tell, mapped, command)
    os.close(tell)
    os.close(mapped)
    # A pidfd can be waited for together with standard input.
    pidfd = os.pidfd_open(child)
    code = CANNOT
    try:
        if os.read(ready, 1):
            if mode == USER:
                map_ids(child)
            if cgroup:
                join(cgroup, child)
            os.write(go, b"1")
        os.close(go)
        # Standard input ends when the engine does, however it ends.
        ended = select.select([0, pidfd], [], [])[0]
        if pidfd not in ended:
            os.kill(child, signal.SIGKILL)
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if cgroup:
            remove(cgroup)
    return code


def _end(number: int, frame: FrameType | None) -> None:
    # Not again while the rest is ended.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)


def map_ids(child: int) -> None:
    """Map the ids of a child's user namespace: all of root's, or an ordinary user's one as root."""
    with suppress(OSError):
        # Root may map all ids; an ordinary user only his own, and must first give up setgroups(2).
        write(f"/proc/{child}/uid_map", ALL_IDS)
        write(f"/proc/{child}/gid_map", ALL_IDS)
        return
    with suppress(OSError):
        write(f"/proc/{child}/setgroups", "deny")
        write(f"/proc/{child}/uid_map", f"0 {os.geteuid()} 1")
        write(f"/proc/{child}/gid_map", f"0 {os.getegid()} 1")


def join(cgroup: str, child: int) -> None:
    """Make the run's cgroup, and put the child into it."""
    with suppress(OSError):
        os.mkdir(cgroup)
        write(f"{cgroup}/cgroup.procs", str(child))


def remove(cgroup: str) -> None:
    """Remove a control group as soon as its last process has ended."""
    end_s = time.monotonic() + REMOVAL_LIMIT_S
    while os.path.exists(cgroup) and time.monotonic() < end_s:
        try:
            os.rmdir(cgroup)
        except OSError:
            # Its last process may not be gone yet (EBUSY), and no event tells when it is.
            time.sleep(0.01)


# In the new namespaces


def outer(mode: str, tell: int, mapped: int, command: list[str]) -> None:
    """Be the first process in the new namespaces; never return."""
    die_with_parent()
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    # In user mode all others belong to the new user namespace, in which this process is root.
    must(libc.unshare(flags | (CLONE_NEWUSER if mode == USER else 0)), "making namespaces")
    die_with_parent()  # a change of credentials may have cleared it
    os.write(tell, b"1")
    os.close(tell)
    if not os.read(mapped, 1):
        os._exit(CANNOT)  # the keeper has gone
    if mode == USER and os.geteuid() != 0:
        cannot("mapping user ids: the user namespace has no root")
    alive, kept = os.pipe()
    child = os.fork()
    if not child:
        os.close(kept)
        die_with_parent()
        # The pipe's other end is closed if the parent ended before the call above took effect.
        if select.select([alive], [], [], 0)[0]:
            os._exit(CANNOT)  # the parent was killed before that held
        os.close(alive)
        process_1(command)
    os.close(alive)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    must(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def process_1(command: list[str]) -> None:
    """Be process 1 until PROGRAM is executed in its place; never return."""
    root, code, run, *program = command
    # Else the mounts below would appear on the host.
    must(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "making mounts private")
    make_root(root, code, run)
    # Both are the present directory: the old root is mounted over the new one, and unmounted next
    # (pivot_root(2)). chroot(2) would leave a way back.
    must(libc.syscall(SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    must(libc.umount2(b".", MNT_DETACH), "leaving the host's files")
    os.chdir("/root")
    socket.sethostname("guest")
    # Dropped from the bounding set, no program gets one back (capabilities(7)).
    for capability in range(LAST_CAPABILITY + 1):
        if capability not in CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
    }
    try:
        os.execve(program[0], program, environment)
    except OSError as error:
        cannot(f"starting {program[0]}: {error.strerror}")


def make_root(root: str, code: str, run: str) -> None:
    """The present directory becomes the root to be."""
    # pivot_root(2) wants a mount, and read-only must not become the host's own directory.
    bind(root, root)
    set_read_only(root)
    os.chdir(root)
    for name in WRITABLE:
        mount("tmpfs", name, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
    os.chmod("tmp", 0o1777)
    mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    bind("proc/sys/net", "tmp")  # for a moment, before what is above it becomes read-only
    for name in READ_ONLY:
        if os.path.exists(f"proc/{name}"):
            bind(f"proc/{name}", f"proc/{name}")
            set_read_only(f"proc/{name}")
    bind("tmp", "proc/sys/net")
    must(libc.umount2(b"tmp", MNT_DETACH), "umount")
    mount("sysfs", "sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    make_devices()
    os.mkdir("run/openbach")
    bind(run, "run/openbach")
    bind(code, "opt/openbach-run")
    set_read_only("opt/openbach-run")


def make_devices() -> None:
    """Bind the host's devices in the new root: in a user namespace nobody makes devices."""
    mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755")
    for name in DEVICES:
        if os.path.exists(f"/dev/{name}"):
            os.makedirs(os.path.dirname(f"dev/{name}"), exist_ok=True)
            os.close(os.open(f"dev/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
            bind(f"/dev/{name}", f"dev/{name}")
    for name, target in LINKS.items():
        os.symlink(f"/proc/self/fd{target}", f"dev/{name}")
    os.mkdir("dev/pts")
    # An instance of its own: the host's terminals are not in there.
    mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666")
    os.symlink("pts/ptmx", "dev/ptmx")
    os.mkdir("dev/shm")
    mount("tmpfs", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")


def main() -> int:
    """Be the keeper: start the rest, wait until it or standard input ends; return the exit code."""
    mode, cgroup, *command = sys.argv[1:]
    # Out of the terminal's session: the keeper ends when the engine does, not when a key is
    # pressed.
    os.setsid()
    return keep(mode, cgroup, command)


if __name__ == "__main__":
    sys.exit(main())
