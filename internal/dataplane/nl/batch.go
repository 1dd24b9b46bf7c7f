package nl

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Subsystems of nfnetlink.
const (
	Conntrack = unix.NFNL_SUBSYS_CTNETLINK
	Tables    = unix.NFNL_SUBSYS_NFTABLES
)

// Head is the header of nfnetlink's messages.
func Head(family uint8, resource uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, resource)
}

// HeadLen is its length.
const HeadLen = 4

// Batch is a list of messages that take effect together or not at all.
type Batch struct {
	buf    []byte
	starts []int
}

// Add appends a message of kind (unix.NFT_MSG_…) and returns its number.
func (b *Batch) Add(kind, flags uint16, family uint8, attrs Attrs) int {
	if len(b.buf) == 0 {
		b.message(unix.NFNL_MSG_BATCH_BEGIN, 0, Head(unix.AF_UNSPEC, Tables), nil)
	}
	b.message(Tables<<8|kind, flags, Head(family, 0), attrs)
	return len(b.starts) - 2
}

func (b *Batch) message(kind, flags uint16, head, attrs []byte) {
	at := len(b.buf)
	b.starts = append(b.starts, at)
	b.buf = appendHeader(b.buf, kind, flags|unix.NLM_F_REQUEST, 0)
	b.buf = append(append(b.buf, head...), attrs...)
	binary.NativeEndian.PutUint32(b.buf[at:], uint32(len(b.buf)-at))
}

// Bytes is what it holds so far.
func (b *Batch) Bytes() []byte { return b.buf }

// Refusal is why the kernel took nothing of a Batch.
type Refusal struct {
	// Message is the number of the message refused, -1 if it was the whole.
	Message int
	// Offset of the attribute in question from where the message's attributes begin, -1 if the kernel didn't say.
	Offset int
	Errno  unix.Errno
	// Text is what the kernel said besides, if anything.
	Text string
}

func (r *Refusal) Error() string {
	if r.Text != "" {
		return fmt.Sprintf("%s (%s)", r.Errno.Error(), r.Text)
	}
	return r.Errno.Error()
}

// Unwrap is the errno.
func (r *Refusal) Unwrap() error { return r.Errno }

// Commit has the kernel take the batch. It returns when what it says is in effect. If the kernel refused it, the
// error is the *Refusal of the first message that it refused, and nothing has changed.
func (c *Conn) Commit(b *Batch) error {
	if len(b.buf) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The kernel always answers to the last message, after all that it has to say of the others.
	last := b.starts[len(b.starts)-1]
	binary.NativeEndian.PutUint16(b.buf[last+6:], binary.NativeEndian.Uint16(b.buf[last+6:])|unix.NLM_F_ACK)
	b.message(unix.NFNL_MSG_BATCH_END, 0, Head(unix.AF_UNSPEC, Tables), nil)
	first := c.seq + 1
	for i, at := range b.starts {
		binary.NativeEndian.PutUint32(b.buf[at+8:], first+uint32(i))
	}
	c.seq += uint32(len(b.starts))
	answer := first + uint32(len(b.starts)-2)
	if err := c.send(b.buf); err != nil {
		return fmt.Errorf("sending a batch of %d bytes: %w", len(b.buf), err)
	}
	var refusal *Refusal
	err := c.receive(func(m message) (bool, error) {
		at := int(m.seq - first)
		if m.kind != unix.NLMSG_ERROR || at < 0 || at >= len(b.starts) {
			return false, nil
		}
		if err := errnoOf(m.body); err != nil {
			errno, ok := err.(unix.Errno)
			if !ok {
				return true, err
			}
			if refusal == nil {
				refusal = refusalOf(at-1, errno, m)
			}
		}
		// An error of the beginning is one of the whole: if the kernel could not so much as start, it says no more.
		return m.seq == answer || at == 0 && refusal.Message < 0 && !c.more(), nil
	})
	if err != nil {
		return err
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// more says that another answer is waiting. The kernel answers a batch before the call that sent it returns.
func (c *Conn) more() bool {
	n, _, err := unix.Recvfrom(c.fd, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_TRUNC)
	return err == nil && n > 0
}

func refusalOf(message int, errno unix.Errno, m message) *Refusal {
	r := &Refusal{Message: message, Offset: -1, Errno: errno}
	const capped = 4 + headerLen
	if m.flags&unix.NLM_F_ACK_TLVS == 0 || len(m.body) < capped {
		return r
	}
	for t, v := range Attrs(m.body[capped:]).All() {
		switch {
		case t == unix.NLMSGERR_ATTR_MSG && len(v) > 0:
			r.Text = string(v[:len(v)-1])
		case t == unix.NLMSGERR_ATTR_OFFS && len(v) == 4:
			r.Offset = int(binary.NativeEndian.Uint32(v)) - headerLen - HeadLen
		}
	}
	return r
}
