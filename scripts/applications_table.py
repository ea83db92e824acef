"""Runs MPI programs with plain mpirun and with ddlrun and prints a table; see applications.sh.

A program is prepared once in a folder, and each run has a copy of that. Its answers are the numbers in the lines that a
pattern finds in one of its files; they are the same where all of them are, to within a tolerance.
"""
import argparse
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from bench_table import in_turn

HERE = pathlib.Path(__file__).resolve().parent
INPUTS = HERE / "applications"
SCALAPACK = "/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests"
LIMIT_S = 600  # of a run
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eEdD][-+]?\d+)?")
TIMES = re.compile(r"measured|by measurement")  # reasons of calls that the engine could have taken


@dataclass
class Program:
    title: str
    command: list
    needs: str               # a file or a program that is there where it is installed
    answers: str             # a pattern of lines
    file: str = "output"     # where they are
    last: bool = False       # the last such line alone
    tolerance: float = 1e-6  # relative
    inputs: list = field(default_factory=list)
    prepare: str = "true"    # shell commands


def simd():
    """The build of ExaML for this processor: /usr/bin/examl is a script that calls mpirun itself."""
    with open("/proc/cpuinfo") as info:
        flags = info.read().split()
    return next((f"/usr/lib/examl/bin/examl-{one}" for one in ("avx2", "avx") if one in flags),
                "/usr/lib/examl/bin/examl-sse3")


def programs(ranks):
    return {
        "lammps": Program("LAMMPS, liquid of 4000 atoms", ["lmp", "-in", "lammps.in"], "lmp", r"^ +\d+( +-?\d+\.\d+)+",
                          inputs=["lammps.in"]),
        "espresso": Program("Quantum ESPRESSO, silicon", ["pw.x", "-in", "silicon.in"], "pw.x", r"^!|Total force",
                            tolerance=1e-5, inputs=["silicon.in", "silicon_atom.in"],
                            prepare="ld1.x <silicon_atom.in"),
        "cp2k": Program("CP2K, dynamics of water", ["cp2k.psmp", "-i", "water.inp"], "cp2k.psmp", r"^ +\d+ +\d",
                        file="water.numbers", inputs=["water.inp"]),
        "nwchem": Program("NWChem, geometry of water", ["nwchem.openmpi", "water.nw"], "nwchem.openmpi", r"Total DFT energy", last=True,
                          inputs=["water.nw"]),
        "gromacs": Program("GROMACS, box of water", ["gmx_mpi", "mdrun", "-s", "water.tpr", "-reprod", "-ntomp", "1",
                                                     "-g", "water.log"], "gmx_mpi",
                           r"^ +-?\d\.\d+e[-+]\d+", file="water.log", tolerance=1e-4, inputs=["water.mdp", "water.top"],
                           prepare="gmx solvate -cs spc216.gro -box 3 3 3 -o water.gro -p water.top && "
                                   "gmx grompp -f water.mdp -c water.gro -p water.top -o water.tpr -maxwarn 3"),
        "examl": Program("ExaML, tree of 24 species", [simd(), "-t", "start.tree", "-m", "GAMMA", "-s", "species.binary",
                                                       "-n", "found"], simd(), r"Likelihood of best tree",
                         inputs=["species.py"],
                         prepare="python3 species.py && parse-examl -s alignment.phy -m DNA -n species"),
        "hpcc": Program("HPC Challenge", ["hpcc"], "hpcc", r"^Success=|_Errors=|_residual=|and passed residual",
                        file="hpccoutf.txt", inputs=["hpccinf.txt"],
                        prepare=f"sed -i s/ROWS/{max(1, ranks // 2)}/ hpccinf.txt"),
        "scalapack_lu": Program("ScaLAPACK's test of LU", [f"{SCALAPACK}/xdlu"], f"{SCALAPACK}/xdlu", r"tests completed",
                                prepare=f"cp {SCALAPACK}/LU.dat ."),
        "scalapack_qr": Program("ScaLAPACK's test of QR", [f"{SCALAPACK}/xdqr"], f"{SCALAPACK}/xdqr", r"tests completed",
                                prepare=f"cp {SCALAPACK}/QR.dat ."),
    }


def numbers(program, folder):
    """Of the answers of a run; None where it has none."""
    path = folder / program.file
    if not path.exists():
        return None
    lines = [line for line in path.read_text(errors="replace").splitlines() if re.search(program.answers, line)]
    found = [float(n.lower().replace("d", "e")) for line in lines[-1 if program.last else 0:] for n in NUMBER.findall(line)]
    return found or None


def are_same(program, one, other):
    if one is None or other is None or len(one) != len(other):
        return False
    return all(math.isclose(a, b, rel_tol=program.tolerance, abs_tol=program.tolerance) for a, b in zip(one, other))


def eligible(report):
    """Calls of the collectives that the report knows; how many the engine took or could have; why not."""
    calls, able, reasons = 0, 0, {}
    for one in report.get("collectives", []):
        taken = one.get("engine", {}).get("calls", 0)
        calls, able = calls + taken, able + taken
        for left in one.get("original", []):
            calls += left["calls"]
            if TIMES.search(left["reason"]):
                able += left["calls"]
            else:
                reasons[left["reason"]] = reasons.get(left["reason"], 0) + left["calls"]
    return calls, able, reasons


