package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Clocks jump: where one is set, and from machine to machine. So what decides keeps time.Time, whose differences don't
// jump, and never compares a time that somebody else wrote with its own.

// timeless are folders whose times only people read, and tests' helpers.
var timeless = []string{"internal/cli", "internal/demo", "internal/fleet", "internal/testkit", "internal/traffic", "internal/simulation", "internal/dataplane/dataplanetest"}

// excused are uses that are right, by file and what is used, and why.
var excused = map[string]string{
	"internal/agent/events.go UnixNano":                                "it makes a name that no other event has",
	"internal/agent/lease.go RenewTime":                                "it is compared with what this process wrote into it",
	"internal/controller/loadbalancer/reconciler.go CreationTimestamp": "it goes into a metric",
}

// written are fields with times of whoever wrote the object.
var written = []string{"RenewTime", "AcquireTime", "CreationTimestamp", "DeletionTimestamp", "LastTransitionTime"}

func checkClock(out io.Writer, root string) error {
	broken := 0
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir() && slices.Contains(timeless, name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		found, err := clockBreaches(path, nil)
		for _, b := range found {
			if excused[name+" "+b.what] == "" {
				fmt.Fprintf(out, "%s:%d: %s\n", name, b.line, b.why)
				broken++
			}
		}
		return err
	})
	if err == nil && broken > 0 {
		err = fmt.Errorf("%d uses of a clock that may jump; the rules are in hack/lint/clock.go", broken)
	}
	return err
}

// clockBreach is one use of a clock that may jump.
type clockBreach struct {
	line int
	// what is used: a method of time.Time, or fields.
	what, why string
}

// clockBreaches finds those in a file. text is the file's, or nil to read it.
func clockBreaches(path string, text any) ([]clockBreach, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []clockBreach
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if what, why := jumps(call); what != "" {
			out = append(out, clockBreach{set.Position(call.Pos()).Line, what, why})
		}
		return true
	})
	return out, nil
}

// jumps says what a call uses of a clock that may jump, and what to do; empty: nothing.
func jumps(call *ast.CallExpr) (what, why string) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	switch name := f.Sel.Name; name {
	case "Unix", "UnixNano", "UnixMicro", "UnixMilli":
		if now, ok := f.X.(*ast.CallExpr); ok && isTime(now.Fun, "Now") {
			return name, "time.Now()." + name + " jumps where the clock is set: keep the time.Time"
		}
	case "Since", "Until", "Sub", "Before", "After", "Compare":
		of := fieldsIn(f.X)
		with := map[string]bool{}
		for _, a := range call.Args {
			maps.Copy(with, fieldsIn(a))
		}
		if !maps.Equal(of, with) {
			maps.Copy(of, with)
			what = strings.Join(slices.Sorted(maps.Keys(of)), ", ")
			return what, what + " is by somebody else's clock, and compared with another's: see by one's own clock when it changes"
		}
	}
	return "", ""
}

func isTime(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "time"
}

// fieldsIn are the fields of written times that an expression reads.
func fieldsIn(e ast.Expr) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(e, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(written, s.Sel.Name) {
			out[s.Sel.Name] = true
		}
		return true
	})
	return out
}
