# Copies data files into the folder ./copy, and starts a mongod on the copy: bash start.sh [stop]
# What was copied is not changed.
set -eu
umask 077
run() {
  mongod --dbpath="$DATA" --port="$PORT" --bind_ip=127.0.0.1 --nounixsocket --fork --logpath="$PWD/copy.log" \
    --logappend --setParameter=ttlMonitorEnabled=false $OPTIONS "$@" >/dev/null || {
    tail -n 3 copy.log >&2
    exit 1
  }
}
stop() {
  local pid
  pid=$(cat "$DATA/mongod.lock")
  kill "$pid"
  # The arguments, too: the number alone may belong to another process by then.
  while ps -ww -p "$pid" -o args= | grep -qF -- "--dbpath=$DATA"; do sleep 0.2; done
}
[ "${1:-}" != stop ] || {
  stop
  exit
}
mkdir copy
copy
rm -f "$DATA/mongod.lock"
# Entries of its oplog that are not in the data yet are applied; then the server runs without a replica set.
run --setParameter=recoverFromOplogAsStandalone=true --setParameter=takeUnstableCheckpointOnShutdown=true
stop
run
echo "Plan with --spare 127.0.0.1:$PORT. At the end: bash $0 stop" >&2
