package build

import (
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of what a HealthCheck leaves out.
const (
	defaultInterval = 2 * time.Second
	defaultTimeout  = time.Second
	defaultRise     = 2
	defaultFall     = 2
	// readyzTimeout is what an API server waits for each of its checks of etcd. One with a very slow etcd may answer later that it is ready:
	// it is left out while others answer in time.
	readyzTimeout = 2 * time.Second
	// readyzInterval, with that, has one of three that hangs cost no more than what all are asked in 2 s.
	readyzInterval = 1500 * time.Millisecond
)

// healthCheck finds what makes a check useless as a whole.
func (f *findings) healthCheck(field string, c *clusterv1.HealthCheck) {
	if c == nil {
		return
	}
	if part, fix := badHealthCheck(c); fix != "" {
		f.without(field+part, clusterv1.ReasonInvalid, "the health check makes no sense, the next best is used (TargetGroup's, class's, default): %s", fix)
	}
}

// badHealthCheck names the field of c that makes no sense and what to do; "" for both if c is good.
func badHealthCheck(c *clusterv1.HealthCheck) (field, fix string) {
	switch c.Type {
	case clusterv1.HealthCheckTCP, clusterv1.HealthCheckHTTP, clusterv1.HealthCheckHTTPS, clusterv1.HealthCheckNone:
	default:
		return ".type", "use TCP, HTTP, HTTPS or None"
	}
	switch {
	case c.Port < 0 || c.Port > 65535:
		return ".port", "use 1 to 65535"
	case c.Path != "" && !goodPath(c.Path):
		return ".path", "begin with / and use printable characters without spaces"
	case c.Interval != nil && !within(c.Interval, 100*time.Millisecond, time.Hour):
		return ".interval", "use 100ms to 1h"
	case c.Timeout != nil && !within(c.Timeout, 10*time.Millisecond, time.Minute):
		return ".timeout", "use 10ms to 1m"
	case c.Healthy < 0 || c.Healthy > 100:
		return ".healthy", "use 1 to 100"
	case c.Unhealthy < 0 || c.Unhealthy > 100:
		return ".unhealthy", "use 1 to 100"
	case slices.ContainsFunc(c.Alive, func(s int32) bool { return s < 100 || s > 599 }):
		return ".alive", "use 100 to 599"
	}
	return "", ""
}

// goodPath keeps what a tenant wrote from being more than the path of a request.
func goodPath(p string) bool {
	return p[0] == '/' && len(p) <= 1024 && !strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// usable is c, or nil if it makes no sense.
func usable(c *clusterv1.HealthCheck) *clusterv1.HealthCheck {
	if c == nil {
		return nil
	}
	if _, fix := badHealthCheck(c); fix != "" {
		return nil
	}
	return c
}

// checkFrom is the check of a port of the LoadBalancer's targets: its own, else
// the TargetGroup's, else the class's, else whether it is ready where it is an API
// server, else TCP. A port of another protocol than TCP can't be asked over TCP by
// default: there a TCP check that names no port is the LoadBalancer's own or none,
// and without any nothing is asked.
func checkFrom(p lb.Protocol, port uint16, apiServers bool, own, group, class *clusterv1.HealthCheck) lb.Check {
	if own != nil {
		return checkOf(own, port)
	}
	for _, c := range []*clusterv1.HealthCheck{group, class} {
		if c != nil && (p == lb.TCP || c.Type != clusterv1.HealthCheckTCP || c.Port != 0) {
			return checkOf(c, port)
		}
	}
	switch {
	case p != lb.TCP:
		return lb.Check{Kind: lb.CheckNone}
	case apiServers:
		return readyz(port)
	}
	return checkOf(&clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, port)
}

// ofAPIServers says that a LoadBalancer's targets are a control plane's Machines.
func ofAPIServers(l *clusterv1.LoadBalancer) bool {
	return l.Spec.Role == clusterv1.RoleControlPlane && targetKind(l) == kindMachine
}

// Readyz asks an API server whether it can serve. One that doesn't let everybody ask, doesn't know that path, or has too much to do for an
// answer, is alive.
func Readyz() *clusterv1.HealthCheck {
	return &clusterv1.HealthCheck{
		Type: clusterv1.HealthCheckHTTPS, Path: "/readyz", Alive: []int32{401, 403, 404, 429},
		Interval: &metav1.Duration{Duration: readyzInterval}, Timeout: &metav1.Duration{Duration: readyzTimeout},
		Healthy: defaultRise, Unhealthy: defaultFall,
	}
}

// readyz is Readyz by a proxy. Nobody asked for it, and what listens there may be another server of a control
// plane, which doesn't know that path, or no HTTP: that one is alive as with TCP.
func readyz(port uint16) lb.Check {
	c := checkOf(Readyz(), port)
	c.Alive, c.Lenient = "", true // which is more than some statuses
	return c
}

// HealthCheckElsewhere is the check of a LoadBalancer's targets by a technology that isn't ours, which takes one check for all ports: the
// LoadBalancer's own; else the class's; else whether they are ready where they are API servers; nil: a connection.
func HealthCheckElsewhere(l *clusterv1.LoadBalancer, class *clusterv1.HealthCheck) *clusterv1.HealthCheck {
	tcp := !slices.ContainsFunc(l.Spec.Ports, func(p clusterv1.Port) bool { return protocol(p) != lb.TCP })
	switch class = usable(class); {
	case l.Spec.HealthCheck != nil:
		return l.Spec.HealthCheck
	case class != nil && (tcp || class.Type != clusterv1.HealthCheckTCP || class.Port != 0):
		return class
	case tcp && ofAPIServers(l):
		return Readyz()
	}
	return nil
}

// OfTargetGroup tells whether what a proxy found out in a way that it names so says something of a TargetGroup whose own check is
// c, and not of a LoadBalancer alone that has another: which nodes have a Pod of one Service is no matter of the nodes that all
// Services share. Without a check of its own a group has the class's, or one for each LoadBalancer's port: all of them say something.
func OfTargetGroup(c *clusterv1.HealthCheck, reported string) bool {
	c = usable(c)
	kind, where, asked := strings.Cut(reported, ":")
	if c == nil || !asked {
		return true // such as the resolving of its name
	}
	own := checkOf(c, 0)
	path := strings.TrimLeft(where, "0123456789")
	return own.String() == reported || c.Port == 0 && string(own.Kind) == kind && own.Path == path
}

// checkOf is c for traffic to port.
func checkOf(c *clusterv1.HealthCheck, port uint16) lb.Check {
	if c.Type == clusterv1.HealthCheckNone {
		return lb.Check{Kind: lb.CheckNone}
	}
	out := lb.Check{
		Kind: lb.CheckKind(c.Type), Port: port,
		Interval: defaultInterval, Timeout: defaultTimeout, Rise: defaultRise, Fall: defaultFall,
	}
	if c.Port > 0 {
		out.Port = portNumber(c.Port)
	}
	if c.Interval != nil {
		out.Interval = c.Interval.Duration
	}
	if c.Timeout != nil {
		out.Timeout = c.Timeout.Duration
	}
	if c.Healthy > 0 {
		out.Rise = int(c.Healthy)
	}
	if c.Unhealthy > 0 {
		out.Fall = int(c.Unhealthy)
	}
	if out.Kind == lb.CheckTCP {
		return out
	}
	if out.Path = c.Path; out.Path == "" {
		out.Path = "/"
	}
	alive := slices.Clone(c.Alive)
	slices.Sort(alive)
	var codes []string
	for _, s := range slices.Compact(alive) {
		codes = append(codes, strconv.Itoa(int(s)))
	}
	out.Alive = strings.Join(codes, ",")
	return out
}
