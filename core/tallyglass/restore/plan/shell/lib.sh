# What restore.sh consists of.

YES=0
UNTIL=clean
SOURCE_PASSWORD_FILE=
SPARE_PASSWORD_FILE=
MAX_SILENCE=600
PHASES="secure restore verify return clean"

say() {
  printf '%s\n' "$*" >&2
  [ "$LOCKED" = 0 ] || printf '%s\n' "$*" >>restore.log
}
die() { say "STOPPED: $*"; exit 1; }
fail() { die "$* $(likely_cause)What it printed is in $LOG."; }

# What the tools leave unsaid, by the last lines that they printed.
likely_cause() {
  case $(tail -n 5 "$LOG") in
    *'applyOps had one or more errors'*)
      printf '%s ' 'Likely a validator does not take a document: Database Tools before 100.15 lose' \
        '--bypassDocumentValidation in a replay. Check mongorestore --version; the log of the spare names the cause.' ;;
    *'not authorized'*applyOps*)
      printf '%s ' 'The user on the spare needs a role with anyAction on anyResource. Grant it, and run the script again.' ;;
    *'No space left on device'* | *'no space left on device'*)
      printf '%s ' 'The disk is full: make room, and run the script again.' ;;
  esac
}
has_terminal() { { : </dev/tty; } 2>/dev/null; }

usage() {
  say "usage: restore.sh [--yes] [--until secure|restore|verify|return|clean]"
  say "                  [--source-password-file FILE] [--spare-password-file FILE]"
  say "                  [--max-silence SECONDS, 0 for no limit; now $MAX_SILENCE]"
  exit 2
}

read_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --yes) YES=1 ;;
      --until) [ $# -gt 1 ] || usage; UNTIL=$2; shift ;;
      --until=*) UNTIL=${1#*=} ;;
      --source-password-file) [ $# -gt 1 ] || usage; SOURCE_PASSWORD_FILE=$2; shift ;;
      --source-password-file=*) SOURCE_PASSWORD_FILE=${1#*=} ;;
      --spare-password-file) [ $# -gt 1 ] || usage; SPARE_PASSWORD_FILE=$2; shift ;;
      --spare-password-file=*) SPARE_PASSWORD_FILE=${1#*=} ;;
      --max-silence) [ $# -gt 1 ] || usage; MAX_SILENCE=$2; shift ;;
      --max-silence=*) MAX_SILENCE=${1#*=} ;;
      *) usage ;;
    esac
    shift
  done
  case " $PHASES " in *" $UNTIL "*) ;; *) usage ;; esac
  [[ $MAX_SILENCE =~ ^[0-9]{1,6}$ ]] || usage
}

# --- tools: all of one version, and new enough

version_of() { "$1" --version 2>&1 | grep -m1 -Eo '[0-9]+\.[0-9]+\.[0-9]+' || true; }
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

check_tools() {
  local name version first=
  for name in mongodump mongorestore bsondump; do
    command -v "$name" >/dev/null || die "[tool-missing] $name is not installed here; $NEEDED or newer is needed."
    version=$(version_of "$name")
    [ -n "$version" ] || die "[tool-version] The version of $name cannot be read."
    older "$version" "$NEEDED.0" && die "[tool-version] $name is $version; $NEEDED or newer is needed."
    [ -z "$first" ] || [ "$first" = "$version" ] || die "[tool-mixed] The tools are of different versions."
    first=$version
  done
  for name in awk ps seq tallyglass; do
    command -v "$name" >/dev/null || die "[tool-missing] $name is not installed here."
  done
  version=$(tallyglass --version 2>&1 | head -n 1 || true)
  [ "$version" = "tallyglass $VERSION" ] ||
    die "[tallyglass-version] This plan was made by tallyglass $VERSION; the version here is: $version. Plan again."
  if [ "$USES_MONGOSH" = 1 ]; then
    command -v mongosh >/dev/null || die "[tool-missing] mongosh is not installed here."
  fi
  if [ "$USES_MONGOD" = 1 ]; then
    command -v mongod >/dev/null || die "[tool-missing] mongod is not installed here; or plan again with --spare."
    version=$(version_of mongod)
    [ "${version%.*}" = "${SERVER%.*}" ] || die "[spare-version] mongod is $version here, the source is $SERVER."
  fi
}

