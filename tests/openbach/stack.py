# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole OpenBACH platform in namespaces of the guest, from a checkout.

Controller, collector, auditorium, seven agents.

    172.20.34.0/24, a bridge:   .1 this side (auditorium's web UI on port 80)   .80 controller   .81
                                collector
                                .11 … .17 agents, as inventory.yml has them
    and between the agents the networks of inventory.yml, set up as the virtual engine does

Every host has namespaces of its own for network, mounts, names and processes, and a root directory
that is an overlay over the guest's. The real parts are OpenBACH's backend (under uWSGI, as its
service file starts it), conductor, director, agents, rstats and collect_agent, PostgreSQL, rsyslog,
sshd and Ansible. Not real: systemd (systemctl.py), Logstash with both databases (collector.py),
nginx (auditorium.py); there is no PgBouncer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import requests

from openbach_run.errors import SetupError
from openbach_run.guest import main as guest
from openbach_run.guest import network
from openbach_run.paths import INVENTORY
from openbach_run.topology.inventory import agent_addresses, load_inventory

HERE = Path(__file__).resolve().parent
THIS_SIDE, CONTROLLER, COLLECTOR = "172.20.34.1", "172.20.34.80", "172.20.34.81"
CONTROLLER_URL = f"http://{CONTROLLER}:8000/"
AUDITORIUM_URL = f"http://{THIS_SIDE}/"
LOGIN, PASSWORD = "openbach", "openbach"
"""OpenBACH's own defaults."""
PYTHON = "/opt/openbach/virtualenv/bin/python3"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ANSIBLE = ("ANSIBLE_PIPELINING=1", "ANSIBLE_PYTHON_INTERPRETER=/usr/bin/python3")
"""In the conductor's environment: its playbooks take half the time. Nothing else of Ansible's is
set otherwise."""
DPKG_STATUS = Path("/run/openbach/dpkg_status")
START_LIMIT_S = 180.0
LOOK_S = 0.2

BASE = """
set -eu
chown -R root: /etc/sudo* /usr/bin/sudo /usr/libexec/sudo /usr/lib/systemd/ssh_config.d
chmod 4755 /usr/bin/sudo
chmod 440 /etc/sudoers
ln -sfn /run /var/run
ldconfig
pwconv
ssh-keygen -A
for kind in auth account password session; do echo "$kind required pam_permit.so" > /etc/pam.d/common-$kind; done
cp /etc/pam.d/common-session /etc/pam.d/common-session-noninteractive
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers /var/lib/apt/lists/partial
mkdir -p /var/cache/apt/archives/partial
touch /etc/environment
id postgres > /dev/null || useradd --system --home-dir /var/lib/postgresql postgres
install -d -o postgres /var/lib/postgresql
useradd --create-home --shell /bin/bash openbach
echo 'openbach ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/passwordless_openbach
chmod 440 /etc/sudoers.d/passwordless_openbach
printf 'home = /usr/bin\\ninclude-system-site-packages = true\\n' > /opt/openbach/virtualenv/pyvenv.cfg
mkdir -p /opt/openbach/virtualenv/lib/python3.13
ln -s /srv/python /opt/openbach/virtualenv/lib/python3.13/site-packages
chown -R openbach: /opt/openbach
"""
"""What maintainer scripts and OpenBACH's installer do on every host. Where the guest's files are not
root's on the machine (hostfs), sudo and ssh would not take them."""
ROOT = """
set -eu
mount -t overlay overlay -o lowerdir={base},upperdir={upper},workdir={work} {root}
mount -t proc proc {root}/proc
mount -t sysfs sysfs {root}/sys
mount -t tmpfs tmpfs {root}/run
mount -t tmpfs -o mode=1777 tmpfs {root}/tmp
mount -t tmpfs -o mode=755 tmpfs {root}/dev
mount --bind /srv {root}/srv
mount --bind /opt/openbach-run {root}/opt/openbach-run
cd {root}/dev
mkdir pts shm net
mount -t tmpfs -o mode=1777 tmpfs shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts pts
ln -s pts/ptmx ptmx
ln -s /proc/self/fd fd
ln -s /proc/self/fd/0 stdin
ln -s /proc/self/fd/1 stdout
ln -s /proc/self/fd/2 stderr
for device in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 ${{device%:*}} c 1 ${{device#*:}}; done
mknod -m 666 tty c 5 0
mknod -m 666 net/tun c 10 200
mkdir -p {root}/run/sshd {root}/run/host
hostname {name}
cd /
exec chroot {root} /usr/bin/python3 -c "$INIT"
"""
INIT = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes away who is left to it
print("up", flush=True)
while True:
    signal.pause()
"""
RSYSLOG = """\
module(load="imuxsock")
$FileCreateMode 0644
$Umask 0022
$IncludeConfig /etc/rsyslog.d/*.conf
*.warning /var/log/messages
"""
SSHD = """\
PasswordAuthentication no
UsePAM no
Subsystem sftp /usr/lib/openssh/sftp-server
"""
SETTINGS = """\
SECRET_KEY = "of a test"
DEBUG = False
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "openbach_db", "USER": "openbach",
                         "PASSWORD": "openbach", "HOST": "127.0.0.1", "PORT": "5432"}}
"""
VARIABLES = f"""\
---
database_max_cache: 1024m
openbach_controller: {CONTROLLER}
django_port: 8000
is_run_from_conductor: true
openbach_proxy_env: {{}}
"""
COLLECTOR_YML = f"""\
address: {COLLECTOR}
logs: {{port: 10514, query: 9200}}
stats: {{port: 2222, query: 8086, database: openbach, precision: ms}}
"""
ENVIRONMENT = "OPENBACH_RUN_CLOCK=virtual\nOPENBACH_RUN_SEED={seed}\n"
"""Of an agent, for its jobs: the token bucket of a virtual clock, and the seed of the losses."""
RSTATS_YML = "logstash: {mode: udp}\nrstats: {port: 1111}\nopenbach_agent: {port: 1112}\n"


def wait_for(what: str, is_so: Callable[[], bool], limit_s: float = START_LIMIT_S) -> None:
    """Returns when it is so. Raises SetupError."""
    end_s = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end_s:
            raise SetupError(f"not so within {limit_s:g} s: {what}")
        time.sleep(LOOK_S)


def command(*words: str, text: str | None = None) -> str:
    """What it prints. Raises SetupError with all that it said."""
    stdin = {"input": text} if text is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(
        words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **stdin
    )
    if done.returncode:
        raise SetupError(f"{' '.join(words)[:300]} failed:\n{done.stdout}")
    return str(done.stdout)


@dataclass
class Host:
    """A host in namespaces; `process` keeps them."""

    name: str
    address: str
    upper: Path
    """What is written to its root directory."""
    process: subprocess.Popen[str]
    first: int
    """Pid of its first process, here."""

    def enters(self, *words: str) -> list[str]:
        """The command that runs another one on the host."""
        namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd")
        environment = ("/usr/bin/env", "-i", f"PATH={PATH}", "LC_ALL=C.UTF-8", "HOME=/root")
        return ["nsenter", "--target", str(self.first), *namespaces, "--", *environment, *words]

    def run(self, *words: str, text: str | None = None) -> str:
        return command(*self.enters(*words), text=text)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        self.run("mkdir", "-p", str(Path(path).parent))
        self.run("/bin/sh", "-c", f"cat > {path} && chmod {mode:o} {path}", text=text)

    def processes(self) -> dict[int, str]:
        """Command lines by pid, of what runs there."""
        shown = self.run(
            "/bin/sh",
            "-c",
            "cd /proc && for p in [0-9]*; do echo $p $(tr '\\0' ' ' < $p/cmdline); done"
            " 2>/dev/null",
        )
        split = [line.partition(" ") for line in shown.splitlines()]
        return {int(pid): text.strip() for pid, _, text in split if pid.isdigit() and text.strip()}

    def network(self) -> str:
        """Interfaces, addresses, rules, routes, qdiscs and firewall rules as a text to compare."""
        shown = self.run(
            "/bin/sh",
            "-c",
            "ip -o link | sed 's/.*: \\(.*\\): <.*/\\1/' | sort; ip -o addr | awk '{print $2, $4}'"
            " | sort; ip rule; ip route show table all | grep -v"
            " '^local\\|^broadcast\\|^multicast\\|fe80\\|ff00' | sort; tc qdisc show; nft list"
            " ruleset; sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_rmem net.ipv4.tcp_wmem",
        )
        return shown


