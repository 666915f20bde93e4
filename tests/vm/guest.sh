# Runs in the virtual machine as root, in the sources that tests/vm/run.py packed; tests/vm/arguments has pytest's arguments.
say() { echo "vm: $* after $(cut -d' ' -f1 /proc/uptime) s"; }
say "up with $(stat -f -c %T /sys/fs/cgroup), $(containerd --version | cut -d' ' -f3), systemd $(systemctl --version | head -n 1 | cut -d' ' -f2)"
for module in overlay veth bridge br_netfilter nf_tables nft_compat xt_comment xt_MASQUERADE; do modprobe "$module"; done
ip link set lo up
ip link add eth0 type dummy
ip address add 192.0.2.10/24 dev eth0
ip link set eth0 up
ip route add default via 192.0.2.1
if [ -n "$(sed -n 's/^swap=//p' tests/vm/settings)" ]; then
    fallocate -l "$(sed -n 's/^swap=//p' tests/vm/settings)" /swapfile && chmod 600 /swapfile && mkswap -q /swapfile && swapon /swapfile
fi
export PATH=/opt/venv/bin:$PATH PYTHONPATH=/root/src HOME=/root LANG=C.UTF-8
export CGROUP_DRIVER="$(sed -n 's/^driver=//p' tests/vm/settings)"
xargs -d '\n' -a tests/vm/arguments python -m pytest -p no:cacheprovider
say "exit $?"
