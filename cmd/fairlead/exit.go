package main

import (
	"github.com/spf13/cobra"
)

// exit ends the process with a code of its own; without err nothing is printed.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// asks makes a command that asks the hub end with 2 where it could not be asked, so that 1 always means: asked, and not well.
func asks(c *cobra.Command) *cobra.Command {
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit{2, err} })
	if args := c.Args; args != nil {
		c.Args = func(cmd *cobra.Command, a []string) error {
			if err := args(cmd, a); err != nil {
				return exit{2, err}
			}
			return nil
		}
	}
	return c
}

const exitCodes = `
Exit codes:
  0  all that was asked about is served
  1  something is not served (yet); what and why is printed
  2  it could not be asked: a wrong flag, no connection, no permission`
