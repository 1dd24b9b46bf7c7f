package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/provider/contract"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookUpAgain is how often a name is looked up.
const lookUpAgain = 30 * time.Second

// maxObserved is how many TargetGroups a status has room for.
const maxObserved = 1000

// report is what a pass has learnt. What it hasn't learnt stays as it was in the object's status.
type report struct {
	paused string
	// problem is why the pass couldn't go on.
	problem *problem
	// exists and absent: the load balancer was seen to be there, or not to be.
	exists, absent bool
	state          *State
	// differs and refused are why what is there isn't made as it should be; its members are seen to all the same.
	differs, refused *problem
	planned          *planned
	// groups are the TargetGroups that planned is of.
	groups   []contract.ObservedTargetGroup
	resolves *bool
	// targetKind and targetSelector of status.
	targetKind, targetSelector string
	// gone: the object may be no more.
	gone bool
}

// fail ends a pass that can't go on until something changes.
func (r *report) fail(reason, message string) urgency {
	r.problem = &problem{reason, message}
	return atRest
}

// failed ends a pass in which the provider failed, and says when to try again.
func (p *pass) failed(ctx context.Context, err error) urgency {
	var s *silent
	var x *panicked
	log := p.log.WithValues("namespace", p.o.GetNamespace(), "name", p.o.GetName())
	u := failing
	reason, advice := contract.ReasonProviderError, "it is tried again"
	switch {
	case ctx.Err() != nil: // this process ends
		return done
	case errors.As(err, &s):
		reason, advice, u = contract.ReasonProviderSilent, "it is waited for, and other objects are seen to", atRest
	case errors.Is(err, context.DeadlineExceeded):
		reason = contract.ReasonProviderSilent
	case errors.As(err, &x):
		reason = contract.ReasonProviderPanicked
		log.Error(err, "the provider panicked", "stack", string(x.stack))
	case IsTerminal(err):
		reason, advice, u = contract.ReasonProviderRefused, "it is tried again when something changes", atRest
	}
	p.problem = &problem{reason, fmt.Sprintf("%s: %s.", err, advice)}
	log.Info("the provider failed", "reason", reason, "error", err.Error())
	return u
}

func (p *pass) event(kind, reason, action, format string, args ...any) {
	p.events.Eventf(p.o, nil, kind, reason, action, format, args...)
}

// describeTargets says whom the LoadBalancer is for.
func (p *pass) describeTargets(l *clusterv1.LoadBalancer) {
	kind := schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "TargetGroup"}
	switch k := l.Spec.TargetKind; {
	case k != nil && k.Kind != "":
		kind = schema.GroupKind{Group: k.APIGroup, Kind: k.Kind}
	case member.ClusterName(l) != "":
		kind = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Machine"}
	}
	p.targetKind = kind.String()
	s, err := metav1.LabelSelectorAsSelector(l.Spec.Selector)
	if of := member.KindOf(kind.Kind); err == nil && s.Empty() && of != "" {
		s, err = of.Selector(l)
	}
	if err != nil {
		s = labels.Nothing()
	}
	p.targetSelector = s.String()
}

// lookUp finds out whether the endpoint's host resolves.
func (p *pass) lookUp(ctx context.Context, e clusterv1.Endpoint) {
	if _, err := netip.ParseAddr(e.Host); err == nil {
		yes := true
		p.resolves = &yes
		return
	}
	if e.Host == "" {
		return
	}
	if p.rec.host != e.Host || time.Since(p.rec.lookedUp) >= lookUpAgain {
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		found, err := p.Resolver.LookupHost(bounded, e.Host)
		p.rec.host, p.rec.lookedUp, p.rec.resolves = e.Host, time.Now(), err == nil && len(found) > 0
	}
	resolves := p.rec.resolves
	p.resolves = &resolves
}

