// Command watch watches the policy of a workload over portcullis.policy.v1 and prints what happens, one
// JSON object a line. It is the client's side of docs/watch-api.md, as examples/python/watch.py has it,
// with the same options and lines.
//
//	go run . --controller 127.0.0.1:8090 emojivoto:web-0
//
// Give it --ack only if something really enforces the policy: the controller counts acknowledgements.
//
// The messages are read from the .proto files at run time, so that this example has no generated code.
// A program of your own generates it (`buf generate`); the descriptors are the same.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// final has the codes that say that asking again the same way cannot help.
var final = []codes.Code{
	codes.InvalidArgument, codes.DeadlineExceeded, codes.OutOfRange, codes.Unauthenticated, codes.Unimplemented,
}

func say(event string, fields map[string]any) {
	fields["event"] = event
	// Maps of strings and lists can be encoded.
	line, _ := json.Marshal(fields)
	fmt.Println(string(line))
}

// Options are those of the command line.
type Options struct {
	controller, proto, roots, name, cert, key, token, workload string
	ports                                                      []uint32
	features                                                   []string
	ack                                                        bool
	updates                                                    int
}

func parse() (*Options, error) {
	o := &Options{}
	var ports, features list
	flag.StringVar(&o.controller, "controller", "127.0.0.1:8090", "`host:port` of the controller")
	flag.StringVar(&o.proto, "proto", filepath.Join("..", "..", "..", "proto"), "`folder` of .proto files")
	flag.StringVar(&o.roots, "tls-roots", "", "roots of the mesh, PEM; needed unless the controller is on loopback")
	flag.StringVar(&o.name, "tls-name", "", "the identity that the controller must prove")
	flag.StringVar(&o.cert, "tls-cert", "", "this client's certificate, PEM")
	flag.StringVar(&o.key, "tls-key", "", "its key, PEM")
	flag.StringVar(&o.token, "token", "", "file with a token, over TLS alone")
	flag.Var(&ports, "port", "also watch this port")
	flag.Var(&features, "feature", "a feature that it can enforce")
	flag.BoolVar(&o.ack, "ack", false, "acknowledge updates")
	flag.IntVar(&o.updates, "updates", -1, "end after so many updates")
	flag.CommandLine.Init(os.Args[0], flag.ContinueOnError)
	arguments := os.Args[1:]
	// The token of the workload may come first.
	for len(arguments) > 0 {
		if err := flag.CommandLine.Parse(arguments); err != nil {
			return nil, err
		}
		arguments = flag.Args()
		if len(arguments) > 0 {
			if o.workload != "" {
				return nil, errors.New("give one workload")
			}
			o.workload, arguments = arguments[0], arguments[1:]
		}
	}
	o.features = features
	for _, text := range ports {
		var port uint32
		if _, err := fmt.Sscan(text, &port); err != nil {
			return nil, fmt.Errorf("--port: %w", err)
		}
		o.ports = append(o.ports, port)
	}
	return o, o.check()
}

func (o *Options) check() error {
	switch {
	case o.workload == "":
		return errors.New("give the workload's token, for example namespace:pod")
	case (o.roots == "") != (o.name == ""):
		return errors.New("--tls-roots and --tls-name belong together")
	case (o.cert == "") != (o.key == ""):
		return errors.New("--tls-cert and --tls-key belong together")
	case (o.cert != "" || o.token != "") && o.roots == "":
		return errors.New("a certificate or a token needs --tls-roots and --tls-name")
	case o.roots == "" && !isLoopback(o.controller):
		return fmt.Errorf("%s is not loopback: give --tls-roots and --tls-name", o.controller)
	}
	return nil
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func isLoopback(controller string) bool {
	host, _, err := net.SplitHostPort(controller)
	if err != nil {
		return false
	}
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

// load compiles the .proto files.
func load(folder string) (func(name protoreflect.Name) protoreflect.Descriptor, error) {
	resolver := protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}})
	compiler := protocompile.Compiler{Resolver: resolver}
	files, err := compiler.Compile(context.Background(),
		"portcullis/policy/v1/discovery.proto", "portcullis/policy/v1/policy.proto")
	if err != nil {
		return nil, err
	}
	find := files.AsResolver()
	return func(name protoreflect.Name) protoreflect.Descriptor {
		found, err := find.FindDescriptorByName("portcullis.policy.v1." + protoreflect.FullName(name))
		if err != nil {
			panic(err)
		}
		return found
	}, nil
}

func main() {
	options, err := parse()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	types, err := load(options.proto)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	watch := newWatch(options, types)
	for backoff := 100 * time.Millisecond; ; {
		began := time.Now()
		code, token, err := attempt(watch)
		switch {
		case err != nil:
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(2)
		case watch.done():
			return
		case slices.Contains(final, code) && !renewed(options, code, token):
			os.Exit(1)
		}
		// A stream that lasted starts the back-off anew.
		backoff = min(backoff*2, 10*time.Second)
		if time.Since(began) >= 10*time.Second {
			backoff = 100 * time.Millisecond
		}
		time.Sleep(time.Duration(float64(backoff) * (0.5 + rand.Float64())))
	}
}

// attempt makes one connection with one stream.
func attempt(watch *Watch) (codes.Code, string, error) {
	settings, token, err := dial(watch.options)
	if err != nil {
		return 0, "", err
	}
	// `passthrough`: the address is one, and there is nothing to balance.
	connection, err := grpc.NewClient("passthrough:///"+watch.options.controller, settings...)
	if err != nil {
		return 0, "", err
	}
	defer connection.Close()
	return watch.Run(connection, token), token, nil
}

// renewed is true if a token expired and its file has another one by now.
func renewed(options *Options, code codes.Code, token string) bool {
	if code != codes.Unauthenticated || options.token == "" {
		return false
	}
	now, err := readToken(options.token)
	return err == nil && now != token
}
