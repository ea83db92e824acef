"""The namespaces and links of a virtual cluster; see vcluster, which is the program.

Everything here runs in the init of the cluster's own PID namespace, from one thread. Nothing has to be torn down: what
is made here belongs to namespaces that end with that init.
"""
import ctypes
import json
import os
import subprocess
import time

libc = ctypes.CDLL(None, use_errno=True)
CLONE = {"mnt": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "net": 0x40000000}
CLONE_NEWPID = 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18


class CannotWork(Exception):
    """This machine cannot hold a virtual cluster."""


def check_call(result, what):
    if result != 0:
        raise CannotWork(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, fstype, flags=0, data=None):
    encode = lambda text: None if text is None else os.fsencode(text)
    check_call(libc.mount(encode(source), encode(target), encode(fstype), flags, encode(data)),
               f"cannot mount {fstype or source} on {target}")


def run_tool(args, lines):
    """Feeds a batch to ip or tc, which cost most of their time in starting."""
    done = subprocess.run(args, input="\n".join(lines) + "\n", text=True, capture_output=True)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise CannotWork(f"'{' '.join(args)}' failed: {said[0]}")


class Cluster:
    """The namespaces and links; runs as the init of its own PID namespace."""

    def __init__(self, options, private_dir):
        self.options = options
        self.dir = private_dir  # on a tmpfs of this mount namespace, seen by all hosts
        self.names = [f"h{i}" for i in range(options.hosts)]
        self.holders = {}  # host name -> process that holds its namespaces open

    def start_hosts(self):
        with open(f"{self.dir}/hosts", "w") as hosts:
            hosts.write("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
            for i, name in enumerate(self.names):
                hosts.write(f"10.77.0.{i + 1} {name}\n")
                hosts.writelines(f"10.77.{rail}.{i + 1} {name}-r{rail}\n" for rail in range(self.options.rails))
        pipes = [self.start_holder(name) for name in self.names]
        for name, pipe in zip(self.names, pipes):
            said = os.read(pipe, 4096).decode()
            os.close(pipe)
            if said != "ready":
                raise CannotWork(said or f"host {name} died while it was set up")

    def start_holder(self, name):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            self.holders[name] = pid
            return reader
        try:
            os.setsid()  # what ends the command's process group, such as timeout(1), is not for the hosts
            self.become_host(name)
            os.write(writer, b"ready")
            os.close(writer)
            null = os.open("/dev/null", os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            os.execvp("sleep", ["vcluster-" + name, "infinity"])
        except BaseException as error:
            os.write(writer, f"host {name}: {error}".encode())
        os._exit(1)

    def become_host(self, name):
        check_call(libc.unshare(sum(CLONE.values())), "cannot make namespaces")
        libc.sethostname(name.encode(), len(name))
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        # sysfs shows the interfaces of the namespace it was mounted in; probes read /sys/class/net.
        mount("sysfs", "/sys", "sysfs")
        os.makedirs("/dev/shm", exist_ok=True)
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")
        mount(f"{self.dir}/hosts", "/etc/hosts", None, MS_BIND)
        silence_ipv6()

    def connect(self):
        switch, shapes = [], []
        for rail, rate in enumerate(self.options.rate):
            switch.append(f"link add br{rail} type bridge forward_delay 0 mcast_snooping 0")
            switch.append(f"link set br{rail} up")
            for name, pid in self.holders.items():
                port = f"{name}r{rail}"
                switch.append(f"link add {port} type veth peer name r{rail} netns {pid}")
                switch.append(f"link set {port} master br{rail} up")
                shapes += self.shape(port, rate)
        silence_ipv6()
        run_tool(["ip", "-batch", "-"], switch)
        if shapes:
            run_tool(["tc", "-batch", "-"], shapes)
        for index, (name, pid) in enumerate(self.holders.items()):
            self.connect_host(index, pid)
        self.wait_for_links()

    def connect_host(self, index, pid):
        enter = ["nsenter", "-t", str(pid), "-n", "--"]
        links, shapes = ["link set lo up"], []
        for rail, rate in enumerate(self.options.rate):
            links.append(f"addr add 10.77.{rail}.{index + 1}/24 dev r{rail}")
            links.append(f"link set r{rail} up")
            shapes += self.shape(f"r{rail}", rate)
        run_tool([*enter, "ip", "-batch", "-"], links)
        if shapes:
            run_tool([*enter, "tc", "-batch", "-"], shapes)

    @staticmethod
    def shape(device, rate):
        return [] if rate == "none" else [f"qdisc add dev {device} root tbf rate {rate} burst 128kb latency 20ms"]

    def wait_for_links(self):
        """UCX refuses an interface that is up but not yet running."""
        waiting = [f"/proc/{pid}/root/sys/class/net/r{rail}/operstate"
                   for pid in self.holders.values() for rail in range(self.options.rails)]
        deadline = time.monotonic() + 10
        while waiting:
            if time.monotonic() > deadline:
                raise CannotWork("the virtual links do not come up")
            time.sleep(0.02)
            waiting = [path for path in waiting if open(path).read().strip() != "up"]

    def describe(self):
        with open(f"{self.dir}/cluster.json", "w") as out:
            json.dump({"hosts": self.holders, "rails": [f"r{i}" for i in range(self.options.rails)],
                       "rates": self.options.rate}, out)
        os.mkdir(f"{self.dir}/bin")
        here = os.path.dirname(os.path.realpath(__file__))
        for tool in ("nic_bytes", "vcluster-agent"):
            os.symlink(f"{here}/{tool}", f"{self.dir}/bin/{tool}")

    def leftovers(self):
        """What the command left behind, given three seconds to go away by itself."""
        ours = {1, os.getpid(), *self.holders.values()}
        deadline = time.monotonic() + 3
        while True:
            found = [f"process {pid} ({name_of(pid)})" for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                     if pid not in ours and name_of(pid)]
            for name, pid in self.holders.items():
                if name_of(pid):
                    found += [f"{name}:/dev/shm/{entry}" for entry in os.listdir(f"/proc/{pid}/root/dev/shm")]
                else:
                    found.append(f"host {name} without the process that held it open")
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)
            reap()


def silence_ipv6():
    """Neighbour and router discovery would add bytes to the counters at random moments."""
    for where in ("all", "default"):
        try:
            with open(f"/proc/sys/net/ipv6/conf/{where}/disable_ipv6", "w") as switch:
                switch.write("1")
        except OSError:
            pass  # no IPv6 here, or a read-only /proc: nothing to silence, or a little noise


def name_of(pid):
    """The command of a process that still runs, else nothing."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            text = stat.read()
        return None if text.rsplit(")", 1)[1].split()[0] in "ZX" else text[text.index("(") + 1:text.rindex(")")]
    except OSError:
        return None


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
