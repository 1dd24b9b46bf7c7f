package member

import (
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Where somebody else manages a load balancer, a Machine's annotations carry the question and the answer, a pair for each
// LoadBalancer, whose name ends the keys.
const (
	// WantedPrefix begins the key of what is wanted of that load balancer for the Machine, as a TargetGroup says it: Serving or
	// Draining. The manager alone writes it.
	WantedPrefix = "wanted.fairlead.dev/"
	// AnswerPrefix begins the key of what has become of that: an Answer, and after a colon whatever its writer wants people to
	// read. Whoever manages the load balancer alone writes it, once it is so. The manager takes it off when it wants another thing.
	AnswerPrefix = "answer.fairlead.dev/"
)

// Answer of whoever manages a load balancer. Any other word is none.
type Answer string

const (
	// AnswerHealthy: the load balancer sends to the Machine, and finds it healthy or checks nothing. Of one that is to serve.
	AnswerHealthy Answer = "Healthy"
	// AnswerUnhealthy: it doesn't send to the Machine, or finds it unhealthy. Of one that is to serve.
	AnswerUnhealthy Answer = "Unhealthy"
	// AnswerGone: it sends no new connection to the Machine, and has none open. Of one that is to drain.
	AnswerGone Answer = "Gone"
)

// WantedIn is what annotations want of a LoadBalancer's load balancer; Absent: nothing.
func WantedIn(annotations map[string]string, loadBalancer string) v1alpha1.TargetState {
	return v1alpha1.TargetState(annotations[WantedPrefix+loadBalancer])
}

// AnswerIn is what annotations answer for a LoadBalancer, and what people may read of it.
func AnswerIn(annotations map[string]string, loadBalancer string) (Answer, string) {
	word, text, _ := strings.Cut(annotations[AnswerPrefix+loadBalancer], ":")
	return Answer(strings.TrimSpace(word)), strings.TrimSpace(text)
}

// ask sets what is wanted; Absent: nothing. An answer is one to what was wanted before, and goes with it.
func ask(annotations map[string]string, loadBalancer string, wanted v1alpha1.TargetState) {
	if WantedIn(annotations, loadBalancer) == wanted {
		return
	}
	delete(annotations, AnswerPrefix+loadBalancer)
	delete(annotations, WantedPrefix+loadBalancer)
	if wanted != Absent {
		annotations[WantedPrefix+loadBalancer] = string(wanted)
	}
}

// Answered is what is seen of a member by what its Machine's annotations answer. by names who answers. What was answered to
// another question than how its TargetGroup places it now is no word.
func Answered(annotations map[string]string, loadBalancer, by string, draining bool) Sight {
	s := Sight{By: by}
	asked := WantedIn(annotations, loadBalancer)
	answer, text := AnswerIn(annotations, loadBalancer)
	if draining {
		if s.Gone = asked == v1alpha1.TargetDraining && answer == AnswerGone; s.Gone {
			return s
		}
		s.Waits = "its Machine has no annotation " + AnswerPrefix + loadBalancer + ": " + string(AnswerGone) + " yet"
		if asked == v1alpha1.TargetDraining && answer != "" {
			s.Waits += ", but " + short(annotations[AnswerPrefix+loadBalancer])
		}
		return s
	}
	switch {
	case asked != v1alpha1.TargetServing:
	case answer == AnswerHealthy:
		s.Live, s.Healthy = 1, 1
	case answer == AnswerUnhealthy, answer == AnswerGone:
		s.Live, s.Unhealthy, s.Why = 1, 1, string(answer)
		if text != "" {
			s.Why = short(text)
		}
	}
	return s
}

// short bounds what others write.
func short(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
