// An application of grpc-go. It prints its port, and serves until its standard input ends.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	raw "portcullis.dev/tests/traffic/grpc"
)

func answer(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var message []byte
	send := func(text string) error {
		said := []byte(text)
		return stream.SendMsg(&said)
	}
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	switch method {
	case "/t/Echo":
		stream.SetHeader(metadata.Pairs("x-head", "a", "x-bin-bin", "\x00\xff"))
		stream.SetTrailer(metadata.Pairs("x-sum", "4"))
		return send(string(message))
	case "/t/Fail":
		stream.SetTrailer(metadata.Pairs("grpc-status-details-bin", strings.Repeat("d", 2000)))
		return status.Error(codes.FailedPrecondition, "told so: é%\n")
	case "/t/FailLate":
		send("first")
		return status.Error(codes.DataLoss, "lost")
	case "/t/Many":
		for n := range 3 {
			send(fmt.Sprint(n))
		}
		return nil
	case "/t/Large":
		return send(strings.Repeat("x", 3000000))
	case "/t/Collect":
		total := len(message)
		for stream.RecvMsg(&message) == nil {
			total += len(message)
		}
		return send(fmt.Sprint(total))
	case "/t/Talk":
		for {
			if err := send("heard " + string(message)); err != nil {
				return err
			}
			if err := stream.RecvMsg(&message); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	case "/t/Wait":
		<-stream.Context().Done()
		return stream.Context().Err()
	case "/t/Die":
		send("first")
		time.Sleep(200 * time.Millisecond)
		os.Exit(1)
	case "/t/DieUnanswered":
		os.Exit(1)
	}
	return status.Error(codes.Unimplemented, method)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(raw.Codec{}), grpc.UnknownServiceHandler(answer),
		grpc.MaxRecvMsgSize(10000000))
	go server.Serve(listener)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
}
