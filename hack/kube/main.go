package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
)

const usage = "usage: kube etcd|kube-apiserver|controllers|hollow-nodes|kube-proxy FLAGS (--help after the part lists its flags)"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	part := os.Args[1]
	// The real commands read os.Args themselves.
	os.Args = append([]string{filepath.Base(part)}, os.Args[2:]...)
	switch part {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-proxy":
		os.Exit(cli.Run(kubeproxy.NewProxyCommand()))
	case "etcd":
		run(runEtcd)
	case "controllers":
		run(runControllers)
	case "hollow-nodes":
		run(runHollowNodes)
	default:
		fmt.Fprintf(os.Stderr, "unknown part %q\n%s\n", part, usage)
		os.Exit(2)
	}
}

// run calls f with the arguments after the part's name and a context that ends
// with SIGINT or SIGTERM.
func run(f func(context.Context, []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, os.Args[0]+":", err)
		os.Exit(1)
	}
}
