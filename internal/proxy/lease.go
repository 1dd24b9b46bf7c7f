package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// leaseEvery is the time between two renewals, leaseFor what the Lease says that it is good for.
	leaseEvery = 10 * time.Second
	leaseFor   = 30 * time.Second
	// askedEvery is the least time between two renewals, however often managers ask for one.
	askedEvery = time.Second
	// countEvery renewals the proxies are counted.
	countEvery = 6
)

// errUnsure: the hub may be another one, so nothing may be said to it yet.
var errUnsure = errors.New("it is not sure that the hub is the one that it was")

// lease renews the Lease beside the Proxy from its registration on, at once when
// a manager asks. It repeats how far the proxy is through, so that rest costs no other write.
type lease struct {
	o      Options
	boot   string
	log    *slog.Logger
	r      *reporter
	object *coordinationv1.Lease
	// answered is the last question that a renewal followed.
	answered string
}

func newLease(o Options, boot string, r *reporter) *lease {
	return &lease{o: o, boot: boot, log: o.Logger, r: r}
}

func (l *lease) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-l.r.registered:
	}
	failures := 0
	for n := 0; ctx.Err() == nil; n++ {
		pause, asked := leaseEvery, l.r.own.asked()
		err := l.renew(ctx)
		if err != nil && ctx.Err() == nil {
			failures++
			if failures == 1 && !errors.Is(err, errUnsure) {
				l.log.Warn("lease can't be renewed", "err", err)
			}
			l.o.Metrics.write("failed", "lease")
			pause = min(100*time.Millisecond<<min(failures, 5), 2*time.Second)
			pause = pause/2 + rand.N(pause/2)
		} else {
			failures = 0
			if asked != l.answered {
				l.answered = asked
				pause -= rand.N(leaseEvery / 2) // Many were asked at once, and need not go on in step.
			}
			l.o.Metrics.write("written", "lease")
			if n%countEvery == 0 {
				l.count(ctx)
			}
		}
		l.rest(ctx, pause, errors.Is(err, errUnsure))
	}
}

// rest returns when the Lease is to be renewed again: after a pause, when a manager asks, or when a hub that was in doubt is known.
func (l *lease) rest(ctx context.Context, pause time.Duration, unsure bool) {
	began := time.Now()
	due := time.NewTimer(pause)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			return
		case <-l.r.own.lease:
		}
		switch {
		case unsure:
			if l.may() {
				return
			}
		case l.r.own.asked() != l.answered:
			due.Reset(min(time.Until(began.Add(pause)), time.Until(began.Add(askedEvery))))
		}
	}
}

// may says that the hub is known, and knows this process.
func (l *lease) may() bool {
	era, _ := l.r.inbox.Era()
	return l.r.inbox.Sure() && l.r.spoken.Load() == int64(era)
}

// count makes status writes rarer where many proxies write.
func (l *lease) count(ctx context.Context) {
	if n, err := l.o.Hub.CountProxies(ctx); err == nil {
		l.r.interval.Store(int64(max(statusEvery, time.Duration(n)*statusPerProxy)))
	}
}

func (l *lease) renew(ctx context.Context) error {
	if !l.may() {
		return errUnsure
	}
	through, seq := "{}", int64(0)
	if p := l.r.published.Load(); p != nil {
		seq = p.seq
		b, err := json.Marshal(p.through)
		if err != nil {
			return fmt.Errorf("encoding through: %w", err)
		}
		through = string(b)
	}
	for range 3 {
		var next *coordinationv1.Lease
		var err error
		if l.object == nil {
			next, err = l.o.Hub.CreateLease(ctx, l.fill(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: l.o.Name},
			}, through, seq))
		} else {
			next, err = l.o.Hub.UpdateLease(ctx, l.fill(l.object.DeepCopy(), through, seq))
		}
		switch {
		case err == nil:
			l.object = next
			return nil
		case l.object != nil && (apierrors.IsNotFound(err) || apierrors.IsConflict(err)):
			// Somebody else has written it, or the hub has lost what was written.
			l.object = nil
			l.r.inbox.Doubt()
			return errUnsure
		case apierrors.IsAlreadyExists(err):
			if l.object, err = l.o.Hub.GetLease(ctx, v1alpha1.SystemNamespace, l.o.Name); err != nil {
				l.object = nil
				return fmt.Errorf("reading lease: %w", err)
			}
		default:
			return fmt.Errorf("renewing lease: %w", err)
		}
	}
	return fmt.Errorf("renewing lease %s: conflicts do not end", l.o.Name)
}

func (l *lease) fill(to *coordinationv1.Lease, through string, seq int64) *coordinationv1.Lease {
	now := metav1.NowMicro()
	to.ManagedFields = nil
	metav1.SetMetaDataAnnotation(&to.ObjectMeta, v1alpha1.AnnotationBoot, l.boot)
	metav1.SetMetaDataAnnotation(&to.ObjectMeta, v1alpha1.AnnotationThrough, through)
	metav1.SetMetaDataAnnotation(&to.ObjectMeta, v1alpha1.AnnotationSeq, strconv.FormatInt(seq, 10))
	if ptr.Deref(to.Spec.HolderIdentity, "") != l.boot {
		to.Spec.AcquireTime = &now
	}
	to.Spec.HolderIdentity = &l.boot
	to.Spec.LeaseDurationSeconds = ptr.To(int32(leaseFor / time.Second))
	to.Spec.RenewTime = &now
	return to
}
