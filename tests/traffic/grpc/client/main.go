// A client of grpc-go. It runs every case against 127.0.0.1:PORT and prints what it observed as JSON. The last
// case ends the application.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	raw "portcullis.dev/tests/traffic/grpc"
)

var connection *grpc.ClientConn

func ended(err error) string {
	if err == nil || err == io.EOF {
		return "OK"
	}
	// These texts are the library's own: one names addresses, one depends on the side whose clock is faster.
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		return code.String()
	}
	return fmt.Sprintf("%s %q", status.Code(err), status.Convert(err).Message())
}

func call(method string, after time.Duration, messages ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := connection.NewStream(ctx, description, method)
	if err != nil {
		return "[]" + ended(err)
	}
	for _, message := range messages {
		said := []byte(message)
		if err := stream.SendMsg(&said); err != nil {
			break
		}
	}
	stream.CloseSend()
	seen := []string{}
	for {
		var heard []byte
		if err = stream.RecvMsg(&heard); err != nil {
			break
		}
		if len(heard) > 100 {
			heard = []byte(fmt.Sprint(len(heard), " bytes"))
		}
		seen = append(seen, string(heard))
	}
	head, _ := stream.Header()
	return fmt.Sprint(seen, own(head), own(stream.Trailer()), ended(err))
}

func own(fields metadata.MD) string {
	lines := ""
	for _, name := range []string{"x-head", "x-bin-bin", "x-sum"} {
		if values := fields.Get(name); len(values) > 0 {
			lines += fmt.Sprintf(" %s %q", name, values)
		}
	}
	return lines
}

func main() {
	var err error
	connection, err = grpc.NewClient("127.0.0.1:"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw.Codec{}), grpc.MaxCallRecvMsgSize(10000000)))
	if err != nil {
		panic(err)
	}
	const patience = 20 * time.Second
	seen := map[string]string{}
	for _, method := range []string{"Echo", "Fail", "FailLate", "Many", "Large", "Nothing"} {
		seen[method] = call("/t/"+method, patience, "body")
	}
	seen["Collect"] = call("/t/Collect", patience, strings.Repeat("x", 1000000), "", "abc")
	seen["Talk"] = call("/t/Talk", patience, "a", "b", "c")
	seen["deadline"] = call("/t/Wait", 300*time.Millisecond, "body")
	last := os.Args[2]
	seen[last] = call("/t/"+last, patience, "body")
	seen["afterwards"] = call("/t/Echo", patience, "body")
	json.NewEncoder(os.Stdout).Encode(seen)
}
