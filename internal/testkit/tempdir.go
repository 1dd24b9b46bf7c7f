package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	tempPrefix = "fairlead-testkit-"
	lockName   = "in-use"
)

// tempDir is a temporary directory that is locked by this process, so that those of
// killed processes (an etcd leaves more than 100 MB) can be told and removed.
type tempDir struct {
	path string
	lock *os.File
}

// makeTempDir makes one under root, and removes what killed processes left there.
func makeTempDir(root, name string) (*tempDir, error) {
	if err := sweep(root); err != nil {
		return nil, fmt.Errorf("removing old temporary directories: %w", err)
	}
	path, err := os.MkdirTemp(root, tempPrefix+name+"-")
	if err != nil {
		return nil, err
	}
	// The lock is taken before it has its name: nobody sees it free.
	early := filepath.Join(path, lockName+".new")
	lock, err := os.Create(early)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(tryLock(lock), os.Rename(early, filepath.Join(path, lockName))); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &tempDir{path: path, lock: lock}, nil
}

func (d *tempDir) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

// sweep removes directories whose lock nobody holds.
func sweep(root string) error {
	all, err := filepath.Glob(filepath.Join(root, tempPrefix+"*", lockName))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range all {
		f, err := os.Open(name)
		if err != nil {
			continue // somebody else's, or just removed
		}
		if tryLock(f) == nil {
			errs = append(errs, os.RemoveAll(filepath.Dir(name)))
		}
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
