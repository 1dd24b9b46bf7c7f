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
	// away, cut, dead: the hub, the second proxy's way to it, and a node of the first tenant.
	away, cut, dead bool
	// replacing says that the hub is being replaced: what it lists is not all that there is.
	replacing atomic.Bool
}

// offers are the keys, for the invitation.
func (k *keys) offers() string {
	return fmt.Sprintf(`Keys; the first three undo by the same key:
  n   %s of %s dies
  h   the hub's API server goes away
  p   %s does not reach the hub any more
  r   the hub is lost, and an empty one is installed in its place
`, k.node(), k.Tenants[0].Name(), k.Proxies[1].Name)
}

func (k *keys) node() string { return k.Tenants[0].Nodes()[1].Name }

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
