#!/usr/bin/env bash
# The built wheel in an environment of its own, in an empty folder: what a new user does first.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
bin=$work/venv/bin
# Most of what is installed is never imported here, so nothing is compiled ahead of its import.
unset PYTHONDONTWRITEBYTECODE
install=("$bin/pip" install --quiet --disable-pip-version-check --no-compile -c "$root/constraints.txt")
# From a copy: another installation may be writing beside the sources.
mkdir "$work/source"
cp -r "$root"/{pyproject.toml,README.md,LICENSE,src} "$work/source"
rm -rf "$work"/source/src/*.egg-info
"$bin/pip" wheel --quiet --disable-pip-version-check --no-deps -w "$work/dist" "$work/source"
"${install[@]}" "$(ls "$work"/dist/*.whl)"
cd "$work"
mkdir empty && cd empty

"$bin/groupnoise" --version
# A first fit on a CSV takes no extra.
"$bin/python" - <<'PY'
import random
random.seed(0)
with open("bags.csv", "w") as stream:
    print("bag,label,x,y", file=stream)
    for bag in range(60):
        for row in range(3):
            x = random.gauss(4.0 * (bag % 2 and row == 0), 1.0)
            print(f"b{bag},{('no', 'yes')[bag % 2]},{x:.4f},{random.gauss(0, 1):.4f}", file=stream)
PY
"$bin/groupnoise" fit bags.csv --setting mil -o model --quiet
"$bin/groupnoise" evaluate model bags.csv --setting mil
"$bin/groupnoise" predict model bags.csv --setting mil --output answers.csv
test "$(wc -l < answers.csv)" -eq 181

"${install[@]}" "$(ls "$work"/dist/*.whl)[all]"
"$bin/groupnoise" demo --quick
"$bin/groupnoise" reproduce unseen --quick --datasets "iris uniform" --methods pl-knn,clpl --jobs 1
"$bin/groupnoise" serve --demo --port 0 > serve.log 2>&1 &
server=$!
for _ in $(seq 120); do
    address=$(grep -oE 'http://127\.0\.0\.1:[0-9]+' serve.log | head -n 1 || true)
    if [ -n "$address" ] && "$bin/python" -c "import urllib.request as u; u.urlopen('$address/readyz')" 2>/dev/null; then
        echo "serve --demo is ready at a loopback address"
        kill "$server"
        wait "$server" || true
        echo "clean install: all commands ran"
        exit 0
    fi
    sleep 1
done
cat serve.log
exit 1