class Table:
    def __init__(self, options):
        self.options, self.failed = options, False
        self.ddlrun = os.path.abspath(f"{options.build}/bin/ddlrun")
        self.mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
        many = options.ranks > len(os.sched_getaffinity(0))
        self.words = "--oversubscribe --mca mpi_yield_when_idle 1 --bind-to none".split() if many else ["--bind-to", "core"]
        self.words = options.words.split() if options.words else self.words
        self.words += ["-x", "OMP_NUM_THREADS", "-x", "CP2K_DATA_DIR", "-np", str(options.ranks)]
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", CP2K_DATA_DIR="/usr/share/cp2k",
                                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def run(self, starter, program, prepared, name):
        """The folder of the run, and its time; no time where it failed."""
        folder = prepared.parent / name
        shutil.copytree(prepared, folder)
        with open(folder / "output", "w") as output:
            began = time.time()
            # Not subprocess's own limit: with it, a run's end is looked for 20 times in a second.
            code = subprocess.run(["timeout", str(LIMIT_S), *starter(folder), *program.command], cwd=folder, stdout=output,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=self.environment).returncode
        spent = time.time() - began
        for energies in folder.glob("water-1.ener"):
            energies.rename(folder / "water.numbers")
            self.without_times(folder / "water.numbers")
        if code == 0:
            return folder, spent
        print(f"{program.title}: {name} failed ({code}); see {folder}/output", file=sys.stderr)
        return folder, None

    @staticmethod
    def without_times(path):
        """CP2K's last column is how long the step took."""
        lines = path.read_text().splitlines()
        path.write_text("".join(line.rsplit(None, 1)[0] + "\n" for line in lines if not line.startswith("#")))

    def plain(self, _):
        return [self.mpirun, *self.words]

    def ours(self, folder):
        hosts = ["-x", f"DDL_FAKE_HOSTS={self.options.fake_hosts}"] if self.options.fake_hosts else []
        return [self.ddlrun, "-s", "--report", f"{folder}/report.json", *hosts, *self.words]

    def row(self, program, work):
        prepared = work / "prepared"
        prepared.mkdir(parents=True)
        for name in program.inputs:
            shutil.copy(INPUTS / name, prepared)
        with open(prepared / "prepared", "w") as log:
            subprocess.run(program.prepare, shell=True, cwd=prepared, check=True, stdout=log, stderr=log, env=self.environment)
        times, first, same, report = {"plain": [], "ddlrun": []}, None, True, {}
        for run in range(self.options.runs):
            for name, starter in in_turn((("plain", self.plain), ("ddlrun", self.ours)), run):
                folder, spent = self.run(starter, program, prepared, f"{name}-{run}")
                times[name].append(spent)
                got = numbers(program, folder)
                first = first or got
                same = same and are_same(program, first, got) and spent is not None
                if name == "ddlrun" and (folder / "report.json").exists():
                    report = json.loads((folder / "report.json").read_text())
        self.failed |= not same
        self.write(program, times, same, report)

    def write(self, program, times, same, report):
        calls, able, reasons = eligible(report)
        cells = [program.title, str(self.options.ranks), "yes" if same else "NO", f"{calls // self.options.ranks:,}",
                 f"{100 * able / calls:.1f} %" if calls else "-"]
        if None in times["plain"] + times["ddlrun"]:
            cells += ["failed"]
        else:
            plain, ours = (statistics.median(times[name]) for name in ("plain", "ddlrun"))
            cells += [f"{plain:.2f} / {ours:.2f} s = {plain / ours:.2f}"]
        cells += [", ".join(f"{100 * n / calls:.1f} % {reason}" for reason, n in reasons.items())]
        print("| " + " | ".join(cells) + " |", flush=True)

    def all(self):
        known = programs(self.options.ranks)
        names = self.options.only.split(",") if self.options.only else list(known)
        if unknown := [name for name in names if name not in known]:
            sys.exit(f"--only {','.join(unknown)}: no such program; there are {', '.join(known)}")
        print("| program | ranks | same answers | calls of a rank | eligible | plain / ddlrun | not eligible |\n"
              "|---|---|---|---|---|---|---|", flush=True)
        work = pathlib.Path(tempfile.mkdtemp(prefix="ddl-applications-"))
        for name in names:
            if not shutil.which(known[name].needs):
                print(f"{name}: not installed; scripts/applications.sh --install", file=sys.stderr)
                continue
            self.row(known[name], work / name)
        if not self.failed:
            shutil.rmtree(work)
        return 1 if self.failed else 0


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", default=HERE.parent / "build/release")
    options.add_argument("--only", help="names, with commas between: " + ", ".join(programs(2)))
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--fake-hosts")
    options.add_argument("--words", help="for mpirun and ddlrun alike; else how ranks are bound")
    sys.exit(Table(options.parse_args()).all())


if __name__ == "__main__":
    main()
