set -euo pipefail
umask 077

YES=0
UNTIL=clean
SOURCE_PASSWORD_FILE=
SPARE_PASSWORD_FILE=
PHASES="secure restore verify return clean"

say() { printf '%s\n' "$*" >&2; }
die() { say "STOPPED: $*"; exit 1; }
has_terminal() { { : </dev/tty; } 2>/dev/null; }

usage() {
  say "usage: $0 [--yes] [--until secure|restore|verify|return|clean]"
  say "          [--source-password-file FILE] [--spare-password-file FILE]"
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --yes) YES=1 ;;
    --until) [ $# -gt 1 ] || usage; UNTIL=$2; shift ;;
    --until=*) UNTIL=${1#*=} ;;
    --source-password-file) [ $# -gt 1 ] || usage; SOURCE_PASSWORD_FILE=$2; shift ;;
    --source-password-file=*) SOURCE_PASSWORD_FILE=${1#*=} ;;
    --spare-password-file) [ $# -gt 1 ] || usage; SPARE_PASSWORD_FILE=$2; shift ;;
    --spare-password-file=*) SPARE_PASSWORD_FILE=${1#*=} ;;
    *) usage ;;
  esac
  shift
done
case " $PHASES " in *" $UNTIL "*) ;; *) usage ;; esac

# --- tools: all of one version, and new enough

version_of() { "$1" --version 2>&1 | grep -m1 -Eo '[0-9]+\.[0-9]+\.[0-9]+' || true; }
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

check_tools() {
  local name version first=
  for name in mongodump mongorestore bsondump; do
    command -v "$name" >/dev/null || die "[tool-missing] $name is not installed here; version $NEEDED or newer is needed."
    version=$(version_of "$name")
    [ -n "$version" ] || die "[tool-version] $name does not say its version."
    older "$version" "$NEEDED.0" && die "[tool-version] $name is $version; $NEEDED or newer is needed."
    [ -z "$first" ] || [ "$first" = "$version" ] || die "[tool-mixed] The tools are of different versions."
    first=$version
  done
  for name in sha256sum awk ps tallyglass; do
    command -v "$name" >/dev/null || die "[tool-missing] $name is not installed here."
  done
  if [ "$USES_MONGOSH" = 1 ]; then
    command -v mongosh >/dev/null || die "[tool-missing] mongosh is not installed here."
  fi
  if [ "$USES_MONGOD" = 1 ]; then
    command -v mongod >/dev/null || die "[tool-missing] mongod is not installed here; or plan again with --spare."
    version=$(version_of mongod)
    [ "${version%.*}" = "${SERVER%.*}" ] || die "[spare-version] mongod is $version here, the source is $SERVER."
  fi
}

# --- passwords: never in an argument, and gone when the script ends

ask() {
  local role=$1 user=$2 file=$3 password
  if [ -n "$file" ]; then
    [ -r "$file" ] || die "[password] $file cannot be read."
    # The first line alone, without its end; a file may lack the last line end.
    IFS= read -r password <"$file" || true
    password=${password%$'\r'}
    [ -n "$password" ] || die "[password] $file is empty. Its first line is the password."
  else
    has_terminal || die "[password] No terminal to ask on: give --$role-password-file."
    IFS= read -rs -p "Password of $user on the $role: " password </dev/tty
    say ""
  fi
  printf '%s' "$password" >"$W/$role.password"
}

arm() {
  local role file password quote="'"
  for role in ${SOURCE_USER:+source} ${SPARE_USER:+spare}; do
    file=$W/$role.password
    [ -f "$file" ] && [ -f "$W/$role.yml" ] || continue
    grep -q '^password:' "$W/$role.yml" && continue
    password=$(<"$file")
    printf "password: '%s'\n" "${password//$quote/$quote$quote}" >>"$W/$role.yml"
  done
}

disarm() {
  local role
  for role in ${SOURCE_USER:+source} ${SPARE_USER:+spare}; do
    rm -f "$W/$role.password"
    if [ -f "$W/$role.yml" ] && grep -q '^password:' "$W/$role.yml"; then
      grep -v '^password:' "$W/$role.yml" >"$W/$role.yml.new" || true
      mv "$W/$role.yml.new" "$W/$role.yml"
    fi
  done
}

# --- one run at a time

LOCKED=0
born() { LC_ALL=C ps -o lstart= -p "$1" 2>/dev/null || true; }

lock() {
  local pid='' began='' host='' advice
  if mkdir "$W/lock" 2>/dev/null; then
    LOCKED=1
    printf '%s\n' "$$" "$(born $$)" "$(uname -n)" >"$W/lock/pid"
    return
  fi
  { IFS= read -r pid && IFS= read -r began && IFS= read -r host; } <"$W/lock/pid" 2>/dev/null || true
  printf -v advice 'rm -r %q' "$W/lock"
  if [ -z "$host" ]; then
    die "[locked] $W/lock is there but does not name its owner: another run is just starting, or was stopped while" \
      "it started. If none is running: $advice"
  elif [ "$host" != "$(uname -n)" ]; then
    die "[locked] A run on $host (process $pid) uses $W. If that run has ended: $advice"
  elif [ -n "$began" ] && [ "$(born "$pid")" = "$began" ]; then
    die "[locked] Another run of this restore is in progress (process $pid). Wait for it, or stop it."
  fi
  die "[stale-lock] The run that held $W (process $pid) was killed." \
    "Remove the lock: $advice. Then run the script again: it resumes where that one stopped."
}

