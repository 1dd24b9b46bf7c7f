#!/bin/sh
# build.sh OUT: builds clusterctl at OUT/clusterctl, with the kinds of Cluster API's core in OUT/crd.
. "$(dirname "$0")/../programs.sh"

echo "building clusterctl: half a minute of CPU time after bin/capi, which shares most of its packages" >&2
program clusterctl sigs.k8s.io/cluster-api/cmd/clusterctl
kinds "$(source_of sigs.k8s.io/cluster-api)/core/config/crd/bases"
built
