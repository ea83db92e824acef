#!/usr/bin/python3
"""Rails that are down, cut off, not there or lost meanwhile: named in one line, and the job goes on or ends.

  bad_rails_test.py BUILD_FOLDER MPIRUN

Two virtual hosts with the rails r0 and r1. Open MPI's own traffic stays on r0, so that only the engine meets what is
done to r1. That nothing hangs shows in that every run ends by itself; the time limit is for the case that it does.
"""
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
HANGS = 600  # seconds, on a machine that may stand still for a while
CUT_R1 = "vcluster-agent h1 ip neigh replace 10.77.1.1 lladdr 02:00:00:00:00:99 dev r1 nud permanent"  # no answers
UNPLUG_R1 = "nsenter -t 1 -n ip link set h1r1 nomaster"  # h0 does not even learn h1's Ethernet address
SLOWER_R1 = "vcluster-agent h1 tc qdisc replace dev r1 root tbf rate 100mbit burst 128kb latency 20ms"
SLOW_R1 = "vcluster-agent h1 tc qdisc replace dev r1 root tbf rate 1mbit burst 32kb latency 20ms"
# For four seconds, one after the other; Open MPI's own traffic has neither.
FLAP_R1_R2 = ("for r in r1 r2; do nsenter -t 1 -n ip link set h1$r down; done; "
              "(sleep 4; for r in r1 r2; do nsenter -t 1 -n ip link set h1$r up; done) >/dev/null 2>&1 &")
DOWN_R1 = "vcluster-agent h1 ip link set r1 down"
BOTH = "10.77.0.0/24, 10.77.1.0/24"


def run(setup, launcher, program, rails=2):
    """The exit code and what was said, of 2 + 2 ranks after a shell command that does harm."""
    job = f"{setup} || exit 70\n{launcher} -x DDL_VERBOSE=1 -np 4 -H h0:2,h1:2 {program}"
    env = {**os.environ, "OMPI_MCA_btl_tcp_if_include": "r0"}
    done = subprocess.run([f"{HERE}/vcluster", "--hosts", "2", "--rails", str(rails), "--", "sh", "-c", job], env=env, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=HANGS)
    return done.returncode, done.stdout


