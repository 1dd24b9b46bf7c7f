//go:build !linux

package testkit

import "syscall"

// procAttr: only Linux has a parent death signal; elsewhere a killed parent leaves
// its children.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
