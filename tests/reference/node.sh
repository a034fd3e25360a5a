# What a scenario does inside the virtual machine, in words. Sourced by scenario.sh; sets nothing up by itself.
# Forks are dear under emulation, so files are read with builtins.
# Transcript: "@@ NAME out", "@@ NAME err" and "@@ NAME state" open a section, "@@ NAME exit CODE" closes a step,
# "@@ NAME same OTHER" is a state like an earlier one.

resctrl=/sys/fs/resctrl
cgroup=/sys/fs/cgroup
node=/run/node
services=(lc/web lc/db be/job)

print_file() {
  local lines
  mapfile -t lines <"$1"
  ((${#lines[@]} == 0)) || printf '%s\n' "${lines[@]}"
}

# step NAME COMMAND...: what a command says and how it ends.
step() {
  local name=$1 code
  shift
  "$@" >/run/out 2>/run/err </dev/null
  code=$?
  echo "@@ $name out"; print_file /run/out
  echo "@@ $name err"; print_file /run/err
  echo "@@ $name exit $code"
}

# agent NAME SUBCOMMAND...: the agent as a step.
agent() {
  local name=$1
  shift
  step "$name" "$AGENT" "$@" --config $node/agent.yaml
}

# crash N NAME DECISION: apply, killed after N steps.
crash() { OSML_CRASH_AFTER_STEP=$1 agent "$2" apply "$node/$3.json" --fault-injection; }

# The functions below add lines PATH|LINE to the state that is being collected.
add_file() {
  local lines
  mapfile -t lines <"/sys/fs/$1"
  ((${#lines[@]})) || lines=("") # a file without lines is not a missing one
  printf -v lines "$1|%s\n" "${lines[@]}"
  collected+=$lines
}

# Threads of services that are in a resctrl group. The root group holds every other thread of the machine too.
add_tasks() {
  local tid lines
  mapfile -t lines <"/sys/fs/$1/tasks"
  collected+="$1/tasks|"$'\n'
  for tid in "${lines[@]}"; do
    [ -z "${ours[$tid]:-}" ] || collected+="$1/tasks|$tid"$'\n'
  done
}

add_cgroups() {
  local path file tids tid
  for path in "${services[@]}" be/job/worker; do
    for file in cpuset.cpus cpuset.cpus.effective cpu.max cpu.weight cgroup.threads; do
      [ ! -e "$cgroup/$path/$file" ] || add_file "cgroup/$path/$file"
    done
    mapfile -t tids <"$cgroup/$path/cgroup.threads"
    for tid in "${tids[@]}"; do ours[$tid]=1; done
  done
}

add_groups() {
  local path file
  for path in $resctrl/. $resctrl/* $resctrl/mon_groups/*; do
    [ -e "$path/tasks" ] || continue
    path=${path#/sys/fs/}
    add_tasks "$path"
    for file in schemata mode; do
      [ ! -e "/sys/fs/$path/$file" ] || add_file "$path/$file"
    done
  done
}

# state NAME: the kernel's own files. What is as it was at an earlier state is not printed again: the console is slow.
declare -A seen=()
state() {
  local -A ours=()
  local collected=""
  add_cgroups
  add_groups
  if [ -n "${seen[$collected]:-}" ]; then
    echo "@@ $1 same ${seen[$collected]}"
  else
    seen[$collected]=$1
    echo "@@ $1 state"
    printf %s "$collected"
    echo "@@ $1 end"
  fi
}

# sleeper CGROUP: a process without threads.
sleeper() {
  sleep infinity &
  echo $! >"$cgroup/$1/cgroup.procs"
  disown
}

# threaded CGROUP: a process with three more threads, and one more for every byte that comes through $node/threads.
threaded() {
  mkfifo "$node/threads"
  exec 9<>"$node/threads"
  "$PYTHON" -I -S -c '
import _thread, posix, time
while posix.read(0, 1):
    _thread.start_new_thread(time.sleep, (1e6,))
' <"$node/threads" 9>&- &
  threaded_pid=$!
  disown
  echo $threaded_pid >"$cgroup/$1/cgroup.procs"
  printf 'xxx' >&9
  await_threads 4
}

await_threads() {
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    local tasks=(/proc/$threaded_pid/task/*)
    ((${#tasks[@]} < $1)) || return 0
    sleep 0.1
  done
  echo "the threaded process has ${#tasks[@]} threads, expected $1" >&2
}

make_cgroups() {
  local parent
  mkdir -p "$cgroup/lc" "$cgroup/be"
  for parent in lc be; do echo "+cpu +cpuset" >"$cgroup/$parent/cgroup.subtree_control"; done
  mkdir "$cgroup/lc/web" "$cgroup/lc/db" "$cgroup/be/job" "$cgroup/be/job/worker"
  echo 0-5 >"$cgroup/lc/db/cpuset.cpus" # an operator's own setting, to be found again after restore
  threaded lc/web
  sleeper lc/web
  sleeper lc/db
  sleeper lc/db
  sleeper be/job
  sleeper be/job/worker
}

# Somebody watches the second process of db; it has to be watched again after restore.
watch_db() {
  local pids
  [ -d $resctrl/mon_groups ] || return 0
  mkdir $resctrl/mon_groups/watch
  mapfile -t pids <"$cgroup/lc/db/cgroup.procs"
  echo "${pids[1]}" >$resctrl/mon_groups/watch/tasks
}