class Stack:
    """The platform. `start` makes it; it ends with this process."""

    def __init__(
        self, checkout: Path, temporary: Path, seed: int, say: Callable[[str], None]
    ) -> None:
        self._checkout, self._temporary, self._seed, self._say = checkout, temporary, seed, say
        self._base = temporary / "base"
        self.inventory = load_inventory(INVENTORY)
        self.addresses = agent_addresses(INVENTORY)
        self.agents: dict[str, Host] = {}
        """By entity."""
        self.controller: Host
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.logs = temporary / "logs"

    def start(self) -> None:
        self._set_kernel()
        self.logs.mkdir(parents=True)
        upper, work = (self._temporary / f"base-{part}" for part in ("upper", "work"))
        for place in (upper, work, self._base):
            place.mkdir()
        places = f"lowerdir=/,upperdir={upper},workdir={work}"
        command("mount", "-t", "overlay", "overlay", "-o", places, str(self._base))
        command("mount", "--bind", "/dev", str(self._base / "dev"))
        command("chroot", str(self._base), "/bin/sh", "-c", BASE)
        shutil.copy(DPKG_STATUS, self._base / "var/lib/dpkg/status")
        systemctl = self._base / "usr/bin/systemctl"
        systemctl.unlink()
        shutil.copy(HERE / "systemctl.py", systemctl)
        systemctl.chmod(0o755)
        command(
            "ip",
            "-batch",
            "-",
            text=(
                "link set lo up\nlink add platform type bridge\nlink set platform up\n"
                f"addr add {THIS_SIDE}/24 dev platform\naddr add {COLLECTOR}/24 dev platform\n"
            ),
        )
        self._serve("collector", sys.executable, str(HERE / "collector.py"), COLLECTOR)
        self._say("collector's stand-in is up")
        self.controller = self._host("controller", CONTROLLER)
        for host in self.inventory.hosts:
            self.agents[host.entity] = self._host(host.name, self.addresses[host.entity])
        self._join()
        self._say(f"{1 + len(self.agents)} hosts are up")
        key = self._controller_files()
        self._database()
        self._programs()
        for agent in self.agents.values():
            self._agent(agent, key)
        frontend = self._checkout / "ansible/roles/install_auditorium/files/frontend"
        self._serve(
            "auditorium",
            sys.executable,
            str(HERE / "auditorium.py"),
            THIS_SIDE,
            "80",
            str(frontend),
            f"{CONTROLLER}:8000",
        )
        wait_for("the backend answers", self._answers)
        self._say("backend, conductor, director, agents and web UI are up")

    def _set_kernel(self) -> None:
        """As the virtual engine sets it for a run, but for what only some runs use."""
        guest._answer_no_kernel()
        guest._give_tcp_memory()
        guest._load_modules([file.stem for file in sorted(Path(guest.MODULES).glob("*.ko"))])
        network._allow_congestion_controls([])
        network._set({"net/core/fb_tunnels_only_for_init_net": "1"}, None, [])

    # Hosts

    def _host(self, name: str, address: str) -> Host:
        places = {
            part: self._temporary / "hosts" / name / part for part in ("upper", "work", "root")
        }
        for place in places.values():
            place.mkdir(parents=True)
        script = ROOT.format(name=name, base=self._base, **places)
        process = subprocess.Popen(
            [
                "unshare",
                "--mount",
                "--net",
                "--uts",
                "--ipc",
                "--pid",
                "--fork",
                "--kill-child",
                "/bin/bash",
                "-c",
                script,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(self.logs / f"{name}.start").open("w"),
            text=True,
            env={"PATH": PATH, "INIT": INIT},
            start_new_session=True,
        )
        assert process.stdout
        if process.stdout.readline() != "up\n":
            raise SetupError(
                f"host {name} does not come up: {(self.logs / f'{name}.start').read_text()}"
            )
        first = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        host = Host(name, address, places["upper"], process, first)
        command(
            "ip",
            "-batch",
            "-",
            text=(
                f"link add eth0 netns {first} type veth peer name p_{name}\n"
                f"link set p_{name} master platform up\n"
            ),
        )
        host.run(
            "ip",
            "-batch",
            "-",
            text=f"link set lo up\naddr add {address}/24 dev eth0\nlink set eth0 up\n",
        )
        names = f"127.0.0.1 localhost {name}\n{CONTROLLER} controller\n{COLLECTOR} collector\n"
        host.write("/etc/hosts", names)
        return host

    def _join(self) -> None:
        """The networks of the inventory, with the settings of the virtual engine."""
        sysctls = [f"{name.replace('/', '.')}={value}" for name, value in network.SYSCTLS.items()]
        for host in self.inventory.hosts:
            forwarding = f"net.ipv4.ip_forward={int(host.forwarding)}"
            self.agents[host.entity].run("sysctl", "-q", "-w", *sysctls, forwarding)
        for link, ends in self.inventory.attached():
            mtu = self.inventory.networks[link].mtu
            one, other = (
                f"name {port.name} mtu {mtu} address {network.mac(port.address)} netns"
                f" {self.agents[host.entity].first}"
                for host, port in ends
            )
            command("ip", *f"link add {one} type veth peer {other}".split())
        for host in self.inventory.hosts:
            agent = self.agents[host.entity]
            lines = "\n".join(network._configuration(self.inventory, host))
            agent.run("ip", "-batch", "-", text=f"{lines}\n")
            for port in host.interfaces:
                off = "tso off gso off gro off tx-udp-segmentation off"
                agent.run("ethtool", "-K", port.name, *off.split())

    # The controller

    def _controller_files(self) -> str:
        """Puts OpenBACH's files where its installer puts them.

        Returns the controller's public key.
        """
        source, stage = self._checkout, self._temporary / "stage"
        inside = "/opt/openbach/controller"
        copied = {
            "backend": source / "src/controller/backend",
            "conductor": source / "src/controller/openbach-conductor",
            "src/jobs": source / "src/jobs",
            "src/agent": source / "src/agent",
            **{
                f"ansible/{one}": source / "ansible" / one
                for one in ("roles", "library", "action_plugins", "filter_plugins")
            },
        }
        for place, origin in copied.items():
            shutil.copytree(
                origin,
                stage / place,
                ignore=shutil.ignore_patterns("__pycache__", "frontend", "*.zip"),
            )
        shutil.copytree(
            source / "ansible/roles/configure_backend/files", stage / "ansible", dirs_exist_ok=True
        )
        shutil.copy(source / "version", stage)
        (stage / "src/jobs/private_jobs").mkdir(exist_ok=True)
        (stage / "files").mkdir()
        (stage / "ansible/group_vars").mkdir()
        (stage / "ansible/host_vars").mkdir()
        (stage / "ansible/group_vars/all").write_text(VARIABLES)
        (stage / "backend/backend/local_settings.py").write_text(SETTINGS)
        packed = subprocess.Popen(["tar", "-C", str(stage), "-c", "."], stdout=subprocess.PIPE)
        self.controller.run("mkdir", "-p", inside)
        subprocess.run(
            self.controller.enters(
                "tar", "--warning=no-timestamp", "-x", "--no-same-owner", "-C", inside
            ),
            stdin=packed.stdout,
            check=True,
        )
        shutil.rmtree(stage)
        self.controller.run("chown", "-R", "openbach:", inside)
        self.controller.run(
            "install",
            "-d",
            "-o",
            "openbach",
            "/home/openbach/.ssh",
            "/tmp/openbach_files",
            "/run/openbach",
        )
        self.controller.run("install", "-d", "-m", "777", "/var/log/openbach")
        self.as_openbach(
            "ssh-keygen",
            "-q",
            "-t",
            "rsa",
            "-b",
            "2048",
            "-N",
            "",
            "-f",
            "/home/openbach/.ssh/id_rsa",
        )
        self.as_openbach("cp", f"{inside}/ansible/ansible.cfg", "/home/openbach/.ansible.cfg")
        return self.controller.run("cat", "/home/openbach/.ssh/id_rsa.pub")

    def as_openbach(self, *words: str, text: str | None = None) -> str:
        """What a command prints that the user openbach runs on the controller."""
        return self.controller.run(*_openbach(*words), text=text)

    def _database(self) -> None:
        programs = self.controller.run(
            "/bin/sh", "-c", "ls -d /usr/lib/postgresql/*/bin | tail -1"
        ).strip()
        directory = "/var/lib/postgresql/of-openbach"
        as_postgres = ("runuser", "-u", "postgres", "--")
        self.controller.run(*as_postgres, f"{programs}/initdb", "-A", "trust", "-D", directory)
        self._daemon(
            "postgresql",
            self.controller.enters(
                *as_postgres,
                f"{programs}/postgres",
                "-D",
                directory,
                "-k",
                "/tmp",
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "fsync=off",
                "-c",
                "max_connections=400",
            ),
        )

        asks = (f"{programs}/psql", "-h", "127.0.0.1", "-U", "postgres", "-c")

        def answers() -> bool:
            asked = self.controller.enters(*asks, "select 1")
            return subprocess.run(asked, check=False, capture_output=True).returncode == 0

        wait_for("PostgreSQL answers", answers)
        for statement in (
            "CREATE USER openbach WITH CREATEDB PASSWORD 'openbach'",
            "CREATE DATABASE openbach_db OWNER openbach",
        ):
            self.controller.run(*asks, statement)
        manage = "/opt/openbach/controller/backend/manage.py"
        self.as_openbach(PYTHON, manage, "migrate", "--no-input")
        made = (
            f"from django.contrib.auth.models import User; User.objects.create_superuser('{LOGIN}',"
            f" '', '{PASSWORD}')"
        )
        self.as_openbach(PYTHON, manage, "shell", "-c", made)
        self._say("database is up")

    def _programs(self) -> None:
        backend, conductor = (
            "/opt/openbach/controller/backend",
            "/opt/openbach/controller/conductor",
        )
        self.controller.write("/etc/rsyslog.conf", RSYSLOG)
        self.controller.run("systemctl", "restart", "rsyslog")
        self._daemon("sshd", self.controller.enters("/usr/sbin/sshd", "-D", "-e"))
        for name in ("conductor", "director"):
            program = f"{conductor}/openbach_{name}.py"
            self._daemon(
                name,
                self.controller.enters(
                    *_openbach("env", f"PYTHONPATH={backend}", *ANSIBLE, PYTHON, "-u", program)
                ),
            )
        wait_for("the conductor listens", lambda: ":1113" in self.controller.run("ss", "-ltn"))
        uwsgi = "/usr/bin/uwsgi --plugin python3"
        options = (
            "--master",
            "--virtualenv",
            "/opt/openbach/virtualenv",
            "--workers",
            "5",
            "--http-socket",
            ":8000",
            "--module",
            "backend.wsgi",
            "--die-on-term",
        )
        self._daemon(
            "backend",
            self.controller.enters(
                *_openbach("/bin/sh", "-c", f"cd {backend} && exec {uwsgi} {' '.join(options)}")
            ),
        )

    def _answers(self) -> bool:
        try:
            return requests.get(f"{CONTROLLER_URL}version/", timeout=5).ok
        except requests.RequestException:
            return False

    # Agents

    def _agent(self, agent: Host, key: str) -> None:
        """What the role install_agent_Debian leaves on a host."""
        source = self._checkout / "src/agent"
        for part in ("jobs", "job_instances", "rstats", "files"):
            agent.run(
                "install", "-d", "-o", "openbach", "-g", "openbach", f"/opt/openbach/agent/{part}"
            )
        agent.run(
            "install",
            "-d",
            "-o",
            "openbach",
            "-g",
            "openbach",
            "/var/openbach_stats",
            "/var/openbach_stats/openbach_agent",
        )
        agent.run("install", "-d", "-m", "777", "/var/log/openbach")
        for name in ("rstats/rstats.py", "rstats/rstats_reload.py"):
            agent.write(f"/opt/openbach/agent/{name}", (source / name).read_text(), 0o755)
        for name in ("openbach_agent.py", "openbach_agent_filter.conf"):
            agent.write(
                f"/opt/openbach/agent/{name}", (source / "openbach-agent" / name).read_text(), 0o755
            )
        agent.write("/opt/openbach/agent/agent_name", f"{agent.name}\n")
        agent.write("/opt/openbach/agent/collector.yml", COLLECTOR_YML)
        agent.write("/opt/openbach/agent/rstats/rstats.yml", RSTATS_YML)
        agent.run("chown", "-R", "openbach:", "/opt/openbach/agent")
        agent.run(
            "install", "-d", "-m", "700", "-o", "openbach", "-g", "openbach", "/home/openbach/.ssh"
        )
        agent.write("/home/openbach/.ssh/authorized_keys", key)
        agent.run("usermod", "-p", "*", "openbach")  # sshd lets nobody in whose password is locked
        agent.write("/etc/ssh/sshd_config", SSHD)
        agent.write("/etc/rsyslog.conf", RSYSLOG)
        agent.write("/etc/environment", ENVIRONMENT.format(seed=self._seed))
        agent.run("systemctl", "restart", "rsyslog", "rstats", "openbach_agent")
        self._daemon(f"sshd-{agent.name}", agent.enters("/usr/sbin/sshd", "-D", "-e"))

    # Processes

    def _daemon(self, name: str, words: Sequence[str]) -> None:
        said = (self.logs / f"{name}.log").open("wb")
        self._daemons.append(
            subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
        )

    def _serve(self, name: str, *words: str) -> None:
        self._daemon(name, words)
        log = self.logs / f"{name}.log"
        wait_for(f"{name} is ready: see {log}", lambda: "ready" in log.read_text())


def _openbach(*words: str) -> tuple[str, ...]:
    return (
        "runuser",
        "-u",
        "openbach",
        "--",
        "env",
        "HOME=/home/openbach",
        "PYTHONDONTWRITEBYTECODE=1",
        *words,
    )
