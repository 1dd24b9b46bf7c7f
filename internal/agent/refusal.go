package agent

import (
	"errors"
	"net/http"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/service"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// away tells an API server that can't answer now, or that nothing was heard of, from one that says what it has against a request.
func away(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// hubProblem says what the user is told of a write that the hub didn't take, and when it is tried again; retry is 0 where nothing
// but the next try says that it may go on. tell is false while that may pass by itself: an API server that has just come back
// forbids everything for a moment.
func hubProblem(err error, failing time.Duration) (p service.Problem, retry time.Duration, tell bool) {
	p.Refuses = true
	retry = refusedRetry
	switch {
	case errors.Is(err, errTaken):
		p.Outside, p.Reason, p.Message = true, service.ReasonNameTaken, err.Error()+", which was not made from this Service: rename the Service, or delete that one"
		return p, retry, true
	case apierrors.IsInvalid(err):
		p.Reason, p.Message = clusterv1.ReasonInvalid, "the hub refuses it: "+invalid(err)
		return p, retry, true
	case apierrors.IsForbidden(err):
		p.Outside, p.Reason, p.Message = true, service.ReasonHubRefuses, "the hub doesn't let the agent write: ask the hub's operator ("+err.Error()+")"
	case apierrors.IsUnauthorized(err):
		p.Outside, p.Reason, p.Message = true, service.ReasonHubRefuses, "the hub doesn't accept the agent's credentials: ask the hub's operator for new ones and start the agent with them"
	case away(err):
		retry = 0
		p.Outside, p.Reason, p.Message = true, service.ReasonHubUnreachable, "the agent can't write to the hub: ask the hub's operator, it goes on by itself"
	default:
		retry = answeredRetry
		p.Outside, p.Reason, p.Message = true, service.ReasonHubRefuses, "the hub doesn't take what the agent writes: ask the hub's operator, it goes on by itself ("+err.Error()+")"
	}
	return p, retry, failing >= tellAfter
}

// invalid is what the API server says of a refused object, without its name.
func invalid(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return err.Error()
	}
	text := ""
	for _, c := range status.Status().Details.Causes {
		if text != "" {
			text += "; "
		}
		text += c.Field + ": " + c.Message
	}
	return text
}
