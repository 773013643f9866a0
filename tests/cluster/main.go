// Program cluster is a Kubernetes for tests: etcd, the control plane, a node's kubelet and kube-proxy,
// and kubectl in one binary, built from their own modules. It becomes the program it is called by:
// link or copy it to `etcd` or `kubelet`, or name the program as the first argument.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// programs holds what this binary can be.
var programs = map[string]func() int{
	"etcd": func() int {
		etcdmain.Main(os.Args)
		return 0
	},
	"kube-apiserver": func() int {
		return cli.Run(apiserver.NewAPIServerCommand())
	},
	"kube-controller-manager": func() int {
		return cli.Run(controllers.NewControllerManagerCommand())
	},
	"kube-scheduler": func() int {
		return cli.Run(scheduler.NewSchedulerCommand())
	},
	"kube-proxy": func() int {
		return cli.Run(proxy.NewProxyCommand())
	},
	"kubelet": func() int {
		return cli.Run(kubelet.NewKubeletCommand(context.Background()))
	},
	"kubectl": func() int {
		return cli.Run(kubectl.NewDefaultKubectlCommand())
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
