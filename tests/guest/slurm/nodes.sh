#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Debian's Slurm on two nodes that are namespaces of this machine, and a command on it, of which a node dies in the middle:
#   nodes.sh DIRECTORY RECORDS KILL_AT COMMAND…
# Below DIRECTORY is a file system over this machine's, in which Slurm is installed, and in which the command is executed. When
# RECORDS, a directory in it, has KILL_AT records, the first node loses its network and all its processes.
set -euo pipefail

if [ "${1:-}" != inside ]; then
	mkdir -p "$1"/{upper,work,root}
	# shellcheck disable=SC2016 # the inner shell expands them
	unshare --mount bash -euc '
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
		mount --rbind /dev "$1/root/dev"
		mount -t proc proc "$1/root/proc"
		printf "#!/bin/sh\nexit 101\n" > "$1/root/usr/sbin/policy-rc.d"
		chmod +x "$1/root/usr/sbin/policy-rc.d"
		chroot "$1/root" apt-get -o DPkg::Lock::Timeout=600 update -qq
		DEBIAN_FRONTEND=noninteractive chroot "$1/root" apt-get -o DPkg::Lock::Timeout=600 install -qq -y --no-install-recommends slurmctld slurmd munge
	' - "$1" > "$1/install.log" 2>&1 || { cat "$1/install.log" >&2; exit 1; }
	exec unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0" inside "$@"
fi

directory=$2 records=$3 kill_at=$4 root=$2/root
shift 4
mount -t overlay overlay -o "lowerdir=/,upperdir=$directory/upper,workdir=$directory/work" "$root"
for folder in dev sys; do mount --rbind "/$folder" "$root/$folder"; done
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
cat > "$root/etc/slurm/slurm.conf" << 'EOF'
ClusterName=made-up
SlurmctldHost=login(10.0.0.1)
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
StateSaveLocation=/var/spool/slurm
SlurmdSpoolDir=/var/spool/slurmd.%n
SlurmdParameters=config_overrides
SlurmdTimeout=10
NodeName=n1 NodeAddr=10.0.0.11 CPUs=2 RealMemory=3000
NodeName=n2 NodeAddr=10.0.0.12 CPUs=2 RealMemory=3000
PartitionName=all Nodes=ALL Default=YES
EOF
printf '%s\n' '127.0.0.1 localhost' '10.0.0.1 login' '10.0.0.11 n1' '10.0.0.12 n2' > "$root/etc/hosts"
hostname login
ip link set lo up
ip link add br0 type bridge
ip address add 10.0.0.1/24 dev br0
ip link set br0 up
mkdir -p "$root/run/munge" "$root/var/spool/slurm"
chroot "$root" chown munge /run/munge
chroot "$root" setpriv --reuid munge --regid munge --clear-groups munged
chroot "$root" slurmctld

for node in 1 2; do
	mkfifo "$root/run/made.$node" "$root/run/connected.$node"
	# shellcheck disable=SC2016
	unshare --net --uts --pid --mount --fork --kill-child bash -euc '
		hostname "n$1"
		mount -t proc proc "$2/proc"
		echo > "$2/run/made.$1"
		read -r _ < "$2/run/connected.$1"
		ip link set lo up
		ip address add "10.0.0.1$1/24" dev eth0
		ip link set eth0 up
		exec chroot "$2" slurmd -D
	' - "$node" "$root" 2> "$directory/n$node.log" &
	nodes[node]=$!
	read -r _ < "$root/run/made.$node"
	ip link add "v$node" type veth peer name eth0 netns "${nodes[node]}"
	ip link set "v$node" master br0 up
	echo > "$root/run/connected.$node"
done

count() { find "$root$records" -maxdepth 1 -mindepth 1 ! -name '*.*' 2> /dev/null | wc -l; }

chroot "$root" "$@" &
command=$!
until [ "$(count)" -ge "$kill_at" ]; do
	for process in "$command" "${nodes[@]}"; do kill -0 "$process"; done
	sleep 0.2
done
ip link set v1 down
kill -KILL "${nodes[1]}"
echo "n1 died with $(count) records" >&2
wait "$command"
