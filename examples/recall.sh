#!/usr/bin/env bash
# Ask a recall service with curl: ./recall.sh http://127.0.0.1:8000 item [item ...]
# The token, if the service needs one, is read from GROUPNOISE_TOKEN. Quotes in ids are not escaped here.
set -euo pipefail
address=$1
shift
history=$(printf '"%s",' "$@")
curl --silent --show-error --fail-with-body --max-time 10 --retry 3 \
    --header 'Content-Type: application/json' \
    ${GROUPNOISE_TOKEN:+--header "Authorization: Bearer $GROUPNOISE_TOKEN"} \
    --data "{\"histories\": [[${history%,}]], \"top\": 5}" \
    "$address/v1/recall"
