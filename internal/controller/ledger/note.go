package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// annotationMissing on an Address names the holders that are missing, as namespace/name, separated by commas.
const annotationMissing = "fairlead.dev/missing"

// Noted reads what an Address's annotations say of missing holders. A time that can't be read is none.
func Noted(a *v1alpha1.Address) proof.Missing {
	var out proof.Missing
	if s := a.Annotations[annotationMissing]; s != "" {
		out.Holders = strings.Split(s, ",")
	}
	if t, err := time.Parse(time.RFC3339, a.Annotations[v1alpha1.AnnotationHeldUntil]); err == nil {
		out.Until = t
	}
	return out
}

// IsHeld says whether an Address is kept for a holder that is missing.
func IsHeld(a *v1alpha1.Address) bool {
	return a.Spec.Phase == v1alpha1.AddressGranted && a.Annotations[annotationMissing] != ""
}

// Note writes what is to be known of an Address's missing holders; it returns whether it wrote. a must be what the Keeper has last seen.
func (k *Keeper) Note(ctx context.Context, a *v1alpha1.Address, m proof.Missing) (bool, error) {
	until := ""
	switch {
	case m.Until.IsZero():
	case m.Until.Equal(Noted(a).Until):
		until = a.Annotations[v1alpha1.AnnotationHeldUntil] // as somebody wrote it
	default:
		until = m.Until.UTC().Format(time.RFC3339)
	}
	return k.annotate(ctx, a, map[string]string{annotationMissing: strings.Join(m.Holders, ","), v1alpha1.AnnotationHeldUntil: until})
}

// unnote takes off what concerns the present holders only.
func unnote(a *v1alpha1.Address) {
	delete(a.Annotations, annotationMissing)
	delete(a.Annotations, v1alpha1.AnnotationHeldUntil)
	delete(a.Annotations, annotationAdopted)
}

// annotate sets annotations of an Address; one that is to be empty goes.
func (k *Keeper) annotate(ctx context.Context, a *v1alpha1.Address, want map[string]string) (bool, error) {
	lock := k.stripe(a.Name)
	lock.Lock()
	defer lock.Unlock()
	next, differs := a.DeepCopy(), false
	for key, value := range want {
		if next.Annotations[key] == value {
			continue
		}
		differs = true
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		if next.Annotations[key] = value; value == "" {
			delete(next.Annotations, key)
		}
	}
	if !differs {
		return false, nil
	}
	if err := k.Client.Update(ctx, next); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			if refreshed := k.refresh(ctx, a.Name); refreshed != nil {
				return false, refreshed
			}
		}
		return false, fmt.Errorf("annotating address %s: %w", a.Name, err)
	}
	next.ManagedFields = nil
	k.Observe(next)
	return true, nil
}

// Held returns the Addresses of an AddressPool that are kept for holders that are missing.
func (k *Keeper) Held(pool string) []Address {
	return k.filter(func(a *v1alpha1.Address) bool { return a.Spec.Pool == pool && IsHeld(a) })
}

// Unsettled returns the Addresses that are being released, or kept for a missing holder.
func (k *Keeper) Unsettled() []Address {
	return k.filter(func(*v1alpha1.Address) bool { return true })
}

// HeldFor returns the Addresses that are kept for a missing holder in a namespace.
func (k *Keeper) HeldFor(namespace string) []Address {
	return k.filter(func(a *v1alpha1.Address) bool {
		if !IsHeld(a) {
			return false
		}
		for _, h := range a.Spec.Holders {
			if h.Namespace == namespace {
				return true
			}
		}
		return false
	})
}
