package build

import (
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func goodLoadBalancer() *clusterv1.LoadBalancer {
	return &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: "edge",
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ports:     []clusterv1.Port{{Port: 80, Protocol: clusterv1.ProtocolTCP}, {Port: 443, Protocol: clusterv1.ProtocolTCP}},
		},
	}
}

func goodClass() *v1alpha1.LoadBalancerClass {
	return &v1alpha1.LoadBalancerClass{
		ObjectMeta: metav1.ObjectMeta{Name: "edge"},
		Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge", Placement: v1alpha1.PlacementEvery}},
	}
}

// ofService makes a class one of Services of the hub.
func ofService(c *v1alpha1.LoadBalancerClass) *v1alpha1.LoadBalancerClass {
	c.Spec.Proxy, c.Spec.Service = nil, &v1alpha1.ClassService{Type: "LoadBalancer"}
	return c
}

// ofTemplate makes a class one of a provider kind.
func ofTemplate(group, kind string) func(*v1alpha1.LoadBalancerClass) *v1alpha1.LoadBalancerClass {
	return func(c *v1alpha1.LoadBalancerClass) *v1alpha1.LoadBalancerClass {
		c.Spec.Proxy, c.Spec.InfrastructureTemplate = nil, &clusterv1.ObjectReference{APIGroup: group, Kind: kind, Name: "small"}
		return c
	}
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestValidate(t *testing.T) {
	type (
		lbc    = v1alpha1.LoadBalancerClass
		spec   = clusterv1.LoadBalancerSpec
		tenant = v1alpha1.Tenant
	)
	// all refuses the LoadBalancer, first its port 80 only, none serves without.
	const all, first, none = "all", "first", "none"
	for name, tt := range map[string]struct {
		lb     func(*spec)
		class  func(*lbc) *lbc
		tenant *tenant
		reason string
		field  string
		costs  string
	}{
		"good":                  {},
		"good for a tenant":     {tenant: &tenant{Spec: v1alpha1.TenantSpec{Classes: []string{"edge"}}}},
		"suspended":             {tenant: &tenant{Spec: v1alpha1.TenantSpec{Suspend: true}}, reason: clusterv1.ReasonSuspended, field: "metadata.namespace", costs: all},
		"class not allowed":     {tenant: &tenant{Spec: v1alpha1.TenantSpec{Classes: []string{"core"}}}, reason: clusterv1.ReasonClassNotAllowed, field: "spec.className", costs: all},
		"class unknown":         {class: func(*lbc) *lbc { return nil }, reason: clusterv1.ReasonClassNotFound, field: "spec.className", costs: all},
		"unknown is not told":   {class: func(*lbc) *lbc { return nil }, tenant: &tenant{Spec: v1alpha1.TenantSpec{Classes: []string{"core"}}}, reason: clusterv1.ReasonClassNotAllowed, field: "spec.className", costs: all},
		"no class":              {lb: func(s *spec) { s.ClassName = "" }, class: func(*lbc) *lbc { return nil }, reason: clusterv1.ReasonNoClass, field: "spec.className", costs: all},
		"class to be written":   {lb: func(s *spec) { s.ClassName = "" }},
		"class of another kind": {class: func(c *lbc) *lbc { c.Spec.Proxy = nil; return c }, reason: clusterv1.ReasonNotSupported, field: "spec.className", costs: all},
		"Service":               {class: ofService},
		"Service of two minds": {class: func(c *lbc) *lbc {
			c = ofService(c)
			c.Spec.Service.Type = "ClusterIP"
			c.Spec.Service.LoadBalancerClass = "x/y"
			return c
		}, reason: clusterv1.ReasonInvalid, field: "spec.className", costs: all},
		"Service with a bad label": {class: func(c *lbc) *lbc {
			c = ofService(c)
			c.Spec.Service.Labels = map[string]string{"a": "b c"}
			return c
		}, reason: clusterv1.ReasonInvalid, field: "spec.className", costs: all},
		"Service with a bad annotation": {class: func(c *lbc) *lbc {
			c = ofService(c)
			c.Spec.Service.Annotations = map[string]string{"a b": ""}
			return c
		}, reason: clusterv1.ReasonInvalid, field: "spec.className", costs: all},
		"Service, affinity for a minute": {class: ofService, lb: func(s *spec) { s.SessionAffinity = "ClientIP"; s.SessionAffinityTimeout = duration(time.Minute) }},
		"Service, PROXY protocol":        {class: ofService, lb: func(s *spec) { s.ProxyProtocol = "V2" }, reason: clusterv1.ReasonNotSupported, field: "spec.proxyProtocol", costs: all},
		"Service, sources":               {class: ofService, lb: func(s *spec) { s.SourceRanges = []string{"10.0.0.0/8"} }},
		"ClusterIP, sources": {class: func(c *lbc) *lbc {
			c = ofService(c)
			c.Spec.Service.Type = "ClusterIP"
			return c
		}, lb: func(s *spec) { s.SourceRanges = []string{"10.0.0.0/8"} }, reason: clusterv1.ReasonNotSupported, field: "spec.sourceRanges", costs: all},
		"Service, check": {class: ofService, lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "TCP"} }, reason: clusterv1.ReasonNotSupported, field: "spec.healthCheck", costs: none},
		"Service, policy Local": {class: ofService, lb: func(s *spec) {
			no := false
			s.FailOpen, s.HealthCheck = &no, &clusterv1.HealthCheck{Type: "HTTP", Port: 32000}
		}, reason: clusterv1.ReasonNotSupported, field: "spec.healthCheck", costs: all},
		"Service, idle":  {class: ofService, lb: func(s *spec) { s.IdleTimeout = duration(time.Hour) }, reason: clusterv1.ReasonNotSupported, field: "spec.idleTimeout", costs: none},
		"Service, drain": {class: ofService, lb: func(s *spec) { s.DrainTimeout = duration(time.Hour) }, reason: clusterv1.ReasonNotSupported, field: "spec.drainTimeout", costs: none},
		"Service, pools": {class: ofService, lb: func(s *spec) { s.AddressPools = []string{"public"} }, reason: clusterv1.ReasonNotSupported, field: "spec.addressPools", costs: none},
		"placement One":  {class: func(c *lbc) *lbc { c.Spec.Proxy.Placement = "One"; return c }, reason: clusterv1.ReasonNotSupported, field: "spec.className", costs: all},
		"infrastructureRef": {lb: func(s *spec) {
			s.ClassName, s.Ports = "", nil
			s.InfrastructureRef = &clusterv1.ObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "X", Name: "x"}
			s.Endpoint = &clusterv1.Endpoint{Host: "api.example.com", Port: 6443}
		}, class: func(*lbc) *lbc { return nil }},
		"infrastructureRef of a Tenant": {tenant: &tenant{}, lb: func(s *spec) {
			s.ClassName = ""
			s.InfrastructureRef = &clusterv1.ObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "X", Name: "x"}
		}, class: func(*lbc) *lbc { return nil }, reason: clusterv1.ReasonNotSupported, field: "spec.infrastructureRef", costs: all},
		"infrastructureRef of another group": {lb: func(s *spec) {
			s.ClassName = ""
			s.InfrastructureRef = &clusterv1.ObjectReference{Kind: "Secret", Name: "x"}
		}, class: func(*lbc) *lbc { return nil }, reason: clusterv1.ReasonInvalid, field: "spec.infrastructureRef.apiGroup", costs: all},
		"template":             {class: ofTemplate("infrastructure.cluster.x-k8s.io", "FooLoadBalancerTemplate")},
		"template of a Tenant": {tenant: &tenant{}, class: ofTemplate("infrastructure.cluster.x-k8s.io", "FooLoadBalancerTemplate"), reason: clusterv1.ReasonNotSupported, field: "spec.className", costs: all},
		"template that is none": {class: ofTemplate("infrastructure.cluster.x-k8s.io", "FooLoadBalancer"),
			reason: clusterv1.ReasonInvalid, field: "spec.className", costs: all},
		"template of another group": {class: ofTemplate("", "PodTemplate"), reason: clusterv1.ReasonInvalid, field: "spec.className", costs: all},
		"template, addresses": {class: ofTemplate("infrastructure.cluster.x-k8s.io", "FooLoadBalancerTemplate"),
			lb: func(s *spec) { s.Addresses = []string{"192.0.2.1"} }, reason: clusterv1.ReasonNotSupported, field: "spec.addresses", costs: none},
		"no ports":                   {lb: func(s *spec) { s.Ports = nil }, reason: clusterv1.ReasonNoPorts, field: "spec.ports", costs: all},
		"sourceRanges":               {lb: func(s *spec) { s.SourceRanges = []string{"10.0.0.0/8", "fd00::/8"} }},
		"sourceRanges that are none": {lb: func(s *spec) { s.SourceRanges = []string{"10.0.0.0/8", "10.0.0.1"} }, reason: clusterv1.ReasonInvalid, field: "spec.sourceRanges", costs: all},
		"sourceRanges of one family": {lb: func(s *spec) {
			s.SourceRanges = []string{"10.0.0.0/8"}
			s.IPFamilies = []clusterv1.IPFamily{"IPv4", "IPv6"}
		}, reason: clusterv1.ReasonInvalid, field: "spec.sourceRanges", costs: none},
		"proxyProtocol":               {lb: func(s *spec) { s.ProxyProtocol = "V2" }},
		"proxyProtocol of the future": {lb: func(s *spec) { s.ProxyProtocol = "V3" }, reason: clusterv1.ReasonInvalid, field: "spec.proxyProtocol", costs: all},
		"IPv6":                        {lb: func(s *spec) { s.IPFamilies = []clusterv1.IPFamily{"IPv6"} }},
		"IPv6 first":                  {lb: func(s *spec) { s.IPFamilies = []clusterv1.IPFamily{"IPv6", "IPv4"} }},
		"RequireDualStack":            {lb: func(s *spec) { s.IPFamilyPolicy = "RequireDualStack" }},
		"same zone":                   {lb: func(s *spec) { s.TrafficDistribution = "PreferSameZone" }},
		"same planet":                 {lb: func(s *spec) { s.TrafficDistribution = "PreferSamePlanet" }, reason: clusterv1.ReasonInvalid, field: "spec.trafficDistribution", costs: none},
		"IPv4":                        {lb: func(s *spec) { s.IPFamilyPolicy = "SingleStack"; s.IPFamilies = []clusterv1.IPFamily{"IPv4"} }},
		"selector":                    {lb: func(s *spec) { s.Selector.MatchLabels = map[string]string{"a b": "c"} }, reason: clusterv1.ReasonInvalid, field: "spec.selector", costs: all},
		"selector of machines": {lb: func(s *spec) {
			s.TargetKind = &clusterv1.KindReference{Kind: "TargetGroup", APIGroup: "fairlead.dev"}
			s.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}
		}, reason: clusterv1.ReasonInvalid, field: "spec.selector", costs: all},
		"empty selector":            {lb: func(s *spec) { s.Selector = &metav1.LabelSelector{} }},
		"UDP":                       {lb: func(s *spec) { s.Ports[0].Protocol, s.Ports[0].Mode = "UDP", "UDP" }},
		"SCTP":                      {lb: func(s *spec) { s.Ports[0].Protocol = "SCTP" }},
		"mixed protocols":           {lb: func(s *spec) { s.Ports[1].Port, s.Ports[1].Protocol = 80, "UDP" }},
		"another protocol":          {lb: func(s *spec) { s.Ports[0].Protocol = "DCCP" }, reason: clusterv1.ReasonInvalid, field: "spec.ports[0].protocol", costs: first},
		"mode of another":           {lb: func(s *spec) { s.Ports[0].Mode = "UDP" }, reason: clusterv1.ReasonInvalid, field: "spec.ports[0].mode", costs: first},
		"HTTP":                      {lb: func(s *spec) { s.Ports[0].Mode = "HTTP" }, reason: clusterv1.ReasonNotSupported, field: "spec.ports[0].mode", costs: first},
		"TLS":                       {lb: func(s *spec) { s.Ports[0].TLS = &clusterv1.PortTLS{} }, reason: clusterv1.ReasonNotSupported, field: "spec.ports[0].tls", costs: first},
		"port out of range":         {lb: func(s *spec) { s.Ports[0].Port = 70000 }, reason: clusterv1.ReasonInvalid, field: "spec.ports[0].port", costs: first},
		"target port":               {lb: func(s *spec) { s.Ports[0].TargetPort = -1 }, reason: clusterv1.ReasonInvalid, field: "spec.ports[0].targetPort", costs: first},
		"port twice":                {lb: func(s *spec) { s.Ports = append(s.Ports, s.Ports[0]) }, reason: clusterv1.ReasonInvalid, field: "spec.ports[2]", costs: first},
		"affinity":                  {lb: func(s *spec) { s.SessionAffinity = "ClientIP"; s.SessionAffinityTimeout = duration(3 * time.Hour) }},
		"affinity for a minute":     {lb: func(s *spec) { s.SessionAffinity = "ClientIP"; s.SessionAffinityTimeout = duration(time.Minute) }, reason: clusterv1.ReasonNotSupported, field: "spec.sessionAffinityTimeout", costs: none},
		"endpoint":                  {lb: func(s *spec) { s.Endpoint = &clusterv1.Endpoint{Host: "x", Port: 1} }, reason: clusterv1.ReasonNotSupported, field: "spec.endpoint", costs: none},
		"endpoint of nulls":         {lb: func(s *spec) { s.Endpoint = &clusterv1.Endpoint{} }},
		"alternateEndpoints":        {lb: func(s *spec) { s.AlternateEndpoints = []clusterv1.Endpoint{{}} }, reason: clusterv1.ReasonNotSupported, field: "spec.alternateEndpoints", costs: none},
		"machineHooks":              {lb: func(s *spec) { s.MachineHooks = &clusterv1.MachineHooks{} }, reason: clusterv1.ReasonNotSupported, field: "spec.machineHooks", costs: none},
		"addressTypes":              {lb: func(s *spec) { s.AddressTypes = []string{"InternalIP"} }, reason: clusterv1.ReasonNotSupported, field: "spec.addressTypes", costs: none},
		"control plane, a Tenant's": {lb: func(s *spec) { s.Role = "ControlPlane" }, tenant: &tenant{}, reason: clusterv1.ReasonNotSupported, field: "spec.role", costs: none},
		"control plane": {lb: func(s *spec) {
			s.Role, s.Ports, s.Endpoint, s.AlternateEndpoints = "ControlPlane", nil, &clusterv1.Endpoint{Host: "x", Port: 1}, []clusterv1.Endpoint{{}}
		}},
		"Nodes": {lb: func(s *spec) {
			s.TargetKind, s.AddressTypes = &clusterv1.KindReference{Kind: "Node"}, []string{"InternalIP"}
		}},
		"Nodes, a Tenant's":  {lb: func(s *spec) { s.TargetKind = &clusterv1.KindReference{Kind: "Node"} }, tenant: &tenant{}, reason: clusterv1.ReasonNotSupported, field: "spec.targetKind", costs: none},
		"Nodes of a Cluster": {lb: func(s *spec) { s.TargetKind, s.ClusterName = &clusterv1.KindReference{Kind: "Node"}, "prod" }, reason: clusterv1.ReasonInvalid, field: "spec.clusterName", costs: none},
		"Nodes, hooked": {lb: func(s *spec) {
			s.TargetKind, s.MachineHooks = &clusterv1.KindReference{Kind: "Node"}, &clusterv1.MachineHooks{}
		}, reason: clusterv1.ReasonNotSupported, field: "spec.machineHooks", costs: none},
		"Moose":                  {lb: func(s *spec) { s.TargetKind = &clusterv1.KindReference{Kind: "Moose", APIGroup: "example.com"} }, reason: clusterv1.ReasonInvalid, field: "spec.targetKind", costs: none},
		"drainTimeout":           {lb: func(s *spec) { s.DrainTimeout = duration(-1) }, reason: clusterv1.ReasonInvalid, field: "spec.drainTimeout", costs: none},
		"idleTimeout":            {lb: func(s *spec) { s.IdleTimeout = duration(1 << 62) }, reason: clusterv1.ReasonInvalid, field: "spec.idleTimeout", costs: none},
		"check without a type":   {lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{} }, reason: clusterv1.ReasonInvalid, field: "spec.healthCheck.type", costs: none},
		"check that smuggles":    {lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "HTTP", Path: "/ HTTP/1.1\r\nX: y"} }, reason: clusterv1.ReasonInvalid, field: "spec.healthCheck.path", costs: none},
		"check without a rest":   {lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "TCP", Interval: duration(0)} }, reason: clusterv1.ReasonInvalid, field: "spec.healthCheck.interval", costs: none},
		"check that never waits": {lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "TCP", Timeout: duration(-1)} }, reason: clusterv1.ReasonInvalid, field: "spec.healthCheck.timeout", costs: none},
		"check on no port":       {lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "TCP", Port: 65536} }, reason: clusterv1.ReasonInvalid, field: "spec.healthCheck.port", costs: none},
		"check that never rises": {lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "TCP", Healthy: -2} }, reason: clusterv1.ReasonInvalid, field: "spec.healthCheck.healthy", costs: none},
		"check that never falls": {lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "TCP", Unhealthy: 101} }, reason: clusterv1.ReasonInvalid, field: "spec.healthCheck.unhealthy", costs: none},
		"check with odd codes":   {lb: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "HTTP", Alive: []int32{0}} }, reason: clusterv1.ReasonInvalid, field: "spec.healthCheck.alive", costs: none},
	} {
		t.Run(name, func(t *testing.T) {
			l, class := goodLoadBalancer(), goodClass()
			if tt.lb != nil {
				tt.lb(&l.Spec)
			}
			if tt.class != nil {
				class = tt.class(class)
			}
			problems := Validate(l, class, tt.tenant)
			if tt.reason == "" {
				if len(problems) > 0 {
					t.Fatalf("%+v", problems)
				}
				return
			}
			if len(problems) != 1 {
				t.Fatalf("%d problems: %+v", len(problems), problems)
			}
			p := problems[0]
			if p.Reason != tt.reason || p.Field != tt.field || !strings.Contains(p.Message, ":") {
				t.Errorf("got %+v", p)
			}
			var refused []int32
			for _, x := range Ports(l) {
				if by, no := Refusal(problems, x); no {
					refused = append(refused, x.Port)
					if by != p {
						t.Errorf("port %d is refused by %+v", x.Port, by)
					}
				}
			}
			refused = slices.Compact(refused)
			_, whole := RefusalOfAll(problems)
			switch tt.costs {
			case all:
				if !whole || len(refused) < len(slices.Compact(Ports(l))) {
					t.Errorf("does not refuse all: %+v", p)
				}
			case first:
				if whole || !slices.Contains(refused, l.Spec.Ports[0].Port) || slices.Contains(refused, 443) {
					t.Errorf("refused %v by %+v", refused, p)
				}
			case none:
				if whole || len(refused) > 0 || p.Effect != lb.ServedWithout {
					t.Errorf("refused %v by %+v", refused, p)
				}
			}
		})
	}
}

