#!/bin/bash
# Interrupts on a real kernel: those of the machine's disk, host file system, console and keyboard. The argument is the
# agent's binary. Prints lines "NAME WORDS": the state at some moments, exit codes, the sentences of the agent.
set -u
agent=$1 node=/run/interrupts groups=/sys/fs/cgroup
source "${BASH_SOURCE%/*}/lever_steps.sh"
mkdir -p $node $groups/top/web $groups/top/job
for group in "" top; do echo "+cpu +cpuset" >"$groups/$group/cgroup.subtree_control"; done
for group in web job; do
  sleep 1000 &
  echo $! >$groups/top/$group/cgroup.procs
done
echo 2 >/proc/irq/23/smp_affinity_list # pinned by somebody, to a CPU of the service

state() { # name: every interrupt that a device uses
  local directory name
  for directory in /proc/irq/*/*/; do
    name=${directory%/}
    directory=${name%/*}
    echo "state $1 ${directory##*/} ${name##*/} $(<$directory/smp_affinity_list)"
  done
}

reads() { # name: the disk, past the page cache, with its interrupt where the agent put it
  dd if=/dev/vda of=/dev/null bs=4k count=50 iflag=direct 2>/dev/null
  echo "exit $1 $?"
}

web_is="class: lc, target_ms: 10, match: {cgroup: top/web}, latency: {file: $node/latency}"
job_is="class: be, match: {cgroup: top/job}"
decision divided '"cpus": "0-3"' '"cpus": "4-7"'
decision turned '"cpus": "4-7"' '"cpus": "0-3"'
config "{}" "$web_is" "$job_is"
run probe-off probe --json
state found
config "{interrupts: on}" "$web_is" "$job_is"
run probe-on probe --json
run dry apply $node/divided.json --dry-run
state dry
run apply apply $node/divided.json
state divided
reads reads
run again apply $node/divided.json
run turn apply $node/turned.json
state turned
run restore restore
state restored
crash_and_heal divided 1 2 3 4 5 6 7 8 9
# Without the configuration, by the journal alone.
run apply2 apply $node/divided.json
"$agent" restore --state-dir $node/state >$node/out 2>&1
echo "exit alone $?"
state alone
config "{interrupts: on, interrupt_names: [\"virtio*\"]}" "$web_is" "$job_is"
run named apply $node/divided.json
state named
config "{}" "$web_is" "$job_is"
run off apply $node/divided.json
state off
run restore2 restore
state end
kill $(jobs -p)
echo "end 0"
