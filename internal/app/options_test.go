package app

import (
	"strings"
	"testing"
)

func TestAProxysNameIsThatOfAnObjectAndOfAFile(t *testing.T) {
	for name, fine := range map[string]bool{
		"edge-1": true, "host.example.net": true,
		"": false, "../edge": false, "Edge_1": false, strings.Repeat("x", 64): false,
	} {
		if err := (&ProxyOptions{Name: name, Pool: "edge"}).check(); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}
