package testkit

import "syscall"

// procAttr has the kernel kill the child when its parent ends.
//
// Why this and not a pipe whose end the child watches: it works for every program
// without its help, and for a child that is paused (SIGSTOP), as tests do to proxies;
// a paused process would never read the pipe's end. The signal comes from the kernel,
// also when the parent is killed with SIGKILL. Its trap is that "parent" means the
// thread that forked, see start.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
