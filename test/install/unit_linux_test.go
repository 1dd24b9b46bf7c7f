package install_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"fairlead.dev/fairlead/internal/testkit/netns"
	"golang.org/x/sys/unix"
)

// unit is a file of config/systemd: what each setting of its section Service says, the last time that it is there.
type unit map[string]string

func readUnit(t *testing.T, name string) unit {
	t.Helper()
	_, section, _ := strings.Cut(string(readFile(t, "config/systemd/"+name)), "[Service]\n")
	section, _, _ = strings.Cut(section, "\n[")
	u := unit{}
	for line := range strings.Lines(section) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			u[key] = value
		}
	}
	return u
}

// known are the capabilities that units name.
var known = map[string]uintptr{
	"CAP_NET_ADMIN": unix.CAP_NET_ADMIN, "CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "CAP_NET_RAW": unix.CAP_NET_RAW, "CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN,
}

func (u unit) capabilities(t *testing.T, key string) (all []uintptr) {
	t.Helper()
	for _, name := range strings.Fields(u[key]) {
		c, ok := known[name]
		if !ok {
			t.Fatalf("%s: %s is not known", key, name)
		}
		all = append(all, c)
	}
	return all
}

// plainHost is a host without Kubernetes, on which units run: a network of its own, and a tree of files in which there is nothing but what
// docs/installing.md puts there. Its user fairlead has a number that nobody has.
type plainHost struct {
	*netns.Namespace
	name, root string
	user       int
}

const ofFairlead = 64217

func newPlainHost(t *testing.T, name string, ns *netns.Namespace) *plainHost {
	t.Helper()
	h := &plainHost{Namespace: ns, name: name, root: t.TempDir(), user: ofFairlead}
	if err := os.Chmod(h.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"proc", "sys", "tmp", "opt", "etc/fairlead", "usr/local/bin", "var/lib"} {
		if err := os.MkdirAll(filepath.Join(h.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.file(t, "dev/null", nil, 0o644, 0) // for a mount
	return h
}

// file puts a file there, of root and a group.
func (h *plainHost) file(t *testing.T, path string, content []byte, mode os.FileMode, group int) {
	t.Helper()
	at := filepath.Join(h.root, path)
	for _, err := range []error{
		os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, content, mode), os.Chown(at, 0, group), os.Chmod(at, mode),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// start runs an instance of a unit as the unit says: its command with its environment file, its user, umask, capabilities and state
// directory, in a file system that it may write nothing else of. systemd's filters of system calls and address families are not here.
func (h *plainHost) start(t *testing.T, u unit, instance string) *testkit.Process {
	t.Helper()
	environment := map[string]string{}
	file, err := os.ReadFile(filepath.Join(h.root, u["EnvironmentFile"]))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		environment[key] = value
	}
	words := strings.Fields(strings.ReplaceAll(u["ExecStart"], "%i", instance))
	for i, w := range words {
		words[i] = regexp.MustCompile(`\$\{\w+\}`).ReplaceAllStringFunc(w, func(v string) string { return environment[v[2:len(v)-1]] })
	}
	id, state := h.id(t, u), filepath.Join(h.root, "var/lib", u["StateDirectory"])
	for _, err := range []error{
		os.MkdirAll(state, 0o755), os.Chmod(state, os.FileMode(octal(t, u["StateDirectoryMode"]))), os.Chown(state, id, id),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return h.run(t, u, words...)
}

// id is the number of a unit's user.
func (h *plainHost) id(t *testing.T, u unit) int {
	t.Helper()
	id, ok := map[string]int{"": 0, "fairlead": h.user}[u["User"]]
	if !ok {
		t.Fatalf("the host has no user %s", u["User"])
	}
	return id
}

// run runs a command as a unit's user, and in all else as that says.
func (h *plainHost) run(t *testing.T, u unit, words ...string) *testkit.Process {
	t.Helper()
	id := h.id(t, u)
	c := confined{
		plainHost: h, umask: octal(t, u["UMask"]), state: "/var/lib/" + u["StateDirectory"],
		strict: u["ProtectSystem"] == "strict", noPrivileges: u["NoNewPrivileges"] == "yes",
	}
	command := testkit.Command{
		Name: strings.Join(words[:2], " "), Path: words[0], Args: words[1:], Host: c, Env: []string{"HOME=/", "KUBECONFIG="},
		Attributes: func(a *syscall.SysProcAttr) {
			a.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
			a.AmbientCaps = u.capabilities(t, "AmbientCapabilities")
		},
	}
	_, bound := u["CapabilityBoundingSet"]
	may := u.capabilities(t, "CapabilityBoundingSet")
	for n := uintptr(0); bound && n <= unix.CAP_LAST_CAP; n++ {
		if !slices.Contains(may, n) {
			command.DropCapabilities = append(command.DropCapabilities, n)
		}
	}
	return kubetest.StartProcess(t, command)
}

func octal(t *testing.T, mode string) int {
	t.Helper()
	n, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// confined is what the thread enters that starts a unit's process.
type confined struct {
	*plainHost
	umask int
	// state is the one directory that may be written where strict.
	state                string
	strict, noPrivileges bool
}

// Enter implements testkit.Host: the thread has the host's network, name and files, and those alone.
func (c confined) Enter() error {
	if err := c.Namespace.Enter(); err != nil {
		return err
	}
	bind := func(what, at string) error {
		return unix.Mount(what, filepath.Join(c.root, at), "", unix.MS_BIND|unix.MS_REC, "")
	}
	steps := []func() error{
		func() error { return unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS | unix.CLONE_NEWUTS) },
		func() error { return unix.Sethostname([]byte(c.name)) },
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return bind(c.root, "/") },
		func() error { return bind("/proc", "/proc") },
		func() error { return bind("/sys", "/sys") },
		func() error { return bind("/dev/null", "/dev/null") },
		func() error { return unix.Mount("tmpfs", filepath.Join(c.root, "tmp"), "tmpfs", 0, "mode=1777") },
		func() error { return bind(filepath.Join(c.root, c.state), c.state) },
		func() error {
			if !c.strict {
				return nil
			}
			return unix.Mount("", c.root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		},
		func() error { return unix.Chroot(c.root) },
		func() error { return unix.Chdir("/") },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d into host %s: %w", i, c.name, err)
		}
	}
	unix.Umask(c.umask) // of this thread alone, since it shares no file system's root
	if c.noPrivileges {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return nil
}

// Dial implements testkit.Host.
func (c confined) Dial(ctx context.Context, d net.Dialer, network, address string) (net.Conn, error) {
	return c.Namespace.Dial(ctx, d, network, address)
}
