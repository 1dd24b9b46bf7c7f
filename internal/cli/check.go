package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Areas of checks, in the order in which they are printed: each needs those before.
const (
	areaHub      = "hub"
	areaKinds    = "kinds"
	areaRoles    = "roles"
	areaVersions = "versions"
	areaManager  = "manager"
	areaProxies  = "proxies"
	areaAgents   = "agents"
	areaNodes    = "nodes"
	areaTenant   = "tenant"

	areaManagement = "management"
)

// oldestHub is the oldest minor version of Kubernetes whose resource versions may be compared, which proofs do.
const oldestHub = 35

// aheadTolerance is how far a host's clock may be ahead of the hub's; by then its Leases look younger than they are.
const aheadTolerance = 5 * time.Second

// Diagnose judges whether all parts are there, can reach one another and may do what they must.
func Diagnose(f *Facts) Report {
	r := Report{Now: f.Now, Checks: []Check{}}
	r.server(areaHub, "hub", f.Server, oldestHub)
	r.installed(f.Installed)
	r.rights(f.Rights)
	r.versions(f)
	r.manager(f)
	r.proxies(f)
	r.agents(f)
	r.nodes(f)
	if f.Cluster != nil {
		r.cluster(f)
	}
	r.OK = !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.State.bad() })
	return r
}

func (r *Report) add(c Check) { r.Checks = append(r.Checks, c) }

func (r *Report) server(area, object string, s Server, oldest int) {
	c := Check{Area: area, Object: object, State: OK, Message: "Kubernetes " + s.Version}
	if s.Major == 1 && s.Minor < oldest {
		c.State = Broken
		c.Message += fmt.Sprintf(" is too old: resource versions can't be compared before 1.%d, and what proxies say would prove nothing", oldest)
		c.Fix = fmt.Sprintf("Upgrade its API server to Kubernetes 1.%d or newer.", oldest)
	}
	r.add(c)
}

// installedFix is how objects of an area are installed.
func installedFix(area string) string {
	switch area {
	case areaKinds:
		return "kubectl apply --server-side --force-conflicts -f config/crd"
	case areaManagement:
		return "In the management cluster: kubectl apply --server-side -k config/crd && kubectl apply --server-side -k config/rbac/management"
	case areaTenant:
		return "In the tenant's cluster: kubectl apply -k config/rbac/tenant"
	}
	return "kubectl apply -k config/rbac/hub"
}

// installed tells what is amiss one by one, an area after the other, and counts the rest.
func (r *Report) installed(all []Installed) {
	var areas []string
	for _, i := range all {
		if !slices.Contains(areas, i.Area) {
			areas = append(areas, i.Area)
		}
	}
	for _, area := range areas {
		good := 0
		var unserved []string
		for _, i := range all {
			c := Check{Area: area, Object: i.Kind + " " + i.Name, Fix: installedFix(area)}
			switch {
			case i.Area != area:
				continue
			case i.State == InstalledMissing:
				c.State, c.Message = Broken, "it is missing"
			case i.State == InstalledDifferent:
				c.State, c.Message = Warning, "it is not as this version brings it: another version's, or changed by hand"
			case i.State == InstalledHidden:
				c.State, c.Message, c.Fix = Skipped, "you may not look at it", "Ask with the identity of a cluster administrator."
			case i.State == InstalledUnserved:
				unserved = append(unserved, c.Object)
				continue
			default:
				good++
				continue
			}
			r.add(c)
		}
		if len(unserved) > 0 {
			r.add(Check{Area: area, Object: some(unserved), State: Warning, Message: "the API server doesn't serve these kinds: of a server without priority and fairness, a busy tenant may hold up others",
				Fix: "Have the API server serve them (--enable-priority-and-fairness), then: " + installedFix(area)})
		}
		if good > 0 {
			r.add(Check{Area: area, Object: count(good, "object"), State: OK, Message: "there"})
		}
	}
}

func (r *Report) rights(all []Rights) {
	for _, x := range all {
		c := Check{Area: x.Area, Object: x.Identity, State: OK, Message: fmt.Sprintf("may do all %d things that it must", x.Needs)}
		switch {
		case x.Hidden:
			c.State, c.Message, c.Fix = Skipped, "you may not ask what others may do", "Ask with an identity that may create subjectaccessreviews."
		case len(x.Lacks) > 0:
			c.State, c.Message, c.Fix = Broken, fmt.Sprintf("may not %s", some(x.Lacks)), x.Fix
		}
		r.add(c)
	}
}

