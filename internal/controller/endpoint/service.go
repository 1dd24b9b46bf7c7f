package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	rules "fairlead.dev/fairlead/internal/endpoint"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A Service that lacks something is looked at again in a quarter of the time since that was seen first, within these bounds; one that lacks
// nothing after followAgain. Services are many, and not all of them are watched.
const (
	soonest     = 5 * time.Second
	latest      = 30 * time.Second
	followAgain = 2 * time.Minute
)

// reached is where the Service of a ClusterEndpoint is reached.
type reached struct {
	rules.HostPort
	// note says what address that is.
	note string
	// lacks is why it is reached nowhere; nil: it is.
	lacks *rules.Problem
	// since is when this was seen first.
	since time.Time
}

// services are where the Services of ClusterEndpoints are reached, by the name of the ClusterEndpoint.
type services map[string]reached

// services reads those that a Cluster's ClusterEndpoints refer to from the API server itself.
func (r *Reconciler) services(ctx context.Context, cluster types.NamespacedName, all []clusterv1.ClusterEndpoint, has rules.HostPort) (services, error) {
	out := services{}
	for i := range all {
		e := &all[i]
		ref := e.Spec.ServiceRef
		if ref == nil || read(e).Generated {
			continue
		}
		s, at := &corev1.Service{}, reached{}
		switch err := r.Reader.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: ref.Name}, s); {
		case apierrors.IsForbidden(err):
			at.lacks = &rules.Problem{Reason: clusterv1.ReasonForbidden, Message: fmt.Sprintf("%s may not read Service %s: apply %s", r.Who.Name, ref.Name, r.Who.Rights)}
		case apierrors.IsNotFound(err):
			at.lacks = &rules.Problem{Reason: clusterv1.ReasonServiceNotFound, Message: fmt.Sprintf("there is no Service %s in this namespace: create it, or name another one in spec.serviceRef", ref.Name)}
		case err != nil:
			return nil, fmt.Errorf("reading Service %s/%s of ClusterEndpoint %s: %w", e.Namespace, ref.Name, e.Name, err)
		default:
			at = whereIs(s, ref, has)
		}
		out[e.Name] = at
	}
	r.since(cluster, out)
	return out, nil
}

// since says of each since when it is so, and remembers that.
func (r *Reconciler) since(cluster types.NamespacedName, all services) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.reached[cluster]
	for name, at := range all {
		was, ok := before[name]
		if at.since = time.Now(); ok && reflect.DeepEqual(was.lacks, at.lacks) {
			at.since = was.since
		}
		all[name] = at
	}
	if delete(r.reached, cluster); len(all) > 0 {
		r.reached[cluster] = all
	}
}

// read is what the rules ask of a ClusterEndpoint, with what its Service says.
func (s services) read(e *clusterv1.ClusterEndpoint) rules.ClusterEndpoint {
	out := read(e)
	if at, ok := s[e.Name]; ok {
		out.HostPort, out.Lacks = at.HostPort, at.lacks
	}
	return out
}

// again is when the first of them is looked at again, or d, if that is sooner; 0: never.
func (s services) again(d time.Duration) time.Duration {
	for _, at := range s {
		next := followAgain
		if at.lacks != nil {
			next = min(max(time.Since(at.since)/4, soonest), latest)
		}
		if d == 0 || next < d {
			d = next
		}
	}
	return d
}

// whereIs says where a Service is reached. Of several addresses that is the one that the Cluster has, which may be in any order; else the
// first. A load balancer's name goes before its address, for it stays when that changes, and kubeconfigs can't follow.
func whereIs(s *corev1.Service, ref *clusterv1.ServiceReference, has rules.HostPort) reached {
	hosts, lacks := hostsOf(s)
	if lacks != nil && lacks.Reason != clusterv1.ReasonServicePending {
		return reached{lacks: lacks}
	}
	port, wrong := portOf(s, ref.Port)
	if lacks = cmp.Or(wrong, lacks); lacks != nil {
		return reached{lacks: lacks}
	}
	at := slices.IndexFunc(hosts, func(h string) bool { return has.Same(rules.HostPort{Host: h, Port: port}) })
	out := reached{HostPort: rules.HostPort{Host: hosts[max(at, 0)], Port: port}}
	if out.note = fmt.Sprintf("%s is the load balancer of Service %s.", out.HostPort, s.Name); s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		out.note = fmt.Sprintf("%s is the cluster IP of Service %s, which nobody reaches from outside of this cluster.", out.HostPort, s.Name)
	}
	return out
}

