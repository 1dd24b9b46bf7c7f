package provider

import (
	"context"
	"encoding/json"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/provider/contract"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// wanted is what is to be outside; a problem: nothing may be done. What was pushed is written by then, and the finalizer.
func (p *pass) wanted(ctx context.Context, l *clusterv1.LoadBalancer, cluster *unstructured.Unstructured) (Wanted, *problem, error) {
	spec, _ := p.o.Contract()
	if problem, err := p.checkID(ctx, spec); problem != nil || err != nil {
		return Wanted{}, problem, err
	}
	controlPlane, unknown, err := p.controlPlane(ctx, l, cluster)
	if err != nil || unknown != nil && spec.ID == "" {
		return Wanted{}, unknown, err
	}
	p.refused = unknown
	way := gate(said{
		cluster: endpointOf(cluster), loadBalancer: value(l.Spec.Endpoint), own: value(spec.Endpoint),
		controlPlane: controlPlane, exists: spec.ID != "",
	})
	if way.wait != nil {
		return Wanted{}, way.wait, nil
	}
	p.differs = way.differs
	check, err := p.healthCheck(ctx, l, controlPlane)
	if err != nil {
		return Wanted{}, nil, err
	}
	w := Wanted{
		Name: p.o.GetNamespace() + "/" + p.o.GetName(), Endpoint: way.endpoint, Ports: portsOf(l, controlPlane, way.endpoint),
		HealthCheck: check, SourceRanges: l.Spec.SourceRanges, ProxyProtocol: l.Spec.ProxyProtocol,
		ClientAffinity: l.Spec.SessionAffinity == clusterv1.SessionAffinityClientIP,
	}
	if !isSet(w.Endpoint) {
		w.Endpoint = clusterv1.Endpoint{}
	}
	if problem := p.Supports.refuse(w, l); problem != nil && spec.ID == "" {
		return Wanted{}, problem, nil
	} else if problem != nil && unknown == nil {
		p.refused = problem
	}
	var problem *problem
	if w.Credentials, problem, err = p.credentials(ctx, p.o, cluster); problem != nil || err != nil {
		return Wanted{}, problem, err
	}
	made := p.o.GetAnnotations()[contract.MadeAnnotation]
	if err := p.patch(ctx, func(o Object) {
		spec, _ := o.Contract()
		controllerutil.AddFinalizer(o, contract.Finalizer)
		if way.push != nil {
			spec.Endpoint = way.push
		}
		if spec.ID == "" {
			spec.ID = made // whoever applied the object without it doesn't mean to lose it
		}
		remember(o, w.Credentials)
	}); err != nil {
		return Wanted{}, nil, err
	}
	w.Ref, err = p.ref(w.Credentials)
	return w, nil, err
}

// ref names what is outside, for a provider.
func (p *pass) ref(c Credentials) (Ref, error) {
	o, err := copyOf(p.o)
	spec, _ := p.o.Contract()
	return Ref{ID: spec.ID, Owner: string(p.o.GetUID()), Object: o, Credentials: c}, err
}

// checkID says why what spec.id names may not be touched.
func (p *pass) checkID(ctx context.Context, spec *contract.Spec) (*problem, error) {
	made := p.o.GetAnnotations()[contract.MadeAnnotation]
	if made != "" && spec.ID != "" && made != spec.ID {
		return &problem{contract.ReasonIDChanged, fmt.Sprintf("spec.id is %s, and %s was made for this object: put that back, or make another object to adopt the other.", spec.ID, made)}, nil
	}
	if spec.ID == "" {
		return nil, nil
	}
	same, err := p.objects(ctx, client.MatchingFields{indexID: spec.ID})
	if err != nil {
		return nil, err
	}
	for _, x := range same {
		if x.GetUID() != p.o.GetUID() && older(x, p.o) {
			return &problem{contract.ReasonIDInUse, fmt.Sprintf("spec.id: %s is managed by %s/%s already: leave it to that one, or remove spec.id there.", spec.ID, x.GetNamespace(), x.GetName())}, nil
		}
	}
	return nil, nil
}

// older says which of two comes first: one that is managed already, else the one that was there first; all who ask get one answer.
func older(a, b Object) bool {
	if has := controllerutil.ContainsFinalizer(a, contract.Finalizer); has != controllerutil.ContainsFinalizer(b, contract.Finalizer) {
		return has
	}
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if x.Equal(&y) {
		return a.GetUID() < b.GetUID()
	}
	return x.Before(&y)
}

// patch changes the object's metadata and spec, if that changes anything, and if it is still what was read.
func (p *pass) patch(ctx context.Context, change func(Object)) error {
	next, err := copyOf(p.o)
	if err != nil {
		return err
	}
	change(next)
	patch := client.MergeFromWithOptions(p.o, client.MergeFromWithOptimisticLock{})
	if same, err := equalObjects(p.o, next); same || err != nil {
		return err
	}
	if err := p.client.Patch(ctx, next, patch); err != nil {
		return fmt.Errorf("writing it: %w", err)
	}
	p.o = next
	return nil
}

func equalObjects(a, b Object) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, fmt.Errorf("encoding it: %w", err)
	}
	y, err := json.Marshal(b)
	return string(x) == string(y), err
}
