#!/bin/sh
# build.sh OUT: builds the kube binary at OUT, with progress on stderr. Does nothing if
# OUT was built from the very same sources by the same Go.
set -eu

out=$1
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

# Contents, not times: in a fresh clone every file is new.
stamp=$(
	{
		go env GOVERSION GOOS GOARCH
		find . -type f \( -name '*.go' ! -name '*_test.go' -o -name 'go.*' -o -name build.sh \) | LC_ALL=C sort | xargs cat
	} | cksum
)
if [ -x "$out" ] && [ "$(cat "$out.stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi

mkdir -p "$(dirname "$out")"
tmp=$out.$$
trap 'rm -f "$tmp" "$tmp.failed"' EXIT
start=$(date +%s)
echo "building kube: with an empty build cache about 2,300 packages, 6 minutes of CPU time" >&2

# The same flags as the main module's build, so that both share one build cache.
# GOGC=off tunes the compiler, not the result; its heap peaks at 1.1 GB, the linker's at 1.8 GB.
v=k8s.io/component-base/version
{
	CGO_ENABLED=0 GOGC=off GOMEMLIMIT=3GiB go build -v -o "$tmp" \
		-ldflags "-s -w -X $v.gitVersion=v1.37.2 -X $v.gitMajor=1 -X $v.gitMinor=37" . 2>&1 ||
		touch "$tmp.failed"
} | {
	n=0
	end='\n'
	[ -t 2 ] && end='\r'
	while IFS= read -r line; do
		case $line in
		*[!A-Za-z0-9./_~-]*) printf '%s\n' "$line" >&2 && continue ;; # not a package: a message
		esac
		n=$((n + 1))
		if [ "$end" = '\r' ] || [ $((n % 100)) = 0 ]; then
			printf "  %d packages, %d s   $end" "$n" $(($(date +%s) - start)) >&2
		fi
	done
	[ "$end" = '\r' ] && echo >&2 || true
}
[ ! -e "$tmp.failed" ]
mv "$tmp" "$out"
printf '%s\n' "$stamp" >"$out.stamp"
echo "built $out in $(($(date +%s) - start)) s" >&2