// versions compares what runs.
func (r *Report) versions(f *Facts) {
	by := map[string][]string{}
	if lease := f.lease(v1alpha1.SystemNamespace, managerLease); lease != nil {
		if v := lease.Annotations[v1alpha1.AnnotationVersion]; v != "" {
			by[v] = append(by[v], "manager")
		}
	}
	for _, p := range f.Proxies {
		if v := p.Status.Version; v != "" && p.Status.Phase != v1alpha1.ProxyLeft {
			by[v] = append(by[v], "proxy "+p.Name)
		}
	}
	for _, t := range f.Tenants {
		if v := cmp.Or(f.AgentLeases[t.NamespaceName()].Version, t.Status.AgentVersion); v != "" {
			by[v] = append(by[v], "agent of "+t.Name)
		}
	}
	c := Check{Area: areaVersions, Object: "manager, proxies and agents", State: OK, Message: fmt.Sprintf("all are of this version, %s", f.Version)}
	var texts []string
	for _, v := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[v])
		texts = append(texts, fmt.Sprintf("%s: %s", v, some(by[v])))
	}
	switch {
	case len(by) == 0:
		c.State, c.Message = Skipped, "none has said its version"
	case len(by) > 1 || by[f.Version] == nil:
		c.State, c.Message = Warning, fmt.Sprintf("this program is %s; %s", f.Version, strings.Join(texts, "; "))
		c.Fix = "Nothing during an upgrade; else bring all to one version, in the order of docs/upgrading.md."
	}
	r.add(c)
}

func (r *Report) manager(f *Facts) {
	c := Check{Area: areaManager, Object: "manager", State: OK}
	if f.hidden("leases") {
		c.State, c.Message = Skipped, "Leases are not visible to you"
		r.add(c)
		return
	}
	if ev, dead := managerEvidence(f.Objects); dead {
		c.State, c.Message, c.Fix = Broken, ev.Text, "Start fairlead manager, or see to the one that hangs; its log says whether it reaches the hub."
		r.add(c)
		return
	}
	lease := f.lease(v1alpha1.SystemNamespace, managerLease)
	ago, _ := f.renewed(lease)
	c.Message = fmt.Sprintf("it renewed its Lease %s ago", short(ago))
	if h := lease.Spec.HolderIdentity; h != nil {
		c.Message = fmt.Sprintf("%s leads; %s", *h, c.Message)
	}
	r.add(c)
}

// proxies says whether each reaches the hub, and follows it.
func (r *Report) proxies(f *Facts) {
	if f.hidden("proxies") || f.hidden("leases") {
		r.add(Check{Area: areaProxies, Object: "proxies", State: Skipped, Message: "proxies are not visible to you", Fix: "Ask with the hub operator's kubeconfig."})
		return
	}
	live := map[string]int{}
	for _, v := range views(f.Objects, "") {
		c := r.proxy(f, v)
		if c.State == OK || c.State == Warning {
			live[v.Pool]++
		}
	}
	for _, class := range f.Classes {
		if class.Spec.Proxy == nil || live[class.Spec.Proxy.Pool] > 0 {
			continue
		}
		r.add(Check{Area: areaProxies, Object: "LoadBalancerClass " + class.Name, State: Broken,
			Message: fmt.Sprintf("no proxy of its pool %s is live: nothing of the class is served", class.Spec.Proxy.Pool), Fix: "Start fairlead proxy --pool " + class.Spec.Proxy.Pool + " on a proxy host."})
	}
}

func (r *Report) proxy(f *Facts, v *proof.Proxy) Check {
	i := slices.IndexFunc(f.Proxies, func(p *v1alpha1.Proxy) bool { return p.Name == v.Name })
	p := f.Proxies[i]
	rung := processRung(f.Objects, p, v)
	c := Check{Area: areaProxies, Object: "Proxy " + v.Name, State: rung.State, Message: rung.Message, Since: rung.Since, Fix: rung.Fix}
	if v.Out {
		// Somebody wanted that.
		c.State, c.Fix = Skipped, ""
	}
	if c.State.bad() && c.Fix == "" {
		c.Fix = Fix(rung.Reason)
	}
	lease := f.lease(v1alpha1.SystemNamespace, v.Name)
	switch hub := hubRung(f.Objects, p); {
	case c.State != OK:
	case hub.State != OK:
		c.State, c.Message, c.Since, c.Fix = hub.State, hub.Message, hub.Since, "fairlead explain proxy "+v.Name
	case len(p.Status.Held) > 0:
		c.State, c.Message = Warning, fmt.Sprintf("it can't write its report to %s", some(p.Status.Held))
		c.Fix = "Its log says why. It needs the ClusterRole fairlead-proxy: kubectl apply -k config/rbac/hub"
	case lease != nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.Sub(f.Now) > aheadTolerance:
		c.State = Warning
		c.Message = fmt.Sprintf("the clock of its host is %s ahead of the hub's", short(lease.Spec.RenewTime.Sub(f.Now)))
		c.Fix = "Set the clocks by NTP: what people are shown of ages is wrong else."
	}
	r.add(c)
	return c
}