func TestPortsOfAControlPlane(t *testing.T) {
	l := &clusterv1.LoadBalancer{Spec: clusterv1.LoadBalancerSpec{Role: clusterv1.RoleControlPlane}}
	if p := Ports(l); len(p) != 1 || p[0].Port != 6443 || p[0].TargetPort != 6443 {
		t.Errorf("%+v", p)
	}
	l.Spec.Endpoint = &clusterv1.Endpoint{Host: "x", Port: 443}
	if p := Ports(l); len(p) != 1 || p[0].Port != 443 || p[0].TargetPort != 6443 {
		t.Errorf("%+v", p)
	}
}

func TestValidateClassAndTenant(t *testing.T) {
	c := goodClass()
	if p := ValidateClass(c); len(p) > 0 {
		t.Errorf("%+v", p)
	}
	c.Spec.Defaults = &v1alpha1.ClassDefaults{DrainTimeout: duration(-1), HealthCheck: &clusterv1.HealthCheck{Type: "?"}}
	if p := ValidateClass(c); len(p) != 2 || p[0].Effect != lb.ServedWithout || p[1].Effect != lb.ServedWithout {
		t.Errorf("%+v", p)
	}
	x := &v1alpha1.Tenant{Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8", "10.0.0.1", "::ffff:10.0.0.0/104"}}}
	if p := ValidateTenant(x); len(p) != 2 {
		t.Errorf("%+v", p)
	}
}

func TestMessagesFitIntoAStatus(t *testing.T) {
	l := goodLoadBalancer()
	l.Spec.ClassName = strings.Repeat("é", 5000)
	for _, p := range Validate(l, nil, nil) {
		if len(p.Message) > 1024 {
			t.Errorf("%d bytes", len(p.Message))
		}
	}
}
