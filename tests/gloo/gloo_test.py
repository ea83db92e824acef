#!/usr/bin/python3
"""PyTorch's gloo with the shim before it: right, on the engine where it should be, and as without us elsewhere.

  gloo_test.py BUILD_FOLDER [TEST...]

Ends with 77 where there is no PyTorch; DDL_TEST_PYTHON names a python that has another than Debian's.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
HANGS = 300  # seconds, on a machine that may stand still for a while
PYTHON = os.environ.get("DDL_TEST_PYTHON", "/usr/bin/python3")


def free_port():
    return subprocess.run(f"{HERE}/../support/free_port", check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def environment(ranks, shim_folder, variables):
    env = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "OMP_NUM_THREADS": "1",
           **variables}
    if shim_folder:
        env["LD_PRELOAD"] = f"{shim_folder}/libddl_shim.so"
    return env


def run(ranks, cases, shim=True, folder=None, of_rank=None, program=None, **variables):
    """Exit codes and output of that many processes, as torchrun would start them; or of a C++ program."""
    env = environment(ranks, shim and (folder or f"{BUILD}/lib"), variables)
    with tempfile.TemporaryDirectory() as meeting:
        def command(rank):
            if program:
                return [f"{BUILD}/tests/bin/{program}", str(rank), str(ranks), meeting, *cases.split()]
            return [PYTHON, f"{HERE}/client.py", *cases.split()]

        jobs = [subprocess.Popen(command(rank), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env={**env, "RANK": str(rank), **((of_rank or {}).get(rank, {}))})
                for rank in range(ranks)]
        end = time.monotonic() + HANGS
        try:
            said = [job.communicate(timeout=max(end - time.monotonic(), 0))[0] for job in jobs]
        except subprocess.TimeoutExpired:
            for job in jobs:
                job.kill()
            said = [f"rank {rank}, exit {job.wait()}: {job.communicate()[0]}" for rank, job in enumerate(jobs)]
            raise AssertionError(f"ranks hang: {cases}, {variables}\n" + "\n".join(said)) from None
    return [job.returncode for job in jobs], said


def run_forked(ranks, cases, **variables):
    """The same, of the ranks that one process forks: loading PyTorch takes it a second."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**environment(ranks, f"{BUILD}/lib", variables), "TEST_FORKS_IN": folder}
        job = subprocess.Popen([PYTHON, f"{HERE}/client.py", *cases.split()], env=env, start_new_session=True)
        try:
            job.wait(timeout=HANGS)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
        end = job.wait()
        said = []
        for rank in range(ranks):
            with open(f"{folder}/{rank}", encoding="utf-8") as file:
                said.append(file.read())
        if end != 0:
            raise AssertionError(f"exit {end}, {-signal.SIGKILL} where ranks hang: {cases}, {variables}\n" + "\n".join(said))
        with open(f"{folder}/codes", encoding="utf-8") as file:
            codes = json.load(file)
    return codes, said


def in_cpp(test):
    """Where gloo's headers are."""
    return lambda self: test(self) if os.path.exists(f"{BUILD}/tests/bin/gloo_program") else print("no headers of gloo here")


