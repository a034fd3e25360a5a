#!/bin/bash
# Jobs behind services on a real kernel: cpu.idle. The argument is the agent's binary.
# Prints lines "NAME WORDS": the state at some moments, exit codes, the sentences of the agent, and shares of one CPU.
set -u
agent=$1 node=/run/idle groups=/sys/fs/cgroup
source "${BASH_SOURCE%/*}/lever_steps.sh"
mkdir -p $node $groups/top/web $groups/top/job
for group in "" top; do echo "+cpu +cpuset" >"$groups/$group/cgroup.subtree_control"; done
spin() { # group: both want CPU 0
  (echo $BASHPID >$groups/top/$1/cgroup.procs && exec taskset -c 0 bash -c 'while :; do :; done') &
}
spin web
web=$!
spin job
job=$!
echo 70 >$groups/top/job/cpu.weight

state() { # name
  local group
  for group in web job; do
    echo "state $1 $group idle=$(<$groups/top/$group/cpu.idle) weight=$(<$groups/top/$group/cpu.weight)"
  done
}

used() { sed -n 's/usage_usec //p' $groups/top/$1/cpu.stat; }
share() { # name: CPU time of job and web in two seconds, microseconds
  local web0 job0
  web0=$(used web) job0=$(used job)
  sleep 2
  echo "share $1 $(($(used job) - job0)) $(($(used web) - web0))"
}

web_is="class: lc, target_ms: 10, match: {cgroup: top/web}, latency: {file: $node/latency}"
job_is="class: be, match: {cgroup: top/job}"
decision divided '"cpu_weight": 200' '"cpu_weight": 50'
decision other '"cpu_weight": 300' '"cpu_weight": 60'
config "{}" "$web_is" "$job_is"
run probe-off probe --json
state found
config "{idle: on}" "$web_is" "$job_is"
run probe-on probe --json
run dry apply $node/divided.json --dry-run
state dry
share found
run apply apply $node/divided.json
state idle
share idle
run again apply $node/other.json
state other
echo 33 2>$node/refused >$groups/top/job/cpu.weight
echo "exit kernel $?"
run restore restore
state restored
crash_and_heal divided 1 2 3
# The lever goes off under an agent that has set it: the next one restores it before it does anything else.
run apply2 apply $node/divided.json
config "{}" "$web_is" "$job_is"
run off apply $node/other.json
state off
run restore2 restore
state end
kill $web $job
echo "end 0"
