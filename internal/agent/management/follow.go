package management

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/member"
)

// AnnotationOriginGeneration on a TargetGroup of the hub is the generation of the one that it was mirrored from.
const AnnotationOriginGeneration = "fairlead.dev/origin-generation"

// Pair is a TargetGroup here, and what mirrors it in the hub.
type Pair struct {
	// Local and Hub; nil: there is none.
	Local, Hub *v1alpha1.TargetGroup
	// Deleted: a watch saw Local being deleted.
	Deleted bool
	Now     time.Time
}

// Says is what the hub's TargetGroup is to say of Local, which is there.
func (p *Pair) Says(origin string) map[string]string {
	return map[string]string{
		v1alpha1.AnnotationOrigin: origin, v1alpha1.AnnotationOriginUID: string(p.Local.UID),
		AnnotationOriginGeneration: strconv.FormatInt(p.Local.Generation, 10),
	}
}

// mirrors says that Hub was mirrored from Local, of that generation or a later one.
func (p *Pair) mirrors(generation int64) bool {
	g, err := strconv.ParseInt(p.Hub.Annotations[AnnotationOriginGeneration], 10, 64)
	return err == nil && p.Hub.Annotations[v1alpha1.AnnotationOriginUID] == string(p.Local.UID) && g >= generation
}

// follows says that Local is what Hub was mirrored from, and not older: what it lacks was taken out of it.
func (p *Pair) follows() bool {
	if p.Hub == nil {
		return true
	}
	if p.Local == nil {
		return p.Deleted
	}
	g, err := strconv.ParseInt(p.Hub.Annotations[AnnotationOriginGeneration], 10, 64)
	return err == nil && p.Hub.Annotations[v1alpha1.AnnotationOriginUID] == string(p.Local.UID) && p.Local.Generation >= g
}

// Follow returns the targets that the hub is to have, and until when some of them are held; zero: none is.
//
// What is here counts. A target that the hub has and that isn't here any more drains there until its proxies have stopped, as where
// the hub was away while it left. Where what is here is another TargetGroup than was mirrored, or an older one, as in a cluster that
// was restored, nobody is known to have taken it out: then one that serves is held for a day. One of its name takes its place.
func Follow(p Pair) (targets []v1alpha1.Target, until time.Time) {
	uids, names := map[string]bool{}, map[string]bool{}
	if p.Local != nil {
		for i := range p.Local.Spec.Targets {
			t := *p.Local.Spec.Targets[i].DeepCopy()
			if p.Local.Drains(i) {
				t.State = v1alpha1.TargetDraining
			}
			uids[t.UID], names[t.Name] = true, true
			targets = append(targets, t)
		}
	}
	if p.Hub == nil {
		return targets, until
	}
	follows := p.follows()
	held, err := time.Parse(time.RFC3339, p.Hub.Annotations[v1alpha1.AnnotationHeldUntil])
	if err != nil {
		held = p.Now.Add(service.HeldFor)
	}
	for i := range p.Hub.Spec.Targets {
		t := *p.Hub.Spec.Targets[i].DeepCopy()
		if uids[t.UID] || names[t.Name] || len(targets) == member.MaxTargets {
			continue
		}
		switch {
		case t.State == v1alpha1.TargetDraining:
			if drained(p.Hub, t.UID) {
				continue
			}
		case !follows && p.Now.Before(held):
			until = held
		default:
			t.State = v1alpha1.TargetDraining
		}
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b v1alpha1.Target) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	return targets, until
}

// Spare says that the hub needs a TargetGroup no more: here it is gone, and it would hold nothing.
func (p *Pair) Spare(targets []v1alpha1.Target) bool {
	return p.Local == nil && p.Hub != nil && p.Hub.DeletionTimestamp == nil && len(targets) == 0
}