// hostsOf are the names and addresses of a Service, or what it lacks.
func hostsOf(s *corev1.Service) (out []string, lacks *rules.Problem) {
	no := func(reason, format string, args ...any) *rules.Problem {
		return &rules.Problem{Reason: reason, Message: fmt.Sprintf("Service %s ", s.Name) + fmt.Sprintf(format, args...)}
	}
	const whole = "make it one of type LoadBalancer, or set spec.host and spec.port in place of spec.serviceRef"
	switch {
	case s.DeletionTimestamp != nil:
		return nil, no(clusterv1.ReasonServiceNotFound, "is being deleted: create it again, or name another one in spec.serviceRef")
	case s.Spec.Type == corev1.ServiceTypeLoadBalancer:
		for _, i := range s.Status.LoadBalancer.Ingress {
			out = append(out, slices.DeleteFunc([]string{i.Hostname, i.IP}, func(h string) bool { return h == "" })...)
		}
		if len(out) == 0 {
			who := "the implementation of load balancers here"
			if c := s.Spec.LoadBalancerClass; c != nil {
				who = "what implements its loadBalancerClass " + *c
			}
			lacks = no(clusterv1.ReasonServicePending, "has nothing in status.loadBalancer.ingress yet: wait for %s, or see its events", who)
		}
		return out, lacks
	case s.Spec.Type == corev1.ServiceTypeNodePort:
		return nil, no(clusterv1.ReasonServiceNotSupported, "is of type NodePort, which has an address on each node and none of its own: %s", whole)
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, no(clusterv1.ReasonServiceNotSupported, "is of type ExternalName, which is another name for %s: set that as spec.host, with spec.port, in place of spec.serviceRef", s.Spec.ExternalName)
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		return nil, no(clusterv1.ReasonServiceNotSupported, "is headless, and has no address of its own: %s", whole)
	case s.Spec.ClusterIP == "":
		return nil, no(clusterv1.ReasonServicePending, "has no cluster IP yet: wait for the API server to give it one")
	case len(s.Spec.ClusterIPs) == 0:
		return []string{s.Spec.ClusterIP}, nil
	}
	return s.Spec.ClusterIPs, nil
}

// listed is how many ports of a Service a message names.
const listed = 8

// portOf is the number of the TCP port that is meant, or what is wrong with it.
func portOf(s *corev1.Service, meant *intstr.IntOrString) (int32, *rules.Problem) {
	tcp := slices.DeleteFunc(slices.Clone(s.Spec.Ports), func(p corev1.ServicePort) bool {
		return p.Protocol != corev1.ProtocolTCP && p.Protocol != ""
	})
	var has []string
	for _, p := range tcp {
		if meant != nil && (meant.Type == intstr.String && p.Name == meant.StrVal || meant.Type == intstr.Int && p.Port == meant.IntVal) {
			return p.Port, nil
		}
		has = append(has, strings.TrimSpace(p.Name+" "+strconv.Itoa(int(p.Port))))
	}
	if len(has) > listed {
		has = append(has[:listed], "…")
	}
	switch all := strings.Join(has, ", "); {
	case len(tcp) == 0:
		return 0, &rules.Problem{Reason: clusterv1.ReasonServicePortNotFound, Message: fmt.Sprintf("Service %s has no TCP port: add one, or name another one in spec.serviceRef", s.Name)}
	case meant != nil && meant.Type == intstr.String:
		return 0, &rules.Problem{Reason: clusterv1.ReasonServicePortNotFound, Message: fmt.Sprintf("Service %s has no TCP port named %q: name one of its own in spec.serviceRef.port, or write its number without quotes, %s", s.Name, meant.StrVal, all)}
	case meant != nil:
		return 0, &rules.Problem{Reason: clusterv1.ReasonServicePortNotFound, Message: fmt.Sprintf("Service %s has no TCP port %d: name one of its own in spec.serviceRef.port, %s", s.Name, meant.IntVal, all)}
	case len(tcp) > 1:
		return 0, &rules.Problem{Reason: clusterv1.ReasonServicePortNotFound, Message: fmt.Sprintf("Service %s has several TCP ports: name one of them in spec.serviceRef.port, %s", s.Name, all)}
	}
	return tcp[0].Port, nil
}
