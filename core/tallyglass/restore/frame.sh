set -euo pipefail
umask 077

YES=0
UNTIL=clean
SOURCE_PASSWORD_FILE=
SPARE_PASSWORD_FILE=
PHASES="secure restore verify return clean"

say() { printf '%s\n' "$*" >&2; }
die() { say "STOPPED: $*"; exit 1; }

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
  for name in sha256sum awk tallyglass; do
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
    password=$(<"$file")
  else
    [ -r /dev/tty ] || die "[password] No terminal to ask on: give --$role-password-file."
    IFS= read -rs -p "Password of $user on the $role: " password </dev/tty
    say ""
  fi
  printf '%s' "$password" >"$W/$role.password"
}

arm() {
  local role file password quote="'"
  for role in source spare; do
    file=$W/$role.password
    [ -f "$file" ] && [ -f "$W/$role.yml" ] || continue
    grep -q '^password:' "$W/$role.yml" && continue
    password=$(<"$file")
    printf "password: '%s'\n" "${password//$quote/$quote$quote}" >>"$W/$role.yml"
  done
}

disarm() {
  local role
  for role in source spare; do
    rm -f "$W/$role.password"
    if [ -f "$W/$role.yml" ] && grep -q '^password:' "$W/$role.yml"; then
      grep -v '^password:' "$W/$role.yml" >"$W/$role.yml.new" || true
      mv "$W/$role.yml.new" "$W/$role.yml"
    fi
  done
}

# --- steps

LAST_PHASE=
past() {
  local phase seen=0
  for phase in $PHASES; do
    [ "$seen" = 1 ] && [ "$phase" = "$1" ] && return 0
    [ "$phase" = "$UNTIL" ] && seen=1
  done
  return 1
}

step() {
  local number=$1 phase=$2 title=$3 why=$4 undo=$5 shown=$6 answer
  if past "$phase"; then
    finish
  fi
  if [ -e "$W/done/$number" ]; then
    say "[$number/$STEPS] $phase: $title (done before)"
    arm
    return 0
  fi
  say ""
  say "[$number/$STEPS] $phase: $title"
  [ -z "$why" ] || say "  why:  $why"
  [ -z "$undo" ] || say "  undo: $undo"
  say "  \$ ${shown:0:2000}"
  if [ "$YES" = 0 ]; then
    read -r -p "  run it? [y/N] " answer </dev/tty
    [ "$answer" = y ] || [ "$answer" = Y ] || die "at step $number, as you wished. Run the script again to go on."
  fi
  "run_$number" || die "[step-failed] Step $number ($title) failed; nothing after it was run."
  arm
  "check_$number" || die "[check-failed] Step $number ($title) did not give what was computed beforehand."
  mkdir -p "$W/done"
  : >"$W/done/$number"
}

finish() {
  say ""
  say "Done up to: $UNTIL. Files are in $W."
  exit 0
}

check_tools
if [ -e "$W/plan.id" ] && [ "$(<"$W/plan.id")" != "$PLAN_ID" ]; then
  die "[other-plan] $W belongs to another plan. Move it away, or plan with another --work-dir."
fi
mkdir -p "$W"
chmod 700 "$W"
printf '%s\n' "$PLAN_ID" >"$W/plan.id"
printf '%s\n' "$PLAN" >"$W/plan.json"
trap disarm EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
[ -z "$SOURCE_USER" ] || ask source "$SOURCE_USER" "$SOURCE_PASSWORD_FILE"
[ -z "$SPARE_USER" ] || ask spare "$SPARE_USER" "$SPARE_PASSWORD_FILE"
