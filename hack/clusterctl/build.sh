#!/bin/sh
# build.sh OUT: builds clusterctl at OUT/clusterctl, with the kinds of Cluster API's core in OUT/crd. Does nothing if they were made of the
# same versions by the same Go.
set -eu

out=$1
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

stamp=$({ go env GOVERSION GOOS GOARCH; cat go.mod go.sum build.sh; } | cksum)
if [ -x "$out/clusterctl" ] && [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi
mkdir -p "$out/crd"
start=$(date +%s)
echo "building clusterctl: half a minute of CPU time after bin/capi, which shares most of its packages" >&2
# No stamp while it is half made.
rm -f "$out/stamp"
CGO_ENABLED=0 GOGC=off GOMEMLIMIT=3GiB go build -o "$out/clusterctl" -ldflags "-s -w" sigs.k8s.io/cluster-api/cmd/clusterctl
for kind in "$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)"/core/config/crd/bases/*.yaml; do
	cat "$kind" >"$out/crd/${kind##*/}"
done
printf '%s\n' "$stamp" >"$out/stamp"
echo "built $out in $(($(date +%s) - start)) s" >&2
