#!/bin/bash
# A real Slurm on this machine: Debian's, seven node daemons of 32 slots each, no systemd.   cluster.sh up | down
# Each node has eight GPUs for Slurm to hand out; each is a link to /dev/null.
# For tests alone: all seven nodes are this host, so nothing that is timed on them says anything of a cluster.
# Root (or sudo without a password) installs the packages and runs the daemons; nobody else's Slurm is touched: where
# /etc/slurm/slurm.conf is not ours, it stops.
set -euo pipefail

NODES=7
SLOTS=32
CONF=/etc/slurm/slurm.conf
GRES=/etc/slurm/gres.conf
OURS="# made by OverlayCCL's tests/slurm/cluster.sh"
STATE=/var/spool/overlayccl-slurm

fail() { echo "cluster.sh: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || exec sudo -n --preserve-env=PATH "$0" "$@" || fail "it needs root, or sudo without a password"

install_slurm() {
    command -v slurmctld >/dev/null && command -v munged >/dev/null && return
    command -v apt-get >/dev/null || fail "no Slurm here, and no apt-get to install it with"
    echo "Installing Slurm and munge from this distribution's packages"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null || fail "Slurm could not be installed"
}

configure() {
    [ ! -e $CONF ] || grep -qF "$OURS" $CONF || fail "$CONF belongs to a Slurm that is not ours"
    mkdir -p $STATE/ctld /var/log/slurm /etc/slurm
    for i in $(seq $NODES); do mkdir -p $STATE/n"$i"; done
    for i in $(seq 0 7); do ln -sf /dev/null $STATE/gpu"$i"; done
    printf '%s\nNodeName=n[1-%d] Name=gpu File=%s/gpu[0-7]\n' "$OURS" $NODES $STATE >"$GRES"
    cat >$CONF <<END
$OURS
ClusterName=local
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=$STATE/ctld
SlurmdSpoolDir=$STATE/%n
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
GresTypes=gpu
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
NodeName=n[1-$NODES] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[17001-1700$NODES] CPUs=$SLOTS Boards=1 SocketsPerBoard=1 CoresPerSocket=$SLOTS ThreadsPerCore=1 RealMemory=2000 Gres=gpu:8 State=UNKNOWN
PartitionName=gpu Nodes=n[1-$NODES] MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=cpu Nodes=n[1-$NODES] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
END
}

alive() { [ -e "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

up() {
    install_slurm
    configure
    mkdir -p /run/munge && chown munge /run/munge
    munge -n 2>/dev/null | unmunge >/dev/null 2>&1 || { su -s /bin/sh munge -c /usr/sbin/munged; touch $STATE/munged; }
    alive $STATE/slurmctld.pid || slurmctld
    for i in $(seq $NODES); do alive $STATE/n"$i".pid || slurmd -N n"$i"; done
    for _ in $(seq 60); do
        [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = $NODES ] && { sinfo; return; }
        for i in $(seq $NODES); do scontrol update nodename=n"$i" state=resume 2>/dev/null || true; done
        sleep 1
    done
    sinfo || true
    fail "not all $NODES nodes came up: see /var/log/slurm"
}

down() {
    for file in $STATE/*.pid; do alive "$file" && kill "$(cat "$file")" || true; done
    for _ in $(seq 100); do # what still ends would write into folders that are gone
        for file in $STATE/*.pid; do alive "$file" && sleep 0.1 && continue 2 || true; done
        break
    done
    [ -e $STATE/munged ] && kill "$(cat /run/munge/munged.pid)" 2>/dev/null || true
    if grep -qsF "$OURS" $CONF; then rm -rf $STATE $CONF $GRES; fi
}

case "${1:-}" in
up) up ;;
down) down ;;
*) echo "usage: cluster.sh up | down" >&2; exit 2 ;;
esac
