#!/usr/bin/env bash
# hierarchy.sh CASE LIB_DIR PROGRAM_DIR TEST_LIB_DIR: NCCL programs with a GPU for each rank on pretended hosts, on test doubles of
# libcuda and libnccl: which all-reduces go by plans on smaller communicators, and that all results are right.
set -u
case_name=$1 lib=$2 programs=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=$work/report.json

fail() { echo "FAILED: $*"; tail -n 50 "$work"/ours.*; exit 1; }
# ranks RANKS HOSTS HOW WHAT: HOSTS as in DDL_FAKE_HOSTS.
ranks() {
  rm -f "$work/trace"
  FAKE_CUDA_DEVICES=$1 DDL_FAKE_HOSTS=$2 DDL_REPORT=$report LD_PRELOAD=$lib/libddl_shim.so FAKE_NCCL_TRACE=$work/trace \
    timeout 550 "$programs/nccl_stream_client" "$1" "$3" "$4" >"$work/ours.out" 2>"$work/ours.err" || fail "$*: exit $?"
}
# What double and report counted, for plans of these extents (none: flat).
counted() { "$here/hierarchy_check.py" "$work/trace" "$report" "$work/ours.out" "$@" || fail "wrong counts: $*"; }
# How most calls of hierarchy_tuned went once their way was known, and which other ways were tried. On a busy machine it takes
# many calls until it is.
decided() {
  python3 - "$report" "$@" <<'END' || fail "most calls do not go as they should: $1"
import collections, json, sys
report = json.load(open(sys.argv[1]))
most, others = sys.argv[2], sys.argv[3:]
calls = collections.Counter()
for one in report["collectives"]:
    calls.update({route["reason"]: route["calls"] for route in one["original"] if one["name"] == "ncclAllReduce"})
for one in report["algorithms"]:
    calls[one["plan"]] += one["calls"]
print(dict(calls))
assert all(calls[way] >= 6 for way in others), "all ways were tried"
assert calls[most] > sum(n for way, n in calls.items() if way not in ("measured", "not measured")) / 2
END
}
says() { grep -q "$1" "$work/ours.err" || fail "it does not say: $1"; }
silent() { [ -s "$work/ours.err" ] && fail "it says something"; }
export DDL_OPTIONS="-mode b" DDL_SEGMENT_BYTES=64k
# As if NCCL had something better than sockets between hosts: our rails are no way then.
export NCCL_NET=IB

