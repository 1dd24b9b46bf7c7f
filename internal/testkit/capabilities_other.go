//go:build !linux

package testkit

import (
	"errors"
	"fmt"
)

func dropCapabilities(capabilities []uintptr) error {
	if len(capabilities) > 0 {
		return fmt.Errorf("dropping capabilities: %w", errors.ErrUnsupported)
	}
	return nil
}