class GlooTest(unittest.TestCase):
    def right(self, ranks, cases, **how):
        needs_own = {"shim", "folder", "of_rank", "program"} & set(how)
        codes, said = (run if needs_own or ranks == 1 else run_forked)(ranks, cases, **how)
        self.assertEqual(codes, [0] * ranks, "\n".join(said))
        for rank, text in enumerate(said):
            self.assertIn(f": rank {rank} is right", text)
        return "\n".join(said)

    def right_on_engine(self, ranks, cases, collectives=("gloo::allreduce",), **how):
        """And the report shows it, at least 95 % of the bytes; what it says of the last of these. Without lines of a machine that
        stands still."""
        with tempfile.TemporaryDirectory() as folder:
            said = self.right(ranks, cases, DDL_REPORT=f"{folder}/report", DDL_STALL_WARN="0", **how)
            with open(f"{folder}/report", encoding="utf-8") as file:
                report = json.load(file)
        self.assertNotIn("ddl:", said)
        self.assertTrue(report["engine"], report)
        for name in collectives:
            counts = next(one for one in report["collectives"] if one["name"] == name)
            left = sum(one["bytes"] for one in self.but_measured(counts))
            self.assertGreater(counts["engine"]["calls"], 0, report)
            self.assertGreaterEqual(counts["engine"]["bytes"], 19 * left, report)
        return counts

    def but_measured(self, counts):
        """What was left to gloo for other reasons than to see which is faster; on a busy machine that may be gloo."""
        measured = [one for one in counts["original"] if one["reason"] == "measured against the engine"]
        self.assertLessEqual(sum(one["calls"] for one in measured), 40)  # a few of each size
        faster = [one for one in counts["original"] if one["reason"] == "faster than the engine, by measurement"]
        return [one for one in counts["original"] if one not in measured + faster]

    def left_to_gloo(self, ranks, cases, line, **how):
        """Right, with one line (None: without any)."""
        said = self.right(ranks, cases, **how)
        lines = re.findall(r"ddl: .*", said)
        self.assertEqual(len(lines), 1 if line else 0, said)
        self.assertRegex("".join(lines), line or "^$")

    def raises(self, ranks, case, words, **how):
        codes, said = run(ranks, case, **how)
        self.assertEqual(codes[:-1], [0] * (ranks - 1), "\n".join(said))
        for text in said[:-1]:
            self.assertRegex(text, words)

    # ---- right ----

    def test_numbers(self):
        for ranks in (2, 3):
            counts = self.right_on_engine(ranks, "numbers")
            self.assertEqual(self.but_measured(counts), [])

    def test_numbers_on_pretended_hosts(self):
        self.right_on_engine(4, "numbers", DDL_FAKE_HOSTS="1,2,1")

    def test_largest_chunks(self):
        for ranks, hosts in ((2, "1,1"), (3, "2,1")):
            self.right_on_engine(ranks, "largest_chunks", DDL_FAKE_HOSTS=hosts, DDL_SPARSE="0.2", DDL_SPARSE_WARM_UP="0")

    def test_what_else_there_is(self):
        self.right_on_engine(3, "shapes coalesced several_tensors others sparse")

    OTHERS = ("gloo::broadcast", "gloo::reduce", "gloo::allgather")

    def test_other_calls(self):
        for ranks in (2, 3):
            self.assertEqual(self.but_measured(self.right_on_engine(ranks, "other_calls", self.OTHERS)), [])
        self.right_on_engine(4, "other_calls", self.OTHERS, DDL_FAKE_HOSTS="1,2,1")

    def test_barriers(self):
        self.assertEqual(self.but_measured(self.right_on_engine(3, "barriers", ("gloo::barrier",))), [])

    def test_mixed_calls(self):
        self.right_on_engine(3, "mixed", (*self.OTHERS, "gloo::barrier", "gloo::allreduce"))

    def test_other_calls_switched_off(self):
        self.left_to_gloo(3, "other_calls barriers mixed", None, of_rank={1: {"DDL_ENABLE": "0"}})

    def test_many_outstanding(self):
        self.right_on_engine(3, "outstanding")
        self.right_on_engine(3, "outstanding", DDL_FAKE_HOSTS="2,1")

    def test_many_calls(self):
        self.right_on_engine(2, "many_calls")

    def test_groups(self):
        self.right_on_engine(4, "groups")
        self.right_on_engine(3, "again")

    def test_one_rank(self):
        self.left_to_gloo(1, "few shapes", None)

    def test_forks(self):
        self.right_on_engine(2, "beside_forks")

    def test_training(self):
        """The same weights as without us, since sums of two are the same in any order."""
        weights = [re.search("weights (.*)", self.right(2, "trained", shim=shim)).group(1) for shim in (False, True)]
        self.assertEqual(weights[0], weights[1])
        self.right_on_engine(3, "trained")

    def compared(self, network, steps, *settings):
        """What examples/09_wire_types says, too short to tell anything of accuracy: shares of the bytes, of exact first."""
        words = ["--seeds", "1", "--networks", network, "--steps", str(steps), "--settings", *settings]
        done = subprocess.run([f"{HERE}/../../examples/09_wire_types/compare.py", "--ddlrun", f"{BUILD}/bin/ddlrun", *words],
                              check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANGS)
        self.assertIn(done.returncode, (0, 1), done.stdout)
        self.assertEqual(len(re.findall(r"weights on all ranks( +the same)+$", done.stdout, re.M)), 1, done.stdout)
        shares = [[float(one) for one in row.split()] for row in re.findall(r"of exact((?: +[0-9.]+)+)$", done.stdout, re.M)]
        self.assertEqual(len(shares), 1, done.stdout)
        return shares[0]

    def test_wire_types(self):
        for network, steps, more in (("mlp", 160, ["a tenth"]), ("convolutional", 12, [])):
            exact, bfloat16, int8, *sparse = self.compared(network, steps, "bfloat16", "int8", *more)
            # What sets up and compares the models stays exact.
            self.assertTrue(exact == 1 and 0.5 <= bfloat16 < 0.6 and 0.26 < int8 < 0.4)
            for share in sparse:
                self.assertLess(share, 0.8)  # 32 calls until the pattern is known, 50 whole, 50 with ever less

    def by_ddlrun(self, case):
        """The output and the report of two ranks."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([f"{BUILD}/bin/ddlrun", "--report", f"{folder}/report", "-np", "2", PYTHON, f"{HERE}/client.py", case],
                                  check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANGS)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(f"{folder}/report", encoding="utf-8") as file:
                return done.stdout, json.load(file)

    def test_started_by_ddlrun(self):
        output, report = self.by_ddlrun("trained")
        self.assertEqual(len(re.findall("is right", output)), 2)
        self.assertTrue(report["engine"])
        for counts in report["collectives"]:  # all-reduces and what else DistributedDataParallel makes
            self.assertGreater(counts["engine"]["bytes"], 0)
            self.assertEqual(self.but_measured(counts), [])

    def test_ends_before_its_last_report(self):
        for case, code, end in (("leaves_at_once", 0, "rank 0 ended without its last report"),
                                ("killed", 137, r"the job died \(signal 9\)")):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([f"{BUILD}/bin/ddlrun", "--report", f"{folder}/report", "-np", "2", PYTHON, f"{HERE}/client.py",
                                       case], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANGS)
                self.assertEqual(done.returncode, code, done.stdout)
                self.assertRegex(done.stdout, "ddlrun: engine: [1-9][0-9]* of [1-9][0-9]* gloo::allreduce calls of rank 0, "
                                              f".*; {end}, up to 2 s before that")
                with open(f"{folder}/report", encoding="utf-8") as file:
                    self.assertFalse(json.load(file)["complete"])

    def test_beside_mpi(self):
        """One report of both, and one line."""
        output, report = self.by_ddlrun("beside_mpi")
        self.assertRegex(output, "ddlrun: engine: [0-9]+ of 60 (MPI_Iallreduce|gloo::allreduce) calls per rank")
        for name in ("MPI_Iallreduce", "gloo::allreduce"):
            counts = next(one for one in report["collectives"] if one["name"] == name)
            self.assertGreater(counts["engine"]["calls"], 0)
            self.assertIsInstance(counts["ranks"], int)

    def test_the_faster_library_wins(self):
        """The engine has a slow rail, gloo a fast one: after some trials calls are gloo's."""
        where = ["--hosts", "2", "--rails", "2", "--rate", "20mbit,none"]
        vcluster = f"{HERE}/../cluster/vcluster"
        if subprocess.run([vcluster, *where, "--", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no virtual hosts here")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [vcluster, *where, "--", "env", "GLOO_SOCKET_IFNAME=r1", "DDL_RAILS=r0", f"{BUILD}/bin/ddlrun", "-s", "-x",
                 "GLOO_SOCKET_IFNAME", "-x", "DDL_RAILS", "--report", f"{folder}/report", "-np", "2", "-H", "h0:1,h1:1", PYTHON,
                 f"{HERE}/client.py", "long_loop"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=HANGS)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(f"{folder}/report", encoding="utf-8") as file:
                report = json.load(file)
        counts = next(one for one in report["collectives"] if one["name"] == "gloo::allreduce")
        calls = {one["reason"]: one["calls"] for one in counts["original"]}
        self.assertGreater(calls.get("faster than the engine, by measurement", 0), 0, report)
        self.assertLessEqual(calls["measured against the engine"], 5)
        self.assertEqual(counts["engine"]["calls"] + sum(calls.values()), 600)

    def test_started_by_torchrun(self):
        done = subprocess.run([PYTHON, f"{HERE}/torchrun.py", "--nproc_per_node", "2", "--master_port",
                               free_port(), f"{HERE}/client.py", "trained"], check=False, text=True,
                              env={**os.environ, "LD_PRELOAD": f"{BUILD}/lib/libddl_shim.so", "DDL_VERBOSE": "1"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANGS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("engine on 2 of 2 ranks", done.stdout)

    def test_example(self):
        """examples/05_pytorch_ddp with and without the engine: the same accuracy and weights."""
        train = f"{HERE}/../../examples/05_pytorch_ddp/train.py"
        said = {}
        with tempfile.TemporaryDirectory() as folder:
            for how, options in (("plain", ["-x", "DDL_ENABLE=0"]), ("engine", ["--report", f"{folder}/report"])):
                done = subprocess.run([f"{BUILD}/bin/ddlrun", *options, "-np", "2", PYTHON, train, "25"], check=False, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANGS)
                self.assertEqual(done.returncode, 0, done.stdout)
                said[how] = re.findall(r"accuracy (\S+) %|weights (.*)", done.stdout)
                self.assertGreater(float(said[how][0][0]), 60, done.stdout)
                self.assertIn("the same on all ranks", said[how][1][1])
            with open(f"{folder}/report", encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(said["plain"], said["engine"])
        counts = next(one for one in report["collectives"] if one["name"] == "gloo::allreduce")
        self.assertGreater(counts["engine"]["bytes"], 25 * 8_000_000)
        self.assertEqual(self.but_measured(counts), [])

    @in_cpp
    def test_own_reductions(self):
        for ranks in (2, 3):
            counts = self.right_on_engine(ranks, "own", ("gloo::reduce", "gloo::allreduce"), program="gloo_program")
            self.assertEqual(self.but_measured(counts), [])
        self.right_on_engine(4, "own", program="gloo_program", DDL_FAKE_HOSTS="1,2,1")
        self.right_on_engine(3, "threads", program="gloo_program")

    @in_cpp
    def test_own_reductions_that_throw(self):
        codes, said = run(3, "throws", program="gloo_program")
        self.assertEqual(codes, [0] * 3, said)
        for text in said:
            self.assertRegex(text, "raised: ddl: .*(no more|is gone)")

    # ---- as without us ----

    @in_cpp
    def test_own_reductions_that_cannot_be(self):
        self.left_to_gloo(3, "odd", None, program="gloo_program")

    def test_switched_off(self):
        self.left_to_gloo(2, "few", None, DDL_ENABLE="0")
        self.left_to_gloo(2, "few", None, of_rank={1: {"DDL_ENABLE": "0"}})

    def test_an_unknown_variable(self):
        self.left_to_gloo(2, "few", "unknown variable DDL_SPARSY", DDL_ENABLE="0", DDL_SPARSY="1")

    def test_many_groups(self):
        """Where a process may open few files, or map little memory, the first are the engine's."""
        for limits, line in (("RLIMIT_NOFILE:150", "a quarter of the files that this process may have open"),
                             ("RLIMIT_AS:4000000000", "at most a sixth of that is taken")):
            self.left_to_gloo(2, "many_groups", line, LIMITS=limits)
        self.right_on_engine(2, "many_groups", LIMITS="RLIMIT_NOFILE:1000")

    def test_foreign_layout(self):
        """A double of gloo whose options look different: it gets every call, and one line says so."""
        plain = subprocess.run(f"{BUILD}/tests/bin/gloo_foreign_program", check=True, stdout=subprocess.PIPE, text=True)
        self.assertIn("is right", plain.stdout)
        done = subprocess.run(f"{BUILD}/tests/bin/gloo_foreign_program", check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env={**os.environ, "LD_PRELOAD": f"{BUILD}/lib/libddl_shim.so"})
        self.assertEqual(done.stdout, plain.stdout)
        self.assertEqual(len(re.findall("ddl: ", done.stderr)), 1, done.stderr)
        self.assertIn("calls of gloo's are left to gloo: one is none that we know", done.stderr)

    def test_a_library_is_absent(self):
        for absent in ("libddl.so", "libddl_gloo.so"):
            with tempfile.TemporaryDirectory() as folder:
                for name in ("libddl_shim.so", "libddl.so", "libddl_gloo.so"):
                    if name != absent:
                        shutil.copy(f"{BUILD}/lib/{name}", folder)
                self.left_to_gloo(2, "few", f"{absent}: cannot open shared object file", folder=folder)

    def test_a_library_is_broken(self):
        """No library, one that is cut short (which dlopen() would die of), and another one."""
        def cut(name):
            with open(f"{BUILD}/lib/{name}", "rb") as file:
                return file.read(100_000)  # debug information at the end would not be missed

        for broken, content, line in (("libddl.so", b"none", "libddl.so: (file too short|invalid ELF header)"),
                                      ("libddl.so", cut("libddl.so"), "libddl.so: the file is cut short"),
                                      ("libddl_gloo.so", cut("libddl_gloo.so"), "libddl_gloo.so: the file is cut short"),
                                      ("libddl.so", None, "libddl.so is of another version")):
            with tempfile.TemporaryDirectory() as folder:
                for name in ("libddl_shim.so", "libddl.so", "libddl_gloo.so"):
                    shutil.copy(f"{BUILD}/lib/{name}", folder)
                if content is None:
                    shutil.copy(f"{BUILD}/lib/libddl_shim.so", f"{folder}/{broken}")
                else:
                    with open(f"{folder}/{broken}", "wb") as file:
                        file.write(content)
                self.left_to_gloo(2, "few", line, folder=folder)

    def test_a_library_is_absent_on_one_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("libddl_shim.so", "libddl_gloo.so"):
                shutil.copy(f"{BUILD}/lib/{name}", folder)
            self.left_to_gloo(2, "few", "libddl.so: cannot open shared object file",
                              of_rank={1: {"LD_PRELOAD": f"{folder}/libddl_shim.so"}})

    # ---- faults ----

    def test_a_rank_is_killed(self):
        for ranks in (2, 3):
            self.raises(ranks, "dead_peer", "raised: ddl: .*rank [0-9] (of the job )?is gone")
        self.raises(2, "dead_peer", "raised: ddl: .*gone", DDL_FAKE_HOSTS="1,1")

    def test_a_rank_is_killed_before_other_calls(self):
        for case in ("dead_before_a_barrier", "dead_before_a_broadcast"):
            self.raises(3, case, "raised: ddl: .*rank [0-9] (of the job )?is gone")

    def test_a_rank_is_killed_before_they_meet(self):
        """What gloo throws then passes through."""
        self.raises(2, "never_met", "ddl: warning: .*gloo failed before all ranks had come(.|\n)*raised: .*(closed|reset) by peer")

    def test_a_rank_is_late_for_the_first(self):
        for ranks in (2, 3):
            counts = self.right_on_engine(ranks, "late_for_the_first", DDL_TIMEOUT="2")
            early = [one["calls"] for one in self.but_measured(counts)]
            self.assertTrue(len(early) == 1 and 1 <= early[0] <= 3, counts)

    def test_a_rank_raises(self):
        self.raises(2, "raises", "raised: ddl: .*rank 1 (of the job )?is gone")

    def test_a_rank_is_late(self):
        self.raises(2, "late_peer", "raised: ddl: .*3 s")

    def test_a_reader_is_late(self):
        codes, said = run(2, "late_reader")
        self.assertEqual(codes, [0, 0], "\n".join(said))
        self.assertRegex(said[0], "raised: ddl: .*3 s")

    def test_a_rank_has_no_shim(self):
        """It does not come to where the others meet: after a while all calls are gloo's."""
        for other in (0, 2):
            self.left_to_gloo(3, "without_shim", rf"rank {other} \(process [0-9]+\) runs without libddl_shim.so",
                              of_rank={other: {"LD_PRELOAD": ""}})

    def test_a_host_has_no_shim(self):
        """Its ranks cannot be seen from the other one."""
        vcluster = [f"{HERE}/../cluster/vcluster", "--hosts", "2", "--rails", "1", "--rate", "none", "--"]
        if subprocess.run([*vcluster, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no virtual hosts here")
        variables, port = ["WORLD_SIZE=3", "MASTER_ADDR=h0", "GLOO_SOCKET_IFNAME=r0", "OMP_NUM_THREADS=1"], free_port()
        for without in ("h0", "h1"):
            command = [*vcluster, "mpirun"]
            for rank, host in enumerate(("h0", "h0", "h1")):
                preload = "" if host == without else f"{BUILD}/lib/libddl_shim.so"
                its_port = port if host == "h0" else f"0{port}"  # virtual hosts see each other's processes: as of another job
                command += ["-np", "1", "-H", f"{host}:2", "env", *variables, f"MASTER_PORT={its_port}", f"RANK={rank}",
                            f"LD_PRELOAD={preload}", PYTHON, f"{HERE}/client.py", "without_shim", ":"]
            done = subprocess.run(command[:-1], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=HANGS)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(len(re.findall("is right", done.stdout)), 3, done.stdout)
            lines = re.findall("ddl: .*", done.stdout)
            self.assertEqual(len(lines), 1, done.stdout)
            self.assertIn("ranks on other hosts seem to run without libddl_shim.so", lines[0])

    def test_one_group_fails(self):
        self.assertEqual(run(3, "one_group_fails")[0], [0, 0, 0])


if __name__ == "__main__":
    # Without loading it, which takes a second each time.
    if subprocess.run([PYTHON, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"], check=False).returncode:
        print("no PyTorch here")
        sys.exit(77)
    BUILD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
