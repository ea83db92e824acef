#include "launcher/help.hpp"

namespace ddl {

std::string version_text() { return "ddlrun " DDL_VERSION; }

std::string help_text() {
  return R"(ddlrun: start a distributed training job in place of mpirun

  ddlrun [options] program [args...] [: [options] program [args...]]...

Put ddlrun where mpirun stood. The program stays as it is: its collectives (of MPI, of PyTorch over
gloo, of NCCL) run on a topology-aware engine where that serves them and is not slower, else in the
original library. Options take one or two dashes; the program is the first word that is no option.

Which ranks, where
  -np, -n N                ranks to start
  -H, --host h1:2,h2:2     hosts and slots; otherwise --hostfile, Slurm, LSF, PBS, Grid Engine, here
  --hostfile FILE          one 'host slots=N' per line (also --machinefile)
  --rankfile, -rf FILE     the place of every rank
  --accelerators N         GPUs in a host: a rank for each, unless -np, slots in -H or a rankfile count
                           the ranks; with -m also the first of IBM's dimensions
  -x NAME[=VALUE]          a variable for the ranks (every DDL_* variable is passed on anyway)
  --bind-to, --map-by, --rank-by, --mca k v, -wdir DIR, --oversubscribe, ...
                           every other option of mpirun (Open MPI 4 and 5) is passed on as it is;
                           without a binding option each rank gets its share of the cores
  -ppn, -genv, --ntasks, --nproc_per_node, ...
                           of other launchers: taken, or answered with what to write
  --app FILE               programs with their options, one per line
  --mpiarg "WORDS"         words for mpirun that ddlrun need not understand (repeatable)
  -t, --tcp                let the original MPI use TCP and shared memory only

Looking before and after
  --dry-run                print what would be done and mpirun's command line, start nothing
  --topology[=FILE]        draw the machines as text, or into FILE.svg or FILE.json; needs no program
  --explain                print the plans for a few sizes with their predicted times; needs no program
  --compare                run under plain mpirun and under the engine, short jobs several times;
                           print times with and without the start, in all-reduces, and their ratios
  --report FILE            a JSON report: calls, bytes and time by engine and by original, and why;
                           --report - prints it as a table at the end
  -v, --verbose            print mpirun's command line, when more ranks than GPUs are on a host, and at
                           the end what the engine did or why it was not used
  -s                       skip the checks of hosts, slots and program

The engine
  -m, --mode LETTER[:DIMS] p r b n m or c, dimensions such as 4x2; passed on in DDL_OPTIONS
  -ddlarg, -ddloption STR  more words for DDL_OPTIONS (repeatable)
  -no_ddloptions           leave DDL_OPTIONS alone
  -nodes N, -racks N, -aisles N
                           hosts in a rack, racks in an aisle, aisles: their product is the number of hosts;
                           racks and aisles become dimensions of their own, as in -m p:4x2x2

About ddlrun
  --help  --version        this page; the version
  --help-env[=markdown]    the DDL_* variables

Exit codes: the program's own; 128 + signal; 2 wrong usage; 3 the job could not be started, as a
line "the job is not started" says.

Examples
  mpirun -np 4 python3 train.py                        before
  ddlrun -np 4 python3 train.py                        after
  ddlrun -np 8 -H h0:2,h1:2,h2:2,h3:2 python3 train.py
  ddlrun --compare -np 2 ddl-bench                     both ways, side by side
  ddlrun --report job.json -np 4 python3 train.py      what the engine did
  ddlrun --dry-run -np 4 python3 train.py              nothing is started
  ddlrun --topology                                    this machine
)";
}

}  // namespace ddl
