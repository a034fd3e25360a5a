#!/bin/bash
# Memory, disk and real-time priority on a real kernel with one disk (vda). The argument is the agent's binary.
# Prints lines "NAME WORDS": the state at some moments, exit codes, the sentences of the agent, and times of reading.
set -u
agent=$1 node=/run/levers groups=/sys/fs/cgroup
source "${BASH_SOURCE%/*}/lever_steps.sh"
mkdir -p $node $groups/lc/web $groups/be/job
for group in "" lc be; do echo "+memory +io +cpu +cpuset" >"$groups/$group/cgroup.subtree_control"; done
# 76 MiB that it keeps, in a thread group of its own.
(
  echo $BASHPID >$groups/lc/web/cgroup.procs
  printf -v kept '%*s' 80000000 ''
  echo ready >$node/ready
  while :; do sleep 1000; done
) &
web=$!
sleep 1000 &
job=$!
echo $job >$groups/be/job/cgroup.procs
while [ ! -e $node/ready ]; do sleep 0.2; done
chrt -b -p 0 $job
renice -n 5 -p $job >/dev/null
echo "8:99 rbps=max" 2>/dev/null >$groups/be/job/io.max
disk=$(cat /sys/block/vda/dev)
echo "$disk wbps=1048576" >$groups/be/job/io.max
echo 900000000 >$groups/be/job/memory.high

policy() { chrt -p "$1" | sed 's/.*: //' | tr '\n' ' '; }

state() { # name
  local group pid
  for group in lc/web be/job; do
    pid=$web
    [ $group = lc/web ] || pid=$job
    echo "state $1 $group high=$(<$groups/$group/memory.high) io=$(<$groups/$group/io.max)" \
      "policy=$(policy $pid)nice=$(ps -o ni= -p $pid)"
  done
}

# Reads of 4 KiB past the page cache, from inside the group; seconds.
reading() { # name
  local start end
  start=$(cut -d' ' -f1 /proc/uptime)
  (echo $BASHPID >$groups/be/job/cgroup.procs && dd if=/dev/vda of=/dev/null bs=4k count=200 iflag=direct 2>/dev/null)
  end=$(cut -d' ' -f1 /proc/uptime)
  echo "reading $1 $start $end"
}

web_is="class: be, match: {cgroup: lc/web}" job_is="class: be, match: {cgroup: be/job}"
config "{}" "$web_is" "$job_is"
run probe-off probe --json
decision divided '"knobs": {"memory_mib": 300, "disk_iops": 900, "realtime_priority": 10}' '"knobs": {"memory_mib": 200, "disk_iops": 50}'
decision changed '"knobs": {"memory_mib": 250, "disk_iops": 50}' '"knobs": {"memory_mib": 250, "disk_iops": 900, "realtime_priority": 20}'
decision greedy '"knobs": {"memory_mib": 60}' '"knobs": {"memory_mib": 200}'
run off apply $node/divided.json
config "{memory: on, memory_mib: 600, disk: on, disk_iops: 1000, realtime: on}" "$web_is" "$job_is"
run probe-on probe --json
state found
reading found
run dry apply $node/divided.json --dry-run
state dry
run apply apply $node/divided.json
state divided
reading divided
run again apply $node/divided.json
run greedy apply $node/greedy.json
state greedy
run change apply $node/changed.json
state changed
run restore restore
state restored
reading restored
crash_and_heal divided 1 2 3 4 5 6
kill $web $job
echo "end 0"
