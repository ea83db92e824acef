#!/usr/bin/python3
"""vcluster itself: exit codes, isolation, two at once, and nothing left behind after SIGKILL."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
VCLUSTER = f"{HERE}/vcluster"


def vcluster(*arguments):
    return subprocess.run([VCLUSTER, *arguments], capture_output=True, text=True, timeout=60, check=False)


def processes_with(text):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                if text.encode() in line.read().replace(b"\0", b" "):
                    found.append(pid)
        except OSError:
            pass  # gone meanwhile
    return found


class VclusterTest(unittest.TestCase):
    def test_returns_the_exit_code_of_the_command(self):
        self.assertEqual(vcluster("--", "sh", "-c", "exit 5").returncode, 5)
        self.assertEqual(vcluster("--", "sh", "-c", "kill -9 $$").returncode, 137)
        self.assertEqual(vcluster("--", "no-such-program").returncode, 127)

    def test_bad_usage_is_one_line_and_exit_code_2(self):
        for arguments in (["--hosts", "0", "--", "true"], ["--rate", "fast", "--", "true"], ["--bogus", "--", "true"],
                          ["--rails", "1", "--rate", "1gbit,1gbit", "--", "true"], []):
            done = vcluster(*arguments)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)

    def test_each_host_has_its_own_name_rails_and_shared_memory(self):
        done = vcluster("--hosts", "3", "--rails", "2", "--rate", "none", "--", "sh", "-c",
                        "hostname; touch /dev/shm/mine; for h in h1 h2; do vcluster-agent $h "
                        "'hostname; ls /dev/shm; ls /sys/class/net'; done")
        self.assertEqual(done.stdout.split(), ["h0", "h1", "lo", "r0", "r1", "h2", "lo", "r0", "r1"], done.stderr)

    def test_counts_the_bytes_of_each_rail(self):
        server = ("import socket; s = socket.create_server(('10.77.1.2', 7000)); print(flush=True); c, _ = s.accept()\n"
                  "while c.recv(65536): pass")
        client = ("import socket, time\nfor _ in range(100):\n  try: c = socket.create_connection(('h1-r1', 7000)); "
                  "break\n  except OSError: time.sleep(0.05)\nc.sendall(bytes(10**6)); c.close()")
        done = vcluster("--hosts", "2", "--rails", "2", "--", "sh", "-c",
                        f"vcluster-agent h1 \"python3 -c \\\"{server}\\\"\" & python3 -c \"{client}\"; wait; nic_bytes")
        counted = json.loads(done.stdout.splitlines()[-1])
        self.assertTrue(1e6 < counted["h0"]["r1"]["tx"] < 1.05e6, counted)
        self.assertTrue(1e6 < counted["h1"]["r1"]["rx"] < 1.05e6, counted)
        self.assertLess(counted["h0"]["r0"]["tx"], 1000)

    def test_two_run_at_once(self):
        both = [subprocess.Popen([VCLUSTER, "--hosts", "2", "--", "sh", "-c", "sleep 1; vcluster-agent h1 hostname"],
                                 stdout=subprocess.PIPE, text=True) for _ in range(2)]
        self.assertEqual([one.communicate(timeout=60)[0] for one in both], ["h1\n", "h1\n"])

    def test_nothing_is_left_after_sigkill(self):
        mark = f"30{os.getpid()}"  # a duration that no other process sleeps for
        running = subprocess.Popen([VCLUSTER, "--hosts", "2", "--", "sh", "-c",
                                    f"vcluster-agent h1 'sleep {mark}' & sleep {mark}"])
        deadline = time.monotonic() + 20
        while len(processes_with(f"sleep {mark}")) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertTrue(processes_with(f"sleep {mark}"))
        running.send_signal(signal.SIGKILL)
        running.wait()
        deadline = time.monotonic() + 60  # a namespace may take seconds to end where others want the processors
        while processes_with(f"sleep {mark}") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(processes_with(f"sleep {mark}"), [])

    def test_what_the_command_leaves_behind_is_found(self):
        done = vcluster("--no-leftovers", "--", "sh", "-c", "sleep 60 & touch /dev/shm/forgotten")
        self.assertEqual(done.returncode, 78)
        self.assertIn("forgotten", done.stderr)

    def test_sigterm_reaches_the_command(self):
        running = subprocess.Popen([VCLUSTER, "--", "sh", "-c", "trap 'exit 9' TERM; echo; sleep 30 & wait"],
                                   stdout=subprocess.PIPE)
        running.stdout.readline()
        running.terminate()
        self.assertEqual(running.wait(timeout=20), 9)
        running.stdout.close()

    def test_a_signal_that_comes_before_the_command_is_kept(self):
        running = subprocess.Popen([VCLUSTER, "-v", "--", "sleep", "30"], stderr=subprocess.PIPE)
        running.stderr.readline()  # the hosts are ready; the command starts now
        running.terminate()
        self.assertEqual(running.wait(timeout=20), 128 + signal.SIGTERM)
        running.stderr.close()

    def test_the_hosts_outlive_a_signal_to_the_process_group_of_the_command(self):
        running = subprocess.Popen([VCLUSTER, "--no-leftovers", "--", "python3", "-c", "import os, signal, time\n"
                                    "signal.signal(signal.SIGTERM, lambda *_: os._exit(9))\n"
                                    "print(flush=True)\ntime.sleep(60)"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        running.stdout.readline()
        os.killpg(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(timeout=20), 9, running.stderr.read())
        running.stdout.close()
        running.stderr.close()

    def test_a_host_that_was_killed_is_named(self):
        kill = "h1=$(sed 's/.*\"h1\": \\([0-9]*\\).*/\\1/' $VCLUSTER_DIR/cluster.json); kill -9 $h1; "
        done = vcluster("--no-leftovers", "--", "sh", "-c", kill + "while kill -0 $h1 2>/dev/null; do sleep 0.1; done")
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn("host h1", done.stderr)


if __name__ == "__main__":
    check = subprocess.run([VCLUSTER, "--check"], check=False)
    if check.returncode == 77:
        sys.exit(77)
    unittest.main(verbosity=2)
