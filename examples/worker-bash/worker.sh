#!/usr/bin/env bash
# A TaskForge worker in bash and curl, one job at a time. docs/reference/worker-protocol.md is the protocol.
# A job's command gets the payload on its input; what it prints is the result, and an exit status other than 0 is a failure.
set -u
: "${TASKFORGE_URL:?}" "${TASKFORGE_TOKEN:?a worker key}"
GRACE_SECONDS=${TASKFORGE_GRACE_SECONDS:-10}

declare -A COMMANDS=(
  [echo]='cat'
  [sleep]='payload=$(cat); sleep "$(field seconds <<<"$payload")"; echo "$payload"'
  [fail]='times=$(field times); [ "$ATTEMPT" -gt "$times" ] || { echo "attempt $ATTEMPT was to fail" >&2; exit 1; }; echo "{\"attempts\": $ATTEMPT}"'
)

# --- JSON: jq where there is one, python3 elsewhere

if command -v jq >/dev/null; then
  field() { jq -r --arg path "$1" 'getpath($path / "." | map(tonumber? // .)) | if . == null then empty elif type == "string" then . else tojson end' 2>/dev/null; }
  as_string() { jq -Rs .; }
  as_result() { jq -cs 'if length == 1 then .[0] else error("not one document") end' 2>/dev/null <"$1" || as_string <"$1"; }
else
  field() { python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) and int(key) < len(value) else value.get(key) if isinstance(value, dict) else None
if value is not None: print(value if isinstance(value, str) else json.dumps(value))' "$1"; }
  as_string() { python3 -c 'import json, sys; print(json.dumps(sys.stdin.buffer.read().decode(errors="replace")))'; }
  as_result() { python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))' 2>/dev/null <"$1" || as_string <"$1"; }
fi
export -f field

# --- the protocol: one call, and one that is sent until it is answered

# Prints the answer; the status is 0 for 2xx, 2 for "try again", 9 for 409, 1 for anything else (our mistake, or a bad key).
post() { # verb body [seconds]
  local answer status
  answer=$(printf %s "$2" | curl -sS --max-time "${3:-20}" -H "Authorization: Bearer $TASKFORGE_TOKEN" -H 'Content-Type: application/json' \
    --data-binary @- -w '\n%{http_code}' "${TASKFORGE_URL%/}/api/v1/worker/$1" 2>>"$STATE/errors") || return 2
  status=${answer##*$'\n'}
  printf '%s\n' "${answer%$'\n'*}"
  case $status in 2??) return 0 ;; 409) return 9 ;; 408 | 429 | 5??) return 2 ;; *) echo "$1: $answer" >&2; return 1 ;; esac
}

call() { # verb body
  local tries=0 answer status
  while true; do
    answer=$(post "$1" "$2"); status=$?
    if [ $status -ne 2 ]; then printf '%s\n' "$answer"; return $status; fi
    sleep "$(awk -v t=$tries -v r=$RANDOM 'BEGIN { w = 0.2 * 2 ^ t; print (w > 10 ? 10 : w) * (1 + r / 65536) }')"
    tries=$((tries + 1))
  done
}

# --- beside the main loop: a heartbeat that renews the lease, and stops the command when its job was cancelled or lost

heartbeats() {
  local answer execution
  while sleep "$HEARTBEAT_SECONDS"; do
    answer=$(post heartbeat "{\"incarnation\": \"$INCARNATION\"}" 5)
    case $? in
      0)
        execution=$(cat "$STATE/execution" 2>/dev/null)
        [ "$(field drain <<<"$answer")" = true ] && touch "$STATE/drain" || rm -f "$STATE/drain"
        [ -n "$execution" ] && [[ $answer == *"\"$execution\""* ]] && stop_command cancel
        ;;
      9) touch "$STATE/over"; stop_command lost; return ;;
      1) touch "$STATE/over" "$STATE/refused"; stop_command lost; return ;;
    esac
  done
}

stop_command() { # why: the first reason stays
  local group
  [ -e "$STATE/why" ] || echo "$1" >"$STATE/why"
  group=$(cat "$STATE/group" 2>/dev/null) && kill -TERM -- "-$group" 2>/dev/null
}

await() { # pid: wakes up now and then to see whether this worker was told to stop
  local ended status
  while kill -0 "$1" 2>/dev/null; do
    if stopping && [ -z "$STOPPER" ]; then let_go; fi
    sleep 1 &
    wait -n -p ended "$1" $!; status=$?
    if [ "${ended:-}" = "$1" ]; then return $status; fi
  done
  wait "$1"
}

# --- one job

