package testkit

import (
	"strconv"
	"strings"
)

// defaultControllers are all that `kube controllers` runs by default. They are named
// here so that options can add to them.
var defaultControllers = []string{
	"namespace", "serviceaccount", "serviceaccount-token", "root-ca-publisher",
	"clusterrole-aggregation", "garbage-collector", "endpointslice",
	"deployment", "replicaset", "node-lifecycle", "taint-eviction", "scheduler",
}

// auditPolicy: every write, once it is answered, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Metadata}
`

// Groups and plugins that nobody here uses cost 70 MB. A plugin that watches a group
// goes with it.
var (
	unusedGroups = []string{
		"autoscaling/v1", "autoscaling/v2", "batch/v1", "certificates.k8s.io/v1", "node.k8s.io/v1",
		"scheduling.k8s.io/v1", "storage.k8s.io/v1", "resource.k8s.io/v1", "storagemigration.k8s.io/v1",
	}
	unusedPlugins = []string{
		"Priority", "StorageObjectInUseProtection", "PersistentVolumeClaimResize", "RuntimeClass",
		"DefaultIngressClass", "DefaultStorageClass", "TaintNodesByCondition", "CertificateApproval",
		"CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest", "PodTopologyLabels",
	}
	quotaPlugins = []string{"LimitRanger", "ResourceQuota"}
	podPlugins   = []string{"PodSecurity"}
)

const fairnessGroup = "flowcontrol.apiserver.k8s.io/v1"

func (c *ControlPlane) serviceRanges() string {
	if c.options.DualStack {
		return "10.96.0.0/16,fd00:10:96::/112"
	}
	return "10.96.0.0/16"
}

func (c *ControlPlane) apiServerFlags() []string {
	groups := unusedGroups
	plugins := unusedPlugins
	address := c.subnet.host(1).String()
	flags := []string{
		"--etcd-servers=" + c.url("http", etcdPort),
		"--bind-address=" + address,
		"--advertise-address=" + address, // needed where there is no default route
		"--secure-port=" + strconv.Itoa(apiServerPort),
		"--tls-cert-file=" + c.path("apiserver.crt"),
		"--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-key-file=" + c.path("sa.key"),
		"--service-account-signing-key-file=" + c.path("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=" + c.serviceRanges(),
		"--endpoint-reconciler-type=none",
	}
	if !c.options.PriorityAndFairness {
		// Without it only a count of requests is left, whose default (200 writes) turns
		// bursts away for a second.
		flags = append(flags, "--enable-priority-and-fairness=false", "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000")
		groups = append(groups[:len(groups):len(groups)], fairnessGroup)
	}
	if !c.options.Quota {
		plugins = append(plugins[:len(plugins):len(plugins)], quotaPlugins...)
	}
	if !c.options.PodSecurity {
		plugins = append(plugins[:len(plugins):len(plugins)], podPlugins...)
	}
	if c.options.Audit {
		flags = append(flags, "--audit-policy-file="+c.path("audit-policy.yaml"), "--audit-log-path="+c.AuditLog(), "--audit-log-maxsize=4096")
	}
	flags = append(flags,
		"--disable-admission-plugins="+strings.Join(plugins, ","),
		"--runtime-config="+strings.Join(groups, "=false,")+"=false",
	)
	return append(flags, c.options.APIServerFlags...)
}
