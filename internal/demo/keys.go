package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
)

// keys let a person do to the fleet what the story does, and undo it.
type keys struct {
	*fleet.Fleet
	say func(string, ...any)
	// away, cut, dead, drained: the hub, the second proxy's way to it, and nodes of the first tenant.
	away, cut, dead, drained bool
	// replacing says that the hub is being replaced: what it lists is not all that there is.
	replacing atomic.Bool
}

// offers are the keys, for the invitation.
func (k *keys) offers() string {
	return fmt.Sprintf(`Keys; the first four undo by the same key:
  n   %s of %s dies
  d   %s of %s is drained
  h   the hub's API server goes away
  p   %s does not reach the hub any more
  r   the hub is lost, and an empty one is installed in its place
  b   the cluster of %s is lost, and restored from a backup as another one
`, k.node(), k.Tenants[0].Name(), k.leaving(), k.Tenants[0].Name(), k.Proxies[1].Name, k.Tenants[1].Name())
}

func (k *keys) node() string { return k.Tenants[0].Nodes()[1].Name }

// leaving is the node that is drained.
func (k *keys) leaving() string { return k.Tenants[0].Nodes()[2].Name }

// listen does what is asked for, a key after the other, until ctx or the input ends.
func (k *keys) listen(ctx context.Context, in io.Reader) {
	pressed := make(chan byte)
	go func() {
		defer close(pressed)
		one := make([]byte, 1)
		for {
			if _, err := io.ReadFull(in, one); err != nil {
				return // whatever ended it, nobody presses any more
			}
			select {
			case pressed <- one[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case key, ok := <-pressed:
			if !ok {
				return
			}
			if err := k.press(ctx, key); err != nil && ctx.Err() == nil {
				k.say("that failed: %s", err)
			}
		}
	}
}

func (k *keys) press(ctx context.Context, key byte) error {
	t, proxy := k.Tenants[0], k.Proxies[1]
	switch key {
	case 'n':
		if k.dead {
			return k.turned(&k.dead, t.ReviveNode(ctx, k.node()), "%s of %s is back", k.node(), t.Name())
		}
		return k.turned(&k.dead, t.KillNode(ctx, k.node()), "%s of %s has died: its Pods answer no more, and the others do", k.node(), t.Name())
	case 'd':
		if k.drained {
			return k.turned(&k.drained, disable(ctx, t, k.leaving(), nil), "%s of %s gets new connections again", k.leaving(), t.Name())
		}
		return k.turned(&k.drained, disable(ctx, t, k.leaving(), ""), "%s of %s drains: its open connections stay, and new ones go elsewhere", k.leaving(), t.Name())
	case 'h':
		if k.away {
			return k.turned(&k.away, k.Hub.StartAPIServer(ctx), "the hub is back: what was asked for meanwhile is done now")
		}
		return k.turned(&k.away, k.Hub.StopAPIServer(ctx), "the hub is away: all is served on, and what is asked for waits")
	case 'p':
		if k.cut {
			proxy.Reconnect()
			return k.turned(&k.cut, nil, "%s reaches the hub again, and catches up", proxy.Name)
		}
		proxy.CutOff()
		return k.turned(&k.cut, nil, "%s does not reach the hub any more: it serves on what it knows. What is deleted now keeps its address until %s can say that it is gone", proxy.Name, proxy.Name)
	case 'r':
		if k.away || k.cut {
			return errors.New("let the hub be there (h), and each proxy reach it (p), first")
		}
		return k.replaceHub(ctx)
	case 'b':
		if k.away {
			return errors.New("let the hub be there (h) first")
		}
		return k.restoreTenant(ctx, k.Tenants[1])
	case '\n', '\r':
		return nil
	}
	k.say("%s", k.offers())
	return nil
}

// turned notes that something is so, or no more, and says it, unless that failed.
func (k *keys) turned(is *bool, err error, format string, args ...any) error {
	if err == nil {
		*is = !*is
		k.say(format, args...)
	}
	return err
}

// replaceHub puts an empty hub in the place of the hub, installs it, and waits until the proxies follow it.
func (k *keys) replaceHub(ctx context.Context) error {
	epoch, err := k.Epoch(ctx)
	if err != nil {
		return err
	}
	before, err := k.shown(ctx)
	if err != nil {
		return err
	}
	k.replacing.Store(true)
	defer k.replacing.Store(false)
	k.say("the hub is lost with all that it knew; an empty one starts at its address …")
	if err := k.Hub.Empty(ctx); err != nil {
		return err
	}
	if err := k.Reinstall(ctx); err != nil {
		return err
	}
	k.say("it is installed as the first one was: proxies say what they serve, and agents write again what their tenants have …")
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := k.AwaitFollowed(ctx, epoch, v1alpha1.ReasonHubReplaced, func(context.Context) error { return nil }); err != nil {
		return err
	}
	err = testkit.Poll(ctx, look, fmt.Sprintf("the hub to show %d addresses again", before), func(ctx context.Context) error {
		now, err := k.shown(ctx)
		if err == nil && now < before {
			err = fmt.Errorf("it shows %d", now)
		}
		return err
	})
	if err == nil {
		k.say("the new hub knows all that is served, and is followed")
	}
	return err
}

// restoreTenant has a tenant's cluster be lost and another one take its place, with what a backup has.
func (k *keys) restoreTenant(ctx context.Context, t *fleet.Tenant) error {
	saved, err := t.Backup(ctx, namespace)
	if err != nil {
		return err
	}
	before, err := addressesOf(ctx, t)
	if err != nil {
		return err
	}
	k.say("the cluster of %s is lost with all that it knew; another one starts in its place …", t.Name())
	if err := k.LoseTenant(ctx, t); err != nil {
		return err
	}
	if err := k.RejoinTenant(ctx, t); err != nil {
		return err
	}
	k.say("its Tenant is bound to it, and its agent is at work; what the backup has is applied …")
	if err := t.Apply(ctx, saved...); err != nil {
		return err
	}
	if err := awaitAddresses(ctx, k.Fleet, t, before); err != nil {
		return err
	}
	k.say("the Services of %s are there again, each with its address", t.Name())
	return nil
}

// shown counts the LoadBalancers whose status has an address.
func (k *keys) shown(ctx context.Context) (n int, err error) {
	list := &clusterv1.LoadBalancerList{}
	err = k.Hub.API.List(ctx, list)
	for _, l := range list.Items {
		if len(l.Status.Addresses) > 0 {
			n++
		}
	}
	return n, err
}
