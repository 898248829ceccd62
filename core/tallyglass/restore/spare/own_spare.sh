# The spare of this restore: bash spare.sh start|renew|stop
set -eu
umask 077
# The process number alone may belong to another process by now; its data folder tells.
is_running() {
  [ -s spare.pid ] && ps -ww -p "$(cat spare.pid)" -o args= | grep -qF -- "--dbpath=$PWD/spare-data"
}
start() {
  if [ ! -s spare.key ]; then
    head -c 24 /dev/urandom | base64 >spare.key.new && mv spare.key.new spare.key
  fi
  is_running || { mkdir -p spare-data && run_mongod >/dev/null; }
  printf '%s\n' "uri: \"$URI\"" "password: '$(cat spare.key)'" >spare.yml.new && mv spare.yml.new spare.yml
  [ -z "$REPLICA_SET" ] || mongosh --nodb --norc --quiet --file=start-set.js
}
run_mongod() {
  "${TALLYGLASS_MONGOD:-mongod}" --dbpath="$PWD/spare-data" --port="$PORT" --bind_ip=127.0.0.1 --nounixsocket --fork \
    --logpath="$PWD/spare.log" --pidfilepath="$PWD/spare.pid" --keyFile="$PWD/spare.key" \
    --setParameter=enableLocalhostAuthBypass=false --setParameter=ttlMonitorEnabled=false \
    ${REPLICA_SET:+--replSet="$REPLICA_SET" --setParameter=shutdownTimeoutMillisForSignaledShutdown=0} || {
    echo "The spare did not start: see spare.log. Where port $PORT is in use by now, plan again: that takes a free one." >&2
    return 1
  }
}
stop() {
  is_running || return 0
  kill "$(cat spare.pid)"
  while is_running; do sleep 1; done
}
case $1 in
  start) start ;;
  # What an earlier attempt wrote is replaced by a new, empty spare.
  renew) [ ! -e spare.begun ] || { stop && rm -rf spare-data spare.begun && start; }; touch spare.begun ;;
  stop) stop && rm -f spare.key spare.yml ;;
esac
