package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Watch is one client: what it keeps between connections.
type Watch struct {
	options  *Options
	types    func(name protoreflect.Name) protoreflect.Descriptor
	ports    map[uint32]*Port
	workload protoreflect.Message
	updates  int
}

func newWatch(options *Options, types func(name protoreflect.Name) protoreflect.Descriptor) *Watch {
	return &Watch{options: options, types: types, ports: map[uint32]*Port{}}
}

// message is a new message of this name with these fields.
func (w *Watch) message(name protoreflect.Name, fields map[protoreflect.Name]any) *dynamicpb.Message {
	made := dynamicpb.NewMessage(w.types(name).(protoreflect.MessageDescriptor))
	for name, value := range fields {
		field := made.Descriptor().Fields().ByName(name)
		switch value := value.(type) {
		case []string:
			for _, element := range value {
				made.Mutable(field).List().Append(protoreflect.ValueOfString(element))
			}
		case []uint32:
			for _, element := range value {
				made.Mutable(field).List().Append(protoreflect.ValueOfUint32(element))
			}
		case []protoreflect.Message:
			for _, element := range value {
				made.Mutable(field).List().Append(protoreflect.ValueOfMessage(element))
			}
		case *dynamicpb.Message:
			made.Set(field, protoreflect.ValueOfMessage(value))
		default:
			made.Set(field, protoreflect.ValueOf(value))
		}
	}
	return made
}

// Run makes one stream. It returns the status code at its end.
func (w *Watch) Run(connection *grpc.ClientConn, token string) codes.Code {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	both := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := connection.NewStream(ctx, both, "/portcullis.policy.v1.PolicyDiscovery/Watch")
	if err == nil {
		err = w.follow(stream)
	}
	if w.done() {
		return codes.OK
	}
	ended := status.Convert(err)
	if errors.Is(err, io.EOF) {
		ended = status.New(codes.OK, "")
	}
	say("ended", map[string]any{"code": codeName(ended.Code()), "details": ended.Message()})
	return ended.Code()
}

// codeName writes a code as the documents do: INVALID_ARGUMENT.
func codeName(code codes.Code) string {
	var name strings.Builder
	for i, letter := range code.String() {
		if i > 0 && 'A' <= letter && letter <= 'Z' && code != codes.OK {
			name.WriteByte('_')
		}
		name.WriteRune(letter)
	}
	return strings.ToUpper(name.String())
}

