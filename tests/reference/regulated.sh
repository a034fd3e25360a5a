#!/bin/bash
# A real kernel with counters and a freezer, but no MBA: one job with a budget of 100 MB/s over both sockets. The counters
# are fed by hand, and only while the job is not frozen, as if it moved memory. The argument is the agent's binary. Prints
# lines of "uptime frozen bytes".
set -eu
node=/run/regulated job=/sys/fs/cgroup/be/job
counter=/sys/fs/resctrl/mon_groups/osml-job/mon_data/mon_L3_00/mbm_total_bytes
mkdir -p $node $job
sleep 1000 &
echo $! > $job/cgroup.procs
cat > $node/agent.yaml <<Y
node: n
server: {url: "http://127.0.0.1:9"}
state_dir: $node/state
hold_s: 1000
platform: {bandwidth_gbps: 24.8}
bandwidth: {regulator: on, period_ms: 500}
services:
- {name: job, class: be, match: {cgroup: be/job}}
Y
chmod 600 $node/agent.yaml
cat > $node/decision.json <<J
{"node": "n", "seq": 1, "policy": "by hand", "schema": "osml/decision/v1", "partition": {"regions": [], "mba": {"job": 100}},
 "assignments": [{"service": "job", "mba": 100}]}
J
"$1" apply $node/decision.json --config $node/agent.yaml >&2
"$1" run --config $node/agent.yaml --ticks 1000 2> /dev/null &
agent=$!
moved=0
for _ in $(seq 60); do
  frozen=$(cat $job/cgroup.freeze)
  [ "$frozen" = 1 ] || moved=$((moved + 1000))
  echo $moved > /sys/kernel/debug/fakerdt/ev2
  echo "$(cut -d' ' -f1 /proc/uptime) $frozen $(cat $counter)"
  sleep 0.2
done
kill $agent
wait $agent
echo "left $(cat $job/cgroup.freeze) $(ls $node/state/budgets | wc -l)"
