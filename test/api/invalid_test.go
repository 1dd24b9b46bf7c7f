package api_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusal is a spec that is refused, and what the message must say: the field, and what would be right.
type refusal struct {
	kind, spec string
	says       []string
}

const long = "a123456789012345678901234567890123456789012345678901234567890123" // 64

func refusals() []refusal {
	lb := func(spec string, says ...string) refusal {
		return refusal{"cluster.x-k8s.io/v1beta1 LoadBalancer", spec, says}
	}
	old := func(spec string, says ...string) refusal {
		return refusal{"cluster.x-k8s.io/v1alpha4 LoadBalancer", spec, says}
	}
	tg := func(spec string, says ...string) refusal {
		return refusal{"fairlead.dev/v1alpha1 TargetGroup", spec, says}
	}
	class := func(spec string, says ...string) refusal {
		return refusal{"fairlead.dev/v1alpha1 LoadBalancerClass", spec, says}
	}
	pool := func(spec string, says ...string) refusal {
		return refusal{"fairlead.dev/v1alpha1 AddressPool", spec, says}
	}
	address := func(spec string, says ...string) refusal { return refusal{"fairlead.dev/v1alpha1 Address", spec, says} }
	tenant := func(spec string, says ...string) refusal { return refusal{"fairlead.dev/v1alpha1 Tenant", spec, says} }
	proxy := func(spec string, says ...string) refusal { return refusal{"fairlead.dev/v1alpha1 Proxy", spec, says} }
	endpoint := func(spec string, says ...string) refusal {
		return refusal{"cluster.x-k8s.io/v1beta1 ClusterEndpoint", spec, says}
	}
	external := func(spec string, says ...string) refusal {
		return refusal{"controlplane.cluster.x-k8s.io/v1beta1 ExternalControlPlane", spec, says}
	}
	return []refusal{
		lb(`null`, "spec: Required value"),
		lb(`{role: Queen}`, "spec.role", `"ControlPlane", "Workload"`),
		lb(`{clusterName: `+long+`}`, "spec.clusterName", "63"),
		lb(`{className: a, infrastructureRef: {kind: K, name: nn}}`, "spec", "className and infrastructureRef exclude each other: keep one"),
		lb(`{infrastructureRef: {kind: K}}`, "spec.infrastructureRef.name", "Required"),
		lb(`{infrastructureRef: {name: nn}}`, "spec.infrastructureRef.kind", "Required"),
		lb(`{infrastructureRef: {kind: "", name: nn}}`, "spec.infrastructureRef.kind", "at least 1"),
		lb(`{targetKind: {apiGroup: cluster.x-k8s.io}}`, "spec.targetKind.kind", "Required"),
		lb(`{endpoint: {host: a.example}}`, "spec.endpoint", "host and port go together: set both, or leave both out"),
		lb(`{endpoint: {port: 443}}`, "spec.endpoint", "host and port go together"),
		lb(`{endpoint: {host: null, port: 443}}`, "spec.endpoint", "host and port go together"),
		lb(`{endpoint: {host: "a b", port: 443}}`, "spec.endpoint.host", "DNS name, such as api.example.com, or an IP address"),
		lb(`{endpoint: {host: a.example, port: 65536}}`, "spec.endpoint.port", "65535"),
		lb(`{alternateEndpoints: [{host: a.example}]}`, "spec.alternateEndpoints[0]", "host and port go together"),
		lb(`{selector: {matchExpressions: [{key: a, operator: Like, values: [b]}]}}`, "spec.selector.matchExpressions[0].operator", `"In", "NotIn", "Exists", "DoesNotExist"`),
		lb(`{selector: {matchExpressions: [{key: a, operator: In}]}}`, "spec.selector.matchExpressions[0]", "operators In and NotIn need values"),
		lb(`{selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`, "spec.selector.matchExpressions[0]", "Exists and DoesNotExist take none"),
		lb(`{ports: [{port: 0}]}`, "spec.ports[0].port", "greater than or equal to 1"),
		lb(`{ports: [{port: 65536}]}`, "spec.ports[0].port", "65535"),
		lb(`{ports: [{targetPort: 80}]}`, "spec.ports[0].port", "Required"),
		lb(`{ports: [{port: 80, targetPort: 70000}]}`, "spec.ports[0].targetPort", "65535"),
		lb(`{ports: [{port: 80, protocol: ICMP}]}`, "spec.ports[0].protocol", `"TCP", "UDP", "SCTP"`),
		lb(`{ports: [{port: 80}, {port: 80, protocol: TCP}]}`, "spec.ports[1]", "Duplicate"),
		lb(`{ports: [{port: 80, name: a}, {port: 81, name: a}]}`, "spec.ports", "each port's name must be unique: rename one, or leave it out"),
		lb(`{ports: [{port: 80, mode: UDP}]}`, "spec.ports[0].mode", "mode UDP goes with protocol UDP, and every other mode with protocol TCP"),
		lb(`{ports: [{port: 80, protocol: SCTP, mode: HTTP}]}`, "spec.ports[0].mode", "every other mode with protocol TCP"),
		lb(`{ports: [{port: 80, mode: Gopher}]}`, "spec.ports[0].mode", `"HTTPS"`),
		lb(`{ports: [{port: 80, tls: {certificateRefs: [{name: c}]}}]}`, "spec.ports[0].tls", "tls goes with mode HTTPS or TLS"),
		lb(`{ports: [{port: 80, mode: TLS, tls: {certificateRefs: []}}]}`, "spec.ports[0].tls.certificateRefs", "at least 1"),
		lb(`{healthCheck: {port: 80}}`, "spec.healthCheck.type", "Required"),
		lb(`{healthCheck: {type: Ping}}`, "spec.healthCheck.type", `"TCP", "HTTP", "HTTPS", "None"`),
		lb(`{healthCheck: {type: HTTP, path: readyz}}`, "spec.healthCheck.path", "^/"),
		lb(`{healthCheck: {type: TCP, path: /}}`, "spec.healthCheck.path", "path goes with type HTTP or HTTPS"),
		lb(`{healthCheck: {type: TCP, alive: [404]}}`, "spec.healthCheck.alive", "alive goes with type HTTP or HTTPS"),
		lb(`{healthCheck: {type: HTTP, alive: [99]}}`, "spec.healthCheck.alive[0]", "100"),
		lb(`{healthCheck: {type: TCP, port: -1}}`, "spec.healthCheck.port", "1"),
		lb(`{healthCheck: {type: TCP, interval: 1d}}`, "spec.healthCheck.interval", "interval must be a duration between 100ms and 1h, such as 2s"),
		lb(`{healthCheck: {type: TCP, interval: 1ms}}`, "spec.healthCheck.interval", "between 100ms and 1h"),
		lb(`{healthCheck: {type: TCP, timeout: soon}}`, "spec.healthCheck.timeout", "timeout must be a duration between 10ms and 1m, such as 1s"),
		lb(`{healthCheck: {type: TCP, timeout: 5}}`, "spec.healthCheck.timeout", "string"),
		lb(`{healthCheck: {type: TCP, healthy: 101}}`, "spec.healthCheck.healthy", "100"),
		lb(`{healthCheck: {type: TCP, unhealthy: 101}}`, "spec.healthCheck.unhealthy", "100"),
		lb(`{machineHooks: {type: Prayer}}`, "spec.machineHooks.type", `"PreDrain", "PreTerminate", "None"`),
		lb(`{machineHooks: {maxWait: 1y}}`, "spec.machineHooks.maxWait", "maxWait must be a duration between 0s and 720h, such as 10m"),
		lb(`{machineHooks: {onMaxWait: Panic}}`, "spec.machineHooks.onMaxWait", `"Release", "Block"`),
		lb(`{addresses: [my-address]}`, "spec.addresses", "addresses must be IP addresses, such as 192.0.2.7"),
		lb(`{addresses: [192.0.2.300]}`, "spec.addresses", "addresses must be IP addresses"),
		lb(`{ipFamilyPolicy: Both}`, "spec.ipFamilyPolicy", `"SingleStack"`),
		lb(`{ipFamilies: [IPv5]}`, "spec.ipFamilies[0]", `"IPv4", "IPv6"`),
		lb(`{ipFamilies: [IPv4, IPv4]}`, "spec.ipFamilies", "ipFamilies names a family twice: name each once"),
		lb(`{sourceRanges: [192.0.2.1]}`, "spec.sourceRanges", "sourceRanges must be CIDRs, such as 192.0.2.0/24"),
		lb(`{sessionAffinity: Cookie}`, "spec.sessionAffinity", `"None", "ClientIP"`),
		lb(`{sessionAffinityTimeout: 25h}`, "spec.sessionAffinityTimeout", "between 1s and 24h, such as 3h"),
		lb(`{trafficDistribution: PreferSamePlanet}`, "spec.trafficDistribution", `"PreferSameZone"`),
		lb(`{proxyProtocol: V3}`, "spec.proxyProtocol", `"V1", "V2"`),
		lb(`{drainTimeout: 1d}`, "spec.drainTimeout", "drainTimeout must be a duration between 0s and 720h, such as 5m"),
		lb(`{drainTimeout: -1s}`, "spec.drainTimeout", "between 0s and 720h"),
		lb(`{drainTimeout: 9999999999h}`, "spec.drainTimeout", "between 0s and 720h"),
		lb(`{idleTimeout: forever}`, "spec.idleTimeout", "idleTimeout must be a duration between 0s and 720h, such as 1h"),
		old(`{drainTimeout: 1d}`, "spec.drainTimeout", "drainTimeout must be a duration between 0s and 720h, such as 5m"),
		old(`{endpoint: {host: a.example}}`, "spec.endpoint", "host and port go together"),

		tg(`{targets: [{name: a}]}`, "spec.targets[0].uid", "Required"),
		tg(`{targets: [{name: "", uid: u}]}`, "spec.targets[0].name", "at least 1"),
		tg(`{targets: [{name: a, uid: u}, {name: a, uid: v}]}`, "spec.targets[1]", "Duplicate"),
		tg(`{targets: [{name: a, uid: u, weight: 257}]}`, "spec.targets[0].weight", "256"),
		tg(`{targets: [{name: a, uid: u, weight: -1}]}`, "spec.targets[0].weight", "0"),
		tg(`{targets: [{name: a, uid: u, state: Resting}]}`, "spec.targets[0].state", `"Serving", "Draining"`),
		tg(`{targets: [{name: a, uid: u, drainFor: 1d}]}`, "spec.targets[0].drainFor", "drainFor must be a duration between 0s and 720h, such as 5m"),
		tg(`{healthCheck: {type: TCP, interval: 1d}}`, "spec.healthCheck.interval", "interval must be a duration"),

		class(`{proxy: {pool: edge, clientAddress: Forge}}`, "spec.proxy.clientAddress", `"Keep", "Hide"`),
		class(`null`, "spec", "Required"),
		class(`{}`, "spec", "set exactly one of proxy, service, infrastructureTemplate and hooksOnly"),
		class(`{proxy: {pool: edge}, service: {type: ClusterIP}}`, "spec", "set exactly one of"),
		class(`{proxy: {}}`, "spec.proxy.pool", "Required"),
		class(`{proxy: {pool: edge, placement: Some}}`, "spec.proxy.placement", `"Every", "One"`),
		class(`{service: {type: NodePort}}`, "spec.service.type", `"LoadBalancer", "ClusterIP"`),
		class(`{infrastructureTemplate: {kind: K}}`, "spec.infrastructureTemplate.name", "Required"),
		class(`{hooksOnly: {}}`, "spec.hooksOnly.infrastructureRef", "Required"),
		class(`{proxy: {pool: edge}, defaults: {drainTimeout: 1d}}`, "spec.defaults.drainTimeout", "drainTimeout must be a duration"),
		class(`{proxy: {pool: edge}, defaults: {healthCheck: {type: TCP, path: /}}}`, "spec.defaults.healthCheck.path", "path goes with type"),

		pool(`null`, "spec", "Required"),
		pool(`{}`, "spec", "set exactly one of ranges and proxyHosts"),
		pool(`{ranges: [192.0.2.0/26], proxyHosts: {pool: edge, ports: 1-2}}`, "spec", "set exactly one of ranges and proxyHosts"),
		pool(`{ranges: []}`, "spec.ranges", "at least 1"),
		pool(`{ranges: [192.0.2.1]}`, "spec.ranges", "each of ranges must be a CIDR, such as 192.0.2.0/26, or two addresses of one family, such as 192.0.2.128-192.0.2.140"),
		pool(`{ranges: [192.0.2.1-fd00::1]}`, "spec.ranges", "two addresses of one family"),
		pool(`{ranges: [192.0.2.0/33]}`, "spec.ranges", "must be a CIDR"),
		pool(`{proxyHosts: {pool: edge, ports: 100-99}}`, "spec.proxyHosts.ports", "ports must be a range within 1 to 65535, such as 20000-29999"),
		pool(`{proxyHosts: {pool: edge, ports: all}}`, "spec.proxyHosts.ports", "such as 20000-29999"),
		pool(`{proxyHosts: {pool: edge, ports: 1-70000}}`, "spec.proxyHosts.ports", "65535"),
		pool(`{proxyHosts: {pool: Edge_1, ports: 1-2}}`, "spec.proxyHosts.pool", "pool must have lower-case letters, digits, hyphens and dots"),
		pool(`{proxyHosts: {pool: edge, ports: 1-2}, granularity: Address}`, "spec", "proxyHosts are granted by port: leave granularity out, or set Port"),
		pool(`{proxyHosts: {pool: edge, ports: 1-2}, share: Namespace}`, "spec", "ports are granted to all whom use admits: leave share out, or set Any"),
		pool(`{ranges: [192.0.2.0/26], granularity: Port, share: None}`, "spec", "leave share out, or set Any"),
		pool(`{ranges: [192.0.2.0/26], granularity: Bit}`, "spec.granularity", `"Address", "Port"`),
		pool(`{ranges: [192.0.2.0/26], share: Never}`, "spec.share", `"None", "Namespace", "Any"`),
		pool(`{ranges: [192.0.2.0/26], perTenant: -1}`, "spec.perTenant", "0"),
		pool(`{ranges: [192.0.2.0/26], quarantine: 1d}`, "spec.quarantine", "quarantine must be a duration between 0s and 720h, such as 1m"),
		pool(`{ranges: [192.0.2.0/26], onSilentProxy: Wait}`, "spec.onSilentProxy", `"Hold", "Release"`),
		pool(`{ranges: [192.0.2.0/26], use: {tenants: {matchExpressions: [{key: a, operator: In}]}}}`, "spec.use.tenants.matchExpressions[0]", "operators In and NotIn need values"),

		address(`{address: x, pool: p, phase: Granted}`, "spec.address", "address must be an IP address"),
		address(`{address: 192.0.2.1, pool: p, phase: Gone}`, "spec.phase", `"Granted", "Releasing", "Moved"`),
		address(`{address: 192.0.2.1, pool: p, phase: Granted, holders: [{namespace: aa, name: bb, ports: [80]}]}`, "spec.holders[0].ports[0]", "string"),
		address(`{address: 192.0.2.1, pool: p, phase: Granted, holders: [{namespace: aa, name: bb, ports: ["80"]}]}`, "spec.holders[0].ports[0]", "TCP|UDP|SCTP"),
		address(`{address: 192.0.2.1, pool: p, phase: Granted, releasingSince: yesterday}`, "spec.releasingSince", "must be a time, such as 2026-01-02T03:04:05Z"),

		tenant(`{namespace: Prod}`, "spec.namespace", "namespace must be a namespace's name: lower-case letters, digits and hyphens, such as prod-eu"),
		tenant(`{targetCIDRs: [10.1.0.4]}`, "spec.targetCIDRs", "targetCIDRs must be CIDRs, such as 10.1.0.0/16"),
		tenant(`{classes: [a, a]}`, "spec.classes[1]", "Duplicate"),
		tenant(`{quota: {loadBalancers: -1}}`, "spec.quota.loadBalancers", "0"),
		tenant(`{quota: {targets: many}}`, "spec.quota.targets", "integer"),

		proxy(`{}`, "spec.pool", "Required"),
		proxy(`null`, "spec", "Required"),
		proxy(`{pool: edge, fenced: {by: me}}`, "spec.fenced.reason", "Required"),

		external(`{controlPlaneEndpoint: {host: "https://a.example", port: 6443}}`, "spec.controlPlaneEndpoint.host", "DNS name, such as api.example.com, or an IP address"),
		external(`{controlPlaneEndpoint: {host: a.example}}`, "spec.controlPlaneEndpoint.port", "Required"),
		external(`{clusterUID: ""}`, "spec.clusterUID", "at least 1"),
		endpoint(`null`, "spec: Required value"),
		endpoint(`{host: a.example, port: 6443, type: apiserver}`, "spec.cluster", "Required"),
		endpoint(`{cluster: a, port: 6443, type: apiserver}`, "spec", "host and port go together: set both, or leave both out for serviceRef"),
		endpoint(`{cluster: a, host: a.example, type: apiserver}`, "spec", "host and port go together"),
		endpoint(`{cluster: a, type: apiserver}`, "spec", "host and port, or serviceRef, must say where the cluster is reached"),
		endpoint(`{cluster: a, host: a.example, port: 6443, serviceRef: {name: api}, type: apiserver}`, "spec", "host and port, and serviceRef, exclude each other: keep one of the two"),
		endpoint(`{cluster: a, host: a.example, serviceRef: {name: api}, type: apiserver}`, "spec", "host and port go together", "exclude each other"),
		endpoint(`{cluster: a, serviceRef: {port: 6443}, type: apiserver}`, "spec.serviceRef.name", "Required"),
		endpoint(`{cluster: a, serviceRef: {name: ""}, type: apiserver}`, "spec.serviceRef.name", "at least 1"),
		endpoint(`{cluster: a, serviceRef: {name: `+long+`}, type: apiserver}`, "spec.serviceRef.name", "63"),
		endpoint(`{cluster: a, serviceRef: {name: api, port: 0}, type: apiserver}`, "spec.serviceRef.port", "port must be the name of one of the Service's ports, or its number, from 1 to 65535"),
		endpoint(`{cluster: a, serviceRef: {name: api, port: 65536}, type: apiserver}`, "spec.serviceRef.port", "from 1 to 65535"),
		endpoint(`{cluster: a, serviceRef: {name: api, port: ""}, type: apiserver}`, "spec.serviceRef.port", "port must be the name"),
		endpoint(`{cluster: a, serviceRef: {name: api, port: `+long+`}, type: apiserver}`, "spec.serviceRef.port", "port must be the name"),
		endpoint(`{cluster: a, serviceRef: {name: api, port: 64.43}, type: apiserver}`, "spec.serviceRef.port"),
		endpoint(`{cluster: a, host: a.example, port: 6443}`, "spec.type", "Required"),
		endpoint(`{cluster: a, host: a.example, port: 6443, type: konnectivity}`, "spec.type", `"apiserver", "ExternalControlPlaneEndpoint"`),
		endpoint(`{cluster: a, host: "https://a.example", port: 6443, type: apiserver}`, "spec.host", "DNS name, such as api.example.com, or an IP address"),
		endpoint(`{cluster: a, host: a.example, port: 0, type: apiserver}`, "spec.port", "greater than or equal to 1"),
	}
}

