package builtin

import (
	"golang.org/x/sys/unix"
)

const (
	// pipeSize is asked for each pipe; the kernel gives less to a user who has many.
	pipeSize = 1 << 20
	// maxIdlePipes are kept for the next who needs one.
	maxIdlePipes = 64
)

// pipe carries bytes from one socket to another within the kernel. It is empty whenever it is idle.
type pipe struct{ r, w int }

// pipes are the idle ones.
type pipes chan pipe

func (p pipes) get() (pipe, error) {
	select {
	case q := <-p:
		return q, nil
	default:
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return pipe{}, err
	}
	unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) // less does too
	return pipe{fds[0], fds[1]}, nil
}

func (p pipes) put(q pipe) {
	select {
	case p <- q:
	default:
		q.close()
	}
}

func (p pipes) closeIdle() {
	for {
		select {
		case q := <-p:
			q.close()
		default:
			return
		}
	}
}

func (q pipe) close() {
	unix.Close(q.r)
	unix.Close(q.w)
}

// splice moves bytes from one socket to the other within the kernel while many come at a time. While
// it waits for them it holds no pipe. The end of from is left for run to find.
func (p *pump) splice() (readErr, writeErr error) {
	var q pipe
	var n, m int64
	var failed error
	in := func(fd uintptr) bool {
		if q, failed = p.d.pipes.get(); failed != nil {
			return true
		}
		for {
			n, failed = unix.Splice(int(fd), nil, q.w, nil, spliceChunk, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
			if failed != unix.EINTR {
				break
			}
		}
		if failed == nil && n > 0 {
			return true
		}
		p.d.pipes.put(q)
		return failed != unix.EAGAIN
	}
	out := func(fd uintptr) bool {
		for {
			m, failed = unix.Splice(q.r, nil, int(fd), nil, int(n), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
			if failed != unix.EINTR {
				return failed != unix.EAGAIN
			}
		}
	}
	for {
		if err := p.from.raw.Read(in); err != nil {
			return err, nil
		}
		switch {
		case failed != nil && (scarce(failed) || failed == unix.EINVAL):
			return nil, nil // Buffers do as well.
		case failed != nil:
			return failed, nil
		case n == 0:
			return nil, nil
		}
		p.touch()
		few := n < bufferSize
		for n > 0 {
			err := p.to.raw.Write(out)
			if err == nil {
				err = failed
			}
			if err != nil {
				q.close() // It isn't empty.
				return nil, err
			}
			n -= m
			p.touch()
		}
		p.d.pipes.put(q)
		if few {
			return nil, nil
		}
	}
}