// writeStatus writes what differs, and says whether anything did. It does so only if the object is still what was read: where it was read
// from a cache that is behind, what it was before isn't known.
func (p *pass) writeStatus(ctx context.Context) (bool, error) {
	if p.gone {
		return false, nil
	}
	next, err := copyOf(p.o)
	if err != nil {
		return false, err
	}
	spec, status := next.Contract()
	p.fill(status, value(spec.Endpoint), next.GetGeneration())
	_, old := p.o.Contract()
	if equality.Semantic.DeepEqual(old, status) {
		return false, nil
	}
	err = p.client.Status().Patch(ctx, next, client.MergeFromWithOptions(p.o, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing status: %w", err)
	}
	return true, nil
}

// fill writes the report into a status.
func (r *report) fill(s *contract.Status, endpoint clusterv1.Endpoint, generation int64) {
	if r.targetKind != "" {
		s.TargetKind, s.TargetSelector = r.targetKind, r.targetSelector
	}
	if r.state != nil && isSet(r.state.Endpoint) {
		e := r.state.Endpoint
		s.Endpoint = &e
	}
	if r.planned != nil {
		s.Targets = withSince(r.planned.targets, s.Targets)
		s.Observed = &contract.Observed{TargetGroups: r.groups[:min(len(r.groups), maxObserved)]}
		s.ActiveTargets = nil
		for _, t := range s.Targets {
			if t.State == contract.StateActive {
				s.ActiveTargets = append(s.ActiveTargets, t.Name)
			}
		}
	}
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation})
	}
	if r.paused != "" {
		set(contract.ConditionPaused, metav1.ConditionTrue, contract.ReasonPaused, r.paused+" Nothing is done outside.")
		return
	}
	set(contract.ConditionPaused, metav1.ConditionFalse, contract.ReasonAsExpected, "")
	problem := r.problem
	was := func(kind string) bool { return meta.FindStatusCondition(s.Conditions, kind) != nil }
	switch {
	case r.exists:
		set(contract.ConditionExists, metav1.ConditionTrue, contract.ReasonAsExpected, "")
	case r.absent && problem != nil:
		set(contract.ConditionExists, metav1.ConditionFalse, problem.reason, problem.message)
	case problem != nil && !meta.IsStatusConditionTrue(s.Conditions, contract.ConditionExists):
		set(contract.ConditionExists, metav1.ConditionUnknown, problem.reason, problem.message)
	}
	matches := r.mismatch()
	switch {
	case r.problem != nil && !r.exists: // what isn't seen is as it was
	case matches != nil:
		set(contract.ConditionMatchesConfig, metav1.ConditionFalse, matches.reason, matches.message)
	case r.state != nil:
		set(contract.ConditionMatchesConfig, metav1.ConditionTrue, contract.ReasonAsExpected, "")
	}
	if r.resolves != nil && *r.resolves {
		set(contract.ConditionDNSResolvable, metav1.ConditionTrue, contract.ReasonAsExpected, "")
	} else if r.resolves != nil {
		set(contract.ConditionDNSResolvable, metav1.ConditionFalse, contract.ReasonNotResolvable, fmt.Sprintf("%s doesn't resolve from here: create the record.", endpoint.Host))
	}
	switch {
	case r.state != nil && r.state.Pending == "" && isSet(endpoint):
		set(contract.ConditionReady, metav1.ConditionTrue, contract.ReasonAsExpected, "")
	case r.state != nil && r.state.Pending != "":
		set(contract.ConditionReady, metav1.ConditionFalse, contract.ReasonPending, r.state.Pending)
	case r.state != nil:
		set(contract.ConditionReady, metav1.ConditionFalse, contract.ReasonPending, "It has no endpoint yet.")
	case problem != nil && (r.absent || !was(contract.ConditionReady) || !meta.IsStatusConditionTrue(s.Conditions, contract.ConditionExists)):
		set(contract.ConditionReady, metav1.ConditionFalse, problem.reason, problem.message)
	}
	if bad := r.trouble(matches); bad != nil {
		set(contract.ConditionDegraded, metav1.ConditionTrue, bad.reason, bad.message)
	} else {
		set(contract.ConditionDegraded, metav1.ConditionFalse, contract.ReasonAsExpected, "")
	}
}

// mismatch is why what is outside isn't as it should be; nil: it is, or that isn't known.
func (r *report) mismatch() *problem {
	switch {
	case r.problem != nil:
		return r.problem
	case r.refused != nil:
		return r.refused
	case r.differs != nil:
		return r.differs
	case r.state != nil && len(r.state.Drift) > 0:
		return &problem{contract.ReasonDrift, r.state.Drift[0]}
	}
	return nil
}

// trouble is what is wrong; nil: nothing.
func (r *report) trouble(matches *problem) *problem {
	switch {
	case matches != nil:
		return matches
	case r.planned == nil:
	case len(r.groups) == 0:
		return &problem{contract.ReasonNoTargetGroups, "The LoadBalancer selects no TargetGroup: members outside stay as they are. Mend its selector, or create a TargetGroup, without targets if there should be none."}
	case len(r.planned.targets) > 0 && !slices.ContainsFunc(r.planned.targets, func(t clusterv1.TargetStatus) bool { return t.Reason != contract.ReasonQuotaExceeded }):
		return &problem{contract.ReasonQuotaExceeded, r.planned.targets[0].Message}
	case !slices.ContainsFunc(r.planned.targets, func(t clusterv1.TargetStatus) bool { return t.State == contract.StateActive }):
		return &problem{contract.ReasonNoActiveTargets, "No target takes traffic: see status.targets."}
	}
	return nil
}

// withSince says since when each target is in its state.
func withSince(next, before []clusterv1.TargetStatus) []clusterv1.TargetStatus {
	now := metav1.Now().Rfc3339Copy()
	for i := range next {
		t := &next[i]
		t.Since = &now
		for _, b := range before {
			if b.Name == t.Name && b.Address == t.Address && b.State == t.State && b.Reason == t.Reason && b.Since != nil {
				t.Since = b.Since
			}
		}
	}
	return next
}

// refuse says what of a wanted load balancer the technology can't do.
func (s Supports) refuse(w Wanted, l *clusterv1.LoadBalancer) *problem {
	no := func(field string) *problem {
		return &problem{contract.ReasonNotSupported, fmt.Sprintf("LoadBalancer %s, %s: this provider can't do that: remove it, or use another provider.", l.Name, field)}
	}
	if len(w.Ports) == 0 {
		return &problem{contract.ReasonPending, fmt.Sprintf("LoadBalancer %s, spec.ports: it has no ports: add one.", l.Name)}
	}
	for i, p := range w.Ports {
		field := fmt.Sprintf("spec.ports[%d]", i)
		switch {
		case p.Protocol == clusterv1.ProtocolUDP && !s.UDP, p.Protocol == clusterv1.ProtocolSCTP && !s.SCTP:
			return no(field + ".protocol")
		case p.Mode != "" && p.Mode != clusterv1.ModeTCP && p.Mode != clusterv1.ModeUDP, p.TLS != nil:
			return no(field + ".mode")
		}
	}
	switch {
	case w.HealthCheck != nil && !s.HealthCheck:
		return no("spec.healthCheck")
	case len(w.SourceRanges) > 0 && !s.SourceRanges:
		return no("spec.sourceRanges")
	case w.ClientAffinity && !s.ClientAffinity:
		return no("spec.sessionAffinity")
	case w.ProxyProtocol != "" && !s.ProxyProtocol:
		return no("spec.proxyProtocol")
	}
	return nil
}
