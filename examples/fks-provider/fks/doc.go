// Package fks has the controllers of FKSCluster and FKSControlPlane: what is wanted, as calls of the Foo Kubernetes Service. It is held
// to the guideline for providers of clusters, docs/providers-of-clusters.md, step by step; comments have the steps' numbers.
package fks
