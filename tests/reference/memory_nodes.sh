#!/bin/bash
# Memory that follows CPUs on a real kernel with two NUMA nodes: CPUs 0-3 and 768 MiB, CPUs 4-7 and 256 MiB.
# The argument is the agent's binary. Prints lines "NAME WORDS": the state at some moments, exit codes, the sentences of
# the agent, and MiB of a group on each node.
set -u
agent=$1 node=/run/nodes groups=/sys/fs/cgroup
source "${BASH_SOURCE%/*}/lever_steps.sh"
mkdir -p $node $groups/top/web $groups/top/job
for group in "" top; do echo "+memory +cpuset" >"$groups/$group/cgroup.subtree_control"; done
echo 0-1 >$groups/top/web/cpuset.mems # job has none of its own

mkfifo $node/never
hold() { # group cpu: 38 MiB from that CPU's node, and no other process
  (echo $BASHPID >"$groups/top/$1/cgroup.procs" && exec taskset -c "$2" bash -c "
    printf -v kept '%*s' 40000000 ''
    taskset -p -c 0-7 \$\$ >/dev/null
    echo ready >$node/ready-$1
    read -r _ <>$node/never") &
}
hold web 0
web=$!
hold job 4
job=$!
while [ ! -e $node/ready-web ] || [ ! -e $node/ready-job ]; do sleep 0.2; done

state() { # name
  local group
  for group in web job; do echo "state $1 $group mems=$(<$groups/top/$group/cpuset.mems)"; done
}

memory() { # name
  local group anon
  for group in web job; do
    anon=($(grep '^anon ' $groups/top/$group/memory.numa_stat))
    echo "memory $1-$group $((${anon[1]#N0=} >> 20)) $((${anon[2]#N1=} >> 20))"
  done
}

room() { # KiB of node 1
  local free unused
  free=($(grep MemFree: /sys/devices/system/node/node1/meminfo))
  unused=($(grep 'Inactive(file):' /sys/devices/system/node/node1/meminfo))
  echo $((free[3] + unused[3]))
}

web_is="class: be, match: {cgroup: top/web}" job_is="class: be, match: {cgroup: top/job}"
decision stays '"cpus": "0-3"' '"cpus": "4-7"'
decision swapped '"cpus": "4-7"' '"cpus": "0-3"'
decision shared '"cpus": "2-5"' '"cpus": "0-1,6-7"'
config "{}" "$web_is" "$job_is"
run probe-off probe --json
run off apply $node/stays.json
state off
run restore-off restore
config $'{}\ncpu: {memory_nodes: follow}' "$web_is" "$job_is"
run probe-on probe --json
state found
memory found
run dry apply $node/swapped.json --dry-run
state dry
run apply apply $node/swapped.json
state swapped
memory swapped
run again apply $node/swapped.json
run shared apply $node/shared.json
state shared
run stays apply $node/stays.json
state stays
memory stays
# What another program holds on node 1 leaves less room than the service needs.
mkdir $groups/top/filler
echo 1 >$groups/top/filler/cpuset.mems
(echo $BASHPID >$groups/top/filler/cgroup.procs && dd if=/dev/zero of=$node/fill bs=1M count=$(($(room) / 1024 - 45)) 2>/dev/null)
run full apply $node/swapped.json
state full
rm $node/fill
run roomy apply $node/swapped.json
state roomy
memory roomy
echo >$groups/top/job/cpuset.mems 2>/dev/null
echo 0-1 >$groups/top/job/cpuset.mems
run overwritten apply $node/swapped.json
state overwritten
run restore restore
state restored
crash_and_heal swapped 1 2 3 4 5
kill $web $job
wait $web $job 2>/dev/null
rmdir $groups/top/*/ $groups/top

# The same on cgroup v1, whose groups have nodes of their own and a switch for moving pages.
echo "-cpuset" >/sys/fs/cgroup/cgroup.subtree_control
groups=/run/cgroup1/cpuset
mkdir -p $groups
for _ in 1 2 3 4 5 6 7 8 9 10; do mount -t cgroup -o cpuset none $groups && break || sleep 0.5; done
for group in top top/web top/job; do
  mkdir $groups/$group
  echo 0-7 >$groups/$group/cpuset.cpus
  echo 0-1 >$groups/$group/cpuset.mems
done
rm $node/ready-*
hold web 0
web=$!
while [ ! -e $node/ready-web ]; do sleep 0.2; done

state() { # name
  local group
  for group in web job; do
    echo "state $1 $group mems=$(<$groups/top/$group/cpuset.mems) migrate=$(<$groups/top/$group/cpuset.memory_migrate)"
  done
}

config $'{}\nroots: {cgroup: /run/cgroup1}\ncpu: {memory_nodes: follow}' "$web_is" "$job_is"
run probe-v1 probe --json
state found-v1
run apply-v1 apply $node/swapped.json
state swapped-v1
run again-v1 apply $node/swapped.json
run restore-v1 restore
state restored-v1
kill $web
echo "end 0"