class BadRailsTest(unittest.TestCase):
    def goes_on(self, setup, options, warning, rails, launcher=None):
        """The job is right, over these rails (None: by the original library), with one warning or none."""
        code, said = run(setup, f"{launcher or DDLRUN} {options}", f"{BUILD}/tests/bin/lost_rail")
        self.assertEqual(code, 0, said)
        self.assertIn("check: 20 sums 0 wrong", said)
        warnings = re.findall(r"ddl: warning: (.*)", said)
        self.assertEqual(len(warnings), 1 if warning else 0, said)
        self.assertRegex("".join(warnings), warning or "^$")
        used = re.findall(r"engine on 4 of 4 ranks, 2 hosts, rails (.*?);", said)
        self.assertEqual(used, [rails] if rails else [], said)

    def survives(self, when, harm, sums=20, why=""):
        """A rail that is lost meanwhile is named, and the job goes on over the other one."""
        code, said = run("true", DDLRUN, f"{BUILD}/tests/bin/lost_rail {when} '{harm}' {sums}")
        self.assertEqual(code, 0, said)
        self.assertIn(f"check: {sums} sums 0 wrong", said)
        self.assertRegex(said, rf"ddl: warning: .*rail r1 is lost \(.*{why}.*\); what it carried goes over r0")

    def comes_back(self, when, harm, sums):
        """All rails are lost for a moment, and the job goes on when they are back."""
        code, said = run("true", f"{DDLRUN} -x DDL_RAILS=r1,r2", f"{BUILD}/tests/bin/lost_rail {when} '{harm}' {sums}", 3)
        self.assertEqual(code, 0, said)
        self.assertIn(f"check: {sums} sums 0 wrong", said)

    def ends(self, when, harm):
        """The job ends with an error that names a rank and a rail."""
        code, said = run("true", f"{DDLRUN} -x DDL_RAILS=r1", f"{BUILD}/tests/bin/lost_rail {when} '{harm}'")
        self.assertNotIn(code, (0, 99), said)
        self.assertRegex(said, r"ddl: error: \[rank [0-3] on h[01]\] rank [0-3] of the job is gone \(.* over r1")

    def ends_with_ucx(self, harm):
        """UCX knows no other rail, and would wait for a quarter of an hour."""
        code, said = run("true", f"{DDLRUN} -s -x DDL_WIRE=ucx", f"{BUILD}/tests/bin/lost_rail 5 '{harm}'")
        self.assertNotIn(code, (0, 99), said)
        self.assertRegex(said, r"ddl: error: \[rank \d on h\d\] rank \d of the job is gone \(h[01] has not answered at 10.77.1.[12] for 6 s")

    def test_all_is_well(self):
        self.goes_on("true", "", "", BOTH)

    def test_down_before_the_start(self):
        self.goes_on(DOWN_R1, "", r"rail r1 of h1 is not used \(down\)", "10.77.0.0/24")

    def test_unplugged_before_the_start(self):
        self.goes_on(UNPLUG_R1, "-s", r"rail r1 \(10.77.1.0/24\) does not reach h1 .*go over 10.77.0.0/24", "10.77.0.0/24")

    def test_silent_from_the_start(self):
        self.goes_on(CUT_R1, "-x DDL_TIMEOUT=2", r"rail r1 .* does not reach h1 \(no answer in 2 s\)", "10.77.0.0/24")

    def test_silent_from_the_start_with_ucx(self):
        self.goes_on(CUT_R1, "-x DDL_TIMEOUT=2 -x DDL_WIRE=ucx", r"rail r1 .* does not reach h1", "10.77.0.0/24")

    def test_silent_from_the_start_under_plain_mpirun(self):
        self.goes_on(CUT_R1, "-x DDL_TIMEOUT=2", r"rail r1 .* does not reach h1", "10.77.0.0/24",
                     f"{MPIRUN} -x LD_PRELOAD={BUILD}/lib/libddl_shim.so")

    def test_the_only_rail_is_silent(self):
        self.goes_on(CUT_R1, "-x DDL_TIMEOUT=2 -x DDL_RAILS=r1",
                     r"collectives use the original library: rail r1 .* does not reach h1", None)

    def test_the_only_name_does_not_exist(self):
        self.goes_on("true", "-x DDL_RAILS=nosuch0", r"original library: .*nosuch0: there is no such interface", None)

    def test_one_of_the_names_does_not_exist(self):
        self.goes_on("true", "-x DDL_RAILS=r1,nosuch0", r"rail nosuch0 of h0, h1 is not used", "10.77.1.0/24")

    def test_rails_in_networks_without_a_way_between_them(self):
        # h0 keeps r0, h1 keeps r1; r0 of h1 stays for Open MPI alone.
        code, said = run("vcluster-agent h0 ip link set r1 down", f"{DDLRUN} -x DDL_TIMEOUT=2",
                         f"sh -c 'case $(hostname) in h0) DDL_RAILS=r0;; *) DDL_RAILS=r1;; esac; export DDL_RAILS; "
                         f"exec {BUILD}/tests/bin/lost_rail'")
        self.assertEqual(code, 0, said)
        self.assertEqual(len(re.findall("ddl: warning: .*original library.* does not reach h1", said)), 1, said)
        self.assertEqual(len(re.findall("ddl: warning", said)), 1, said)

    def test_down_before_the_first_collective(self):
        self.survives(0, DOWN_R1)

    def test_down_between_two_collectives(self):
        self.survives(5, DOWN_R1)

    def test_all_down_for_a_moment(self):
        self.comes_back(100, FLAP_R1_R2, 400)

    def test_silent_between_two_collectives(self):
        self.survives(5, CUT_R1)

    def test_slow_between_two_collectives(self):
        self.survives(5, SLOW_R1)

    def test_a_tenth_as_fast_between_two_collectives(self):
        self.survives(800, SLOWER_R1, 1200, "another is three times as fast")

    def test_silent_between_two_collectives_with_ucx(self):
        self.ends_with_ucx(CUT_R1)

    def test_down_between_two_collectives_with_ucx(self):
        self.ends_with_ucx(DOWN_R1)

    def test_the_only_rail_is_silent_between_two_collectives(self):
        self.ends(5, CUT_R1)


if __name__ == "__main__":
    if subprocess.run([f"{HERE}/vcluster", "--check"], check=False).returncode == 77:
        sys.exit(77)
    BUILD, MPIRUN = sys.argv[1:3]
    DDLRUN = f"{BUILD}/bin/ddlrun"
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