func (w *Watch) follow(stream grpc.ClientStream) error {
	hello := map[protoreflect.Name]any{
		"workload": w.options.workload, "features": slices.Sorted(slices.Values(w.options.features)),
		"client": "watch.go",
	}
	var applied []protoreflect.Message
	for number, port := range w.ports {
		fields := map[protoreflect.Name]any{"port": number, "revision": port.revision}
		applied = append(applied, w.message("PortRevision", fields))
	}
	hello["applied"] = applied
	if w.workload != nil {
		hello["workload_revision"] = w.workload
	}
	if err := w.say(stream, "hello", "Hello", hello); err != nil {
		return err
	}
	if len(w.options.ports) > 0 {
		subscribe := map[protoreflect.Name]any{"ports": w.options.ports}
		if err := w.say(stream, "subscribe", "Subscribe", subscribe); err != nil {
			return err
		}
	}
	for !w.done() {
		response := w.message("WatchResponse", nil)
		if err := stream.RecvMsg(response); err != nil {
			return err
		}
		if err := w.response(stream, response); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watch) say(stream grpc.ClientStream, kind, name protoreflect.Name, fields map[protoreflect.Name]any) error {
	request := map[protoreflect.Name]any{kind: w.message(name, fields)}
	err := stream.SendMsg(w.message("WatchRequest", request))
	if errors.Is(err, io.EOF) {
		// The stream has ended; receiving says why.
		return nil
	}
	return err
}

func (w *Watch) response(stream grpc.ClientStream, response protoreflect.Message) error {
	switch which(response) {
	case "workload":
		return w.setWorkload(stream, field(response, "workload").Message())
	case "port":
		return w.update(stream, field(response, "port").Message())
	}
	// From a newer server; what we cannot read we could not enforce.
	return status.Error(codes.Unknown, "a message of a kind that is not known here")
}

func (w *Watch) setWorkload(stream grpc.ClientStream, workload protoreflect.Message) error {
	if err := read(workload, ""); err != nil {
		// With port 0 and no revision: the Workload. The server ends the stream.
		return w.refuse(stream, err, map[protoreflect.Name]any{"port": uint32(0)})
	}
	w.workload = field(workload, "revision").Message()
	declared := []uint32{}
	ports := field(workload, "declared_ports").List()
	for i := range ports.Len() {
		declared = append(declared, uint32(ports.Get(i).Uint()))
	}
	for number := range w.ports {
		if !slices.Contains(declared, number) && !slices.Contains(w.options.ports, number) {
			delete(w.ports, number)
		}
	}
	undeclared := workload.Descriptor().Fields().ByName("undeclared").Enum().Values()
	say("workload", map[string]any{
		"name": field(workload, "name").String(), "declared_ports": declared,
		"undeclared": undeclared.ByNumber(field(workload, "undeclared").Enum()).Name(),
	})
	return nil
}

func (w *Watch) update(stream grpc.ClientStream, update protoreflect.Message) error {
	number := uint32(field(update, "port").Uint())
	port, err := w.ports[number].Apply(update, w.options.features)
	about := map[protoreflect.Name]any{"port": number}
	if errors.Is(err, errWrongBase) {
		// What we have stays in force until the full state arrives.
		say("resync", map[string]any{"port": number})
		return w.say(stream, "resync", "Resync", about)
	}
	if has(update, "revision") {
		about["revision"] = field(update, "revision").Message()
	}
	if err != nil {
		return w.refuse(stream, err, about)
	}
	w.ports[number] = port
	w.updates++
	if w.options.ack {
		// Only now: everything that decides would use the new state by this line.
		if err := w.say(stream, "ack", "Ack", about); err != nil {
			return err
		}
	}
	said := map[string]any{
		"port": number, "routes_changed": field(update, "routes").List().Len(), "full": !has(update, "base"),
	}
	port.describe(said)
	say("port", said)
	return nil
}

func (w *Watch) refuse(stream grpc.ClientStream, err error, about map[protoreflect.Name]any) error {
	var refused *Refused
	if !errors.As(err, &refused) {
		return err
	}
	number := about["port"]
	about["reason"], about["field_path"] = refused.Reason, refused.FieldPath
	say("refused", map[string]any{"port": number, "field_path": refused.FieldPath, "reason": refused.Reason})
	return w.say(stream, "nack", "Nack", about)
}

func (w *Watch) done() bool { return w.options.updates >= 0 && w.updates >= w.options.updates }

// dial returns the settings of a connection, and the token of its calls. Files are read anew for each:
// certificates and tokens are renewed.
func dial(o *Options) ([]grpc.DialOption, string, error) {
	settings := []grpc.DialOption{
		// Messages are bounded on both sides; the controller's default is 16 MiB.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16 << 20)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}),
	}
	if o.roots == "" {
		return append(settings, grpc.WithTransportCredentials(insecure.NewCredentials())), "", nil
	}
	pem, err := os.ReadFile(o.roots)
	if err != nil {
		return nil, "", err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, "", fmt.Errorf("%s has no certificate", o.roots)
	}
	// The controller's certificate is for its identity, not for the address that it has.
	config := &tls.Config{RootCAs: roots, ServerName: o.name, MinVersion: tls.VersionTLS13}
	// Without a certificate of its own, the client proves who it is by a token.
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, "", err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	token := ""
	if o.token != "" {
		if token, err = readToken(o.token); err != nil {
			return nil, "", err
		}
	}
	return append(settings, grpc.WithTransportCredentials(credentials.NewTLS(config))), token, nil
}

func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}