# --- passwords: in the tools' configuration files for as long as the script runs, and in no argument

ask_passwords() {
  [ -z "$SOURCE_USER" ] || ask source "$SOURCE_USER" "$SOURCE_PASSWORD_FILE"
  [ -z "$SPARE_USER" ] || [ "$UNTIL" = secure ] || ask spare "$SPARE_USER" "$SPARE_PASSWORD_FILE"
}

ask() {
  local role=$1 user=$2 file=$3 password quote="'"
  if [ -n "$file" ]; then
    # Relative to where the script was called from.
    case $file in /*) ;; *) file=$CALLED_FROM/$file ;; esac
    [ -r "$file" ] || die "[password] $file cannot be read."
    # The first line alone, without its end; a file may lack the last line end.
    IFS= read -r password <"$file" || true
    password=${password%$'\r'}
    [ -n "$password" ] || die "[password] $file is empty. Its first line is the password."
  else
    has_terminal || die "[password] There is no terminal to ask on: give --$role-password-file."
    IFS= read -rs -p "Password of $user on the $role: " password </dev/tty
    say ""
  fi
  printf "password: '%s'\n" "${password//$quote/$quote$quote}" >>"$role.yml"
}

disarm() {
  local role
  for role in ${SOURCE_USER:+source} ${SPARE_USER:+spare}; do
    if grep -q '^password:' "$role.yml"; then
      grep -v '^password:' "$role.yml" >"$role.yml.new" || true
      mv "$role.yml.new" "$role.yml"
    fi
  done
}

# --- one run at a time

LOCKED=0
born() { LC_ALL=C ps -o lstart= -p "$1" 2>/dev/null || true; }

begin() {
  local left
  trap unlock EXIT
  trap 'end_step 130' INT
  trap 'end_step 143' TERM HUP
  lock
  left=$(survivors)
  [ -z "$left" ] || die "[still-running] A step of a killed run is still running (process $left): wait until it ends."
  mkdir -p log done
  disarm
}

lock() {
  local pid='' began='' host='' advice
  if mkdir lock 2>/dev/null; then
    LOCKED=1
    printf '%s\n' "$$" "$(born $$)" "$(uname -n)" >lock/pid
    return
  fi
  [ -d lock ] || die "[folder] $PWD cannot be written to."
  { IFS= read -r pid && IFS= read -r began && IFS= read -r host; } <lock/pid 2>/dev/null || true
  printf -v advice 'rm -r %q' "$PWD/lock"
  if [ -z "$host" ]; then
    die "[locked] $PWD/lock exists but does not name its owner: another run is just starting, or was stopped while" \
      "it started. If none is running: $advice"
  elif [ "$host" != "$(uname -n)" ]; then
    die "[locked] A run on $host (process $pid) uses $PWD. If that run has ended: $advice"
  elif [ -n "$began" ] && [ "$(born "$pid")" = "$began" ]; then
    die "[locked] Another run of this restore is in progress (process $pid). Wait for it, or stop it."
  fi
  die "[stale-lock] The run that held $PWD (process $pid) was killed." \
    "Remove the lock: $advice. Then run the script again: it resumes where that one stopped."
}

unlock() {
  [ "$LOCKED" = 1 ] || return 0
  disarm
  rm -rf lock
}

# A step outlives a script that was killed, and goes on writing. It has a process group of its own, named in `running`.
survivors() {
  local pid='' began='' now
  [ -s running ] || return 0
  { IFS= read -r pid && IFS= read -r began; } <running || true
  now=$(born "$pid")
  [ -z "$now" ] || [ "$now" = "$began" ] || return 0
  ps -eo pid=,pgid=,stat= | awk -v group="$pid" '$2 == group && $3 !~ /^Z/ {print $1}' | tr '\n' ' '
}

# --- steps

STEP=
REPORT=
declare -a PHASE TITLE LINE MODE EXITS PROOF TAKES TEXT

load_steps() {
  local row number=0 in_line=0
  while IFS= read -r row; do
    if [[ $row =~ ^\[([0-9]+)/[0-9]+\]\ ([a-z]+):\ (.*)$ ]]; then
      number=${BASH_REMATCH[1]}
      PHASE[number]=${BASH_REMATCH[2]} TITLE[number]=${BASH_REMATCH[3]} TEXT[number]=$row
      MODE[number]=once EXITS[number]=0 PROOF[number]=: TAKES[number]=0
    elif [ "$number" -gt 0 ] && [ -n "$row" ]; then
      TEXT[number]+=$'\n'$row
      case $row in
        '  $ '*) LINE[number]=${row#'  $ '} in_line=1 ;;
        '    '*) [ "$in_line" = 0 ] || LINE[number]=${LINE[number]%\\}${row#'    '} ;;
        *)
          in_line=0
          case $row in
            '  mode:  '*) MODE[number]=${row#'  mode:  '} ;;
            '  exits: '*) EXITS[number]=${row#'  exits: '} ;;
            '  check: '*) PROOF[number]=${row#'  check: '} ;;
            '  takes: '*) [[ $row =~ \(([0-9]+)\ s\) ]] && TAKES[number]=${BASH_REMATCH[1]} ;;
          esac
          ;;
      esac
    fi
  done
}

is_past() {
  local phase seen=0
  for phase in $PHASES; do
    [ "$seen" = 1 ] && [ "$phase" = "$1" ] && return 0
    [ "$phase" = "$UNTIL" ] && seen=1
  done
  return 1
}

is_done() {
  local number=$1
  # A guard is repeated with each attempt at the step after it.
  [ "${MODE[number]}" != guard ] || number=$((number + 1))
  [ -e "done/$number" ]
}

time_left() {
  local number sum=0 unknown=0
  for number in $(seq "$1" "$STEPS"); do
    is_past "${PHASE[number]}" || is_done "$number" || {
      sum=$((sum + TAKES[number]))
      [ "${TAKES[number]}" -gt 0 ] || unknown=$((unknown + 1))
    }
  done
  if [ "$sum" -ge 120 ]; then printf 'about %s min' "$((sum / 60))"; else printf 'about %s s' "$sum"; fi
  [ "$unknown" = 0 ] || printf ', and %s steps without an estimate' "$unknown"
}

step() {
  local number=$1 guard=
  is_past "${PHASE[number]}" && finish
  if [ "${PHASE[number]}" = clean ] && [ -e incomplete ]; then
    say ""
    say "Not cleaned up: this folder can still restore what is damaged. Run the script again once that is possible."
    finish
  fi
  if is_done "$number"; then
    say "[$number/$STEPS] ${PHASE[number]}: ${TITLE[number]} (done before)"
    if [ "${MODE[number]}" = again ] && [ ! -e "done/$STEPS" ]; then
      attempt "$number" || fail "[step-failed] Step $number (${TITLE[number]}) failed when it was repeated."
    fi
    return 0
  fi
  [ "${MODE[number]}" != guard ] || return 0
  say ""
  if [ "$number" -gt 1 ] && [ "${MODE[number - 1]}" = guard ]; then
    guard=$((number - 1))
    say "${TEXT[guard]}"
  fi
  say "${TEXT[number]}"
  say "  left:  $(time_left "$number"), with this step"
  if [ "${MODE[number]}" = by-hand ] && [ "$YES" = 1 ]; then
    say "  skipped with --yes: this step needs a decision. Run the script again without --yes, or run the line above."
    return 0
  fi
  if [ "${MODE[number]}" = preview ] && [ "$YES" = 1 ]; then
    say "  skipped with --yes: it only shows what the next steps do."
    return 0
  fi
  wants "$number" || return 0
  for number in $guard "$number"; do
    attempt "$number" || fail "[step-failed] Step $number (${TITLE[number]}) failed; nothing after it was run."
  done
  eval "${PROOF[number]}" || fail "[check-failed] Step $number (${TITLE[number]}) did not give the computed result."
  : >"done/$number"
}

wants() {
  local number=$1 answer
  [ "$YES" = 0 ] || return 0
  has_terminal || die "[no-terminal] There is no terminal to ask on. Run it with --yes, or in a terminal."
  read -r -p "  run it? [y/N] " answer </dev/tty
  case $answer in y | Y) return 0 ;; esac
  case ${MODE[number]} in by-hand | preview) ;; *) die "before step $number at your request. Run the script again to resume." ;; esac
  say "  skipped"
  return 1
}

# What tools print holds names out of the data, which may hold what steers a terminal: shown made visible, logged as is.
attempt() {
  local number=$1 status=0 shown gate beat since=$SECONDS
  LOG=log/$number.txt
  rm -f words silent
  mkfifo words
  exec {gate}<>words  # until both ends are open: a reader alone would wait for ever if this script were killed now
  { tee "$LOG" | cat -v >&2; } <words {gate}>&- &
  shown=$!
  set -m
  bash -c 'printf "%s\n" "$$" "$(LC_ALL=C ps -o lstart= -p "$$")" >running; exec bash -c "$1"' step \
    "${LINE[number]}" >words 2>&1 </dev/null {gate}>&- &
  STEP=$!
  set +m
  exec {gate}>&-
  # Opened last, so that nothing else holds it: it closes, and the watcher ends, however this script ends.
  exec {beat}> >(watch "$STEP" >/dev/null 2>&1)
  wait "$STEP" || status=$?
  STEP=
  exec {beat}>&-
  wait "$shown" || true
  rm -f words running
  REPORT+="  [$number/$STEPS] ${PHASE[number]}: ${TITLE[number]}, $((SECONDS - since)) s"$'\n'
  [ ! -e silent ] || die "[step-silent] Step $number (${TITLE[number]}) was ended, and nothing after it was run:" \
    "$(cat silent) printed nothing new for $MAX_SILENCE s, and no server was working for it. What it printed is in" \
    "$LOG. See the log of the server and check the backup; then run the script again: it repeats this step."
  case " ${EXITS[number]} " in *" $status "*) return 0 ;; esac
  return 1
}

# mongodump and mongorestore print every three seconds how far they are, so repeated lines mean that they wait. For a
# server that works, such as at an index, they wait for as long as it takes; for nothing at all, not for ever.
watch() {
  local group=$1 lines=0 now tool since=$SECONDS
  [ "$MAX_SILENCE" -gt 0 ] || return 0
  while stays 3; do
    now=$(sed 's/^[^[:space:]]*[[:space:]]//' "$LOG" | sort -u | wc -l)
    tool=$(ps -eo pgid=,comm= | awk -v group="$group" '$1 == group && $2 ~ /mongo(dump|restore)$/ {print $2; exit}')
    if [ "$now" != "$lines" ] || [ -z "$tool" ]; then
      lines=$now since=$SECONDS
    elif [ $((SECONDS - since)) -ge "$MAX_SILENCE" ]; then
      if server_works "$tool"; then
        since=$SECONDS
      elif stays 0.1; then
        printf '%s\n' "$tool" >silent
        kill -TERM -- "-$group"
        stays 10 && kill -KILL -- "-$group"
        return 0
      fi
    fi
  done
}

# Whether the step is still running after so many seconds: the other end of this input is open for as long.
stays() { read -rt "$1" || [ $? -gt 128 ]; }

server_works() {
  local server
  for server in spare.yml source.yml; do
    if [ -e "$server" ] && tallyglass restore working "$server" --app="${1##*/}"; then return 0; fi
  done
  return 1
}

end_step() {
  [ -z "$STEP" ] || kill -TERM -- "-$STEP" 2>/dev/null || true
  say "Stopped at your request. Run the script again to resume."
  exit "$1"
}

finish() {
  say ""
  [ -z "$REPORT" ] || say "What was done:"$'\n'"${REPORT%$'\n'}"
  [ ! -e outcome.txt ] || say "$(cat outcome.txt)"
  if [ -e incomplete ]; then
    say "NOT COMPLETE. Files are in $PWD."
    exit 3
  fi
  say "Done up to: $UNTIL. Files are in $PWD."
  exit 0
}

# --- checks after a step: what the tool wrote at its end

applied_all() { grep -qE "^[^[:space:]]+[[:space:]]applied $1 oplog entries$" "$LOG"; }

# The last line alone: in those before it stand names out of the data, which may read like it.
restored_all() {
  local came="$1 document\(s\) restored successfully\. 0 document\(s\) failed to restore\."
  tail -n 1 "$LOG" | grep -qE "^[^[:space:]]+[[:space:]]$came$"
}
