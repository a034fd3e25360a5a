#!/bin/bash
# One life of the agent on a fresh machine. The argument is the directory with agent.yaml, the decisions and `facts`:
# AGENT, PYTHON, REFUSED, CRASH_FRESH, CRASH_CHANGE, and where the machine allocates ROOT_LINE and OTHER_LINE.
set -u
. "$(dirname "$0")/node.sh"
cp -r "$1" $node
. $node/facts

look() {
  agent probe probe --json
  agent show.found show --json
  state found
}

apply_first() {
  agent dry-run apply $node/first.json --dry-run --json
  state dry-run
  agent first apply $node/first.json --json
  state first
  agent show.first show --json
  agent first.again apply $node/first.json --json
}

# One thread is born inside the service; one process comes in from outside, so the kernel has it in the root group.
be_born() {
  printf x >&9
  await_threads 5
  sleeper lc/web
  state born
  agent joined apply $node/first.json --json
  state joined
}

refuse() {
  local name
  for name in $REFUSED; do
    agent "refused.$name" apply "$node/refused-$name.json"
    state "refused.$name"
  done
}

# Nobody answers: the daemon senses, holds what is there and leaves it at the end.
run_alone() {
  agent run run --ticks 2 --record $node/record.jsonl
  step record cat $node/record.jsonl
  step occupancy cat $resctrl/{.,mon_groups}/osml-web/mon_data/*/llc_occupancy
  state run
}

crash_in_change() {
  local n
  for n in $CRASH_CHANGE; do
    crash "$n" "change.$n" second
    state "change.$n"
    step "change.$n.journal" cat $node/state/journal.json
    agent "change.$n.heal" apply $node/first.json --json
    state "change.$n.heal"
  done
}

apply_second() {
  agent second apply $node/second.json --json
  state second
  agent show.second show --json
}

give_back() {
  agent restore restore --json
  state restored
  agent restore.again restore --json
  state restored.again
}

crash_in_first() {
  local n
  for n in $CRASH_FRESH; do
    crash "$n" "fresh.$n" first
    state "fresh.$n"
    agent "fresh.$n.heal" restore --json
    state "fresh.$n.heal"
  done
}

# refused_by_kernel NAME DECISION
refused_by_kernel() {
  state "$1.before"
  agent "$1" apply "$node/$2.json" --json
  state "$1.after"
}

# The parent has fewer CPUs than the decision gives: the kernel takes the write and grants less.
parent_too_small() {
  echo 0-3 >$cgroup/lc/cpuset.cpus
  refused_by_kernel small-parent first
  echo 0-7 >$cgroup/lc/cpuset.cpus
}

# Somebody else holds two ways of the first mask for itself.
ways_taken() {
  echo "$ROOT_LINE" >$resctrl/schemata
  mkdir $resctrl/other
  echo "$OTHER_LINE" >$resctrl/other/schemata
  step exclusive eval "echo exclusive >$resctrl/other/mode"
  refused_by_kernel taken without-job
}

# The exclusive group stays; more groups than the machine has are needed where it has four.
groups_taken() {
  echo shareable >$resctrl/other/mode
  refused_by_kernel crowded first
  agent crowded.restore restore --json
  state crowded.restored
}

echo 64 >/sys/kernel/debug/fakerdt/ev1 2>/dev/null # raw cache occupancy of every group
make_cgroups
watch_db
look
apply_first
be_born
refuse
run_alone
crash_in_change
apply_second
give_back
crash_in_first
parent_too_small
if [ -n "${ROOT_LINE:-}" ]; then
  ways_taken
  groups_taken
fi
echo "@@ scenario exit 0"