func testRefusals(t *testing.T, h *hub) {
	namespace := h.namespace(t)
	for _, r := range refusals() {
		version, kind, _ := strings.Cut(r.kind, " ")
		t.Run(kind+" "+r.spec, func(t *testing.T) {
			u := parse(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: x}\nspec: %s", version, kind, r.spec))
			_, err := h.resource(t, u, namespace).Create(t.Context(), u, metav1.CreateOptions{})
			checkRefused(t, err, r.says...)
		})
	}
}

func checkRefused(t *testing.T, err error, says ...string) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Fatalf("not refused as invalid: %v", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the message doesn't say %q: %v", s, err)
		}
	}
}

// namesRefused are manifests whose names are refused, and in which words.
func namesRefused() map[string]string {
	return map[string]string{
		"apiVersion: cluster.x-k8s.io/v1beta1\nkind: LoadBalancer\nmetadata: {name: " + long + "}\nspec: {}":     "metadata.name must have 63 characters at most, for it is also a label value: choose a shorter one",
		"apiVersion: cluster.x-k8s.io/v1alpha4\nkind: LoadBalancer\nmetadata: {name: " + long + "}\nspec: {}":    "metadata.name must have 63 characters at most",
		"apiVersion: fairlead.dev/v1alpha1\nkind: Proxy\nmetadata: {name: " + long + "}\nspec: {pool: p}":        "metadata.name must have 63 characters at most",
		"apiVersion: fairlead.dev/v1alpha1\nkind: Tenant\nmetadata: {name: " + long + "}\nspec: {namespace: ns}": "metadata.name must have 63 characters at most",
		"apiVersion: fairlead.dev/v1alpha1\nkind: Tenant\nmetadata: {name: prod.eu}\nspec: {}":                   "metadata.name must have no dots, for it becomes a namespace: choose another, or set spec.namespace",
		"apiVersion: fairlead.dev/v1alpha1\nkind: Tenant\nmetadata: {name: prod.eu}":                             "metadata.name must have no dots",
	}
}

