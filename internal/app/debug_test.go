package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
)

// The process before this one has the address until its last connection has ended.
func TestProfilesAreServedOnceTheAddressIsFree(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ServeDebug(taken.Addr().String(), slog.New(slog.DiscardHandler))
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := testkit.Poll(ctx, 20*time.Millisecond, "profiles", func(context.Context) error {
		res, err := http.Get("http://" + taken.Addr().String() + "/debug/pprof/")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", res.Status)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
