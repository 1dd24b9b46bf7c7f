package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// eachKey has a terminal give each key at once, and show none; Ctrl-C stays what it is. restore takes that back.
func eachKey(terminal *os.File) (restore func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("reading the terminal's mode: %w", err)
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &now); err != nil {
		return nil, fmt.Errorf("setting the terminal's mode: %w", err)
	}
	return func() {
		if err := unix.IoctlSetTermios(fd, unix.TCSETS, before); err != nil {
			fmt.Fprintf(os.Stderr, "setting the terminal's mode back (stty sane does it): %s\n", err)
		}
	}, nil
}
