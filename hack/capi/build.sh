#!/bin/sh
# build.sh OUT: builds Cluster API's controllers in OUT, with their kinds in OUT/crd and their webhooks in OUT/webhook.
. "$(dirname "$0")/../programs.sh"

echo "building Cluster API's controllers: with an empty build cache about 13 minutes of CPU time" >&2
core=$(source_of sigs.k8s.io/cluster-api)
test=$(source_of sigs.k8s.io/cluster-api/test)

# provider NAME PACKAGE FOLDER: builds one, and copies what its FOLDER has to be installed.
provider() {
	program "$1" "$2"
	kinds "$3/config/crd/bases"
	mkdir -p "$out/webhook"
	cat "$3/config/webhook/manifests.yaml" >"$out/webhook/$1.yaml"
}
provider core sigs.k8s.io/cluster-api/core "$core/core"
provider bootstrap sigs.k8s.io/cluster-api/bootstrap/kubeadm "$core/bootstrap/kubeadm"
provider controlplane sigs.k8s.io/cluster-api/controlplane/kubeadm "$core/controlplane/kubeadm"
provider infrastructure sigs.k8s.io/cluster-api/test/infrastructure/docker "$test/infrastructure/docker"
built
