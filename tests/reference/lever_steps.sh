# What scripts of levers do inside the virtual machine. Sourced after `agent` (its binary) and `node` (a folder) are set.
# Prints lines "exit NAME CODE" and "said NAME SENTENCE"; the caller's state() prints "state NAME GROUP WORDS".

config() { # levers match-and-class-of-web match-and-class-of-job
  cat >$node/agent.yaml <<Y
node: n
server: {url: "http://127.0.0.1:9"}
state_dir: $node/state
levers: $1
services:
- {name: web, $2}
- {name: job, $3}
Y
  chmod 600 $node/agent.yaml
}

decision() { # name assignment-of-web assignment-of-job
  cat >"$node/$1.json" <<J
{"node": "n", "seq": 1, "policy": "by hand", "schema": "osml/decision/v1",
 "partition": {"regions": [{"owners": ["web", "job"], "cores": 8}]},
 "assignments": [{"service": "web", $2}, {"service": "job", $3}]}
J
}

run() { # name arguments
  local name=$1
  shift
  "$agent" "$@" --config $node/agent.yaml >$node/out 2>&1
  echo "exit $name $?"
  sed "s/^/said $name /" $node/out
}

crash_and_heal() { # decision steps...
  local decision=$1 step
  shift
  for step in "$@"; do
    OSML_CRASH_AFTER_STEP=$step run crash$step apply $node/$decision.json --fault-injection
    run healed$step restore
    state healed$step
  done
}
