# Run it again to resume. Options: --yes, --until=PHASE, --source-password-file=FILE,
# --spare-password-file=FILE, --max-silence=SECONDS.
set -euo pipefail
umask 077
CALLED_FROM=$PWD
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"

# Files that are not as they were written. The script itself adds the passwords to *.yml, so these are read later.
changed() { grep -E "$1" checksums | sha256sum --check 2>/dev/null | sed -n 's/: FAILED.*//p'; }
refuse_changed() {
  local files
  files=$(changed "$1" || true)
  if [ "$(grep -c . checksums 2>/dev/null)" != "$FILES" ] || [ -n "$files" ]; then
    echo "STOPPED: [edited] Changed since it was written: ${files:-checksums}. Nothing was run; write the plan again." >&2
    exit 1
  fi
}
command -v sha256sum >/dev/null || { echo "STOPPED: [tool-missing] sha256sum is not installed here." >&2; exit 1; }
refuse_changed '\.(sh|js|json|txt|md)$'

. ./lib.sh
read_options "$@"
check_tools
begin
refuse_changed .
ask_passwords
load_steps <steps.txt
for number in $(seq 1 "$STEPS"); do
  step "$number"
done
finish
