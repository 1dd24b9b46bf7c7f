#!/bin/sh
# build.sh OUT: builds Cluster API's controllers in OUT, with their kinds in OUT/crd and their webhooks in OUT/webhook. Does nothing if they
# were made of the same versions by the same Go.
set -eu

out=$1
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

stamp=$({ go env GOVERSION GOOS GOARCH; cat go.mod go.sum build.sh; } | cksum)
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi
mkdir -p "$out/crd" "$out/webhook"
start=$(date +%s)
echo "building Cluster API's controllers: with an empty build cache about 13 minutes of CPU time" >&2
# No stamp while they are half made.
rm -f "$out/stamp"

# Where they lie is known once they are there.
go mod download sigs.k8s.io/cluster-api sigs.k8s.io/cluster-api/test
core=$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)
test=$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api/test)

# provider NAME PACKAGE FOLDER: builds one, and copies what its FOLDER has to be installed.
provider() {
	CGO_ENABLED=0 GOGC=off GOMEMLIMIT=3GiB go build -o "$out/$1" -ldflags "-s -w" "$2"
	for kind in "$3"/config/crd/bases/*.yaml; do
		cat "$kind" >"$out/crd/${kind##*/}"
	done
	cat "$3/config/webhook/manifests.yaml" >"$out/webhook/$1.yaml"
	echo "  $1 after $(($(date +%s) - start)) s" >&2
}
provider core sigs.k8s.io/cluster-api/core "$core/core"
provider bootstrap sigs.k8s.io/cluster-api/bootstrap/kubeadm "$core/bootstrap/kubeadm"
provider controlplane sigs.k8s.io/cluster-api/controlplane/kubeadm "$core/controlplane/kubeadm"
provider infrastructure sigs.k8s.io/cluster-api/test/infrastructure/docker "$test/infrastructure/docker"

printf '%s\n' "$stamp" >"$out/stamp"
echo "built $out in $(($(date +%s) - start)) s" >&2
