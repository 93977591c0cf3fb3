# Runs once in the node image: configures Debian to boot like a kind node.
set -e
chmod 755 /usr/local/bin/* /kind /kind/bin /kind/bin/*

# Start only the services that a node needs.
units=/lib/systemd/system
rm -f "$units/sysinit.target.wants/systemd-tmpfiles-setup.service" /etc/systemd/system/*.wants/*
rm -f $units/{multi-user,local-fs,basic}.target.wants/* $units/sockets.target.wants/*{udev,initctl}*
echo ReadKMsg=no >>/etc/systemd/journald.conf
systemctl -q enable kubelet.service containerd.service undo-mount-hacks.service
systemctl -q mask systemd-binfmt.service

mkdir -p /etc/kubernetes/manifests /opt/cni/bin
cp /usr/lib/cni/{host-local,loopback,ptp,portmap,bridge} /opt/cni/bin/

# Without rlimits: a node without CAP_SYS_RESOURCE cannot raise them, nor lower an oom_score_adj. And
# without kind's hook, which runs jq for each container to hide the machine's product name.
ctr oci spec | jq 'del(.process.rlimits)' >/etc/containerd/cri-base.json
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' /etc/containerd/config.toml

# A node's programs in Go, containerd's children included, collect garbage of small heaps again and again.
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultEnvironment=GOGC=300\n' >/etc/systemd/system.conf.d/garbage-collection.conf
