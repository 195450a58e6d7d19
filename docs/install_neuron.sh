#!/usr/bin/env bash
# Neuron's driver, runtime, collectives and tools of SDK 2.28.0 on a node with Ubuntu 24.04, as a custom action of
# AWS ParallelCluster (docs/parallelcluster.yaml), which brings EFA itself. Not run on such a node yet.
# Versions: src/helperscripts/n2-manifest.json of aws-neuron-sdk; the repository: Neuron's setup guide.
set -euo pipefail

. /etc/os-release
. /etc/parallelcluster/cfnconfig # cfn_node_type: HeadNode or ComputeFleet
keyring=/usr/share/keyrings/neuron-archive-keyring.gpg
repository=https://apt.repos.neuron.amazonaws.com

curl -fsSL "$repository/GPG-PUB-KEY-AMAZON-AWS-NEURON.PUB" | gpg --dearmor --yes -o "$keyring"
echo "deb [signed-by=$keyring] $repository $VERSION_CODENAME main" >/etc/apt/sources.list.d/neuron.list
apt-get update -y
apt-get install -y python3.12-venv g++ git
if [ "$cfn_node_type" = HeadNode ]; then
  exit 0 # no device, no driver
fi

mkdir -p /etc/systemd/system/slurmd.service.d # what starts ranks has its limits from there
printf '[Service]\nLimitNOFILE=65536\n' >/etc/systemd/system/slurmd.service.d/90-overlayccl.conf
echo 'net.ipv4.ip_local_reserved_ports = 48620,62182' >/etc/sysctl.d/90-overlayccl.conf # of Neuron's collectives
sysctl -q -p /etc/sysctl.d/90-overlayccl.conf
systemctl daemon-reload
apt-get install -y "linux-headers-$(uname -r)"
apt-get install -y --allow-downgrades 'aws-neuronx-dkms=2.26.5*' 'aws-neuronx-collectives=2.30.59*' \
  'aws-neuronx-runtime-lib=2.30.51*' 'aws-neuronx-tools=2.*'