// agents says whether each Tenant's agent reaches the hub.
func (r *Report) agents(f *Facts) {
	if f.hidden("tenants") {
		r.add(Check{Area: areaAgents, Object: "tenants", State: Skipped, Message: "Tenants are not visible to you", Fix: "Ask with the hub operator's kubeconfig."})
		return
	}
	tenants := slices.Clone(f.Tenants)
	slices.SortFunc(tenants, func(a, b *v1alpha1.Tenant) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range tenants {
		c := Check{Area: areaAgents, Object: "Tenant " + t.Name, State: OK, Message: "its agent is at work"}
		x := condition(t.Status.Conditions, v1alpha1.ConditionAgentConnected, t.Generation)
		renewal, seen := f.AgentLeases[t.NamespaceName()]
		ready := condition(t.Status.Conditions, v1alpha1.ConditionReady, t.Generation)
		switch {
		case ready != nil && ready.Status != metav1.ConditionTrue:
			c.State, c.Message, c.Since, c.Fix = Broken, ready.Reason+": "+ready.Message, &ready.LastTransitionTime, Fix(ready.Reason)
		case x != nil && x.Status != metav1.ConditionTrue:
			c.State, c.Message, c.Since, c.Fix = Broken, x.Reason+": "+x.Message, &x.LastTransitionTime, Fix(x.Reason)
		case f.AgentLeases != nil && !seen:
			c.State, c.Message, c.Fix = Broken, "no agent has ever reached the hub", "Start fairlead agent --hub-kubeconfig with a token of ServiceAccount "+t.NamespaceName()+"/"+v1alpha1.AgentServiceAccount+"; its log says whether it reaches the hub."
		case seen && f.Now.Sub(renewal.At) > agentSilence:
			c.State, c.Message = Broken, fmt.Sprintf("its agent renewed its Lease %s ago", short(f.Now.Sub(renewal.At)))
			c.Since, c.Fix = &metav1.Time{Time: renewal.At}, "See to the agent, and to the way from it to the hub; its log says which it is. What it made is served on."
		case renewal.Refused != "":
			c.State, c.Message = Warning, "another cluster's agent uses its identity, last seen: "+renewal.Refused
			c.Fix = Fix(v1alpha1.ReasonOtherCluster)
		case seen:
			c.Message += fmt.Sprintf(", its Lease was renewed %s ago", short(max(f.Now.Sub(renewal.At), 0)))
		}
		r.add(c)
	}
}

// agentSilence is after how long an agent, which renews each minute, counts as silent here.
const agentSilence = 3 * time.Minute

// cluster looks at a tenant's own.
func (r *Report) cluster(f *Facts) {
	x := f.Cluster
	r.server(areaTenant, "cluster", x.Server, 0)
	i := slices.IndexFunc(f.Tenants, func(t *v1alpha1.Tenant) bool { return t.Name == x.Tenant })
	switch {
	case i < 0 || x.UID == "":
	case f.Tenants[i].Status.ClusterUID == "":
		r.add(Check{Area: areaTenant, Object: "Tenant " + x.Tenant, State: Waiting, Message: "it isn't bound to a cluster yet", Fix: "Start its agent: the first that comes binds it."})
	case f.Tenants[i].Status.ClusterUID != x.UID:
		r.add(Check{Area: areaTenant, Object: "Tenant " + x.Tenant, State: Broken,
			Message: fmt.Sprintf("it is bound to cluster %s, and this one is %s", f.Tenants[i].Status.ClusterUID, x.UID),
			Fix:     fmt.Sprintf("Give the kubeconfig of its own cluster; or if this one replaces that: kubectl annotate tenant %s --overwrite %s=%s", x.Tenant, v1alpha1.AnnotationClusterUID, x.UID)})
	default:
		r.add(Check{Area: areaTenant, Object: "Tenant " + x.Tenant, State: OK, Message: "it is bound to this cluster"})
	}
	r.installed(x.Installed)
	r.rights(x.Rights)
	if x.Management != nil {
		r.management(x)
	}
}

// management looks at what an agent with --management needs.
func (r *Report) management(x *ClusterFacts) {
	m := x.Management
	cluster := Check{Area: areaManagement, Object: "cluster", State: OK, Message: "it isn't the hub"}
	switch {
	case m.HubUID == "" || x.UID == "":
		cluster.State, cluster.Message, cluster.Fix = Skipped, "whether it is the hub can't be told, for you may not read namespace kube-system of both", "Ask with an identity that may."
	case m.HubUID == x.UID:
		cluster.State, cluster.Message, cluster.Fix = Broken, "it is the hub itself, whose manager follows its Machines", "Run its agent without --management."
	}
	r.add(cluster)
	if m.Manager != "" {
		r.add(Check{Area: areaManagement, Object: "manager", State: Broken, Message: m.Manager + ", and would follow the Machines and Clusters that the agent follows",
			Fix: "Take the managers out of this cluster, or have it be the hub, and run its agent without --management."})
	} else if m.Hidden {
		r.add(Check{Area: areaManagement, Object: "manager", State: Skipped, Message: "whether a manager follows the same Machines and Clusters can't be told, for its Lease is not visible to you",
			Fix: "Ask with an identity that may read Leases in namespace " + v1alpha1.SystemNamespace + "."})
	}
	if len(m.Unserved) > 0 {
		r.add(Check{Area: areaManagement, Object: some(m.Unserved), State: Warning, Message: "this cluster doesn't serve these kinds of Cluster API", Fix: "Install Cluster API; the agent notices by itself."})
	}
	r.installed(m.Installed)
	r.rights(m.Rights)
}
