# The first process of the emulated machine; tests/vm/arguments has pytest's arguments. Nothing but what the tests need is started.
say() { echo "vm: $* after $(cut -d' ' -f1 /proc/uptime) s"; }
export PATH=/opt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/root/src HOME=/root LANG=C.UTF-8
cd /root/src
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /tmp
mkdir -p /dev/shm /dev/pts && mount -t tmpfs tmpfs /dev/shm && mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -sfn /proc/self/fd /dev/fd
ip link set lo up
say "up with Linux $(uname -r), $(ipset --version | head -n 1)"
for module in ip_vs dummy br_netfilter nf_tables nft_compat xt_set xt_ipvs; do modprobe "$module"; done
xargs -d '\n' -a tests/vm/arguments python -m pytest -p no:cacheprovider
say "exit $?"
echo o > /proc/sysrq-trigger
sleep 60
