# Issues of a directory and a repository, in which our program works as a timer starts it; sourced by checks.

# issues <name> ...: an issue of each name about one repository, in $WORK, which is the current directory afterwards.
issues() {
  need git
  cd "$WORK"
  export HOME=$WORK NO_PROXY=127.0.0.1
  git init --quiet --initial-branch=main widgets
  echo 'echo $(($1 - $2))' >widgets/add.sh
  git -C widgets add add.sh
  git -C widgets -c user.name=alice -c user.email=alice@example.org commit --quiet --message start
  mkdir tasks
  local issue
  for issue in "$@"; do
    cat >"tasks/$issue.md" <<END
---
title: "Fix add.sh ($issue)"
labels: [coding agent]
author: alice
state: open
repository: ../widgets
---
add.sh subtracts.
END
  done
}

# configure <YAML of llm>
configure() {
  printf 'task_source: local\nllm: %s\ncommand_executor: {backend: host}\n' "$1" >config.yaml
}

# A port nobody uses now.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# serving <port> <command ...>: a server in the background, which ends with the check; waits until it listens.
serving() {
  local port=$1 tried
  shift
  "$@" >>"$WORK/server.log" 2>&1 &
  trap "kill $! 2>/dev/null" EXIT
  for tried in $(seq 1 300); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    sleep 0.1
  done
  failed "the server does not listen; see $WORK/server.log"
}

# Starts the program until each issue has ended. 75 says "later": a limit that takes longer than one pass waits for.
passes() {
  local pass code open
  for pass in $(seq 1 30); do
    code=0
    "$ROOT/target/debug/coding-agent" >>"$WORK/passes.log" 2>&1 || code=$?
    case $code in 0 | 1 | 75) ;; *) failed "pass $pass ended with $code; see $WORK/passes.log" ;; esac
    open=$(awk '/^labels:.*coding agent( processing)?[],]/ { open++ } END { print open + 0 }' tasks/*.md)
    if [ "$open" -eq 0 ]; then
      grep -H '^labels:' tasks/*.md
      return
    fi
    sleep 15
  done
  failed "$open issues did not end in 30 passes"
}