perform() { # job (JSON)
  local job=$1 execution type limit status outcome began why error
  execution=$(field execution <<<"$job") type=$(field job_type <<<"$job")
  limit=$(for one in timeout_seconds deadline_seconds; do field $one <<<"$job"; done | sort -g | head -1)
  rm -f "$STATE/why"; field payload <<<"$job" >"$STATE/payload"; [ -s "$STATE/payload" ] || echo null >"$STATE/payload"
  echo "$execution" >"$STATE/execution"
  began=$EPOCHREALTIME
  ATTEMPT=$(field attempt <<<"$job") setsid timeout --kill-after 5 "${limit:-0}" bash -c "${COMMANDS[$type]:-exit 127}" \
    <"$STATE/payload" >"$STATE/output" 2>"$STATE/trouble" &
  local command=$!
  echo $command >"$STATE/group"
  await $command; status=$?
  rm -f "$STATE/group" "$STATE/execution"
  why=$(cat "$STATE/why" 2>/dev/null)
  if [ "$why" = lost ]; then return; fi
  if [ -n "$why" ]; then outcome="{\"kind\": \"$why\"}"
  elif [ "$status" -eq 0 ]; then outcome="{\"kind\": \"success\", \"result\": $(as_result "$STATE/output")}"
  elif [ "$status" -eq 124 ]; then outcome="{\"kind\": \"timeout\", \"seconds\": $limit}"
  else
    error=$(tail -c 2000 "$STATE/trouble" | as_string)
    outcome="{\"kind\": \"failure\", \"error\": {\"type\": \"exit $status\", \"message\": $error}}"
  fi
  report "$execution" "$outcome" "$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')"
}

report() { # execution outcome ran_seconds
  call complete "{\"incarnation\": \"$INCARNATION\", \"outcomes\": [{\"execution\": \"$1\", \"outcome\": $2, \"ran_seconds\": $3}]}" >/dev/null
}

# --- the main loop

claim_and_perform() {
  local doubt=0 held job answer status tries=0
  until [ -e "$STATE/over" ] || stopping; do
    if [ -e "$STATE/drain" ]; then sleep 1; continue; fi
    held=''; [ "$SECONDS" -lt "$doubt" ] && held=', "held": []' # nothing runs between two jobs
    post claim "{\"incarnation\": \"$INCARNATION\", \"limit\": 1, \"wait_seconds\": 30$held}" 45 >"$STATE/claimed" &
    await $!; status=$?
    case $status in
      0)
        tries=0
        job=$(field jobs.0 <"$STATE/claimed")
        if [ -z "$job" ]; then continue; fi
        if stopping; then report "$(field execution <<<"$job")" '{"kind": "hand_back"}' 0; else perform "$job"; fi
        ;;
      2) doubt=$((SECONDS + 60)); tries=$((tries < 5 ? tries + 1 : 5)); sleep "$((1 << (tries - 1))).$((RANDOM % 10))" ;; # the answer was lost: a job may be ours
      9) touch "$STATE/over" ;;
      *) touch "$STATE/over" "$STATE/refused" ;;
    esac
  done
}

let_go() { # a newer claim ends the one that waits, a second one also if they crossed; the command that runs gets some time
  (
    for pause in 1 "$GRACE_SECONDS"; do
      post claim "{\"incarnation\": \"$INCARNATION\", \"limit\": 0}" >/dev/null
      sleep "$pause"
    done
    stop_command hand_back
  ) &
  STOPPER=$!
}

stopping() { [ -e "$STATE/stop" ]; }

main() {
  local answer types
  trap : TERM # sent to the whole group, it is for the shell below to hear
  trap 'kill $BEATING $STOPPER 2>/dev/null' EXIT
  types=$(printf '"%s", ' "${!COMMANDS[@]}")
  until stopping || [ -e "$STATE/refused" ]; do
    rm -f "$STATE/over" "$STATE/drain"
    answer=$(call register "{\"name\": \"bash-$HOSTNAME-$$\", \"types\": [${types%, }], \"max_concurrent_jobs\": 1, \"host\": \"$HOSTNAME\", \"pid\": $$}") || exit 1
    INCARNATION=$(field incarnation <<<"$answer") HEARTBEAT_SECONDS=$(field heartbeat_seconds <<<"$answer")
    heartbeats & BEATING=$!
    claim_and_perform
    kill $BEATING 2>/dev/null
  done
  if [ ! -e "$STATE/over" ]; then post deregister "{\"incarnation\": \"$INCARNATION\"}" >/dev/null; fi
  [ ! -e "$STATE/refused" ]
}

# A shell that does nothing but wait hears every signal; one that starts other programs all the time can miss one.
STATE=$(mktemp -d) STOPPER='' BEATING='' INCARNATION=''
trap 'rm -rf "$STATE"' EXIT
trap 'touch "$STATE/stop"' TERM INT
main & MAIN=$!
while wait $MAIN; STATUS=$?; kill -0 $MAIN 2>/dev/null; do :; done
exit $STATUS
