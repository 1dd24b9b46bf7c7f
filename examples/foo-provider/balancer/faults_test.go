package balancer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// put sends settings to a control address, and returns the status and what it says.
func put(t *testing.T, url, settings string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(settings))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestFaultsAreSetAtTheControlAddress(t *testing.T) {
	c := New(Options{Addresses: netip.MustParsePrefix("127.0.0.5/32")})
	defer c.Close()
	control := httptest.NewServer(c.Control())
	defer control.Close()
	set := func(faults string) {
		t.Helper()
		if code, said := put(t, control.URL, `{"applyDelay":"0s","faults":`+faults+`}`); code != http.StatusNoContent {
			t.Fatalf("%s: %d, %s", faults, code, said)
		}
	}
	spec := Spec{Ports: []Port{{freePort(t, "127.0.0.5"), 1}}}
	set(`{"Ensure":"halves"}`)
	if _, err := c.Ensure("", "owner", spec); !errors.Is(err, errHalf) {
		t.Fatalf("Ensure returns %v", err)
	}
	set(`{}`)
	i, err := c.Ensure("", "owner", spec)
	if err != nil || i.ID != "foo-1" {
		t.Fatalf("the one that was made is %q, %v", i.ID, err)
	}
	members := func(want string) {
		t.Helper()
		i, err := c.Get(i.ID, "")
		got := ""
		for _, m := range i.Members {
			got += fmt.Sprintf("%s:%v ", m.Address, m.Draining)
		}
		if err != nil || strings.TrimSpace(got) != want {
			t.Errorf("members are %q, %v, not %q", got, err, want)
		}
	}
	one, two := Member{Address: "127.0.0.1"}, Member{Address: "127.0.0.2"}
	set(`{"SetMembers":"halves"}`)
	if err := c.SetMembers(i.ID, []Member{one, two}); !errors.Is(err, errHalf) {
		t.Errorf("SetMembers returns %v", err)
	}
	members("127.0.0.1:false")
	set(`{"SetMembers":"forgets","Get":"fails"}`)
	if err := c.SetMembers(i.ID, []Member{two}); err != nil {
		t.Errorf("SetMembers returns %v", err)
	}
	if _, err := c.Get(i.ID, ""); !errors.Is(err, errFails) {
		t.Errorf("Get returns %v", err)
	}
	set(`{"Get":"forgets","Ensure":"forgets","Delete":"refuses"}`)
	if _, err := c.Get(i.ID, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get returns %v", err)
	}
	if same, err := c.Ensure(i.ID, "", Spec{}); err != nil || len(same.Spec.Ports) != 1 {
		t.Errorf("Ensure does it all the same: %+v, %v", same, err)
	}
	if err := c.Delete(i.ID, ""); !errors.Is(err, ErrRefused) {
		t.Errorf("Delete returns %v", err)
	}
	set(`{}`)
	members("127.0.0.1:false")
	set(`{"SetMembers":"hangs"}`)
	done := make(chan error, 1)
	go func() { done <- c.SetMembers(i.ID, []Member{two}) }()
	select {
	case err := <-done:
		t.Errorf("SetMembers doesn't hang, and returns %v", err)
	default:
	}
	set(`{}`)
	if err := <-done; err != nil {
		t.Errorf("once it doesn't hang, SetMembers returns %v", err)
	}
	members("127.0.0.2:false")
	resp, err := http.Get(control.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != `{"applyDelay":"0s"}`+"\n" {
		t.Errorf("the settings are %s, %v", b, err)
	}
	for _, wrong := range []string{`{`, `{"applyDelay":"x"}`, `{"applyDelay":"-1s"}`, `{"applyDelay":"1s","faults":{"Set":"fails"}}`, `{"applyDelay":"1s","faults":{"Get":"x"}}`, `{"what":1}`} {
		if code, said := put(t, control.URL, wrong); code != http.StatusBadRequest || said == "" {
			t.Errorf("%s: %d, %q", wrong, code, said)
		}
	}
}
