#!/bin/sh
# A producer and worker for Fairlane with nothing but curl and a POSIX shell.
#
# FAIRLANE_URL  where the server is (http://127.0.0.1:8080 unless set)
# FAIRLANE_KEY  a key of the role admin (it both produces and works); none where the server asks for none
#
# grep and sed take the answers apart. That works because this script made the ids and payloads itself, without quotes in
# them, and leases one job at a time. For anything else install jq, or use another language.
set -eu

url=${FAIRLANE_URL:-http://127.0.0.1:8080}
run=$(date +%s)-$$
group=example bulk=sh-$run type=greeting-sh worker=sh-$run
lease_ms=3000

# The key goes into a file that only we can read: arguments of programs are there for all to see.
umask 077
work=$(mktemp -d)
following= beating=
trap 'kill $following $beating 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
: >"$work/key"
[ -z "${FAIRLANE_KEY:-}" ] || printf 'header = "authorization: Bearer %s"\n' "$FAIRLANE_KEY" >"$work/key"

# A proxy of the environment is for the way out, and this server is next door.
direct() { curl -sS --noproxy '*' --connect-timeout 10 -K "$work/key" "$@"; }

# post PATH JSON: prints the response if its status is 2xx. Fails with 1 if a retry can succeed: there was no response,
# the server is full or stopping, or a proxy cannot reach it; fails with 2 otherwise.
post() {
    answered=$(direct --max-time 40 -w '\n%{http_code}' -H 'content-type: application/json' -d "$2" "$url$1") || return 1
    status=$(printf '%s' "$answered" | tail -n 1)
    case $status in
    2??) printf '%s' "$answered" | sed '$d' ;;
    429 | 502 | 503 | 504) return 1 ;;
    *)
        echo "$1: $status $(printf '%s' "$answered" | sed '$d')" >&2
        return 2
        ;;
    esac
}

# ask PATH JSON: the same until there is an answer. Every request here may be repeated, so a lost answer does no harm.
ask() {
    while :; do
        failed=0
        post "$1" "$2" || failed=$?
        [ "$failed" -eq 1 ] || return "$failed"
        echo "$1: again in a second" >&2
        sleep 1
    done
}

# field NAME JSON: the first value of that name, a text or a number.
field() {
    printf '%s' "$2" | grep -o "\"$1\":\"\{0,1\}[^\",}]*" | head -n 1 | sed 's/^[^:]*:"\{0,1\}//'
}

# settle OUTCOME MORE: says how the job in hand ended.
settle() {
    body='{"settlements":[{"group":"'$group'","id":"'$id'","fence":'$fence',"attempt":'$attempt',"outcome":"'$1'"'$2'}]}'
    ask /api/leases/settle "$body" >/dev/null
    echo "$id: $1 (attempt $attempt)"
}

# Keeps the lease of the job in hand until it is stopped.
heartbeat() {
    while sleep 1; do
        post /api/leases/extend \
            '{"leases":[{"group":"'$group'","id":"'$id'","fence":'$fence'}],"lease_ms":'$lease_ms'}' >/dev/null || true
    done
}

# Writes down what becomes of the bulk action; the stream ends when it has ended, or breaks off. The server sends
# something every 15 seconds, if only to be heard.
follow() {
    until grep -qs '^event: ended' "$work/events"; do
        direct -N --fail --speed-limit 1 --speed-time 40 "$url/api/bulks/$group/$bulk/events" >>"$work/events" || sleep 1
    done
}

# A bulk action of ten jobs, in one request.
ask /api/bulks '{"group":"'$group'","id":"'$bulk'"}' >/dev/null
jobs=
for name in slow busy shaky ada grace edsger barbara donald frances ken; do
    jobs=$jobs${jobs:+,}'{"group":"'$group'","type":"'$type'","bulk":"'$bulk'","id":"'$bulk-$name'","payload":"'$name'"}'
done
ask /api/jobs/batch '{"jobs":['"$jobs"']}' >/dev/null
ask "/api/bulks/$group/$bulk/seal" '{"expected":10}' >/dev/null

follow &
following=$!

request=0 throttled=
until grep -qs '^event: ended' "$work/events"; do
    # `ask` repeats the same number until there is an answer: a job that was leased for a lost answer comes back.
    request=$((request + 1))
    wanted='{"worker":"'$worker'","types":["'$type'"],"lease_ms":'$lease_ms',"wait_ms":1000,"request":'$request'}'
    answer=$(ask /api/leases "$wanted")
    id=$(field id "$answer")
    [ -n "$id" ] || continue
    fence=$(field fence "$answer") attempt=$(field attempt "$answer") name=$(field payload "$answer")
    case $name in
    slow) # Takes longer than its lease, which is kept alive meanwhile.
        heartbeat &
        beating=$!
        sleep 4
        kill "$beating"
        beating=
        settle succeeded ',"result":"hello slow"'
        ;;
    busy) # Its downstream says 429 once: costs no attempt, and nothing of this type starts before.
        if [ -z "$throttled" ]; then
            throttled=yes
            settle throttled ',"retry_after_ms":500'
        else
            settle succeeded ',"result":"hello busy"'
        fi
        ;;
    shaky) # Fails at first. Without a delay the server chooses one, longer with each attempt.
        if [ "$attempt" -eq 1 ]; then
            settle retry ',"code":"shaky","reason":"it fell over"'
        else
            settle succeeded ',"result":"hello shaky"'
        fi
        ;;
    *) settle succeeded ',"result":"hello '"$name"'"' ;;
    esac
done
wait
following=

end=$(sed -n '/^event: ended/,/^$/s/^data: //p' "$work/events")
echo "$bulk: $(field state "$end"), $(field succeeded "$end") of $(field total "$end") succeeded," \
    "$(grep -c '^event: progress' "$work/events") states on the way"
[ "$(field state "$end")" = completed ]