# A tool outlives a script that was killed, and goes on writing.
survivors() {
  local list
  list=$(ps -ww -eo pid=,args=)
  work="$W/" awk 'index($0, ENVIRON["work"]) && /mongo(dump|restore|sh)/ {print $1}' <<<"$list" | tr '\n' ' '
}

unlock() {
  [ "$LOCKED" = 1 ] || return 0
  disarm
  rm -rf "$W/lock"
}

# --- steps

past() {
  local phase seen=0
  for phase in $PHASES; do
    [ "$seen" = 1 ] && [ "$phase" = "$1" ] && return 0
    [ "$phase" = "$UNTIL" ] && seen=1
  done
  return 1
}

# What tools say holds names out of the data, and those may hold what steers a terminal. No pipeline: it would run the
# step in a shell of its own, which goes on with the next command where this one is killed.
safely() {
  local status=0 shown
  rm -f "$W/words"
  mkfifo "$W/words"
  cat -v <"$W/words" >&2 &
  shown=$!
  "$@" >"$W/words" 2>&1 || status=$?
  wait "$shown" || true
  rm -f "$W/words"
  return "$status"
}

step() {
  local number=$1 phase=$2 title=$3 why=$4 undo=$5 kind=$6 shown=$7 answer
  if past "$phase"; then
    finish
  fi
  if [ "$phase" = clean ] && [ -e "$W/incomplete" ]; then
    say ""
    say "Not cleaned up: what is still damaged may be brought back from here. Run the script again once it can be."
    finish
  fi
  if [ -e "$W/done/$number" ]; then
    say "[$number/$STEPS] $phase: $title (done before)"
    if [ "$kind" = again ] && [ ! -e "$W/done/$STEPS" ]; then
      safely "run_$number" || die "[step-failed] Step $number ($title) failed when it was repeated."
    fi
    arm
    return 0
  fi
  say ""
  say "[$number/$STEPS] $phase: $title"
  [ -z "$why" ] || say "  why:  $why"
  [ -z "$undo" ] || say "  undo: $undo"
  say "  \$ ${shown:0:2000}"
  if [ "$kind" = by-hand ] && [ "$YES" = 1 ]; then
    say "  skipped with --yes: this step needs a decision. Run the script again without --yes, or run the line above."
    return 0
  fi
  if [ "$YES" = 0 ]; then
    has_terminal || die "[no-terminal] There is no terminal to ask on. Run it with --yes, or on one."
    read -r -p "  run it? [y/N] " answer </dev/tty
    if [ "$kind" = by-hand ] && [ "$answer" != y ] && [ "$answer" != Y ]; then
      say "  skipped"
      return 0
    fi
    [ "$answer" = y ] || [ "$answer" = Y ] || die "before step $number at your request. Run the script again to resume."
  fi
  safely "run_$number" || die "[step-failed] Step $number ($title) failed; nothing after it was run."
  arm
  safely "check_$number" || die "[check-failed] Step $number ($title) did not give the computed result."
  mkdir -p "$W/done"
  : >"$W/done/$number"
}

finish() {
  say ""
  [ ! -e "$W/outcome.txt" ] || cat "$W/outcome.txt" >&2
  if [ -e "$W/incomplete" ]; then
    say "NOT COMPLETE. Files are in $W."
    exit 3
  fi
  say "Done up to: $UNTIL. Files are in $W."
  exit 0
}

check_tools
mkdir -p "$W"
chmod 700 "$W"
trap unlock EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
lock
LEFT=$(survivors)
[ -z "$LEFT" ] || die "[still-running] A tool of a killed run is still running (process $LEFT): wait until it ends."
if [ -e "$W/plan.id" ] && [ "$(<"$W/plan.id")" != "$PLAN_ID" ]; then
  die "[other-plan] $W belongs to another plan. Move it away, or plan with another --work-dir."
fi
# Each file is whole or not there, wherever the script is stopped.
keep() { printf '%s\n' "$2" >"$1.new" && mv "$1.new" "$1"; }
keep "$W/plan.json" "$PLAN"
keep "$W/plan.id" "$PLAN_ID"
disarm
[ -z "$SOURCE_USER" ] || ask source "$SOURCE_USER" "$SOURCE_PASSWORD_FILE"
[ -z "$SPARE_USER" ] || [ "$UNTIL" = secure ] || ask spare "$SPARE_USER" "$SPARE_PASSWORD_FILE"
