#!/usr/bin/python3
"""Ranks that do not come are named after DDL_STALL_WARN seconds, with what they do; those that come are not.

  stalls_test.py MPIRUN SHIM PROGRAM
"""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import threading
import unittest
import uuid

HANGS = 300  # seconds, on a machine that may stand still for a while
LAST = r"outside the collectives; the last, MPI_Allreduce #1 on another communicator, ended \d+ s ago"


def ranks_of(mark):
    """The ranks of the job of that mark: their processes, and whether these are stopped."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/stat") as stat:
                variables = environ.read()
                if b"STALLS_TEST=" + mark.encode() in variables and b"OMPI_COMM_WORLD_RANK=" in variables:
                    yield int(pid), stat.read().rsplit(")", 1)[1].split()[0] == "T"
        except OSError:
            pass  # it has just ended


def wake_stopped(mark):
    for pid, is_stopped in ranks_of(mark):
        if is_stopped:
            os.kill(pid, signal.SIGCONT)


def let_come(mark):
    """Who is late comes, and who never meets the others ends."""
    for pid, _ in ranks_of(mark):
        try:
            os.kill(pid, signal.SIGUSR1)
        except ProcessLookupError:
            pass


class StallsTest(unittest.TestCase):
    def job(self, case, awaited, ranks=3, hosts=None, late=1, seconds=60, **variables):
        """Runs it; who is stopped goes on when a line has said so, who is late a while after all awaited ones, in which
        others may be said wrongly. The exit code, the lines of the engine, and all."""
        mark = uuid.uuid4().hex
        options = ["-x", f"LD_PRELOAD={SHIM}", "-x", "DDL_STALL_WARN=1", "-x", f"STALLS_TEST={mark}"]
        for name, value in variables.items():
            options += ["-x", f"{name}={value}"]
        if hosts:
            options += ["-x", f"DDL_FAKE_HOSTS={hosts}"]
        command = [MPIRUN, "--oversubscribe", "-np", str(ranks), *options, PROGRAM, case, str(seconds), str(late)]
        lines, awaited, later = [], list(awaited), threading.Timer(1.3, let_come, [mark])
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "STALLS_TEST": mark}) as running:
            try:
                for line in running.stdout:
                    lines.append(line.rstrip())
                    if "waiting for" in line:
                        wake_stopped(mark)
                    if awaited:
                        awaited = [one for one in awaited if not re.fullmatch(one, lines[-1])]
                        if not awaited:
                            later.start()
                code = running.wait(HANGS)
            finally:
                later.cancel()
                if running.poll() is None:
                    running.kill()
        said = [line for line in lines if line.startswith("ddl:") and "in MPI_Init, to which perhaps" not in line]
        self.assertFalse([line for line in lines if "wrong" in line], lines)
        return code, said, lines

    def says(self, case, *patterns, code=0, **how):
        """Each of these is said, and nothing else of the same calls; on a slow machine others may take long, too."""
        call_of = re.compile(r"in (MPI_\w+(?: #\d+)?)")
        calls = {call_of.match("in " + one).group(1) for one in patterns}
        whole = [r"ddl: warning: \[rank \d on [^]]*\] waiting for [\d.]+ s in " + one for one in patterns]
        layouts = how.pop("layouts", (None, "1,1,1", "2,1"))
        with concurrent.futures.ThreadPoolExecutor(len(layouts)) as pool:  # they sleep most of their time
            jobs = {hosts: pool.submit(self.job, case, whole, hosts=hosts, **how) for hosts in layouts}
        for hosts, job in jobs.items():
            with self.subTest(case=case, hosts=hosts):
                ended, said, lines = job.result()
                (self.assertEqual if code == 0 else self.assertNotEqual)(ended, 0, lines)
                for pattern in whole:
                    self.assertTrue([line for line in said if re.fullmatch(pattern, line)], (pattern, lines))
                for line in said:
                    if (call := call_of.search(line)) and call.group(1) not in calls:
                        continue
                    self.assertTrue([one for one in whole if re.fullmatch(one, line)], (line, said))

    def test_a_rank_that_computes(self):
        self.says("late", rf"MPI_Allreduce #7 \(all-reduce of 1 int32, sum; 3 ranks\): rank 1 is {LAST}")

    def test_a_rank_that_computes_while_others_wait_for_requests(self):
        self.says("late_wait", rf"MPI_Iallreduce #7 \(all-reduce of 1 int32, sum; 3 ranks\): rank 1 is {LAST}")

    def test_a_rank_that_computes_while_others_wait_for_fused_calls(self):
        late = rf"#7 \(all-reduce of 1 int32, sum; 3 ranks\): rank 1 is {LAST}"
        self.says("late_wait", f"MPI_Iallreduce {late}", layouts=(None, "2,1"), DDL_LAZY_BYTES="1m")

    def test_a_rank_that_computes_while_others_are_in_a_call_that_is_made_of_others(self):
        last = r"outside the collectives; the last, {} #\d+ on the same communicator, ended \d+ s ago"
        self.says("late_exchange", rf"MPI_Alltoallv #10 \(.*; 3 ranks\): rank 1 is {last.format('MPI_Alltoallv')}")
        self.says("late_reduce_scatter",
                  rf"MPI_Reduce_scatter_block #10 \(.*; 3 ranks\): rank 1 is {last.format('MPI_Reduce_scatter_block')}")

    def test_a_rank_that_does_not_come_to_the_end(self):
        self.says("late_finalize", rf"MPI_Finalize: rank 1 is outside the collectives; the last, MPI_Allreduce #1, ended \d+ s ago")

    def test_a_rank_in_finalize(self):
        self.says("finalize", r"MPI_Allreduce #7 \(all-reduce of 1 int32, sum; 3 ranks\): rank 1 is in MPI_Finalize",
                  r"MPI_Finalize: ranks 0, 2 are in MPI_Allreduce #7", code=1)

    def test_another_order_of_communicators(self):
        self.says("order", r"MPI_Allreduce #7 \(.*\): rank 1 is in MPI_Allreduce #2 on another communicator",
                  r"MPI_Allreduce #2 \(.*\): ranks 0, 2 are in MPI_Allreduce #7 on another communicator", code=1)

    def test_a_rank_in_another_collective_of_the_original_library(self):
        self.says("original", r"MPI_Bcast #7 \(.*\): rank 1 is in MPI_Allreduce #7 on the same communicator",
                  r"MPI_Allreduce #7 of the original library: ranks 0, 2 are in MPI_Bcast #7 on the same communicator", code=1)

    def test_a_rank_that_contradicts_itself(self):
        there = "on the same communicator"
        self.says("contradiction", rf"MPI_Allgather #7 \(.*\): rank 1 is in MPI_Allgather #7 {there}, in the original library",
                  rf"MPI_Allgather #7 of the original library: ranks 0, 2 are in MPI_Allgather #7 {there}, on the engine", code=1)

    def test_a_rank_in_another_collective(self):
        """It only receives, and nobody sends to it: the others must be shown what it is in."""
        calls = [re.escape("MPI_Allreduce (all-reduce of 1 int32, sum)"), re.escape("MPI_Scatter (scatter of 4 uint8 from rank 0)")]
        for hosts in (None, "1,1,1", "2,1"):
            with self.subTest(hosts=hosts):
                code, said, _ = self.job("kinds", [], hosts=hosts)
                self.assertNotEqual(code, 0)
                for rank in range(3):  # it has found that itself, or quotes who has
                    differ = rf"ddl: error: \[rank {rank} on .* do not make the same call number \d+: here it is "
                    lines = [differ + rf"{here}, there {there}.*" for here, there in (calls, reversed(calls))]
                    self.assertTrue([one for one in said for line in lines if re.fullmatch(line, one)], (lines, said))

    def test_a_root_whose_block_has_two_lengths(self):
        line = r"ddl: error: \[rank 1 on .* MPI_Gather: the root's own block is not as long where it is sent as where it is received .*"
        code, said, _ = self.job("own_length", [])
        self.assertNotEqual(code, 0)
        self.assertTrue([one for one in said if re.fullmatch(line, one)], said)

    def test_a_rank_that_sends_less_than_is_expected(self):
        line = r"ddl: error: \[rank 1 on .* has 0 bytes for rank 0 and awaits 8 of it in call number \d+, MPI_Gatherv .*; that rank counts otherwise: .*"
        code, said, _ = self.job("other_length", [])
        self.assertNotEqual(code, 0)
        self.assertTrue([one for one in said if re.fullmatch(line, one)], said)

    def test_ranks_that_have_no_part_in_what_differs(self):
        """They hear of it from the one that has found it."""
        what = r"do not make the same call number \d+: here it is MPI_Bcast \(broadcast of [48] uint8 from rank 0\), there MPI_Bcast"
        for hosts in (None, "2,2", "1,2,1"):
            with self.subTest(hosts=hosts):
                code, said, _ = self.job("longer_here", [], ranks=4, hosts=hosts)
                self.assertNotEqual(code, 0)
                for rank in range(4):
                    line = rf"ddl: error: \[rank {rank} on .* {what}.*"
                    self.assertTrue([one for one in said if re.fullmatch(line, one)], (line, said))

    def test_all_in_the_original_library(self):
        self.says("originals", r"MPI_Allreduce #7 of the original library: rank 1 is in MPI_Allreduce #2 on another communicator",
                  r"MPI_Allreduce #2 of the original library: ranks 0, 2 are in MPI_Allreduce #7 on another communicator", code=1)

    def test_a_rank_in_a_receive(self):
        self.says("receive", rf"MPI_Allreduce #7 \(.*\): rank 1 is {LAST}", code=1)

    def test_a_rank_that_is_stopped_goes_on(self):
        stopped = r"MPI_Allreduce #7 \(all-reduce of 1 int32, sum; 4 ranks\): rank 3 is stopped \(by a signal or a debugger\)"
        self.says("stop", stopped, ranks=4, late=3, layouts=(None, "2,2"))
        self.says("stop", r"MPI_Allreduce #7 \(.*\): rank 1 does not answer", layouts=("1,1,1",))

    def test_a_rank_that_computes_before_its_start(self):
        for late in (0, 1):
            self.says("late_init", rf"MPI_Init: rank {late} does not come", late=late, layouts=(None,))

    def test_a_rank_that_is_stopped_at_the_start_or_at_the_end(self):
        self.says("stop_init", r"MPI_Init: rank 1 is stopped \(by a signal or a debugger\)")
        self.says("stop_init", r"MPI_Init: rank 0 is stopped \(by a signal or a debugger\)", late=0)
        self.says("stop_finalize", r"MPI_Finalize: rank 0 is stopped \(by a signal or a debugger\)", late=0, layouts=(None, "2,1"))


if __name__ == "__main__":
    MPIRUN, SHIM, PROGRAM = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[4:]])
