set -eu
umask 077
# Ours by its data folder: the number alone may belong to another process by now.
ours() { [ -s "$W/spare.pid" ] && ps -ww -p "$(cat "$W/spare.pid")" -o args= | grep -qF -- "--dbpath=$W/spare-data"; }
stop() {
  ours || return 0
  kill "$(cat "$W/spare.pid")"
  while ours; do sleep 1; done
}
start() {
  [ -s "$W/spare.key" ] || { head -c 24 /dev/urandom | base64 >"$W/spare.key.new" && mv "$W/spare.key.new" "$W/spare.key"; }
  ours || { mkdir -p "$W/spare-data" && run_mongod >/dev/null; }
  printf '%s\n' "$CONFIG" "password: '$(cat "$W/spare.key")'" >"$W/spare.yml.new" && mv "$W/spare.yml.new" "$W/spare.yml"
}
run_mongod() {
  mongod --dbpath="$W/spare-data" --port="$PORT" --bind_ip=127.0.0.1 --nounixsocket --fork \
    --logpath="$W/spare.log" --pidfilepath="$W/spare.pid" --keyFile="$W/spare.key" \
    --setParameter=enableLocalhostAuthBypass=false --setParameter=ttlMonitorEnabled=false
}
case $1 in
  start) start ;;
  stop) stop ;;
  # What a stopped run left is replaced by a new spare.
  renew) [ ! -e "$W/spare.begun" ] || { stop && rm -rf "$W/spare-data" "$W/spare.begun" && start; } ;;
esac