case $case_name in
  2x2) ranks 4 2,2 processes hierarchy; silent; counted 2 2 ;;
  2x3) ranks 6 2,2,2 processes hierarchy; silent; counted 2 3 ;;
  4x2) ranks 8 4,4 processes hierarchy; silent; counted 4 2 ;;
  threads) ranks 4 2,2 threads hierarchy; silent; counted 2 2 ;;
  group) ranks 4 2,2 group hierarchy; silent; counted 2 2 ;;
  three_dimensions)
    DDL_OPTIONS="-mode b:2x2x2" ranks 8 4,4 processes hierarchy; silent
    counted 2 2 2
    ;;
  at_exit) for net in IB Socket; do NCCL_NET=$net ranks 4 2,2 processes hierarchy_at_exit; silent; done ;;
  allocations)
    # Without a report, which has to count.
    for net in IB:4:2,2 Socket:2:1,1; do
      IFS=: read -r library size hosts <<<"$net"
      FAKE_CUDA_DEVICES=$size FAKE_NCCL_SLOW=2 DDL_FAKE_HOSTS=$hosts NCCL_NET=$library LD_PRELOAD="$lib/libddl_shim.so $4/liballocations.so" \
        timeout 550 "$programs/nccl_stream_client" "$size" processes hierarchy_allocations >"$work/ours.out" 2>"$work/ours.err" || fail "$net: exit $?"
      silent
    done
    ;;
  aborted)
    for options in "-mode b" ""; do
      for how in processes threads; do DDL_OPTIONS=$options ranks 4 2,2 $how hierarchy_aborted; silent; done
    done
    ;;
  says)
    DDL_VERBOSE=1 ranks 4 2,2 processes hierarchy
    says "a communicator of 4 ranks: NCCL's, with smaller ones beside it for all-reduces of 65536 bytes and more, 2x2"
    ;;
  tuned)
    export DDL_OPTIONS=""
    for how in processes threads group one_thread; do
      FAKE_NCCL_SLOW=4 ranks 4 2,2 $how hierarchy_tuned; silent; decided "2x2 on NCCL" measured
      FAKE_NCCL_SLOW=2 ranks 4 2,2 $how hierarchy_tuned; silent; decided "faster without a plan" measured "2x2 on NCCL"
    done
    ;;
  rails)
    # The last dimension's communicators of NCCL's are slow, and the whole is.
    export NCCL_NET=Socket
    for how in processes threads group one_thread; do
      FAKE_NCCL_SLOW=3,6 ranks 6 2,2,2 $how hierarchy_tuned; silent
      decided "2x3 on NCCL and rails" "2x3 on NCCL"
      DDL_OPTIONS="" FAKE_NCCL_SLOW=3,6 ranks 6 2,2,2 $how hierarchy_tuned; silent
      decided "2x3 on NCCL and rails" "2x3 on NCCL" measured
      DDL_OPTIONS="" FAKE_NCCL_SLOW=2 ranks 2 1,1 $how hierarchy_tuned; silent; decided "2 on rails" measured
    done
    ;;
  rails_numbers)
    export NCCL_NET=Socket
    ranks 4 2,2 processes hierarchy; silent
    ranks 3 1,1,1 threads hierarchy; silent
    FAKE_NCCL_SLOW=3 ranks 6 2,2,2 processes hierarchy_tuned_numbers; silent; decided "2x3 on NCCL and rails"
    FAKE_NCCL_SLOW=2 ranks 2 1,1 threads hierarchy_tuned_numbers; silent; decided "2 on rails"
    ;;
  rails_aborted)
    export NCCL_NET=Socket
    for how in processes threads; do
      ranks 4 2,2 $how hierarchy_aborted; silent
      ranks 2 1,1 $how hierarchy_aborted; silent
      FAKE_NCCL_SLOW=2 ranks 2 1,1 $how hierarchy_tuned_and_aborted; silent; decided "2 on rails"
    done
    ;;
  rails_dead)
    export NCCL_NET=Socket
    FAKE_NCCL_SLOW=2 ranks 2 1,1 processes hierarchy_tuned_and_dead
    says "ddl: error: .*rank 0 of 2: ncclAllReduce failed: "
    ;;
  rails_fail)
    # They are left out on all ranks alike, and the plan on NCCL's communicators stays.
    export NCCL_NET=Socket
    DDL_RAILS=nosuch DDL_VERBOSE=1 ranks 4 2,2 processes hierarchy; counted 2 2
    says "2x2, the last of NCCL's or our rails"
    says "no rails of ours between the hosts: .*nosuch"
    DDL_RAILS=nosuch ranks 2 1,1 processes hierarchy; silent; counted
    ;;
  splits)
    # None of the whole, because the hosts are unequal; those of equal parts have some, and their parts.
    for how in processes threads group; do ranks 5 3,2 $how hierarchy_splits; silent; decided "2x2 on NCCL" "left to NCCL"; done
    DDL_VERBOSE=1 ranks 5 3,2 processes hierarchy_splits
    [ "$(grep -c 'communicator of 4 ranks: .* with smaller ones beside it .* 2x2' "$work/ours.err")" = 3 ] || fail "not three times"
    ranks 5 3,2 threads hierarchy_splits_of_others; silent; decided "2x2 on NCCL" "left to NCCL"
    # Here the process that is left out ends, with the rendezvous: nobody waits for that.
    DDL_TIMEOUT=100000 ranks 5 3,2 processes hierarchy_splits_of_others; silent
    ranks 5 3,2 one_thread hierarchy_splits; silent; decided "2x2 on NCCL"
    NCCL_NET=Socket ranks 5 3,2 threads hierarchy_splits; silent; decided "2x2 on NCCL" "2x2 on NCCL and rails"
    DDL_OPTIONS="-mode n" DDL_VERBOSE=1 ranks 5 3,2 processes hierarchy_splits; decided "left to NCCL"
    [ "$(grep -c ' a communicator of ' "$work/ours.err")" = 1 ] || fail "splits set up"
    ;;
  default)
    DDL_OPTIONS="" DDL_VERBOSE=1 ranks 4 2,2 processes hierarchy
    says "a communicator of 4 ranks: NCCL's, with smaller ones beside it for all-reduces of 65536 bytes and more, 2x2, where"
    DDL_DETERMINISTIC=1 DDL_OPTIONS="" DDL_VERBOSE=1 ranks 4 2,2 processes hierarchy; counted
    says "NCCL's, and left to it: with DDL_DETERMINISTIC=1 nothing is measured, and plans come with -mode b"
    DDL_OPTIONS="-mode n" DDL_VERBOSE=1 ranks 4 2,2 processes hierarchy; counted
    says "NCCL's, and left to it: plans come with the modes p and b, the mode is n"
    ;;
  unequal_hosts)
    DDL_VERBOSE=1 ranks 3 2,1 processes hierarchy; counted
    says "NCCL's, and left to it: groups of 1 to 2 ranks in one dimension"
    ;;
  one_host)
    DDL_VERBOSE=1 ranks 3 3 processes hierarchy; counted
    says "NCCL's, and left to it: all ranks are on one host"
    ;;
  split_fails)
    # On one rank alone; all of them must hear of it.
    for how in processes group; do
      FAKE_NCCL_SPLIT_FAILS=1 DDL_VERBOSE=1 ranks 4 2,2 $how hierarchy_split_fails; counted
      says "rank 1 of 4: no smaller communicators: system error: this rank's splits shall fail"
      # One thread's group fails as a whole.
      [ $how = group ] || says "rank 0 of 4: the communicator is left to NCCL: a rank has not got its smaller ones"
    done
    ;;
  *) fail "no such case" ;;
esac
echo "ok: $case_name"
