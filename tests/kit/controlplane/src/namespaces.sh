# Sets up the namespaces of a node, and stays as their first process. See namespaces.rs.
set -eu
folder=$1 address=$2

# The control groups are those of the machine; the rest of /sys shows the new network.
mkdir -p "$folder/data/lib" "$folder/data/cgroup" "$folder/data/log"
mount --rbind /sys/fs/cgroup "$folder/data/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$folder/data/cgroup" /sys/fs/cgroup
umount --lazy "$folder/data/cgroup"

mount -t tmpfs tmpfs /run
mount --bind "$folder/data/lib" /var/lib
mount --bind "$folder/data/log" /var/log

# A kubelet sets these for the whole machine. Here it writes to files.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    [ -e "/proc/sys/$setting" ] || continue
    copy="/run/settings/$setting"
    mkdir -p "${copy%/*}"
    cat "/proc/sys/$setting" > "$copy"
    mount --bind "$copy" "/proc/sys/$setting"
done

ip link set lo up
ip link add node0 type bridge
ip addr add "$address/24" dev node0
ip link set node0 up
# The kernel needs a route to Services before kube-proxy's rules translate their addresses.
ip route add 10.0.0.0/24 dev node0
echo 1 > /proc/sys/net/ipv4/ip_forward
hostname node1

: > "$folder/init.ready"
# The first process inherits those whose parents end. Ignoring SIGCHLD, it leaves none of them as zombies.
exec env --ignore-signal=CHLD sleep infinity
