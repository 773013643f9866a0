// Program cluster is a Kubernetes control plane for tests: etcd and kube-apiserver in one binary,
// built from their own modules. It becomes the program it is called by: link or copy it to `etcd`
// or `kube-apiserver`, or name the program as the first argument.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// programs holds what this binary can be. The parts of a whole node are added here.
var programs = map[string]func() int{
	"etcd": func() int {
		etcdmain.Main(os.Args)
		return 0
	},
	"kube-apiserver": func() int {
		return cli.Run(apiserver.NewAPIServerCommand())
	},
}

func main() {
	run, found := programs[filepath.Base(os.Args[0])]
	if !found && len(os.Args) > 1 {
		if run, found = programs[os.Args[1]]; found {
			os.Args = os.Args[1:]
		}
	}
	if !found {
		names := make([]string, 0, len(programs))
		for name := range programs {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "usage: cluster PROGRAM [ARGUMENT...], where PROGRAM is one of: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}