// Names that would break a label or a namespace are refused.
func testNames(t *testing.T, h *hub) {
	namespace := h.namespace(t)
	for manifest, says := range namesRefused() {
		u := parse(t, manifest)
		_, err := h.resource(t, u, namespace).Create(t.Context(), u, metav1.CreateOptions{})
		checkRefused(t, err, says)
	}
	for _, manifest := range []string{
		"apiVersion: cluster.x-k8s.io/v1beta1\nkind: LoadBalancer\nmetadata: {name: " + long[:63] + "}\nspec: {}",
		"apiVersion: fairlead.dev/v1alpha1\nkind: Tenant\nmetadata: {name: prod.eu}\nspec: {namespace: prod-eu}",
		"apiVersion: fairlead.dev/v1alpha1\nkind: Tenant\nmetadata: {name: bare}",
	} {
		u := parse(t, manifest)
		h.createWithStatus(t, namespace, u)
	}
}

// repeat is a list of n items, made by f.
func repeat(n int, f func(i int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// Each list and map has an end, so that no tenant fills the caches of the others.
func testAbsurdSizes(t *testing.T, h *hub) {
	namespace := h.namespace(t)
	ip := func(i int) any { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) }
	cidr := func(i int) any { return fmt.Sprint(ip(i), "/32") }
	name := func(i int) any { return fmt.Sprintf("name-%d", i) }
	for _, test := range []struct {
		kind, path string
		value      any
	}{
		{"cluster.x-k8s.io/v1beta1 LoadBalancer", "ports", repeat(101, func(i int) any { return map[string]any{"port": int64(i + 1)} })},
		{"cluster.x-k8s.io/v1beta1 LoadBalancer", "addresses", repeat(9, ip)},
		{"cluster.x-k8s.io/v1beta1 LoadBalancer", "sourceRanges", repeat(257, cidr)},
		{"cluster.x-k8s.io/v1beta1 LoadBalancer", "alternateEndpoints", repeat(17, func(int) any { return map[string]any{"host": "a.example", "port": int64(1)} })},
		{"fairlead.dev/v1alpha1 TargetGroup", "targets", repeat(101, func(i int) any { return map[string]any{"name": name(i), "uid": "u"} })},
		{"fairlead.dev/v1alpha1 Tenant", "targetCIDRs", repeat(65, cidr)},
		{"fairlead.dev/v1alpha1 Tenant", "hostnames", repeat(257, name)},
		{"fairlead.dev/v1alpha1 AddressPool", "ranges", repeat(65, cidr)},
	} {
		version, kind, _ := strings.Cut(test.kind, " ")
		t.Run(kind+" "+test.path, func(t *testing.T) {
			u := parse(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: x}\nspec: {}", version, kind))
			u.Object["spec"] = map[string]any{test.path: test.value}
			_, err := h.resource(t, u, namespace).Create(t.Context(), u, metav1.CreateOptions{})
			checkRefused(t, err, "spec."+test.path, "must have at most")
			// One less is taken: the bound is where it is said to be, and CEL's cost fits there.
			u.Object["spec"] = map[string]any{test.path: test.value.([]any)[1:]}
			if _, err := h.resource(t, u, namespace).Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// The largest list with the costliest rule stays within CEL's budget at run time.
func testCostliestPorts(t *testing.T, h *hub) {
	u := parse(t, "apiVersion: cluster.x-k8s.io/v1beta1\nkind: LoadBalancer\nmetadata: {name: x}")
	u.Object["spec"] = map[string]any{"ports": repeat(100, func(i int) any {
		return map[string]any{"port": int64(i + 1), "name": fmt.Sprintf("%s%03d", strings.Repeat("a", 60), i), "mode": "HTTPS",
			"tls": map[string]any{"certificateRefs": repeat(16, func(i int) any { return map[string]any{"name": fmt.Sprintf("c%d", i)} })}}
	})}
	h.createWithStatus(t, h.namespace(t), u)
}
