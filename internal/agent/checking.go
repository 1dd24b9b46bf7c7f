package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// askFor is how long a Node has to answer, and roundFor all of them: the others are silent.
	askFor   = time.Second
	roundFor = 10 * time.Second
	// askAtOnce is how many Nodes are asked at one time.
	askAtOnce = 16
)

// checking finds out whether the Nodes have a kube-proxy whose health can be asked: where the hub says that none of them passes that
// check, and, once they are checked otherwise, whether they have one again. One goroutine runs it.
type checking struct {
	hub        client.Client
	namespace  string
	clusterUID string
	nodes      *nodes
	events     *recorder
	log        *slog.Logger
	// ask asks one Node's kube-proxy at an address for its health.
	ask func(ctx context.Context, address string) node.Answer

	decides node.Checking
}

// Reconcile asks the Nodes, if there is a question.
func (r *checking) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list := &v1alpha1.TargetGroupList{}
	if err := r.hub.List(ctx, list, client.InNamespace(r.namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing TargetGroups: %w", err)
	}
	groups := groupsOf(list)
	present := r.nodes.checkedBy(groups)
	if why, _ := node.Unwell(groups); present == node.ByHealthz && why == "" {
		r.decides.Forget()
		return reconcile.Result{}, nil
	}
	if wait := r.decides.Wait(time.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	other := r.round(ctx, present, groups)
	if err := ctx.Err(); err != nil {
		return reconcile.Result{}, fmt.Errorf("asking Nodes for their health: %w", err)
	}
	now := time.Now()
	if next := r.decides.Round(present, other, now); next != present {
		r.tell(next, now)
		r.nodes.checkBy(next)
	}
	return reconcile.Result{RequeueAfter: r.decides.Wait(now)}, nil
}

// round asks the Nodes, until what they say is settled, and tells whether that is for the other way.
func (r *checking) round(ctx context.Context, present node.Way, groups []*v1alpha1.TargetGroup) bool {
	addresses := node.Asked(groups, r.nodes.holds)
	ctx, cancel := context.WithTimeout(ctx, roundFor)
	defer cancel()
	next, said := make(chan string), make(chan node.Answer)
	var askers sync.WaitGroup
	for range min(askAtOnce, len(addresses)) {
		askers.Go(func() {
			for address := range next {
				said <- r.ask(ctx, address)
			}
		})
	}
	go func() {
		defer close(said)
		defer askers.Wait()
		defer close(next)
		for _, address := range addresses {
			select {
			case next <- address:
			case <-ctx.Done():
				return
			}
		}
	}()
	var answers []node.Answer
	other, settled := node.Other(present, len(addresses), nil)
	for a := range said {
		if settled {
			continue // of what was under way
		}
		answers = append(answers, a)
		if other, settled = node.Other(present, len(addresses), answers); settled {
			cancel()
		}
	}
	return other
}

func (r *checking) tell(way node.Way, at time.Time) {
	h := happening{about: wholeCluster(r.clusterUID), name: fmt.Sprintf("fairlead-agent.checks.%x", at.UnixNano()), reason: clusterv1.ReasonAsExpected,
		note: "Most nodes' kube-proxies tell their health again: nodes are checked there"}
	if reason := way.Reason(); reason != "" {
		h.warning, h.reason, h.note = true, v1alpha1.ReasonCheckedByPort, "Nodes are checked otherwise than by kube-proxy's health: "+reason
	}
	r.log.Warn("nodes are checked otherwise from now on", "by", way, "why", h.note)
	r.events.tell(h)
}

// askHealth asks the kube-proxy of the Node at an address for its health, whatever proxy the environment names for HTTP.
func askHealth() func(ctx context.Context, address string) node.Answer {
	c := &http.Client{
		Timeout:       askFor,
		Transport:     &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, address string) node.Answer {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(address, strconv.Itoa(node.HealthPort))+node.HealthPath, nil)
		if err != nil {
			return node.Silent // no address that can be asked
		}
		res, err := c.Do(req)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return node.Refused
		case err != nil:
			return node.Silent
		}
		_ = res.Body.Close() // the status says all
		if res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusBadRequest {
			return node.Sick
		}
		return node.Well
	}
}

// groupsOf are those of Nodes.
func groupsOf(list *v1alpha1.TargetGroupList) (groups []*v1alpha1.TargetGroup) {
	for i := range list.Items {
		if isGroup(&list.Items[i]) {
			groups = append(groups, &list.Items[i])
		}
	}
	return groups
}
