package netns

import (
	"context"
	"net"
	"os/exec"
)

// Dial connects from the namespace, as the dialer says. The address must be numeric.
func (ns *Namespace) Dial(ctx context.Context, d net.Dialer, network, address string) (c net.Conn, err error) {
	err = ns.Do(func() (err error) {
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Listen accepts connections in the namespace. The address must be numeric.
func (ns *Namespace) Listen(network, address string) (l net.Listener, err error) {
	err = ns.Do(func() (err error) {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// ListenPacket receives packets in the namespace. The address must be numeric.
func (ns *Namespace) ListenPacket(network, address string) (c net.PacketConn, err error) {
	err = ns.Do(func() (err error) {
		c, err = net.ListenPacket(network, address)
		return err
	})
	return c, err
}

// Start starts a process in the namespace. All of it stays there.
func (ns *Namespace) Start(cmd *exec.Cmd) error { return ns.Do(cmd.Start) }
