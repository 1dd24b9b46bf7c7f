package survival

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
)

// named is how docs/reliability.md and docs/services.md name tests of a folder: `A`, `B` and `C` in `folder`.
var (
	named = regexp.MustCompile("((?:`Test[A-Za-z0-9]+(?:/[A-Za-z0-9]+)?`(?:, | and )?)+) in `([a-z0-9/-]+)`")
	test  = regexp.MustCompile("`(Test[A-Za-z0-9]+(?:/[A-Za-z0-9]+)?)`")
)

// TestPromisesNameTests holds docs/reliability.md and docs/services.md to the tests that there are, and the failures here to a promise each.
func TestPromisesNameTests(t *testing.T) {
	root, err := testkit.ModuleRoot()
	must(t, err)
	var text []byte
	for _, page := range []string{"services.md", "reliability.md"} {
		text, err = os.ReadFile(filepath.Join(root, "docs", page))
		must(t, err)
		for _, problem := range unheld(os.DirFS(root), string(text)) {
			t.Errorf("docs/%s: %s", page, problem)
		}
	}
	for kind, scenarios := range map[string][]scenario{"TestInKernel": inKernel, "TestInProcess": inProcess} {
		for _, s := range scenarios {
			if name := fmt.Sprintf("`%s/%s` in `test/survival`", kind, s.name); !strings.Contains(string(text), name) {
				t.Errorf("docs/reliability.md has no promise that %s holds", name)
			}
		}
	}
}

// TestWhatNobodyHoldsIsFound is the control of the one above.
func TestWhatNobodyHoldsIsFound(t *testing.T) {
	root, err := testkit.ModuleRoot()
	must(t, err)
	const text = "| a | b | `TestInKernel/StoppedProxy`, `TestNoSuch` and `TestInKernel/NoSuch` in `test/survival` |\n" +
		"| a | b | |\n| a | b | `TestInKernel` |\n| a | b | `TestGone` in `internal/gone` |\n"
	want := []string{
		"line 1: test/survival has no test TestNoSuch",
		"line 1: test/survival has no subtest NoSuch",
		"line 2: no test is named",
		"line 3: `TestInKernel` has no folder",
		"line 4: internal/gone has no test TestGone",
	}
	if got := unheld(os.DirFS(root), text); !slices.Equal(got, want) {
		t.Errorf("found:\n%s", strings.Join(got, "\n"))
	}
}

// unheld returns what is wrong with the last column of the tables in a page.
func unheld(root fs.FS, page string) []string {
	var out []string
	for i, line := range strings.Split(page, "\n") {
		say := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("line %d: ", i+1)+fmt.Sprintf(format, args...))
		}
		cells := strings.Split(strings.Trim(line, " |"), " | ")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") || cells[len(cells)-1] == "test" {
			continue
		}
		names, found := test.FindAllString(line, -1), 0
		for _, match := range named.FindAllStringSubmatch(line, -1) {
			for _, name := range test.FindAllStringSubmatch(match[1], -1) {
				found++
				top, sub, _ := strings.Cut(name[1], "/")
				tests, literals, err := testsOf(root, match[2])
				switch {
				case err != nil:
					say("%s", err)
				case !tests[top]:
					say("%s has no test %s", match[2], top)
				case sub != "" && !literals[sub]:
					say("%s has no subtest %s", match[2], sub)
				}
			}
		}
		switch {
		case len(names) == 0:
			say("no test is named")
		case found < len(names):
			say("%s has no folder", names[found])
		}
	}
	return out
}

// testsOf returns the names of the tests of a folder, and all texts in them.
func testsOf(root fs.FS, folder string) (tests, literals map[string]bool, err error) {
	tests, literals = map[string]bool{}, map[string]bool{}
	files, err := fs.Glob(root, folder+"/*_test.go")
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, name := range files {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		errs = append(errs, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					tests[n.Name.Name] = true
				}
			case *ast.BasicLit:
				literals[strings.Trim(n.Value, "\"`")] = true
			}
			return true
		})
	}
	return tests, literals, errors.Join(errs...)
}
