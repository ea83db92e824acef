#!/usr/bin/python3
"""A host that is cut off while its ranks are in MPI_Init: they end, and say why.

  cut_off_test.py BUILD_FOLDER

Its ranks begin when it is cut off already, so that their daemon has something to send that nobody acknowledges: Open
MPI's own way out is then the kernel's, a quarter of an hour later. What they say goes to files, since mpirun does not
hear them any more.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
HANGS = 300  # seconds, on a machine that may stand still for a while
RANK = """
if [ $RANK -ge 2 ]; then
  touch there.$RANK
  until [ -e cut ]; do sleep 0.05; done
fi
exec {build}/tests/bin/stalls late 0 2> said.$RANK
"""
JOB = """
{build}/bin/ddlrun -s -np 4 -H h0:2,h1:2 -wdir {folder} sh rank.sh &
for _ in $(seq 600); do [ -e {folder}/there.2 ] && [ -e {folder}/there.3 ] && break; sleep 0.1; done
vcluster-agent h1 'ip link set r0 down; ip link set r1 down'
touch {folder}/cut
wait
for _ in $(seq 600); do
  pgrep -x stalls > /dev/null || exec echo all have ended
  sleep 0.1
done
"""


class CutOffTest(unittest.TestCase):
    def test_ranks_in_init_end_and_say_why(self):
        with tempfile.TemporaryDirectory(prefix="cut-off-") as folder:
            with open(f"{folder}/rank.sh", "w") as file:
                file.write(RANK.format(build=BUILD))
            done = subprocess.run([f"{HERE}/vcluster", "--hosts", "2", "--rails", "2", "--", "sh", "-c",
                                   JOB.format(build=BUILD, folder=folder)], check=False, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=HANGS)
            said = "".join(pathlib.Path(folder, f"said.{rank}").read_text() for rank in (2, 3))
        self.assertIn("all have ended", done.stdout)
        self.assertRegex(said, r"\[rank 2 on h1\] h1 is cut off: 10\.77\.\d\.1 has not answered for 6 s, and MPI_Init cannot end")
        self.assertRegex(done.stdout, "on node h1")


if __name__ == "__main__":
    if subprocess.run([f"{HERE}/vcluster", "--check"], check=False).returncode == 77:
        sys.exit(77)
    BUILD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
