package proxy

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// A file of two batches, as the proxy writes it.
func lastGoodText(t testing.TB) []byte {
	dir := t.TempDir()
	f := newFile(dir, FileHeader{Proxy: "edge-1", Pool: "edge", HubUID: "h", ProxyUID: "p", Boot: "b"})
	defer f.close()
	l, a := loadBalancer("shop", "web", "192.0.2.1")
	for n, batch := range [][]Change{
		{{LoadBalancers, keyOf(l), l}, {Addresses, keyOf(a), a}, {Classes, keyOf(class()), class()}},
		{{LoadBalancers, keyOf(l), nil}},
	} {
		if err := f.write(batch, Versions{LoadBalancers: string(rune('1' + n))}, buffered); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "edge-1.last-good"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Whatever is on the disk: it is read or refused; what is read is written and read again the same; and where the end is
// torn off, what is left is refused, or is the state after some whole batch.
func FuzzLastGoodFile(f *testing.F) {
	text := lastGoodText(f)
	f.Add(text, uint16(0))
	f.Add(text, uint16(7))
	f.Add(bytes.Replace(text, []byte(`"r":"addresses"`), []byte(`"r":"x"`), 1), uint16(0))
	f.Add(append(text[:len(text):len(text)], `{"r":"tenants","o":null}`+"\n"+`{"through":["","","","",""]}`+"\n"...), uint16(1))
	f.Add(append(text[:len(text):len(text)], `{"r":"tenants","o":{"metadata":{"name":"\ud800"}},"gone":{"Name":"x"}}`+"\n{}\n"...), uint16(0))
	f.Fuzz(func(t *testing.T, text []byte, torn uint16) {
		g, err := parseLastGood(text)
		if err == nil {
			mustReadAgain(t, g)
		}
		// What a batch's end doesn't follow was told nobody.
		whole := text[:len(text)-min(int(torn), len(text))]
		left, err := parseLastGood(whole)
		if err != nil {
			return
		}
		upTo, err := parseLastGood(whole[:bytes.LastIndexByte(whole, '\n')+1])
		if err != nil || !reflect.DeepEqual(left, upTo) {
			t.Fatalf("half a line at the end counts: %+v, without it %+v, %v", left, upTo, err)
		}
	})
}

func mustReadAgain(t *testing.T, g *LastGood) {
	var text bytes.Buffer // a disk would take most of the time
	errs := []error{encodeLine(&text, g.FileHeader)}
	for r := range resources {
		for k, o := range g.Objects[r] {
			if keyOf(o) != k {
				t.Fatalf("%s %v is filed as %v", r, keyOf(o), k)
			}
			errs = append(errs, encodeChange(&text, Change{r, k, o}))
		}
	}
	errs = append(errs, encodeLine(&text, fileLine{Through: &g.Through, Memory: &g.Memory}))
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("what was read can't be written: %v", err)
	}
	again, err := parseLastGood(text.Bytes())
	if err != nil || !reflect.DeepEqual(g, again) {
		t.Fatalf("read %+v\nthen %+v, %v", g, again, err)
	}
}
