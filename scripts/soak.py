"""What scripts/soak.sh runs: one long job under faults, or many short ones whose ranks are killed."""
import argparse
import itertools
import os
import random
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

SILENCE = 10.0  # seconds without a line that are too many; as long as DDL_STALL_WARN,
SLACK = 5.0     # and what it takes to ask the others and to be scheduled
MARK = "SOAK_JOB"   # a variable that tells the processes of a job
OTHERS = re.compile(r"^(h\d+:)?(ompi\.|pmix|vader_segment\.)")  # files of Open MPI, which may lose some with a rank
STUCK = "PMIX ERROR: UNREACHABLE"  # an mpirun that says so may wait for itself for ever; ddlrun ends it
LEFT_ALONE = 3.0  # seconds that processes of a job have to go away after its end
FAULTS = (("ip link set r1 down", "ip link set r1 up"),
          ("tc qdisc replace dev r1 root tbf rate 1mbit burst 32kb latency 20ms",
           "tc qdisc replace dev r1 root tbf rate 1gbit burst 128kb latency 20ms"),
          ("ip neigh replace 10.77.1.{other} lladdr 02:00:00:00:00:99 dev r1 nud permanent",
           "ip neigh del 10.77.1.{other} dev r1"))


class Output:
    """The lines of a process, with the longest time between two."""

    def __init__(self, process):
        self.process, self.lines, self.longest, self.ended = process, [], 0.0, False
        self.last = time.monotonic()
        self.rest = b""
        self.began, self.times = self.last, []
        os.set_blocking(process.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(process.stdout, selectors.EVENT_READ)

    def begin(self):
        """Silence counts from now on."""
        self.last, self.longest = time.monotonic(), 0.0

    def look(self, seconds):
        """The lines of the next so many seconds, at most; fewer seconds if some come."""
        new = []
        if self.selector.select(max(seconds, 0)):
            try:
                got = os.read(self.process.stdout.fileno(), 65536)
            except BlockingIOError:
                got = None
            if got == b"":
                self.ended = True
            *whole, self.rest = (self.rest + (got or b"")).split(b"\n")
            new = [line.decode(errors="replace") for line in whole]
        now = time.monotonic()
        self.longest = max(self.longest, now - self.last)
        if new or self.ended:
            self.last = now
        self.lines += new
        self.times += [now - self.began] * len(new)
        return new


def processes_of(mark):
    """Process id and rank (-1: a starter) of all that carry that mark, dead ones aside."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
            if f"{MARK}={mark}".encode() not in environment.split(b"\0"):
                continue
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    continue
        except OSError:
            continue  # it has just ended
        rank = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", environment)
        found[int(pid)] = int(rank.group(1)) if rank else -1
    return found


def start(command, mark, variables):
    environment = {**os.environ, **variables, MARK: mark}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                            env=environment)


def wait_for_a_rank(output, mark):
    """Until there is one it is the starter's time. Silence counts from then on."""
    while not output.ended and time.monotonic() - output.began < 120:
        for line in output.look(0.05):
            yield line
        if any(rank >= 0 for rank in processes_of(mark).values()):
            break
    output.begin()


def end_all(mark):
    for _ in range(50):
        left = processes_of(mark)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not left:
            return
        time.sleep(0.1)


def as_command(text, other):
    """A fault or its end, of the rail to that host."""
    return text.format(other=other + 1)


def order_host(order):
    host, command = order
    subprocess.run(["vcluster-agent", f"h{host}", command], check=False)


# ---- one long job ----

class Faults:
    """Harms the second rail of one host at a time, and mends it again."""

    def __init__(self, dice):
        self.dice, self.mend, self.count = dice, None, 0
        self.due = time.monotonic() + 10

    def look(self):
        if time.monotonic() < self.due:
            return
        if self.mend:
            self.run(self.mend)
            self.mend = None
            self.due = time.monotonic() + self.dice.uniform(5, 15)
            return
        host = self.dice.randrange(1, 4)
        other = self.dice.choice([one for one in range(4) if one != host])
        harm, mend = self.dice.choice(FAULTS)
        self.run((host, as_command(harm, other)))
        self.mend = (host, as_command(mend, other))
        self.count += 1
        self.due = time.monotonic() + self.dice.uniform(5, 20)

    @staticmethod
    def run(order):
        print(f"soak: h{order[0]}: {order[1]}", flush=True)
        order_host(order)


def soak(options):
    """Inside the virtual hosts, or on one machine."""
    dice = random.Random(options.seed)
    launcher = [f"{options.build}/bin/ddlrun"]
    if options.inside:
        launcher += ["-s", "-np", "8", "-H", "h0:2,h1:2,h2:2,h3:2"]
    else:
        launcher += ["-np", "4", "--oversubscribe", "-x", "DDL_FAKE_HOSTS=2,1,1"]
    launcher += ["--mca", "mpi_yield_when_idle", "1"]
    mark = uuid.uuid4().hex
    process = start([*launcher, f"{options.build}/tests/bin/soak", str(options.minutes * 60), str(options.seed)], mark,
                    {"OMPI_MCA_btl_tcp_if_include": "r0"} if options.inside else {})
    output = Output(process)
    try:
        for line in wait_for_a_rank(output, mark):
            print(line, flush=True)
        faults = Faults(dice) if options.inside else None
        while not output.ended:
            for line in output.look(0.5):
                print(line, flush=True)
            if faults:
                faults.look()
            if time.monotonic() - output.last > SILENCE + SLACK:
                print(f"soak: FAILED: no line for {SILENCE + SLACK:.0f} s", flush=True)
                return 1
        code = process.wait()
    finally:
        end_all(mark)
    print(f"soak: exit code {code}, {faults.count if faults else 0} faults, {output.longest:.1f} s without a line at most", flush=True)
    return code


# ---- many short jobs ----

LAYOUTS = ("", "2,2", "1,1,1,1", "1,2,1")
KILL_ONE, KILL_HOST, STOP_ONE = "kills a rank", "kills a host's ranks", "stops a rank"
DOWN, SLOW, SILENT = "takes a rail down", "slows a rail", "silences a rail"  # in the order of FAULTS
CUT = "cuts a host off"


class Kill:
    """One job of four ranks, and what is done to it."""
    harms = (KILL_ONE, KILL_HOST, STOP_ONE), (5, 2, 3)
    variables = {}
    note = ""

    def __init__(self, options, number):
        dice = random.Random(options.seed * 100003 + number)
        self.layout = dice.choice(LAYOUTS)
        self.harm = dice.choices(*self.harms)[0]
        self.starter = dice.choice(("mpirun", "ddlrun"))
        self.victim = dice.randrange(4)
        # From the first sight of a rank: while it starts, works, and (after two seconds) ends.
        self.moment = dice.choice((dice.uniform(0, 0.5), dice.uniform(0.3, 2), dice.uniform(1.8, 2.8)))
        self.number, self.options = number, options
        self.complaints = []

    def command(self):
        build = self.options.build
        program = [f"{build}/tests/bin/soak", "2", str(self.number), "calm"]
        how = ["-np", "4", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", *self.placement()]
        if self.starter == "ddlrun":
            return [f"{build}/bin/ddlrun", *how, *program]
        mpirun = shutil.which("mpirun.openmpi") or "mpirun"
        return [mpirun, *how, "-x", f"LD_PRELOAD={build}/lib/libddl_shim.so", *program]

    def placement(self):
        return ["-x", f"DDL_FAKE_HOSTS={self.layout}"] if self.layout else []

    def victims(self):
        if self.harm != KILL_HOST or not self.layout:
            return {self.victim}
        first = 0
        for ranks in map(int, self.layout.split(",")):
            if first <= self.victim < first + ranks:
                return set(range(first, first + ranks))
            first += ranks
        return {self.victim}

    def run(self):
        mark = uuid.uuid4().hex
        files_before = self.files()
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            self.process = start(self.command(), mark, {**self.variables, "TMPDIR": folder})
            output = Output(self.process)
            try:
                self.do_harm(output, mark)
                self.wait(output, self.is_over)
                output.look(0.2)
                code = self.process.wait(60) if output.ended else self.process.poll()
            finally:
                left = self.left_over(mark)
                self.mend()  # after that: a host that is cut off has to get rid of its ranks by itself
                end_all(mark)
            files = {name for name in self.files() - files_before | set(os.listdir(folder)) if not OTHERS.search(name)}
        self.judge(output, code, left, files)
        self.show(output, code)
        return not self.complaints

    @staticmethod
    def files():
        return {name for name in os.listdir("/dev/shm") if name.startswith("ddl")}  # jobs of others run here, too

    def mend(self):
        """What was done to the hosts, if anything."""

    def wait(self, output, holds):
        """Until it holds, the job has ended or been silent for too long."""
        while not holds() and not output.ended and time.monotonic() - output.last < SILENCE + SLACK:
            output.look(0.05)

    def do_harm(self, output, mark):
        list(wait_for_a_rank(output, mark))
        end = time.monotonic() + self.moment
        while time.monotonic() < end and not output.ended:
            output.look(end - time.monotonic())
        self.harm_now(output, mark)

    def harm_now(self, output, mark):
        found = processes_of(mark)
        victims = [pid for pid, rank in found.items() if rank in self.victims()]
        self.met = len(victims)
        send(victims, signal.SIGSTOP if self.harm == STOP_ONE else signal.SIGKILL)
        if self.harm != STOP_ONE or not victims:
            return
        named = re.compile(rf"waiting for .*rank(s|) (\d+, )*{self.victim}\b")
        others = lambda: any(rank >= 0 and rank not in self.victims() for rank in processes_of(mark).values())
        self.wait(output, lambda: any(named.search(line) for line in output.lines) or not others())
        self.is_named = any(named.search(line) for line in output.lines)
        # Nobody names one that all others have left behind, in the last moments of the job.
        self.is_missed = others()
        send(victims, signal.SIGCONT)
        if not self.is_missed:
            output.begin()

    def is_over(self):
        return False  # that all have closed their output tells

    def left_over(self, mark):
        end = time.monotonic() + LEFT_ALONE
        while time.monotonic() < end:
            left = {pid: rank for pid, rank in processes_of(mark).items() if self.must_go(rank)}
            if not left:
                return {}
            time.sleep(0.05)
        return left

    def must_go(self, rank):
        """Whether no such process may be left when the job is over."""
        return True

    def judge(self, output, code, left, files):
        said = "\n".join(output.lines)
        if "wrong:" in said:
            self.complaints.append("a result was wrong")
        if code is None and self.starter == "mpirun" and set(left.values()) == {-1} and STUCK in said:
            self.note = ", mpirun does not come to its end: Open MPI's own"
            return
        if output.longest > SILENCE + SLACK:
            self.complaints.append(f"{output.longest:.1f} s without a line")
        if code is None:
            self.complaints.append("it did not end")
        if left:
            self.complaints.append(f"processes are left: {left}")
        if files:
            self.complaints.append(f"files are left: {sorted(files)}")
        self.judge_end(said, code)

    def judge_end(self, said, code):
        if self.harm == STOP_ONE:
            if code != 0:
                self.complaints.append(f"it did not go on: exit code {code}")
            if self.met and self.is_missed and not self.is_named:
                self.complaints.append("no line names who is stopped")
        elif self.met and code == 0 and "no result wrong" not in said:
            self.complaints.append("exit code 0 without an end")

    def show(self, output, code):
        what = f"soak: job {self.number}: {self.starter}, hosts {self.layout or '4'}, {self.harm} (of rank {self.victim}) after " \
               f"{self.moment:.2f} s: exit code {code}, {output.longest:.1f} s without a line at most{self.note}"
        print(what + ("; FAILED: " + "; ".join(self.complaints) if self.complaints else ""), flush=True)
        if self.complaints or self.options.verbose:
            for when, line in list(zip(output.times, output.lines))[-30:]:
                print(f"    {when:5.1f} {line}", flush=True)


class ClusterKill(Kill):
    """The same on virtual hosts with two rails, which come to harm as well."""
    harms = (KILL_ONE, KILL_HOST, STOP_ONE, DOWN, SLOW, SILENT, CUT), (3, 2, 2, 2, 2, 2, 2)
    variables = {"OMPI_MCA_btl_tcp_if_include": "r0"}

    def __init__(self, options, number):
        super().__init__(options, number)
        self.layout = ("2,2", "1,1,1,1", "1,2,1")[number % 3]
        self.mending = []
        if self.harm == CUT:  # mpirun by itself waits for minutes
            self.starter = "ddlrun"

    def placement(self):
        return ["-H", ",".join(f"h{host}:{ranks}" for host, ranks in enumerate(self.layout.split(",")))]

    @staticmethod
    def files():
        hosts = (f"h{host}" for host in range(4))
        listed = ((host, subprocess.run(["vcluster-agent", host, "ls /dev/shm"], check=False, stdout=subprocess.PIPE, text=True))
                  for host in hosts)
        return {f"{host}:{name}" for host, done in listed for name in done.stdout.split()}

    def host(self):
        """Of the victim; not the one that the job is started on."""
        ends = list(itertools.accumulate(map(int, self.layout.split(","))))
        return max(1, next(host for host, end in enumerate(ends) if self.victim < end))

    def is_over(self):
        return self.harm == CUT and self.process.poll() is not None

    def must_go(self, rank):
        return self.harm != CUT or rank >= 0  # Open MPI's daemon on the host that is cut off stays there

    def harm_now(self, output, mark):
        if self.harm in (KILL_ONE, KILL_HOST, STOP_ONE):
            super().harm_now(output, mark)
            return
        self.met = any(rank >= 0 for rank in processes_of(mark).values())
        rails = ("r0", "r1") if self.harm == CUT else ("r1",)
        harm, mend = FAULTS[0 if self.harm == CUT else (DOWN, SLOW, SILENT).index(self.harm)]
        for rail in rails:
            self.mending.append((self.host(), as_command(mend.replace("r1", rail), 0)))
            order_host((self.host(), as_command(harm.replace("r1", rail), 0)))

    def mend(self):
        for order in self.mending:
            order_host(order)

    def judge_end(self, said, code):
        if self.harm in (KILL_ONE, KILL_HOST, STOP_ONE):
            super().judge_end(said, code)
        elif self.harm != CUT and code != 0:
            self.complaints.append(f"it did not go on: exit code {code}")
        elif self.harm == CUT and self.met and code == 0 and "no result wrong" not in said:
            self.complaints.append("exit code 0 without an end")


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def kills(options):
    numbers = range(options.first, options.first + options.kills)
    kind = ClusterKill if options.inside else Kill
    failed = [number for number in numbers if not kind(options, number).run()]
    print(f"soak: {options.kills} jobs, {len(failed)} failed{': ' + str(failed) if failed else ''}", flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak.sh")
    parser.add_argument("--build", required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first job")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 20))
    parser.add_argument("--hosts", action="store_true", help="--kills on virtual hosts, whose rails come to harm as well")
    parser.add_argument("--one-machine", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    run = kills if options.kills else soak
    if options.inside:
        return run(options)
    print(f"soak: seed {options.seed}", flush=True)
    if options.kills and not options.hosts:
        return kills(options)
    vcluster = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/cluster/vcluster")
    if not options.one_machine and subprocess.run([vcluster, "--check"], check=False, stdout=subprocess.DEVNULL,
                                                  stderr=subprocess.DEVNULL).returncode == 0:
        return subprocess.run([vcluster, "--hosts", "4", "--rails", "2", "--rate", "1gbit", "--", sys.executable, "-B",
                               os.path.abspath(__file__), "--build", options.build, "--minutes", str(options.minutes),
                               "--seed", str(options.seed), "--kills", str(options.kills), "--first", str(options.first),
                               "--inside"], check=False).returncode
    print("soak: no virtual hosts here: no faults between hosts", flush=True)
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
